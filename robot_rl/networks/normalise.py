"""Scaling of measured quantities for the networks; where the goal is, is seen twice, coarse and
fine.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from robot_rl.types import Array

CLIP = 10.0

UNIT = {
    "tcp_pose": (0.03, 0.2),
    "place": (0.03, 0.2),
    "grasp": (0.03, 0.2),
    "sim_goal": (0.03, 0.2),
    "goal": (0.03, 0.2),
    "tcp_twist": (0.08, 0.5),
    "tcp_wrench": (20.0, 2.0),
    "target_offset": (0.02, 0.15),
}
"""What counts as one, of each quantity's linear and angular part: [m, rad], [m/s, rad/s], [N, Nm].
Sizes that contact-rich skills move in: a few centimetres, 80 mm/s, the force that 2000 N/m makes of
10 mm."""

FINE = {"sim_goal": (10.0, 40.0), "goal": (10.0, 40.0), "projected_gravity": (20.0,)}
"""Quantities that are seen again, through `tanh`, so many times finer. A peg that is 1.5 mm or 0.02
rad off stands still, one that is 0.3 mm off goes in; beside a way of 60 mm all of them are nearly
zero, and critics that see only the coarse number take long to tell them apart. A tool that is
tilted by 3 degrees has 0.05 of gravity on its side. Quantities that jump (twist, wrench) must not
be among them: they turn into noise."""


class Normaliser(nn.Module):
    """`(B, size)` of quantities `(B, S)`: `x / unit`, clipped to +-10, then `tanh(fine x / unit)`
    of the fine ones.

    Zero stays zero: at the goal, at rest, on target. Units are buffers; nothing trains them.
    """

    unit: Tensor
    fine: Tensor
    fine_entries: Tensor

    def __init__(self, quantities: Sequence[tuple[str, int]]):
        super().__init__()
        entries, factors = _fine_entries(quantities)
        self.register_buffer(
            "unit", torch.from_numpy(np.concatenate([_unit(n, size) for n, size in quantities]))
        )
        self.register_buffer("fine", torch.from_numpy(factors))
        self.register_buffer("fine_entries", torch.from_numpy(entries))
        self.size = len(self.unit) + len(factors)

    def fit(self, states: Array) -> None:
        """Raise a unit to the root mean square of its entry in `states (N, S)`, where a task moves
        in larger ones.
        """
        size = np.sqrt(np.square(np.asarray(states, np.float64)).mean(0)).astype(np.float32)
        self.unit[: len(size)] = torch.maximum(
            self.unit[: len(size)], torch.from_numpy(size).to(self.unit.device)
        )

    def forward(self, x: Tensor) -> Tensor:
        coarse = x / self.unit
        fine = torch.tanh(self.fine * coarse[..., self.fine_entries])
        return torch.cat([coarse.clamp(-CLIP, CLIP), fine], -1)


def _fine_entries(quantities: Sequence[tuple[str, int]]) -> tuple[Array, Array]:
    """Which entries are seen again `(F,)`, and by which factors `(F,)`."""
    entries: list[int] = []
    factors: list[float] = []
    start = 0
    for name, size in quantities:
        for factor in FINE.get(_kind(name), ()):
            entries += range(start, start + size)
            factors += [factor] * size
        start += size
    return np.array(entries, np.int64), np.array(factors, np.float32)


def _kind(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _unit(name: str, size: int) -> Array:
    """Units `(size,)` of a quantity, by the last part of its name; 1 for one that is not in the
    table.
    """
    linear, angular = UNIT.get(_kind(name), (1.0, 1.0))
    return np.array([linear, angular], np.float32)[np.arange(size) % 6 // 3]
