"""The `world` channel, from the actor's side: the simulator's truth, and its reset."""

import numpy as np

from robot_rl.controllers import messages
from robot_rl.controllers.client import ArmLink
from robot_rl.controllers.messages import Kind
from robot_rl.types import DeviceError, WorldState


class WorldClient:
    """Implements `interfaces.World` over the socket of a simulated arm. Used by one thread."""

    def __init__(self, address: str, *, timeout_s: float = 30.0):
        """Connect. Raises DeviceError if the arm at this address is not simulated, LinkError if
        there is none.
        """
        self._link = ArmLink(address, timeout_s)
        info = messages.to_info(messages.body_as(messages.INFO, self._link.ask(Kind.INFO)))
        if not info.simulated:
            self._link.close()
            raise DeviceError(
                f"arm '{info.name}' at {address} is not simulated: it has no world to ask or to"
                " reset"
            )
        self._layout = messages.world_layout(info.joints, info.objects, info.scene_joints)
        # whether goal and success are to be those of the task's way back, from the next state on
        self.backward = False
        self.latest: WorldState = self.refresh()

    def refresh(self) -> WorldState:
        """Ask the simulation for its state now and keep it as `latest`."""
        return self._keep(self._link.ask(Kind.WORLD))

    def ago(self, age_s: float) -> WorldState:
        """The simulation's state as it was so long ago. ConfigError on the real clock."""
        return self._turned(self._link.ask(Kind.PAST_WORLD, np.array((age_s,), messages.AGE)))

    def reset(self, seed: int) -> WorldState:
        """Put the arm at home, at rest, and the objects where the seed says."""
        return self._keep(self._link.ask(Kind.RESET, np.array((seed,), messages.SEED)))

    def _keep(self, body: bytes) -> WorldState:
        self.latest = self._turned(body)
        return self.latest

    def _turned(self, body: bytes) -> WorldState:
        world = messages.to_world(messages.body_as(self._layout, body))
        return world.turned() if self.backward else world

    def close(self) -> None:
        """Let go of the link."""
        self._link.close()
