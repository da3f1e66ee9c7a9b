"""From camera images to features: one small network per camera.

Images enter as they are stored, uint8 `(B, H, W, 3)`: seen as `(B, 3, H, W)` that is the
channels-last layout, the fast one on CPU and GPU. The normalisation to [-1, 1] is folded into the
first convolution, because the conversion of 1,024 images to normalised floats costs more (0.15 s on
two cores) than augmenting them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# channels, kernel, stride
_LAYERS = ((32, 8, 4), (64, 3, 2), (64, 3, 2))  # 128 px -> 31 -> 15 -> 7
_FINER = ((32, 8, 4), (32, 3, 1))  # 128 px -> 31 -> 29, a place every 4 px
POINTS = 64
"""Things per camera whose places `KeyPoints` says."""
_SCALE = (3.0, 3.0, 0.2)  # right, down, sharp: what they differ by becomes about 1
LEAST_PX = 32
"""Of smaller pictures `_LAYERS` leave nothing."""


def convolution_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where the hardware multiplies it, else float32 (2x on a CPU with AVX-512 BF16;
    slower without).
    """
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    if device.type == "cpu" and torch.cpu._is_avx512_bf16_supported():
        return torch.bfloat16
    return torch.float32


def _require_size(image_size: tuple[int, int]) -> None:
    if min(image_size) < LEAST_PX:
        raise ValueError(
            f"images of {image_size} pixels are too small for the encoder;"
            f" use at least {LEAST_PX} x {LEAST_PX}"
        )


class SmallMaps(nn.Module):
    """Maps `(B, C, H', W')` of uint8 images `(B, H, W, 3)` of one camera, of any size from 32 x 32."""

    def __init__(self, layers: Sequence[tuple[int, int, int]] = _LAYERS) -> None:
        super().__init__()
        channels = (3, *(layer[0] for layer in layers))
        self.convolutions = nn.ModuleList(
            nn.Conv2d(n_in, out, kernel, stride)
            for n_in, (out, kernel, stride) in zip(channels, layers, strict=False)
        )
        self.dtype = torch.float32

    def maps(self, image: Tensor) -> Tensor:
        """What the convolutions make of images, float32."""
        x = image.permute(0, 3, 1, 2).to(self.dtype)  # 0..255 is exact in bfloat16 as well
        for i, layer in enumerate(cast(Iterable[nn.Conv2d], self.convolutions)):
            weight, bias = layer.weight, cast(Tensor, layer.bias)
            if i == 0:  # conv(x / 127.5 - 1), folded; exact because the layer does not pad
                weight, bias = weight / 127.5, bias - weight.sum((1, 2, 3))
            x = F.relu(F.conv2d(x, weight.to(self.dtype), bias.to(self.dtype), layer.stride))
        return x.float()

    def forward(self, image: Tensor) -> Tensor:
        return self.maps(image)


class SmallCNN(SmallMaps):
    """Features `(B, features)` in [-1, 1] of uint8 images `(B, H, W, 3)` of one camera.

    The last feature map is flattened, not averaged: where something stands in the picture is what a
    policy needs.
    """

    def __init__(self, image_size: tuple[int, int], features: int):
        super().__init__()
        _require_size(image_size)
        height, width = image_size
        for _, kernel, stride in _LAYERS:
            height = (height - kernel) // stride + 1
            width = (width - kernel) // stride + 1
        self.project = nn.Linear(_LAYERS[-1][0] * height * width, features)
        self.norm = nn.LayerNorm(features)

    def forward(self, image: Tensor) -> Tensor:
        return torch.tanh(self.norm(self.project(self.maps(image).flatten(1))))


class KeyPoints(SmallMaps):
    """Features `(B, features)` of uint8 images `(B, H, W, 3)` of one camera, linear in where `POINTS`
    learned things stand in it, to a fraction of a pixel.

    A map of scores per point, its softmax over all places, and the mean place under that (the spatial
    softmax of Levine et al., arXiv 1504.00702, section 5.1); how sharp it is, too, which says whether
    the thing is there. What moves in the picture moves its number by as much, wherever it is: few
    scenes are enough to learn that, and leave little to learn by heart (figures: docs/sight.md).
    """

    def __init__(self, image_size: tuple[int, int], features: int):
        super().__init__(_FINER)
        _require_size(image_size)
        self.score = nn.Conv2d(_FINER[-1][0], POINTS, 3)
        self.sharpness = nn.Parameter(torch.ones(POINTS, 1, 1))
        self.project = nn.Linear(3 * POINTS, features)

    def points(self, image: Tensor) -> Tensor:
        """Right, down, each -1 to 1 in the picture, and the log of how sharp, at most 0, of every
        point: `(B, 3, POINTS)`.
        """
        weight, bias = (
            tensor.to(self.dtype) for tensor in (self.score.weight, cast(Tensor, self.score.bias))
        )
        scores = F.conv2d(self.maps(image).to(self.dtype), weight, bias).float()
        there = torch.softmax((self.sharpness * scores).flatten(2), -1).unflatten(
            2, scores.shape[2:]
        )
        down, right = (torch.linspace(-1.0, 1.0, n, device=scores.device) for n in scores.shape[2:])
        sharp = there.square().sum((2, 3)).clamp(min=1e-8).log()
        return torch.stack([there.sum(2) @ right, there.sum(3) @ down, sharp], 1)

    def forward(self, image: Tensor) -> Tensor:
        scale = torch.tensor(_SCALE, device=image.device)[:, None]
        return cast(Tensor, self.project((self.points(image) * scale).flatten(1)))


Network = type[SmallCNN] | type[KeyPoints]
"""What looks through a camera."""


class Vision(nn.Module):
    """All cameras of a policy: `(B, size)` features of `{camera: uint8 (B, H, W, 3)}`, each through
    a network of its own.
    """

    def __init__(
        self,
        cameras: tuple[str, ...],
        image_size: tuple[int, int],
        features: int,
        network: Network = SmallCNN,
    ):
        super().__init__()
        self.cameras = nn.ModuleDict({name: network(image_size, features) for name in cameras})
        self.cached_size = self.size = features * len(cameras)

    def set_dtype(self, dtype: torch.dtype) -> None:
        """Precision of the convolutions; everything else stays in float32."""
        for network in self.cameras.values():
            cast(SmallMaps, network).dtype = dtype

    def look(self, images: Mapping[str, Tensor], told: Tensor | None = None) -> Tensor:
        """What is cached of a frame, if this is frozen: all that it makes of it."""
        return self(images, told)

    def forward(self, images: Mapping[str, Tensor], told: Tensor | None = None) -> Tensor:
        return torch.cat([cnn(images[name]) for name, cnn in self.cameras.items()], -1)
