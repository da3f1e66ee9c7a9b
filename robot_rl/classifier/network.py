"""The network of a classifier: a trunk that looks at each frame once, and a head."""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from robot_rl.networks.encoders import SmallMaps, Vision
from robot_rl.networks.resnet10 import ResNet10
from robot_rl.networks.trunks import TrunkVision

Trunk = Literal["small", "resnet10", "encoder"]
FEATURES, HIDDEN = 64, 64
FINE = 0.1
"""Of how far a number goes in all frames, the least that counts as one."""


class Network(nn.Module):
    """Logits `(B,)` of success from `{camera: uint8 (B, size, size, 3)}` and `numbers (B, n)`.

    What its frozen trunk makes of a frame is computed once (`look`); `judge` goes on from there. A
    trunk that is trained with it has nothing to keep: then `look` and `judge` are called together.
    "small" is trained; "resnet10" and "encoder", the maps of a small CNN per camera, are frozen.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, cameras: tuple[str, ...], size: int, numbers: int, trunk: Trunk):
        super().__init__()
        self.trunk, self.cameras = trunk, cameras
        self.vision = _vision(trunk, cameras, (size, size))
        self.frozen = isinstance(self.vision, TrunkVision)
        if isinstance(self.vision, TrunkVision):
            self.vision.trunks.requires_grad_(False)
        self.register_buffer("mean", torch.zeros(numbers))
        self.register_buffer("std", torch.ones(numbers))
        self.head = nn.Sequential(
            nn.Linear(self.vision.size + numbers, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1)
        )

    def fit_numbers(self, numbers: Tensor, label: Tensor) -> None:
        """Scale the numbers by what they are in frames that show success, of `numbers (N, n)` and
        `label (N,)`: a few millimetres tell a cube that is high enough from one that is not, and the
        way there is ten times as long.
        """
        if self.mean.numel() and label.any():
            shown = numbers[label]
            all_of_it = numbers.std(0, correction=0)
            self.mean.copy_(shown.mean(0))
            self.std.copy_(
                torch.maximum(shown.std(0, correction=0), FINE * all_of_it).clamp_min(1e-4)
            )

    def trunk_of(self, camera: str) -> nn.Module:
        """The frozen trunk that looks at a camera's frames."""
        assert isinstance(self.vision, TrunkVision), "a small network of its own has none"
        trunks = self.vision.trunks
        return trunks[self.cameras.index(camera) % len(trunks)]

    def look(self, images: Mapping[str, Tensor]) -> Tensor:
        """What is kept of a frame where the trunk is frozen."""
        return self.vision.look(images)

    def judge(self, seen: Tensor, numbers: Tensor) -> Tensor:
        """Logits of what was looked at."""
        if isinstance(self.vision, TrunkVision):
            seen = self.vision.readouts(seen)
        scaled = ((numbers - self.mean) / self.std).clamp(-10.0, 10.0)
        logits: Tensor = self.head(torch.cat([seen, scaled], -1)).squeeze(-1)
        return logits

    def forward(self, images: Mapping[str, Tensor], numbers: Tensor) -> Tensor:
        return self.judge(self.look(images), numbers)


def _vision(trunk: Trunk, cameras: tuple[str, ...], size: tuple[int, int]) -> Vision | TrunkVision:
    if trunk == "small":
        return Vision(cameras, size, FEATURES)
    return TrunkVision(cameras, size, FEATURES, ResNet10 if trunk == "resnet10" else SmallMaps)
