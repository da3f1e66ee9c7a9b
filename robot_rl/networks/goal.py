"""The encoders "goal" and "goal_points": a small network per camera, a head that predicts where the
goal is, and the filter behind it.
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
from robot_rl.networks.encoders import Network, SmallCNN, Vision
from robot_rl.networks.normalise import Normaliser
from robot_rl.networks.poses import moved, seen_from
from robot_rl.types import GRASP, PLACE, Array

MEMORY = 0.9
"""What the frames before count one step later: about ten of them together, a second at 10 Hz."""

OTHER_MOVED_M = 0.006
"""[m] of another arm's way, after which they count a third: where the one goes next may follow from
where the other has what it holds.
"""

ERROR_M, ERROR_PER_M = 3e-4, 0.02
"""[m] and [1]: the error of one frame, at the goal and what comes with distance. Only their ratio
matters.
"""

FRAMES = {PLACE: "bench", GRASP: "grasp"}
"""In which other frames the goal is said, by what is told of where the tool is there."""


class GoalVision(Vision):
    """Features of all cameras, and behind them where the goal is from each tool [m, rad].

    The head predicts the goal from all cameras and what is `told` besides `(B, T)`, the quantities
    of that name: gravity in tool axes, since a tilted tool and one that stands aside look alike,
    and the hands, since what the arm goes to next follows from what they hold.

    Where it is told each tool's `place` on the bench, it says each number twice: from the tool, as a
    camera at the hand shows it, and on the bench, as a camera that stands still shows it; seen from
    the tool the latter is geometry, which twenty demonstrations would hardly teach. So it is with
    where a hand has taken hold (`grasp`): how high what it holds sits in it, no picture need tell.
    How much it goes by which, it says as well.
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
        network: Network = SmallCNN,
    ):
        super().__init__(cameras, image_size, features, network)
        self.balance = Normaliser(told) if told else None
        # of each other frame in which the goal is said: where the tools are in it, in what is told
        self._frames = {
            name: entries for kind, name in FRAMES.items() if (entries := entries_of(told, kind))
        }
        seen = self.size + (self.balance.size if self.balance is not None else 0)
        said = goal_size * (1 + 2 * len(self._frames))
        self.head = nn.Sequential(nn.Linear(seen, 256), nn.ReLU(), nn.Linear(256, said))
        self.register_buffer("goal_mean", torch.zeros(goal_size))
        self.register_buffer("goal_std", torch.ones(goal_size))
        # the bench's are there in any case: checkpoints of before there were others have them
        for name, size in {"bench": 0, **{n: len(e) for n, e in self._frames.items()}}.items():
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_std", torch.ones(size))
        self.cached_size = self.size = self.size + goal_size

    @torch.no_grad()
    def scale_to(self, goals: Tensor, told: Tensor) -> None:
        """Take the scales of what is predicted from `goals (N, 6 per arm)`, nan where one is not
        known, and what was `told (N, T)` with them.

        The first time a frame in which the goals spread little is gone by more, each by the inverse
        of their variance: that much is known without a picture.
        """
        fresh = bool((self.goal_std == 1.0).all())
        scale_from(self.goal_mean, self.goal_std, goals)
        last, others = self.head[-1], self.goal_std**-2
        assert isinstance(last, nn.Linear)
        weights = last.bias.split(len(self.goal_std))[2::2]
        for (name, entries), weight in zip(self._frames.items(), weights, strict=True):
            arms = zip(told[:, entries].split(6, 1), goals.split(6, 1), strict=True)
            there = torch.cat([_said_there(tool, goal) for tool, goal in arms], 1)
            mean, std = self._scale_of(name)
            scale_from(mean, std, there)
            if fresh:
                weight.copy_(torch.log(std**-2 / others))
            others = others + std**-2

    def _scale_of(self, name: str) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the goals that are said in a frame."""
        return self.get_buffer(f"{name}_mean"), self.get_buffer(f"{name}_std")

    def forward(self, images: Mapping[str, Tensor], told: Tensor | None = None) -> Tensor:
        return torch.cat(self.sees(images, told), -1)

    def sees(self, images: Mapping[str, Tensor], told: Tensor | None) -> tuple[Tensor, Tensor]:
        """The features of all cameras `(B, F)`, and where the goals are by them `(B, 6 per arm)`."""
        features = super().forward(images)
        parts = [features] if self.balance is None else [features, self.balance(told)]
        said = self.head(torch.cat(parts, -1)).split(len(self.goal_mean), -1)
        goal = said[0] * self.goal_std + self.goal_mean
        for (name, entries), there, weight in zip(
            self._frames.items(), said[1::2], said[2::2], strict=True
        ):
            assert told is not None
            mean, std = self._scale_of(name)
            tools, poses = told[:, entries].split(6, 1), (there * std + mean).split(6, 1)
            seen = torch.cat([seen_from(*arm) for arm in zip(tools, poses, strict=True)], -1)
            says = torch.cat([_says(tool).expand_as(tool) for tool in tools], -1)
            goal = torch.lerp(goal, seen, torch.sigmoid(weight) * says)
        return features, goal


def _says(tool: Tensor) -> Tensor:
    """Whether a frame says anything, by where the tool `(..., 6)` is in it: not where it is in its
    origin, as with a hand that holds nothing.
    """
    return tool.any(-1, keepdim=True)


def _said_there(tool: Tensor, goal: Tensor) -> Tensor:
    """Goals `(N, 6)` in a frame in which the tool is, nan where that says nothing."""
    return moved(tool, goal).where(_says(tool), torch.nan)


def scale_from(mean: Tensor, std: Tensor, samples: Tensor) -> None:
    """Take mean and standard deviation of the numbers of `samples (N, S)`, nan where one is unknown."""
    mean.copy_(samples.nanmean(0).nan_to_num(0.0))
    spread = (samples - mean).square().nanmean(0).sqrt().nan_to_num(1.0)
    std.copy_(spread.clamp(min=1e-4))


def entries_of(told: Sequence[tuple[str, int]], kind: str) -> list[int]:
    """Where in what is told the quantities of a kind stand, all arms' together."""
    names = [name.rsplit("/", 1)[-1] for name, size in told for _ in range(size)]
    return [i for i, name in enumerate(names) if name == kind]


class GoalFilter:
    """A weighted mean of the goal's pose per arm, in the frame in which the tool's pose is given.

    ```
    goals = GoalFilter(arms=1)
    goals.begin_episode()
    # tool (arms, 6) from the start pose, goal (arms, 6) from the tool [m, rad]
    seen = goals.update(tool, goal)
    ```
    `newest` is what the last update said; None before the first of an episode.
    """

    def __init__(self, arms: int):
        self._arms = arms
        self.begin_episode()

    def begin_episode(self) -> None:
        """Forget the last episode's goal."""
        self._weight = np.zeros(self._arms)
        self._goal = np.tile(geometry.IDENTITY, (self._arms, 1))
        self._tool: Array | None = None
        self.newest: Array | None = None

    def update(self, tool: Array, goal: Array, moving: Array | Sequence[bool] = ()) -> Array:
        """The goal from the tool `(arms, 6)` float32, of this frame and those before it.

        An arm whose hand is `moving` (arms,) goes somewhere else next: what was before is forgotten.
        """
        last, self._tool = tool if self._tool is None else self._tool, tool.copy()
        way = np.linalg.norm((tool - last)[:, :3], axis=1)
        self._weight *= MEMORY * np.exp((way - way.sum()) / OTHER_MOVED_M)
        self._weight[np.flatnonzero(moving)] = 0.0
        out = np.empty((self._arms, 6), np.float32)
        for arm in range(self._arms):
            pose = geometry.pose_from_vector(tool[arm])
            seen = geometry.pose_move(pose, goal[arm].astype(np.float64))
            weight = (ERROR_M + ERROR_PER_M * float(np.linalg.norm(goal[arm, :3]))) ** -2
            self._weight[arm] += weight
            news = geometry.pose_delta(self._goal[arm], seen)
            share = weight / self._weight[arm]
            self._goal[arm] = (
                geometry.pose_move(self._goal[arm], share * news) if share < 1.0 else seen
            )
            out[arm] = geometry.pose_delta(pose, self._goal[arm])
        self.newest = out
        return out

    def filter_into(self, tool: Array, vision: Array, moving: Array | Sequence[bool] = ()) -> None:
        """Put the goal of the episode so far in the place of the one that this frame alone says, at
        the end of `vision (V,)`. `tool (arms, 6)` and `moving` as for `update`.
        """
        goal = vision[-6 * self._arms :]
        goal[:] = self.update(tool, goal.reshape(self._arms, 6), moving).ravel()
