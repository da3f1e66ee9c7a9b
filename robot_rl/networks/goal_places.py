"""An encoder of the goal for benches with cameras that stand still: beside the head over all cameras
these have networks of their own, which say where the goals are on the bench.

All together see a goal the better, the nearer it is: to 2 mm close by, hardly at 15 cm, since one head
over all of them learns its scenes by heart from whichever picture tells them apart most easily. A
camera beside the bench, by itself, sees it everywhere alike (figures: docs/sight.md).
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from robot_rl.networks.encoders import Network, SmallCNN, Vision
from robot_rl.networks.goal import GoalVision, entries_of, scale_from
from robot_rl.networks.normalise import Normaliser
from robot_rl.networks.poses import moved, seen_from
from robot_rl.types import PLACE

HAND = "gripper"
ALL_M, ALL_PER_M = 8e-3, 0.15
"""[m] and [1]: the error of what all cameras say together, at the goal and what comes with distance: where
policies go. In what was shown it is 1.5 mm at the goal, since there a hand is low only where it closes."""

STILL_M = 6e-3
"""[m]: that of what those say that stand still (both measured in `handover`, docs/tasks.md)."""


class PlacedGoalVision(GoalVision):
    """A `GoalVision` of all cameras, and `BenchGoals` of those of them that stand `still`. What both say
    counts by the inverse of its variance. Raises ValueError without a place of each tool on the bench
    in what is `told`.
    """

    def __init__(
        self,
        cameras: tuple[str, ...],
        still: tuple[str, ...],
        image_size: tuple[int, int],
        features: int,
        goal_size: int,
        told: Sequence[tuple[str, int]],
        network: Network = SmallCNN,
    ):
        super().__init__(cameras, image_size, features, goal_size, told, network)
        self.bench = BenchGoals(still, image_size, features, goal_size, told, network)
        self.cached_size = self.size = self.size + self.bench.size

    def set_dtype(self, dtype: torch.dtype) -> None:
        super().set_dtype(dtype)
        self.bench.set_dtype(dtype)

    @torch.no_grad()
    def scale_to(self, goals: Tensor, told: Tensor) -> None:
        super().scale_to(goals, told)
        self.bench.scale_to(goals, told)

    def forward(self, images: Mapping[str, Tensor], told: Tensor | None = None) -> Tensor:
        assert told is not None
        features, goal = self.sees(images, told)
        others, there = self.bench(images, told)
        return torch.cat([features, others, together(goal, there)], -1)


def together(near: Tensor, still: Tensor) -> Tensor:
    """Where the goals are `(B, 6 per arm)` by what all cameras say, and those that stand still."""
    goals, there = near.unflatten(-1, (-1, 6)), still.unflatten(-1, (-1, 6))
    away = torch.linalg.vector_norm(there[..., :3], dim=-1, keepdim=True)
    off = (ALL_M + ALL_PER_M * away) / STILL_M
    return torch.lerp(goals, there, off.square() / (1.0 + off.square())).flatten(-2)


class BenchGoals(nn.Module):
    """Features `(B, size)` of cameras that stand still, and the goals `(B, 6 per arm)` [m, rad], seen
    from the tools.

    What each arm goes to next follows from what the hands hold, so there is a network for each of
    these cases, which sees its own frames alone. It is told the hands and nothing else: by where the
    tools are it would know each scene that it has learnt from.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        cameras: tuple[str, ...],
        image_size: tuple[int, int],
        features: int,
        goal_size: int,
        told: Sequence[tuple[str, int]],
        network: Network = SmallCNN,
    ):
        super().__init__()
        self._tools, self._hands = entries_of(told, PLACE), entries_of(told, HAND)
        if len(self._tools) != goal_size:
            raise ValueError("to say where goals are on the bench the tools' places must be told")
        self._holds = self._hands[2::3]
        hands = [(name, size) for name, size in told if name.endswith("/" + HAND)]
        self.balance = Normaliser(hands) if hands else None
        self.cameras = cameras
        self.size = features * len(cameras)
        cases = range(2 ** len(self._holds))
        self.eyes = nn.ModuleList(Vision(cameras, image_size, features, network) for _ in cases)
        seen = self.size + (self.balance.size if self.balance is not None else 0)
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Linear(seen, 256), nn.ReLU(), nn.Linear(256, goal_size)) for _ in cases
        )
        self.register_buffer("mean", torch.zeros(goal_size))
        self.register_buffer("std", torch.ones(goal_size))

    @property
    def cases(self) -> int:
        """How many things the hands may hold, or not, taken together."""
        return len(self.heads)

    def case(self, told: Tensor) -> Tensor:
        """Which case each frame is `(B,)`."""
        held = told[:, self._holds] > 0.5
        return (held.long() << torch.arange(held.shape[1], device=told.device)).sum(1)

    def tools(self, told: Tensor) -> tuple[Tensor, ...]:
        """Where each arm's tool is on the bench `(B, 6)` [m, rad]."""
        return told[:, self._tools].split(6, 1)

    def set_dtype(self, dtype: torch.dtype) -> None:
        """Precision of the convolutions."""
        for eyes in self.eyes:
            assert isinstance(eyes, Vision)
            eyes.set_dtype(dtype)

    @torch.no_grad()
    def scale_to(self, goals: Tensor, told: Tensor) -> None:
        """Take the scales of what is predicted from `goals (N, 6 per arm)` and what was `told`."""
        arms = zip(self.tools(told), goals.split(6, 1), strict=True)
        scale_from(self.mean, self.std, torch.cat([moved(*arm) for arm in arms], 1))

    def forward(self, images: Mapping[str, Tensor], told: Tensor) -> tuple[Tensor, Tensor]:
        case, hands = self.case(told), told[:, self._hands]
        features = told.new_zeros(len(told), self.size)
        there = told.new_zeros(len(told), len(self.mean))
        for number, (eyes, head) in enumerate(zip(self.eyes, self.heads, strict=True)):
            rows = torch.nonzero(case == number)[:, 0]
            if not len(rows):
                continue
            seen = eyes({name: images[name][rows] for name in self.cameras})
            known = [seen] if self.balance is None else [seen, self.balance(hands[rows])]
            features = features.index_copy(0, rows, seen)
            there = there.index_copy(0, rows, head(torch.cat(known, -1)))
        poses = (there * self.std + self.mean).split(6, 1)
        seen_there = [seen_from(*arm) for arm in zip(self.tools(told), poses, strict=True)]
        return features, torch.cat(seen_there, 1)
