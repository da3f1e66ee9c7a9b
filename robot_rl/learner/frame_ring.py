"""The pictures of a replay's steps, and the features cached of them: what is large of a step.

A frame is stored once, and copied into a batch at memory speed.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from robot_rl.types import Array, DataError, SpaceSpec, Step

_PAGE = 4096


class FrameRing:
    """Camera frames and cached features in `capacity` slots; the parameters are those of `Replay`."""

    def __init__(
        self,
        space: SpaceSpec,
        capacity: int,
        keep_images: bool,
        vision_size: int,
        variants: int,
        pad: int,
    ):
        shapes = {
            n: shape
            for n, (shape, _) in space.observations.items()
            if n.startswith("image/") and keep_images
        }
        self._images = {
            n: page_aligned((capacity, h + 2 * pad, w + 2 * pad, c))
            for n, (h, w, c) in shapes.items()
        }
        self._pad = pad
        self._vision = (
            np.zeros((capacity * variants, vision_size), np.float16) if vision_size else None
        )
        self._variants = variants  # of one step one after the other

    @property
    def nbytes(self) -> int:
        vision = 0 if self._vision is None else self._vision.nbytes
        return vision + sum(array.nbytes for array in self._images.values())

    def write(self, slot: int, step: Step, vision: Array | None) -> None:
        """A step's frames, and their features `(variants, vision_size)` if these are cached."""
        around = ((self._pad, self._pad), (self._pad, self._pad), (0, 0))
        for name, array in self._images.items():
            frame = step.observation[name]
            array[slot] = np.pad(frame, around, "edge") if self._pad else frame
        if self._vision is not None:
            if vision is None:
                raise DataError(
                    "this replay caches vision features, but the step came without them"
                )
            self._vision[slot * self._variants : (slot + 1) * self._variants] = vision

    def buffers(self, n: int, pinned: bool) -> dict[str, Tensor]:
        """Tensors for the images and features of `n` transitions; `pinned`: page-locked."""
        out = {}
        for name, array in self._images.items():
            height, width = (size - 2 * self._pad for size in array.shape[1:3])
            shape = (n, height, width, array.shape[3])
            for prefix in ("", "next/"):
                out[prefix + name] = torch.from_numpy(page_aligned(shape))
        if self._vision is not None:
            for name in ("vision", "next_vision"):
                features = page_aligned((n, self._vision.shape[1]), np.float16)
                out[name] = torch.from_numpy(features)
        return {name: tensor.pin_memory() for name, tensor in out.items()} if pinned else out

    def read(
        self,
        first: Array,
        last: Array,
        variants: tuple[Array, Array] | None,
        shifts: Mapping[str, Array] | None,
        out: dict[str, Tensor],
    ) -> None:
        """Copy into `out` (of `buffers`) what lies in the slots where transitions begin and end;
        `variants` and `shifts` are those of `Replay.gather`.
        """
        if self._vision is not None:
            for slots, variant, name in zip(
                (first, last), variants or (0, 0), ("vision", "next_vision"), strict=True
            ):
                _take(self._vision, slots * self._variants + variant, out[name])
        for name, frames in self._images.items():
            for slots, target in ((first, name), (last, "next/" + name)):
                if self._pad:
                    corners = shifts[target] if shifts is not None else None
                    self._shifted(frames, slots, corners, out[target])
                else:
                    _take(frames, slots, out[target])

    def _shifted(self, frames: Array, slots: Array, corners: Array | None, out: Tensor) -> None:
        """One copy per frame, of the part that begins at its corner."""
        height, width = out.shape[1:3]
        if corners is None:
            corners = np.full((len(slots), 2), self._pad)
        for target, slot, (y, x) in zip(out.numpy(), slots.tolist(), corners.tolist(), strict=True):
            target[:] = frames[slot, y : y + height, x : x + width]


def _take(array: Array, rows: Array, out: Tensor) -> None:
    """`take` with mode "clip" copies at memory speed, in one thread and without the GIL; its other
    modes, and fancy indexing, buffer the whole batch once more and reach 38 %."""
    np.take(array, rows, 0, out.numpy(), "clip")


def page_aligned(shape: tuple[int, ...], dtype: type = np.uint8) -> Array:
    """Zeros that begin at a page, as pinned memory does: between memory that begins at 16 and at 64
    bytes, as numpy's and torch's do, a copy takes 1.3 times as long. Mapped lazily: what was never
    written costs nothing."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + _PAGE, np.uint8)
    start = -memory.ctypes.data % _PAGE
    return memory[start : start + size].view(dtype).reshape(shape)
