"""Augmentation of camera images: random shifts (DrQ, arXiv 2004.13649) by copies alone, and changes
of the light.

`grid_sample` takes 0.3 s for 1,024 images of 128 px on two cores; slices of an edge-padded copy
take 0.01-0.02 s.
"""

import numpy as np
import torch
from torch import Tensor

from robot_rl.types import Array

PAD = 4
"""Pixels, as in DrQ, RLPD, SERL and HIL-SERL (there for 84 and 128 px images)."""


def pad_edges(images: Array, pad: int = PAD) -> Array:
    """`(B, H + 2 pad, W + 2 pad, C)`: the images with their border pixels repeated outwards."""
    batch, height, width, channels = images.shape
    out = np.empty((batch, height + 2 * pad, width + 2 * pad, channels), images.dtype)
    bottom, right = pad + height, pad + width
    out[:, pad:bottom, pad:right] = images
    out[:, pad:bottom, :pad] = images[:, :, :1]
    out[:, pad:bottom, right:] = images[:, :, -1:]
    out[:, :pad] = out[:, pad : pad + 1]
    out[:, bottom:] = out[:, bottom - 1 : bottom]
    return out


def random_shift(
    images: Array, generator: np.random.Generator, pad: int = PAD, out: Array | None = None
) -> Array:
    """Each of the uint8 images `(B, H, W, C)` moved by its own -pad..pad pixels along both axes.

    `out` may be the images themselves.
    """
    offsets = generator.integers(0, 2 * pad + 1, (len(images), 2))
    return shift(images, pad - offsets, pad, out)


def shift(images: Array, pixels: Array, pad: int, out: Array | None = None) -> Array:
    """Each of the uint8 images `(B, H, W, C)` moved by its own `pixels (B, 2)`, down and right, at
    most `pad` along either; its border is repeated. `out` may be the images themselves.
    """
    padded, out = pad_edges(images, pad), np.empty_like(images) if out is None else out
    height, width = images.shape[1:3]
    for i, (y, x) in enumerate(pad - pixels):
        out[i] = padded[i, y : y + height, x : x + width]
    return out


def photometric(
    images: Tensor, generator: np.random.Generator, strength: float, dtype: torch.dtype
) -> Tensor:
    """Each of the uint8 images `(B, H, W, 3)` with its own gain and brightness per colour, as
    floats in 0..255.

    `strength` is the largest change of the gain, half of it that of the brightness as a share of
    the full range.
    """
    shape = (2, images.shape[0], 1, 1, images.shape[3])
    gain, offset = torch.from_numpy(generator.uniform(-strength, strength, shape)).to(
        images.device, dtype
    )
    return images.to(dtype).mul_(1.0 + gain).add_(127.5 * offset).clamp_(0.0, 255.0)
