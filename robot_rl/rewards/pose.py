"""Success without a camera: the tool stands at a goal pose that the task file names."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robot_rl import geometry, interfaces
from robot_rl.config.limits import is_unit
from robot_rl.interfaces import Given
from robot_rl.types import ArmState, ConfigError, Observation, OperatorCommand, RewardResult


@dataclass(frozen=True)
class Options:
    """The goal, and what counts as being there. Raises ConfigError for a goal that is none."""

    goals: tuple[tuple[float, ...], ...]
    """One pose of the tool per arm in the base frame, 7 numbers [m, xyzw]; `robot-rl pose` prints
    it.
    """
    translation_m: float = 0.002
    """How near the tool is to the goal [m], as a distance."""
    rotation_rad: float = 0.05
    """How little it is turned from it [rad], as one angle; 3.2 leaves the orientation out."""
    steps: int = 2
    """So many steps in a row, so that a tool that only shoots through the goal does not count."""

    def __post_init__(self) -> None:
        for goal in self.goals:
            if len(goal) != 7 or not np.isfinite(goal).all() or not is_unit(goal[3:]):
                raise ConfigError(
                    "reward 'pose': goals: a goal is 7 numbers with a unit quaternion xyzw, not"
                    f" {list(goal)}"
                )
        if not (
            self.goals and self.translation_m > 0.0 and self.rotation_rad > 0.0 and self.steps >= 1
        ):
            raise ConfigError(
                "reward 'pose' needs a goal per arm, tolerances above 0, and at least one step"
            )


class Reward(interfaces.Reward):
    """1 once every arm's tool has been within tolerance of its goal for some steps in a row; that
    ends the episode.

    ```
    reward=Use("pose", {"goals": ((0.5, 0.0, 0.005, 1.0, 0.0, 0.0, 0.0),), "translation_m": 0.002})
    ```
    """

    def __init__(self, options: Options, given: Given):
        self._options = options
        self._goals = [np.array(goal, float) for goal in options.goals]
        self._steps_there = 0

    def begin_episode(self) -> None:
        """Steps of the episode before are none in a row with this one's."""
        self._steps_there = 0

    def judge(
        self, observation: Observation, arms: Sequence[ArmState], outcome: OperatorCommand
    ) -> RewardResult:
        """1 at success, which ends the episode, else 0."""
        if len(arms) != len(self._goals):
            raise ConfigError(
                f"reward 'pose' has {len(self._goals)} goals for {len(arms)} arms; it needs one"
                " per arm"
            )
        there = all(self._is_there(arm, goal) for arm, goal in zip(arms, self._goals, strict=True))
        self._steps_there = self._steps_there + 1 if there else 0
        success = self._steps_there >= self._options.steps
        return RewardResult(float(success), success, success)

    def _is_there(self, arm: ArmState, goal: np.ndarray) -> bool:
        error = geometry.pose_error(arm.pose_base_tcp, goal)
        near = float(np.linalg.norm(error[:3])) <= self._options.translation_m
        return near and float(np.linalg.norm(error[3:])) <= self._options.rotation_rad
