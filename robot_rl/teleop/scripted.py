"""A scripted operator for simulated arms: demonstrates insertion, and corrects as a human would.

It sees the simulator's truth through the `world` channel, so it can stand in for the person at the
bench in CI and for everybody who has no arm yet. It is not a policy to learn from in simulation
only: it drives with the same six numbers as a SpaceMouse, with its own pace and an unsteady hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from robot_rl import geometry, interfaces
from robot_rl.config.judge import LEARNED
from robot_rl.interfaces import Given
from robot_rl.sim.socket import Socket
from robot_rl.teleop._near_misses import PRESS_M, Plan
from robot_rl.types import ArmState, Array, DeviceError, OperatorCommand, TeleopEvent

HOLDS_STEPS = 10  # in place, for a learned judge to say success, before the operator says it
COLLECTING_PACE = 0.85  # the least: what is shown matters, and not the way to it
SIDEWAYS = np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
ALIGNED, ALIGNED_RAD_PER_M = (
    0.7,
    24.0,
)  # of the clearance: with 0.5 mm, 0.35 mm and 0.012 rad, which turn 0.12 mm away
HOVER_M = 0.003  # above the rim while lining up
# setting off swings the tip 0.7 mm aside: a tighter hole wants a slower hand and a lower hover
ROOMY_M = 0.0005


@dataclass(frozen=True)
class OperatorHabits:
    """How this operator works."""

    slowest_pace: float = 0.6
    """The least share of full speed that is drawn for an episode."""
    unsteadiness: float = 0.12
    """Of the hand: standard deviation of the noise on each axis, as a share of full deflection."""
    patience_steps: int = 12
    """So many control steps without progress are watched before a correction."""
    progress_m: float = 0.002
    """Nearer to the goal by so much [m] is progress."""
    far_m: float = 0.07
    """An arm further aside of the goal [m], and further than any episode starts, is on its way out."""
    segment_steps: tuple[int, int] = (8, 20)
    """The least and the most control steps of a correction."""
    finishes: float = 0.5
    """Share of the corrections that carry the insertion through."""


Options = OperatorHabits


class Teleop(interfaces.Teleop):
    """The operator's hand and judgement.

    In mode "demonstrate" the clutch is always closed. In mode "correct" the operator watches: it
    takes over when the arm makes no progress for `patience_steps` or leaves the neighbourhood of
    the goal, drives for a segment, and lets go again; in a share `finishes` of the segments it
    carries the insertion through. In mode "collect" every other episode is a success, and the
    others are near misses, which FAILURE ends. Where the judge is learned, the operator holds the
    tool in place and leaves the word to it for `HOLDS_STEPS`.
    """

    name = "the scripted operator"
    is_person = False

    def __init__(self, options: OperatorHabits, given: Given):
        task, world = given.task, given.world
        if task is None or world is None:
            raise DeviceError(
                "teleop 'scripted' needs a simulated arm: it steers by the simulator's truth"
            )
        self._world = world
        self._mode = given.mode
        socket = Socket.of(task.scene)
        furthest_m = float(
            np.linalg.norm(np.array(task.start[0].translation[:2]) + socket.socket_range_m)
        )
        self._habits = replace(options, far_m=max(options.far_m, 1.1 * furthest_m))
        self._depth_m = socket.depth_m
        self._aligned_m, self._aligned_rad = (
            ALIGNED * socket.clearance_m,
            ALIGNED_RAD_PER_M * socket.clearance_m,
        )
        self._gentle = min(1.0, socket.clearance_m / ROOMY_M) ** 2
        self._rng = np.random.default_rng(given.seed)
        drawn = np.random.default_rng([given.seed, 2])
        self._plan = Plan(socket, drawn) if given.mode == "collect" else None
        self._scale = np.array([task.action_translation] * 3 + [task.action_rotation] * 3)
        self._watch = _Watch(self._habits)
        self._pace = 1.0
        self._steps_left = self._done_steps = 0
        self._silent_steps = HOLDS_STEPS if task.reward.name == LEARNED else 0
        self._words: list[OperatorCommand] = []
        self.reports = 0

    def begin_episode(self) -> Sequence[OperatorCommand]:
        """Lean back and choose a pace for this episode."""
        slowest = self._habits.slowest_pace if self._plan is None else COLLECTING_PACE
        self._pace = self._rng.uniform(slowest, 1.0)
        self._steps_left = self._done_steps = 0
        self._watch = _Watch(self._habits)
        if self._plan is not None:
            self._plan.begin_episode()
        return self.take_words()

    def end_episode(self, success: bool) -> None:
        """A judge that has taken something else for a success is denied it."""
        if success and not self._world.latest.success and self._plan is None:
            self._words.append(OperatorCommand.DENY)

    def take_words(self) -> Sequence[OperatorCommand]:
        """What there was to say of the last episode."""
        said, self._words = self._words, []
        return said

    def read(self, arms: Sequence[ArmState]) -> TeleopEvent:
        """Watch the arm, steer it with the clutch closed, and say when the task is done."""
        (arm,) = arms
        goal = self._world.latest.goal_base_tcp
        offset = geometry.pose_delta(goal, arm.pose_base_tcp)
        success = self._world.latest.success
        self._done_steps = self._done_steps + 1 if success else 0
        said = success and self._done_steps > self._silent_steps
        word = OperatorCommand.SUCCESS if said else OperatorCommand.NONE
        if self._plan is not None:
            action = self._show(self._plan, arm, goal, offset)
            word = OperatorCommand.FAILURE if self._plan.is_over else word
        else:
            action = self._steer(arm, goal, offset)
        self.reports += 1
        active = self._mode != "correct" or self._corrects(offset)
        return TeleopEvent(active, action, "tool", outcome=word)

    def _corrects(self, offset: Array) -> bool:
        """Whether the operator's hand is on the device in this step of mode "correct"."""
        if self._steps_left > 0:
            self._steps_left -= 1
            if self._steps_left == 0:
                self._watch = _Watch(self._habits)
        elif self._watch.is_worried(offset):
            low, high = self._habits.segment_steps
            finishes = self._rng.random() < self._habits.finishes
            self._steps_left = 1000 if finishes else int(self._rng.integers(low, high + 1))
        return self._steps_left > 0

    def _show(self, plan: Plan, arm: ArmState, goal: Array, offset: Array) -> Array:
        """What a classifier is to see: the success, in a restless hand, or a near miss."""
        success = self._world.latest.success
        miss = plan.step(offset, success)
        if miss is not None and not (miss.depth_m and plan.is_over_hole(offset)):
            return self._move(arm, plan.waypoint(goal, arm.pose_base_tcp, miss))
        action = self._steer(arm, goal, offset, PRESS_M if miss is None else miss.at[2])
        if success:
            action += self._rng.normal(0.0, self._habits.unsteadiness, 6) * SIDEWAYS
        return np.clip(action, -1.0, 1.0)

    def _move(self, arm: ArmState, to: Array) -> Array:
        """Straight to a pose `(7,)`, with an unsteady hand."""
        action = self._pace * geometry.pose_delta(arm.target_base_tcp, to) / self._scale
        hand = self._rng.normal(0.0, self._habits.unsteadiness, 6)
        return np.clip(action + hand, -1.0, 1.0)

    def _steer(self, arm: ArmState, goal: Array, offset: Array, bottom: float = PRESS_M) -> Array:
        """Line up a little above the rim, then push in, up to `bottom` [m] beyond the goal; an
        unsteady hand while there is room.

        Out of line just above a tight hole, stay as low as the target has come: backing off would
        swing the tip again.
        """
        height, depth = -offset[2], self._depth_m
        far = float(np.linalg.norm(offset[:2])) > 0.004
        upright = bool((np.abs(offset[3:]) < self._aligned_rad).all())
        aligned = upright and bool((np.abs(offset[:2]) < self._aligned_m).all())
        inserting = height < depth - 0.0005 or (aligned and height < depth + 2 * HOVER_M)
        above_rim = -geometry.pose_delta(goal, arm.target_base_tcp)[2] - depth
        hover = np.clip(above_rim, HOVER_M * (1.0 if far else self._gentle), HOVER_M)
        along = bottom if inserting else -(depth + hover)
        waypoint = geometry.pose_move(goal, np.array([0.0, 0.0, along, 0.0, 0.0, 0.0]))
        action = self._pace * geometry.pose_delta(arm.target_base_tcp, waypoint) / self._scale
        hand = self._rng.normal(0.0, self._habits.unsteadiness, 6) * (1.0 if far else 0.1)
        action = np.clip(action + hand, -1.0, 1.0)
        if inserting and height > depth - 0.002:
            action[2] = min(action[2], self._gentle)
        return action


class _Watch:
    """The operator's eye on one stretch of autonomous motion: is it getting anywhere?"""

    def __init__(self, habits: OperatorHabits):
        self._habits = habits
        self._best = np.inf
        self._idle_steps = 0

    def is_worried(self, offset: Array) -> bool:
        """Look at the tool's offset from the goal `(6,)`; true if the arm is stuck or on its way
        out.
        """
        distance = float(np.linalg.norm(offset[:3]) + 0.05 * np.linalg.norm(offset[3:]))
        if distance < self._best - self._habits.progress_m:
            self._best, self._idle_steps = distance, 0
        else:
            self._idle_steps += 1
        leaves = bool(np.linalg.norm(offset[:2]) > self._habits.far_m or -offset[2] > 0.12)
        return leaves or self._idle_steps > self._habits.patience_steps
