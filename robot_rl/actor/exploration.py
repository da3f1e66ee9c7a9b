"""An arm that moves by itself: frames with a known relative goal, without any label.

At a demonstration's success the tool pose *is* the goal pose. An episode that starts there and
wanders about, with what the hand has laid down in it if need be, therefore knows, for each of its
frames, where the goal is seen from the tool: goal-relative pretraining (`learner/pretrain.py`)
regresses it. And one that looks around before a demonstration, in the same scene from the same
start, knows it afterwards. Neither needs anything that a real arm does not have, and a
task that allows it.
"""

from abc import ABC, abstractmethod

import numpy as np

from robot_rl import geometry
from robot_rl.config import StartPose, Task, Wander
from robot_rl.env.reset import sample_start
from robot_rl.types import AXES, CLOSE, STAY, ArmLimits, ArmState, Array

CLEAR_M = 0.006
"""Beyond the way out when it sets off."""

NEAR_M = 0.010
"""What is close to the entrance: so far beyond the way out."""

LOWEST_M = 0.003
CLOSES_FOR = 15
"""So many steps long a hand is told to close, which may still be opening when the first one comes."""
TRIES = 20


class Explorer(ABC):
    """Chooses waypoints, inside the workspace of `limits`, and steers from one to the next. `over` says
    that nothing can come of it any more.
    """

    def __init__(self, task: Task, limits: ArmLimits, rng: np.random.Generator):
        self._rng = rng
        self._low, self._high = np.array(limits.workspace_low), np.array(limits.workspace_high)
        self._freed = np.isin(AXES, task.axes).astype(float)
        self._scale = task.action_scale
        self._start = self._waypoint = self._target = geometry.IDENTITY
        self.over = False

    def begin_episode(self, arm: ArmState) -> None:
        """The arm stands where the episode starts: remember it, and set off from there."""
        self._start, self._target = arm.pose_base_tcp, geometry.IDENTITY
        self._waypoint = self._surely()

    @abstractmethod
    def _draw(self) -> Array:
        """A waypoint `(7,)` at random."""

    @abstractmethod
    def _surely(self) -> Array:
        """One that is always inside the workspace: the first."""

    def act(
        self, arm: ArmState, *, holds: bool = False, stands: bool = False
    ) -> tuple[Array, float]:
        """The action along all axes `(6,)` towards the current waypoint, 0 along those that the task
        holds, and what its hand is to do: CLOSE, STAY or OPEN. A waypoint that the arm's limits keep
        out of reach is given up. `holds`: whether something is between its fingers. `stands`:
        whether it keeps still, whatever it is told, since its fingers move: it has not arrived then.
        """
        if stands:
            return np.zeros(6, np.float32), STAY
        return self._explore(arm, holds)

    def _explore(self, arm: ArmState, holds: bool) -> tuple[Array, float]:
        if self._has_arrived(arm):
            self._waypoint = self._choose()
        return self._towards(arm), STAY

    def _has_arrived(self, arm: ArmState) -> bool:
        """Whether it is at the waypoint, or has got no nearer since the last call: once in a step."""
        left, target = self._left(arm), self._target
        self._target = arm.target_base_tcp
        is_there = np.linalg.norm(left[:3]) < 0.002 and np.linalg.norm(left[3:]) < 0.02
        moved = np.abs(geometry.pose_delta(target, self._target))
        return bool(is_there or (moved < 0.05 * self._scale).all())

    def _towards(self, arm: ArmState) -> Array:
        action = self._left(arm) / self._scale
        return np.clip(action / max(1.0, float(np.abs(action).max())), -1.0, 1.0).astype(np.float32)

    def _left(self, arm: ArmState) -> Array:
        """The way `(6,)` from the target to the waypoint, along what the task frees."""
        return geometry.pose_delta(arm.target_base_tcp, self._waypoint) * self._freed

    def _choose(self) -> Array:
        """The next waypoint `(7,)`, inside the workspace."""
        for _ in range(TRIES):
            pose = self._draw()
            if (pose[:3] >= self._low).all() and (pose[:3] <= self._high).all():
                return pose
        return self._surely()


class SceneExplorer(Explorer):
    """Looks around: everywhere that the task's `look_around` states."""

    def __init__(self, task: Task, around: StartPose, limits: ArmLimits, rng: np.random.Generator):
        super().__init__(task, limits, rng)
        self._around = around

    def _draw(self) -> Array:
        return sample_start(self._around, self._rng)

    def _surely(self) -> Array:
        return self._start


class GoalExplorer(Explorer):
    """Wanders about the goal, where its episode starts: out along the approach first, then at random.

    Half of the waypoints are close to the entrance, where accuracy counts; the others fill the
    space that the task's `wander` states.
    """

    def __init__(self, task: Task, wander: Wander, limits: ArmLimits, rng: np.random.Generator):
        super().__init__(task, limits, rng)
        self._wander, way_out = wander, np.array(wander.way_out)
        self._depth_m = float(np.linalg.norm(way_out))
        self._out = way_out / self._depth_m
        self._spread = np.array([wander.aside] * 3 + [*wander.rotation]) * self._freed
        if wander.lowest is not None:
            self._low[2] = max(self._low[2], wander.lowest)

    def _surely(self) -> Array:
        """Where the tool is free, straight out of the goal."""
        return self._at(np.zeros(6), CLEAR_M)

    def _draw(self) -> Array:
        near = self._rng.random() < 0.5
        spread = self._rng.uniform(-1.0, 1.0, 6) * self._spread
        if near:
            # in place, but turned as far as anywhere: an encoder that has never seen a tilted tool
            # at the entrance takes every tool there for an upright one
            spread[:3] *= self._wander.near_aside
        low, high = (0.0, NEAR_M) if near else (LOWEST_M, self._wander.height)
        return self._at(spread, self._rng.uniform(low, high))

    def _at(self, spread: Array, height_m: float) -> Array:
        """The pose `(7,)` that is `height_m` beyond the way out, moved aside and turned by `spread
        (6,)`.
        """
        aside = spread[:3] - (spread[:3] @ self._out) * self._out
        move = np.concatenate([aside + (self._depth_m + height_m) * self._out, spread[3:]])
        return geometry.pose_move(self._start, move)


class CarryingExplorer(GoalExplorer):
    """Wanders with what its hand has laid down at the goal. First it takes hold of that again, here or
    there within what the task's `wander` states: a policy will not hold it where it was shown to.
    Beyond the arm's limits it closes as near as it gets. It is over when the hand holds nothing, or
    holds it no more.
    """

    _goes, _waits = True, 0

    def begin_episode(self, arm: ArmState) -> None:
        super().begin_episode(arm)
        beside = self._rng.uniform(self._wander.takes_from, self._wander.takes_to)
        self._waypoint = geometry.pose_move(self._start, np.concatenate([beside, np.zeros(3)]))
        self._goes, self._waits, self.over = True, CLOSES_FOR, False

    def _explore(self, arm: ArmState, holds: bool) -> tuple[Array, float]:
        if holds:
            if self._waits:  # here the wandering begins
                self._waits = 0
                super().begin_episode(arm)
            return super()._explore(arm, holds)
        self._goes = self._goes and not self._has_arrived(arm)
        if self._goes:
            return self._towards(arm), STAY
        self._waits = max(0, self._waits - 1)
        self.over = not self._waits
        return np.zeros(6, np.float32), CLOSE if self._waits else STAY
