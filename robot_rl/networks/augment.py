"""Random shifts of camera images (DrQ, arXiv 2004.13649), by copies: no interpolation, no floating point.

`grid_sample` takes 0.3 s for 1,024 images of 128 px on two cores; slices of an edge-padded copy take 0.01-0.02 s.
"""

import numpy as np

from robot_rl.types import Array

PAD = 4
"""Pixels, as in DrQ, RLPD, SERL and HIL-SERL (there for 84 and 128 px images)."""


def pad_edges(images: Array, pad: int = PAD) -> Array:
    """`(B, H + 2 pad, W + 2 pad, C)`: the images with their border pixels repeated outwards."""
    batch, height, width, channels = images.shape
    out = np.empty((batch, height + 2 * pad, width + 2 * pad, channels), images.dtype)
    out[:, pad:-pad, pad:-pad] = images
    out[:, pad:-pad, :pad] = images[:, :, :1]
    out[:, pad:-pad, -pad:] = images[:, :, -1:]
    out[:, :pad] = out[:, pad : pad + 1]
    out[:, -pad:] = out[:, -pad - 1 : -pad]
    return out


def random_shift(images: Array, generator: np.random.Generator, pad: int = PAD) -> Array:
    """Each of the uint8 images `(B, H, W, C)` moved by its own -pad..pad pixels along both axes."""
    padded, out = pad_edges(images, pad), np.empty_like(images)
    height, width = images.shape[1:3]
    offsets = generator.integers(0, 2 * pad + 1, (len(images), 2))
    for i, (y, x) in enumerate(offsets):
        out[i] = padded[i, y : y + height, x : x + width]
    return out


def photometric(images: Array, generator: np.random.Generator, strength: float) -> Array:
    """Each of the uint8 images with its own brightness and gain per colour, up to `strength` of the full range.

    A table of 256 entries per image and channel: as cheap as a copy.
    """
    batch, channels = images.shape[0], images.shape[3]
    gain = 1.0 + strength * generator.uniform(-1.0, 1.0, (batch, channels, 1))
    offset = 255.0 * 0.5 * strength * generator.uniform(-1.0, 1.0, (batch, channels, 1))
    tables = np.clip(np.arange(256.0) * gain + offset, 0.0, 255.0).astype(np.uint8)
    out = np.empty_like(images)
    for i in range(batch):
        for c in range(channels):
            np.take(tables[i, c], images[i, :, :, c], out=out[i, :, :, c], mode="clip")
    return out
