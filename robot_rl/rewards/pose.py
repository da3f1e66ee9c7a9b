"""Success without a camera: the tool stands at a goal pose that the task file names."""

from collections.abc import Sequence

import numpy as np

from robot_rl import geometry
from robot_rl.interfaces import World
from robot_rl.limits import is_unit
from robot_rl.types import ArmState, ConfigError, Observation, Outcome, RewardResult


class Reward:
    """1 once every arm's tool has been within tolerance of its goal for some steps in a row; that ends the episode.

    ```
    reward=Use("pose", {"goals": ((0.5, 0.0, 0.005, 1.0, 0.0, 0.0, 0.0),), "translation_m": 0.002})
    ```
    `goals` are poses `(7,)` of the tool in the base frame, one per arm (`robot-rl pose` prints them). Tolerances are
    the distance [m] and the angle [rad] to the goal; a large `rotation_rad` leaves the orientation out. More than one
    step (`steps`) keeps a tool that only shoots through the goal from counting.
    """

    needs_operator = False
    probability = None

    def __init__(
        self,
        world: World | None,
        goals: Sequence[Sequence[float]],
        translation_m: float = 0.002,
        rotation_rad: float = 0.05,
        steps: int = 2,
    ):
        for goal in goals:
            if len(goal) != 7 or not np.isfinite(goal).all() or not is_unit(goal[3:]):
                raise ConfigError(f"reward 'pose': a goal is 7 numbers with a unit quaternion xyzw, not {list(goal)}")
        if not (goals and translation_m > 0.0 and rotation_rad > 0.0 and steps >= 1):
            raise ConfigError("reward 'pose' needs a goal per arm, tolerances above 0, and at least one step")
        self._goals = [np.array(goal, float) for goal in goals]
        self._translation_m, self._rotation_rad, self._steps = translation_m, rotation_rad, steps
        self._steps_there = 0

    def judge(self, observation: Observation, arms: Sequence[ArmState], outcome: Outcome) -> RewardResult:
        """1 at success, which ends the episode, else 0."""
        if len(arms) != len(self._goals):
            raise ConfigError(f"reward 'pose' has {len(self._goals)} goals for {len(arms)} arms; it needs one per arm")
        there = all(self._is_there(arm, goal) for arm, goal in zip(arms, self._goals, strict=True))
        self._steps_there = self._steps_there + 1 if there else 0
        success = self._steps_there >= self._steps
        if success:
            self._steps_there = 0  # the next episode begins anew
        return RewardResult(float(success), success, success)

    def _is_there(self, arm: ArmState, goal: np.ndarray) -> bool:
        error = geometry.pose_error(arm.pose_base_tcp, goal)
        near = float(np.linalg.norm(error[:3])) <= self._translation_m
        return near and float(np.linalg.norm(error[3:])) <= self._rotation_rad
