"""The simulator's own truth as the judge: one for the step that completes the task, and the episode is over."""

from collections.abc import Sequence

from robot_rl import interfaces
from robot_rl.interfaces import Given, NoOptions
from robot_rl.types import ArmState, DeviceError, Observation, Outcome


class Reward(interfaces.Reward):
    """Sparse success from the `world` channel, which only a simulated arm serves."""

    def __init__(self, options: NoOptions, given: Given):
        if given.world is None:
            raise DeviceError(
                "reward 'simulator' asks the simulator for success, but this arm is real; "
                "name another reward in the task file"
            )
        self._world = given.world

    def judge(self, observation: Observation, arms: Sequence[ArmState], outcome: Outcome) -> tuple[float, bool]:
        """(1, True) at success, else (0, False)."""
        success = self._world.latest.success
        return float(success), success
