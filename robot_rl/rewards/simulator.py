"""The simulator's own truth as the judge: one for the step that completes the task, and the episode
is over.
"""

from collections.abc import Sequence

from robot_rl import interfaces
from robot_rl.interfaces import Given, NoOptions
from robot_rl.types import ArmState, DeviceError, Observation, OperatorCommand, RewardResult


class Reward(interfaces.Reward):
    """Sparse success from the `world` channel, which only a simulated arm serves."""

    def __init__(self, options: NoOptions, given: Given):
        if given.world is None:
            raise DeviceError(
                "reward 'simulator' asks the simulator for success, but this arm is real; "
                "name another reward in the task file"
            )
        self._world = given.world

    def judge(
        self, observation: Observation, arms: Sequence[ArmState], outcome: OperatorCommand
    ) -> RewardResult:
        """1 at success, which ends the episode, else 0."""
        success = self._world.latest.success
        return RewardResult(float(success), success, success)
