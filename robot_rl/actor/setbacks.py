"""Demonstrations that fail, one after another: when to give up, and what to say of why."""

import math

import numpy as np

from robot_rl.env.robot import RobotEnv
from robot_rl.operator.mapping import Operator
from robot_rl.types import Array, GivenUpError, Step

FAILURES_AT_MOST = 10  # in a row
IDLE_AT_MOST_S = 600.0  # for which nobody moves the arm, before an attempt begins


class Setbacks:
    """Counts failures in a row and remembers how near the arms came to the goal in them.

    ```
    setbacks.wait(waited_s)                 # before an attempt: for how long nobody has moved
    setbacks.watch(step)                    # each step of it
    setbacks.end_attempt(success=False)     # GivenUpError, once it makes no sense to go on
    ```
    """

    def __init__(self, env: RobotEnv, operator: Operator):
        self._env, self._operator = env, operator
        self._failures = 0
        self._nearest_m = math.inf

    def wait(self, waited_s: float) -> None:
        """Nobody has moved the arm for `waited_s` [s]. Raises GivenUpError after ten minutes."""
        if waited_s >= IDLE_AT_MOST_S:
            raise GivenUpError(
                f"nobody has moved the arm for {waited_s:.0f} s: {self._operator.device.name} said"
                " nothing. Is it the right device, and its clutch closed? `robot-rl teleop` shows"
                " what it says"
            )

    def watch(self, step: Step) -> None:
        """A step of the attempt that is going on."""
        goals = self._goals()
        arms = self._env.arm_states[: len(goals)]
        away = [
            float(np.linalg.norm(arm.pose_base_tcp[:3] - g[:3]))
            for arm, g in zip(arms, goals, strict=True)
        ]
        self._nearest_m = min(self._nearest_m, max(away, default=math.inf))

    def end_attempt(self, *, success: bool) -> None:
        """The attempt is over. Raises GivenUpError after ten failures in a row."""
        self._failures = 0 if success else self._failures + 1
        if success:
            self._nearest_m = math.inf
        if self._failures >= FAILURES_AT_MOST:
            raise GivenUpError(
                "; ".join([f"{self._failures} attempts in a row have failed", *self._reasons()])
            )

    def _reasons(self) -> list[str]:
        """What is known of why."""
        task, reward = self._env.task, self._env.reward
        said = f"the operator never said success, which reward '{task.reward.name}' goes by"
        reasons = [said if reward.needs_operator else f"reward '{task.reward.name}' never fired"]
        if math.isfinite(self._nearest_m):
            reasons.append(
                f"nearest to the goal the tool was {1e3 * self._nearest_m:.0f} mm from it"
            )
        if not self._operator.is_person:
            scene = f"scene '{task.scene.name}'" if task.scene else "no scene"
            reasons.append(
                f"{self._operator.device.name} knows insertions alone, along the tool's z, and task"
                f" '{task.name}' has {scene}: show it yourself, with another `teleop` in the"
                " hardware file"
            )
        return reasons

    def _goals(self) -> list[Array]:
        """The tool's goal for each arm, as far as it is known: the reward's, or the simulator's of
        an arm that is alone.
        """
        if "goals" in self._env.task.reward.options:
            return [np.array(goal) for goal in self._env.task.reward.options["goals"]]
        if self._env.world and self._env.task.scene and len(self._env.arm_states) == 1:
            return [self._env.world.latest.goal_base_tcp]
        return []
