"""Scaling of the proprioceptive state to about unit size, fixed once from the demonstrations."""

import numpy as np
import torch
from torch import Tensor, nn

from robot_rl.types import Array

CLIP = 10.0


class Normaliser(nn.Module):
    """`(x - mean) / std`, clipped to +-10, for states `(B, S)`. Mean and std are buffers: nothing trains them."""

    mean: Tensor
    std: Tensor

    def __init__(self, size: int):
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("std", torch.ones(size))

    def fit(self, states: Array, groups: tuple[int, ...]) -> None:
        """Take mean and std from `states (N, S)`.

        `groups` are the sizes of the quantities (3 translations, 3 rotations, ...) in order. Within a quantity an
        entry's std is at least a tenth of the largest one: an axis along which nothing happened in the
        demonstrations is not noise blown up to unit size.
        """
        states = np.asarray(states, np.float64)
        std = states.std(0)
        start = 0
        for size in groups:
            part = slice(start, start + size)
            std[part] = np.maximum(std[part], max(0.1 * std[part].max(), 1e-6))
            start += size
        self.mean.copy_(torch.from_numpy(states.mean(0)))
        self.std.copy_(torch.from_numpy(std))

    def forward(self, state: Tensor) -> Tensor:
        return ((state - self.mean) / self.std).clamp(-CLIP, CLIP)
