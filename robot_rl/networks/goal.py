"""The encoder "goal": small CNNs whose head predicts where the goal is, and the filter behind it.
How it is trained stands in `learner/pretrain.py`.

The goal stands still while the arm moves. Each frame gives the goal from the tool, with an error of
its own. Seen from the episode's start pose all frames of an episode mean the same pose, so their
errors average out, and the nearest frames, which are the most accurate, count most. A goal that is
moved is followed within a second or so: old frames are forgotten.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from robot_rl import geometry
from robot_rl.networks.encoders import Vision
from robot_rl.networks.normalise import Normaliser
from robot_rl.types import Array

MEMORY = 0.9
"""What the frames before count one step later: about ten of them together, a second at 10 Hz."""

ERROR_M, ERROR_PER_M = 3e-4, 0.02
"""[m] and [1]: the error of one frame, at the goal and what comes with distance. Only their ratio
matters.
"""


class GoalVision(Vision):
    """Features of all cameras, and behind them where the goal is from each tool [m, rad].

    The head predicts the goal from all cameras and what is `told` besides `(B, T)`, the quantities
    of that name: gravity in tool axes, since a tilted tool and one that stands aside look alike,
    and the hands, since what the arm goes to next follows from what they hold.
    """

    goal_mean: Tensor
    goal_std: Tensor

    def __init__(
        self,
        cameras: tuple[str, ...],
        image_size: tuple[int, int],
        features: int,
        goal_size: int,
        told: Sequence[tuple[str, int]] = (),
    ):
        super().__init__(cameras, image_size, features)
        self.balance = Normaliser(told) if told else None
        seen = self.size + (self.balance.size if self.balance is not None else 0)
        self.head = nn.Sequential(nn.Linear(seen, 256), nn.ReLU(), nn.Linear(256, goal_size))
        self.register_buffer("goal_mean", torch.zeros(goal_size))
        self.register_buffer("goal_std", torch.ones(goal_size))
        self.cached_size = self.size = self.size + goal_size

    def forward(self, images: Mapping[str, Tensor], told: Tensor | None = None) -> Tensor:
        features = super().forward(images)
        parts = [features] if self.balance is None else [features, self.balance(told)]
        goal = self.head(torch.cat(parts, -1)) * self.goal_std + self.goal_mean
        return torch.cat([features, goal], -1)


class GoalFilter:
    """A weighted mean of the goal's pose per arm, in the frame in which the tool's pose is given.

    ```
    goals = GoalFilter(arms=1)
    goals.begin_episode()
    # tool (arms, 6) from the start pose, goal (arms, 6) from the tool [m, rad]
    seen = goals.update(tool, goal)
    ```
    """

    def __init__(self, arms: int):
        self._arms = arms
        self.begin_episode()

    def begin_episode(self) -> None:
        """Forget the last episode's goal."""
        self._weight = np.zeros(self._arms)
        self._goal = np.tile(geometry.IDENTITY, (self._arms, 1))

    def update(self, tool: Array, goal: Array, moving: Array | Sequence[bool] = ()) -> Array:
        """The goal from the tool `(arms, 6)` float32, of this frame and those before it.

        An arm whose hand is `moving` (arms,) goes somewhere else next: what was before is forgotten.
        """
        self._weight[np.flatnonzero(moving)] = 0.0
        out = np.empty((self._arms, 6), np.float32)
        for arm in range(self._arms):
            pose = geometry.pose_from_vector(tool[arm])
            seen = geometry.pose_move(pose, goal[arm].astype(np.float64))
            weight = (ERROR_M + ERROR_PER_M * float(np.linalg.norm(goal[arm, :3]))) ** -2
            self._weight[arm] = MEMORY * self._weight[arm] + weight
            news = geometry.pose_delta(self._goal[arm], seen)
            share = weight / self._weight[arm]
            self._goal[arm] = (
                geometry.pose_move(self._goal[arm], share * news) if share < 1.0 else seen
            )
            out[arm] = geometry.pose_delta(pose, self._goal[arm])
        return out

    def filter_into(self, tool: Array, vision: Array, moving: Array | Sequence[bool] = ()) -> None:
        """Put the goal of the episode so far in the place of the one that this frame alone says, at
        the end of `vision (V,)`. `tool (arms, 6)` and `moving` as for `update`.
        """
        goal = vision[-6 * self._arms :]
        goal[:] = self.update(tool, goal.reshape(self._arms, 6), moving).ravel()
