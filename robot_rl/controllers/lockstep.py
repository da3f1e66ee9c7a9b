"""The lockstep clock of a simulated arm: a target comes, the world advances by its period, the
state goes back.

The loop is ticked in place, in the server's own thread; between two targets nothing moves, however
long that takes.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from robot_rl.config import Guard
from robot_rl.controllers import messages
from robot_rl.controllers.fingers import obey, report_into
from robot_rl.controllers.loop import ArmLoop
from robot_rl.controllers.recorder import LoopStats, Ring, loop_stats
from robot_rl.controllers.setup import ArmSetup
from robot_rl.controllers.warm_up import warm_up
from robot_rl.interfaces import Arm
from robot_rl.machine.clock import ClockKind
from robot_rl.types import (
    DRIVER_FAULTS,
    ArmState,
    Array,
    Command,
    Compliance,
    ConfigError,
    WorldState,
)

LONGEST_PERIOD_S = 10.0


class LockstepArm:
    """A simulated arm whose time is its own ticks. Same calls as `realtime.RealTimeArm`."""

    clock: ClockKind = "lockstep"

    def __init__(self, arm: Arm, setup: ArmSetup, guards: Sequence[Guard] = ()):
        # the first start on a machine compiles the law: not while somebody waits for an answer
        warm_up(arm.joints)
        self._arm = arm
        self.ring = Ring(arm.joints)
        self._loop = ArmLoop(arm, setup, self.ring, guards)
        self.joints = arm.joints
        world = arm.world()
        self.objects, self.scene_joints = len(world.objects), len(world.scene_q)
        self.fingers = arm.fingers is not None
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
        loop = self._loop
        if not loop.tick_s <= target.period_s <= LONGEST_PERIOD_S:
            raise ConfigError(
                f"period_s is {target.period_s}; allowed: {loop.tick_s} to {LONGEST_PERIOD_S} s"
            )
        # half a tick of slack: the lease ends between two ticks, whatever the rounding of t
        loop.obey(target, loop.t + target.lease_s + 0.5 * loop.tick_s)
        self._tick(round(target.period_s / loop.tick_s))
        return loop.observe()

    def hold(self) -> ArmState:
        """Advance the world until the arm stands."""
        self._loop.hold()
        while not self._loop.at_rest and self._loop.fault not in DRIVER_FAULTS:
            self._tick(1)
        return self._loop.observe()

    def _tick(self, count: int) -> None:
        tick, first, dt = self._loop.tick, self._loop.ticks + 1, self._loop.tick_s
        for index in range(first, first + count):
            tick(index * dt)

    def acknowledge(self) -> ArmState:
        self._loop.acknowledge()
        return self._loop.observe()

    def move_fingers(self, order: Array) -> None:
        """Begin what a `messages.FINGER_ORDER` says; time goes on with the next target."""
        obey(self._arm.fingers, order)

    def fingers_state(self) -> Array:
        """A `messages.FINGERS`."""
        report = np.zeros((), messages.FINGERS)
        report_into(report, self._arm.fingers)
        report["t"] = self._loop.t
        return report

    def reset(self, seed: int) -> WorldState:
        self._loop.reset(seed)
        return self.world()

    def require_alive(self) -> None:
        """The loop lives as long as its caller."""

    def state(self) -> ArmState:
        return self._loop.observe()

    def world(self) -> WorldState:
        return self._arm.world()

    def stats(self) -> LoopStats:
        """How the loop keeps time: in lockstep nothing is late."""
        return loop_stats(self.ring, 0, 0.0, 0, nominal_hz=1.0 / self._loop.tick_s)

    def journal(self) -> dict[str, Any]:
        """What the arm itself has to say of its last moments; nothing, if it keeps no log."""
        return self._arm.journal()

    def close(self) -> None:
        self._arm.close()
