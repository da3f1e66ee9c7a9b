"""What cameras see is a moment ago, and everything else that is observed is of now.

A frame is 20 to 60 ms old when it is seen. How old is recorded; in lockstep, where a picture takes no
time, a delay can be simulated (`train --delay`): the world as cameras see it is then that of a moment
ago, and where the tool was then the arm's process knows.
"""

import time
from collections.abc import Sequence

from robot_rl.config.run_settings import check_delay
from robot_rl.controllers.client import ArmClient
from robot_rl.controllers.world import WorldClient
from robot_rl.interfaces import Camera, World
from robot_rl.types import ArmState, WorldState


class PastWorld:
    """A simulated world as cameras see it: as it was `delay_s` ago."""

    def __init__(self, world: WorldClient, delay_s: float):
        self._world, self._delay_s = world, delay_s
        self.latest = world.latest

    def refresh(self) -> WorldState:
        """Ask for it anew."""
        self._world.refresh()
        self.latest = self._world.ago(self._delay_s)
        return self.latest

    def reset(self, seed: int) -> WorldState:
        """Of the world itself."""
        return self._world.reset(seed)


class Past:
    """The moment that is seen, and what arms and world were like then."""

    def __init__(self, arms: Sequence[ArmClient], world: WorldClient | None, delay_s: float):
        """ConfigError for a delay that cannot be simulated."""
        clocks = {arm.info.clock for arm in arms}
        check_delay(delay_s, "lockstep" if clocks == {"lockstep"} else "real")
        self._arms, self._delay_s = arms, delay_s
        self.world: World | None = world
        if world is not None and delay_s:
            self.world = PastWorld(world, delay_s)

    def age_s(self, cameras: Sequence[Camera]) -> float:
        """How old what the cameras showed last is: the mean of those that say."""
        taken = [camera.taken_t for camera in cameras if camera.taken_t is not None]
        if not taken:
            return self._delay_s
        return max(time.monotonic() - sum(taken) / len(taken), 0.0)

    def arms_then(self, states: Sequence[ArmState]) -> Sequence[ArmState]:
        """The states, with the tools where they were at the moment that a simulated delay shows."""
        if not self._delay_s:
            return states
        pairs = zip(self._arms, states, strict=True)
        return [arm.ago(self._delay_s, state) for arm, state in pairs]
