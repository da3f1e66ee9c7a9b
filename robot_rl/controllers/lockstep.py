"""The lockstep clock of simulated arms: a target comes, the world advances by its period, the state
goes back.

The loops are ticked in place, in the server's own thread; between two targets nothing moves,
however long that takes. Where several arms stand in one world, its time goes on once each has its
target: `LockstepWorld` has the rule.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from robot_rl.config import Guard
from robot_rl.controllers import messages
from robot_rl.controllers.arm_loops import ArmLoops, Stand
from robot_rl.controllers.fingers import obey, report_into
from robot_rl.controllers.loop import ArmLoop
from robot_rl.controllers.recorder import LONGEST_AGO_S, LoopStats, Ring, loop_stats
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


class LockstepWorld:
    """The time of the arms in one world, which is their own ticks.

    A target is taken up when it comes, and time goes on by a period once each arm that a program
    has set up has one. So that nobody waits for ever, a second target of the same arm lets the
    period of its first one go by: a program that moves one arm alone sees it one period late. A
    hold lets time go by until its arm stands, and the others go on as they were told.
    """

    def __init__(self) -> None:
        self._loops: ArmLoops
        self._joined: list[ArmLoop] = []
        self._stands: list[Stand] = []
        self._set_up: set[ArmLoop] = set()
        self._periods: dict[ArmLoop, float] = {}
        """[s], of the targets for which no time has gone by."""
        self.resets = 0
        self._truth: Callable[[], WorldState] | None = None
        self._past: deque[tuple[int, WorldState]] = deque()

    def join(self, loop: ArmLoop, stand: Stand) -> None:
        """Another arm of the world, before anything moves."""
        self._joined.append(loop)
        self._stands.append(stand)
        self._loops = ArmLoops(self._joined, self._stands)

    @property
    def shared(self) -> bool:
        """Whether several arms stand in it."""
        return len(self._joined) > 1

    def configure(self, loop: ArmLoop, setup: ArmSetup) -> None:
        """Give an arm its set-up: from now on its targets are waited for."""
        loop.configure(setup)
        self._periods.pop(loop, None)
        self._set_up.add(loop)

    def command(self, loop: ArmLoop, target: Command) -> None:
        """Take up a target; the world advances if no other arm's is missing. ConfigError for a
        period that is none.
        """
        tick_s = loop.tick_s
        if not tick_s <= target.period_s <= LONGEST_PERIOD_S:
            raise ConfigError(
                f"period_s is {target.period_s}; allowed: {tick_s} to {LONGEST_PERIOD_S} s"
            )
        if loop in self._periods:
            self._advance()
        # half a tick of slack: the lease ends between two ticks, whatever the rounding of t
        loop.obey(target, loop.t + target.lease_s + 0.5 * tick_s)
        self._periods[loop] = target.period_s
        if self._set_up <= self._periods.keys():
            self._advance()

    def _advance(self) -> None:
        """By the longest period that was asked for: by one, as programs of one rate ask."""
        period_s = max(self._periods.values())
        self._periods.clear()
        self._tick(round(period_s / self._loops.tick_s))

    def hold(self, loop: ArmLoop) -> None:
        """Advance the world until an arm stands."""
        loop.hold()
        self._periods.clear()
        while not loop.at_rest and loop.fault not in DRIVER_FAULTS:
            self._tick(1)

    def _tick(self, count: int) -> None:
        tick, first, dt = self._loops.tick, self._loops.first.ticks + 1, self._loops.tick_s
        for index in range(first, first + count):
            tick(index * dt)
            if self._truth is not None:
                self._past.append((index, self._truth()))

    def ago(self, age_s: float, truth: Callable[[], WorldState]) -> WorldState:
        """The world as it was so long ago, or as it began; it is kept from the first question on."""
        ticks = self._loops.first.ticks
        if self._truth is None:
            kept = 1 + round(LONGEST_AGO_S / self._loops.tick_s)
            self._truth, self._past = truth, deque(maxlen=kept)
        if not self._past:
            self._past.append((ticks, truth()))
        then = ticks - round(age_s / self._loops.tick_s)
        return next(
            (state for tick, state in reversed(self._past) if tick <= then), self._past[0][1]
        )

    def reset(self, loop: ArmLoop, seed: int) -> None:
        """Begin anew, as one of the arms was asked to."""
        self._periods.clear()
        self._past.clear()
        self.resets += 1
        self._loops.reset(loop, seed)


class LockstepArm:
    """A simulated arm whose time is that of its world. Same calls as `realtime.RealTimeArm`."""

    clock: ClockKind = "lockstep"

    def __init__(
        self,
        arm: Arm,
        setup: ArmSetup,
        guards: Sequence[Guard] = (),
        world: LockstepWorld | None = None,
        stand: Stand | None = None,
    ):
        """Alone in its world, or one of several in theirs."""
        # the first start on a machine compiles the law: not while somebody waits for an answer
        warm_up(arm.joints)
        self._arm, self.joints = arm, arm.joints
        self.ring = Ring(arm.joints)
        self._loop = ArmLoop(arm, setup, self.ring, guards)
        self._world = world or LockstepWorld()
        self._world.join(self._loop, stand or Stand())
        truth = arm.world()
        self.objects, self.scene_joints = len(truth.objects), len(truth.scene_q)
        self.fingers = arm.fingers is not None

    @property
    def shared(self) -> bool:
        """Whether other arms stand in its world."""
        return self._world.shared

    @property
    def resets(self) -> int:
        """How often the world was reset, whichever of its arms was asked to."""
        return self._world.resets

    def configure(self, setup: ArmSetup) -> ArmState:
        self._world.configure(self._loop, setup)
        return self._loop.observe()

    def tune(self, compliance: Compliance) -> ArmState:
        self._loop.tune(compliance)
        return self._loop.observe()

    def tare(self) -> ArmState:
        self._loop.tare()
        return self._loop.observe()

    def command(self, target: Command) -> ArmState:
        """Follow this target; the state after its period, if no other arm's target is missing."""
        self._world.command(self._loop, target)
        return self._loop.observe()

    def hold(self) -> ArmState:
        """Advance the world until the arm stands."""
        self._world.hold(self._loop)
        return self._loop.observe()

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
        self._world.reset(self._loop, seed)
        return self.world()

    def require_alive(self) -> None:
        """The loop lives as long as its caller."""

    def state(self) -> ArmState:
        return self._loop.observe()

    def world(self) -> WorldState:
        return self._arm.world()

    def ago(self, age_s: float) -> Array:
        """Pose of the tool so long before the newest state, which is a tick newer than the newest
        row.
        """
        return self.ring.ago(max(age_s - self._loop.tick_s, 0.0))

    def past_world(self, age_s: float) -> WorldState:
        return self._world.ago(age_s, self._arm.world)

    def stats(self) -> LoopStats:
        """How the loop keeps time: in lockstep nothing is late."""
        return loop_stats(self.ring, 0, 0.0, 0, nominal_hz=1.0 / self._loop.tick_s)

    def journal(self) -> dict[str, Any]:
        """What the arm itself has to say of its last moments; nothing, if it keeps no log."""
        return self._arm.journal()

    def close(self) -> None:
        self._arm.close()
