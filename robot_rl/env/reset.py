"""Between episodes: bring the arms to a start pose through the same targets, and the same limits,
as any step.
"""

from collections.abc import Callable, Sequence

import numpy as np

from robot_rl import geometry
from robot_rl.config import StartPose
from robot_rl.controllers.client import ArmClient
from robot_rl.env.states import ArmStates
from robot_rl.machine.clock import Clock
from robot_rl.types import (
    ArmFaultError,
    ArmStaleError,
    ArmState,
    ArmTarget,
    Array,
    DeviceError,
    JointTarget,
    LimitFlags,
    ResetMissedError,
    StoppedError,
)

# [m, rad] per control period: 0.12 m/s at 10 Hz
STEP = np.array([0.012, 0.012, 0.012, 0.08, 0.08, 0.08])
# [rad] at home, which is only on the way: what friction leaves of a joint-space move
HOME_TOLERANCE = 0.05
# [m, rad] when an arm counts as arrived
TOLERANCE = np.array([0.0015, 0.0015, 0.0015, 0.01, 0.01, 0.01])
# for which an arm holds, twice, before its wrench is tared; the tare averages over 0.05 s
SETTLE_S = 0.3
AT_ONCE = 0.01  # of that time: a lease so short that the arm holds
LOOK = (
    "Look at it: is something in its way, does the tool stick? If not: is `load` of the hardware"
    " file right, and the start pose inside its workspace?"
)
WALLS = (
    LimitFlags.WORKSPACE
    | LimitFlags.ORIENTATION
    | LimitFlags.KEEP_OUT
    | LimitFlags.JOINTS
    | LimitFlags.BODY
    | LimitFlags.NEIGHBOUR
)
PATIENCE = 80  # control periods before giving up


def sample_start(start: StartPose, rng: np.random.Generator) -> Array:
    """A start pose `(7,)` of the tool in the base, uniform in the task's range."""
    pose = np.array(start.pose_base_tool)
    pose[:3] += rng.uniform(-1.0, 1.0, 3) * start.translation
    turn = rng.uniform(-1.0, 1.0, 3) * start.rotation
    return geometry.pose_move(pose, np.concatenate([np.zeros(3), turn]))


class Resetter:
    """Moves arms to poses in small steps at the control rate: first straight up to the goal's
    height, then across.

    A pose says nothing of the elbow. An arm that has a joint further than `max_drift` [rad] from
    its home posture `homes[i] (n,)`, once it is up, first goes there in joint space; without a
    `max_drift` none does.
    """

    def __init__(
        self,
        arms: Sequence[ArmClient],
        clock: Clock,
        period_s: float,
        homes: Sequence[Sequence[float] | Array] = (),
        max_drift: float | None = None,
    ):
        self._arms = arms
        self._clock = clock
        self._period_s = period_s
        self._homes = [np.array(home, float) for home in homes]
        self._max_drift = max_drift
        self._states = ArmStates(arms, period_s)

    def go(
        self, goals: Sequence[Array], stopped: Callable[[], bool] = lambda: False
    ) -> list[ArmState]:
        """Bring every arm to its goal pose `(7,)`, all at the same time.

        Raises ArmFaultError if a fault stops one, ResetMissedError if one does not arrive:
        something is in the way, or a limit keeps it from getting there; ArmStaleError if one has
        nothing new to say. `stopped` is asked in each control period: StoppedError. Every arm then
        holds the pose that it had.
        """
        if drifted := self._drifted():
            self._travel(goals, _is_up, stopped)
            for arm, home in drifted:
                self._go_home(arm, home, stopped)
        return self._travel(goals, _arrived, stopped)

    def _go_home(self, arm: ArmClient, home: Array, stopped: Callable[[], bool]) -> None:
        def look() -> None:
            self._states.read()
            self._require_leave(stopped)

        try:
            arm.move_joints(JointTarget(home, self._period_s), tolerance=HOME_TOLERANCE, each=look)
        except (ArmFaultError, ArmStaleError):
            raise
        except DeviceError as error:
            self._hold()
            raise ResetMissedError(
                f"arm '{arm.info.name}' did not get to its `home` posture, before its start pose:"
                f" {error}. {LOOK}"
            ) from error

    def come_free(self, way: Sequence[float], stopped: Callable[[], bool]) -> None:
        """Every tool moves by `way (3,)` [m] in its own axes, or as far as that gets it. StoppedError
        as in `go`.
        """
        turned = np.concatenate([way, np.zeros(3)])
        poses = [arm.state().pose_base_tcp for arm in self._arms]
        for share in np.linspace(0.0, 1.0, 2 + int(np.abs(way).max() / STEP[0]))[1:]:
            self._require_leave(stopped)
            for arm, pose in zip(self._arms, poses, strict=True):
                arm.command(ArmTarget(geometry.pose_move(pose, share * turned), self._period_s))
            self._clock.wait_until(self._clock.now() + self._period_s)

    def tare(self) -> list[ArmState]:
        """What the tools feel at their start poses is zero from now on. Raises ResetMissedError if
        it is too much.
        """
        for arm in self._arms:
            try:
                arm.tare()
            except DeviceError as error:
                arm.refresh()  # one whose loop has died says so itself
                raise ResetMissedError(
                    f"arm '{arm.info.name}' is at its start pose, but {error}"
                ) from error
        return self._states.read()

    def let_go(self) -> list[ArmState]:
        """Every arm holds where it is and presses on nothing, until it has settled there.

        What an integral term has wound up against friction stays in the joints, and feels like a
        contact. An arm that holds starts from no torque at all but gravity's. It does so twice: an
        integral gain takes a while to fade out, and winds up a little in the first hold.
        """
        for _ in range(2):
            for arm in self._arms:
                arm.command(ArmTarget(arm.state().pose_base_tcp, SETTLE_S, AT_ONCE))
            self._clock.wait_until(self._clock.now() + SETTLE_S)
        return [arm.refresh() for arm in self._arms]

    def wait(self) -> None:
        """Let a control period go by, in which every arm holds where it is."""
        for arm in self._arms:
            arm.command(ArmTarget(arm.state().pose_base_tcp, self._period_s, AT_ONCE))
        self._clock.wait_until(self._clock.now() + self._period_s)

    def _require_leave(self, stopped: Callable[[], bool]) -> None:
        """Hold every arm and raise StoppedError, if the operator has said so."""
        if stopped():
            self._hold()
            raise StoppedError("stopped by the operator on the way to the start pose")

    def _hold(self) -> None:
        """Every arm stays where it is, and presses on nothing."""
        for arm in self._arms:
            arm.hold()

    def _drifted(self) -> list[tuple[ArmClient, Array]]:
        """The arms that have to go home first, and where that is."""
        if self._max_drift is None:
            return []
        pairs = zip(self._arms, self._homes, strict=True)
        return [
            (arm, home)
            for arm, home in pairs
            if np.abs(arm.state().q - home).max() > self._max_drift
        ]

    def _travel(
        self,
        goals: Sequence[Array],
        there: Callable[[ArmState, Array, Array], bool],
        stopped: Callable[[], bool],
    ) -> list[ArmState]:
        """Step towards the goals until every arm is `there`, by its state, its target and its goal."""
        targets = [arm.state().pose_base_tcp for arm in self._arms]
        deadline = self._clock.now()
        for _ in range(PATIENCE):
            self._require_leave(stopped)
            states = self._states.read()
            for state in states:
                if state.fault:
                    raise ArmFaultError(
                        f"the reset was stopped by fault {state.fault.name}: {state.reason}"
                    )
            if all(
                there(state, target, goal)
                for state, target, goal in zip(states, targets, goals, strict=True)
            ):
                return states
            targets = [
                _next_target(target, goal) for target, goal in zip(targets, goals, strict=True)
            ]
            for arm, target in zip(self._arms, targets, strict=True):
                arm.command(ArmTarget(target, self._period_s))
            deadline += self._period_s
            self._clock.wait_until(deadline)
        self._hold()
        off = [
            _how_far(arm, state, goal)
            for arm, state, goal in zip(self._arms, states, goals, strict=True)
        ]
        raise ResetMissedError(
            f"the reset did not arrive within {PATIENCE * self._period_s:.0f} s: {'; '.join(off)}."
            f" {LOOK}"
        )


def _how_far(arm: ArmClient, state: ArmState, goal: Array) -> str:
    """What an arm is off by, and the limits that kept its last target from where it was to go."""
    error = geometry.pose_error(goal, state.pose_base_tcp)
    x, y, z = 1e3 * error[:3]
    by = (
        f"arm '{arm.info.name}' is off by ({x:+.1f}, {y:+.1f}, {z:+.1f}) mm and"
        f" {np.linalg.norm(error[3:]):.3f} rad"
    )
    walls = state.verdict & WALLS
    return f"{by} (held back by: {walls.reasons})" if walls else by


def _next_target(target: Array, goal: Array) -> Array:
    """One step from the last target towards the goal; as long as the goal is higher, only upwards."""
    rise = goal[2] - target[2]
    if rise > STEP[2]:
        return np.concatenate([target[:2], [target[2] + STEP[2]], target[3:]])
    step = np.clip(geometry.pose_delta(target, goal), -STEP, STEP)
    return geometry.pose_move(target, step)


def _is_up(state: ArmState, target: Array, goal: Array) -> bool:
    """Whether the tool is as high as straight up takes it."""
    return bool(state.pose_base_tcp[2] > goal[2] - STEP[2] - TOLERANCE[2])


def _arrived(state: ArmState, target: Array, goal: Array) -> bool:
    ahead = np.abs(geometry.pose_error(target, goal))
    behind = np.abs(geometry.pose_error(state.pose_base_tcp, goal))
    return bool((ahead < 1e-6).all() and (behind < TOLERANCE).all())
