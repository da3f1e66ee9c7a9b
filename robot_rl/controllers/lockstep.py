"""The lockstep clock of a simulated arm: a target comes, the world advances by its period, the state goes back.

The loop is ticked in place, in the server's own thread; between two targets nothing moves, however long that takes.
"""

import time
from typing import Any

from robot_rl.clock import ClockKind
from robot_rl.controllers.loop import TICK_S, ArmLoop, warm_up
from robot_rl.controllers.recorder import LoopStats, Ring, loop_stats
from robot_rl.controllers.setup import ArmSetup
from robot_rl.types import ArmState, Command, Compliance, ConfigError, WorldState

LONGEST_PERIOD_S = 10.0


class LockstepArm:
    """A simulated arm whose time is its own ticks. Same calls as `realtime.RealTimeArm`."""

    clock: ClockKind = "lockstep"

    def __init__(self, arm: Any, setup: ArmSetup):
        warm_up(arm.joints)  # the first start on a machine compiles the law: not while somebody waits for an answer
        self._arm = arm
        self.ring = Ring(arm.joints)
        self._loop = ArmLoop(arm, setup, self.ring)
        self.joints = arm.joints
        self.objects = len(arm.world().objects)
        self._started = time.monotonic()

    def configure(self, setup: ArmSetup) -> ArmState:
        self._loop.configure(setup)
        return self._loop.observe()

    def tune(self, compliance: Compliance) -> ArmState:
        self._loop.tune(compliance)
        return self._loop.observe()

    def tare(self) -> ArmState:
        self._loop.tare()
        return self._loop.observe()

    def command(self, target: Command) -> ArmState:
        """Advance the world by one period under this target."""
        if not TICK_S <= target.period_s <= LONGEST_PERIOD_S:
            raise ConfigError(f"period_s is {target.period_s}; allowed: {TICK_S} to {LONGEST_PERIOD_S} s")
        loop = self._loop
        # half a tick of slack: the lease ends between two ticks, whatever the rounding of t
        loop.obey(target, loop.t + target.lease_s + 0.5 * TICK_S)
        tick, first = loop.tick, loop.ticks + 1
        for index in range(first, first + round(target.period_s / TICK_S)):
            tick(index * TICK_S)
        return loop.observe()

    def acknowledge(self) -> ArmState:
        self._loop.acknowledge()
        return self._loop.observe()

    def reset(self, seed: int) -> WorldState:
        self._loop.reset(seed)
        return self.world()

    def require_alive(self) -> None:
        """The loop lives as long as its caller."""

    def state(self) -> ArmState:
        return self._loop.observe()

    def world(self) -> WorldState:
        state: WorldState = self._arm.world()
        return state

    def timing(self) -> tuple[int, int, float]:
        """(ticks so far, late ticks, worst lateness): in lockstep nothing is late."""
        return self._loop.ticks, 0, 0.0

    def stats(self) -> LoopStats:
        return loop_stats(self.ring, 0, 0.0, 0)

    def close(self) -> None:
        self._arm.close()
