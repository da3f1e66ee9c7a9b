"""The person at the bench as the judge: a key or button for success, another for failure."""

from collections.abc import Sequence

from robot_rl import interfaces
from robot_rl.types import ArmState, Observation, OperatorCommand, RewardResult


class Reward(interfaces.Reward):
    """1 when the operator says success, 0 when failure; both end the episode, and silence goes on.

    The word comes with the readings of the operator's device (`TeleopAction.outcome`), also while
    the policy acts.
    """

    needs_operator = True

    def judge(
        self, observation: Observation, arms: Sequence[ArmState], outcome: OperatorCommand
    ) -> RewardResult:
        """The reward, whether the operator has ended the episode, and whether with success."""
        success = outcome == OperatorCommand.SUCCESS
        return RewardResult(float(success), outcome != OperatorCommand.NONE, success)
