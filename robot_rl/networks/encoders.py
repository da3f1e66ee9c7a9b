"""From camera images to features: one small CNN per camera.

Images enter as they are stored, uint8 `(B, H, W, 3)`: seen as `(B, 3, H, W)` that is the
channels-last layout, the fast one on CPU and GPU. The normalisation to [-1, 1] is folded into the
first convolution, because the conversion of 1,024 images to normalised floats costs more (0.15 s on
two cores) than augmenting them.
"""

from collections.abc import Iterable, Mapping
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LAYERS = ((32, 8, 4), (64, 3, 2), (64, 3, 2))  # channels, kernel, stride: 128 px -> 31 -> 15 -> 7


def convolution_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where the hardware multiplies it, else float32 (2x on a CPU with AVX-512 BF16;
    slower without).
    """
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    if device.type == "cpu" and torch.cpu._is_avx512_bf16_supported():
        return torch.bfloat16
    return torch.float32


class SmallMaps(nn.Module):
    """Maps `(B, 64, H', W')` of uint8 images `(B, H, W, 3)` of one camera, of any size from 32 x 32."""

    def __init__(self) -> None:
        super().__init__()
        channels = (3, *(layer[0] for layer in _LAYERS))
        self.convolutions = nn.ModuleList(
            nn.Conv2d(n_in, out, kernel, stride)
            for n_in, (out, kernel, stride) in zip(channels, _LAYERS, strict=False)
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
        height, width = image_size
        for _, kernel, stride in _LAYERS:
            height = (height - kernel) // stride + 1
            width = (width - kernel) // stride + 1
        if min(height, width) < 1:
            raise ValueError(
                f"images of {image_size} pixels are too small for the encoder; use at least 32 x 32"
            )
        self.project = nn.Linear(_LAYERS[-1][0] * height * width, features)
        self.norm = nn.LayerNorm(features)

    def forward(self, image: Tensor) -> Tensor:
        return torch.tanh(self.norm(self.project(self.maps(image).flatten(1))))


class Vision(nn.Module):
    """All cameras of a policy: `(B, size)` features of `{camera: uint8 (B, H, W, 3)}`."""

    def __init__(self, cameras: tuple[str, ...], image_size: tuple[int, int], features: int):
        super().__init__()
        self.cameras = nn.ModuleDict({name: SmallCNN(image_size, features) for name in cameras})
        self.cached_size = self.size = features * len(cameras)

    def set_dtype(self, dtype: torch.dtype) -> None:
        """Precision of the convolutions; everything else stays in float32."""
        for cnn in self.cameras.values():
            cast(SmallCNN, cnn).dtype = dtype

    def look(self, images: Mapping[str, Tensor], told: Tensor | None = None) -> Tensor:
        """What is cached of a frame, if this is frozen: all that it makes of it."""
        return self(images, told)

    def forward(self, images: Mapping[str, Tensor], told: Tensor | None = None) -> Tensor:
        return torch.cat([cnn(images[name]) for name, cnn in self.cameras.items()], -1)
