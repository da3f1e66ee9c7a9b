"""Success is a tool that is lifted for some steps in a row."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    height_m: float
    """How high the tool has to be above the base [m]."""
    steps: int = 5
    """For so many steps in a row."""


class Reward:
    def __init__(self, options, given):
        self.options, self.steps = options, 0

    def begin_episode(self):
        self.steps = 0

    def judge(self, observation, arms, outcome):
        is_up = arms[0].pose_base_tcp[2] >= self.options.height_m
        self.steps = self.steps + 1 if is_up else 0
        done = self.steps >= self.options.steps
        return float(done), done, done
