"""How strange a frame is: how far it lies outside all that a classifier was shown.

A network that is trained to see success alone may stay sure where a camera has moved. The pictures
themselves tell: each is averaged down to `CELLS x CELLS`, and each cell of a camera has the range of
values that it took in training, as in the background model of W4 (Haritaoglu, Harwood and Davis,
PAMI 2000). What moves has wide ranges, what stands still has narrow ones. The mean distance to the
ranges, in deviations of each cell, is the strangeness of the picture, and that of a frame is its
strangest camera's. A frame above 1 is strange.

What is usual is measured on episodes that were left out of the ranges, one after the other (the
jackknife+ of Barber et al. 2021), so that every episode counts and none is held against itself. A
strange frame supports no success, so 1 is beyond the strangest of all of them by `MARGIN`; an
episode is held against what one of ten reaches.
"""

from collections.abc import Mapping, Sequence

import cv2
import numpy as np

from robot_rl.classifier.frames import Frames
from robot_rl.types import Array, DataError

CELLS = 16
NOISE = 4.0
"""A cell deviates at least so much, of 255: cameras have noise."""
LEAST = 0.002
"""So much strangeness of a camera, before it is scaled, is none."""
CALM = 0.1
"""An episode is as strange as this quantile of its frames: a camera that has moved spoils all of
them, a hand in the picture or a rare pose does not.
"""
ABOVE, MARGIN = 10, 1.5
"""One of so many episodes is above the level; a frame is strange beyond so often the strangest."""


class Usual:
    """What the frames that a classifier learnt from look like.

    `ranges` per camera `(3, CELLS, CELLS, 3)`: lowest, highest, and the scale of what is beyond.
    Raises DataError for others.
    """

    def __init__(self, ranges: Mapping[str, Array]):
        for camera, each in ranges.items():
            if (
                each.shape != (3, CELLS, CELLS, 3)
                or not np.isfinite(each).all()
                or each[2].min() <= 0.0
            ):
                raise DataError(f"what camera {camera!r} usually sees is no range of values")
        self.ranges = ranges

    def strangeness(self, images: Mapping[str, Array]) -> Array:
        """Of frames as `frames.look` gives them, `(n,)`."""
        cameras = [beyond(cells(images[name]), *each) for name, each in self.ranges.items()]
        strangest: Array = np.max(cameras, axis=0)
        return strangest


def fit(episodes: Sequence[Frames]) -> tuple[Usual, list[Array], dict[str, float]]:
    """What is usual in these episodes; the strangeness of each one's frames, had it been left out;
    and what an episode's own is held against (`dataset/doubt.py`). Raises DataError for fewer than
    two episodes.
    """
    if len(episodes) < 2:
        raise DataError("what frames usually look like takes two episodes at least")
    ranges, left_out = {}, []
    for camera in episodes[0].images:
        seen = [cells(each.images[camera]) for each in episodes]
        ranges[camera], strange = _camera(seen)
        left_out.append(strange)
    frames = [np.max(each, axis=0) for each in zip(*left_out, strict=True)]
    one = MARGIN * max(1.0, *(float(each.max()) for each in frames))
    for each in ranges.values():
        each[2] *= one
    frames = [each / one for each in frames]
    above = max(1, len(episodes) // ABOVE)
    # which noise of cameras does not reach
    level = max(1.0 / one, float(np.sort([calm(each) for each in frames])[-above]))
    about = {"level": level, "above": above, "episodes": len(episodes)}
    return Usual(ranges), frames, about


def calm(frames: Sequence[float] | Array) -> float:
    """The strangeness of an episode, of that of its frames."""
    return float(np.quantile(frames, CALM))


def cells(images: Array) -> Array:
    """Pictures `(n, size, size, 3)`, averaged down to `(n, CELLS, CELLS, 3)` float32."""
    small = [cv2.resize(each, (CELLS, CELLS), interpolation=cv2.INTER_AREA) for each in images]
    return np.array(small, np.float32).reshape(-1, CELLS, CELLS, 3)


def beyond(seen: Array, low: Array, high: Array, scale: Array) -> Array:
    """How far cells lie outside their ranges on average, `(n,)`."""
    outside = np.maximum(np.maximum(low - seen, seen - high), 0.0)
    mean: Array = (outside / scale).mean((1, 2, 3))
    return mean


def _camera(episodes: Sequence[Array]) -> tuple[Array, list[Array]]:
    """The ranges of a camera, scaled so that nine of ten episodes are below 1, and the strangeness
    of each episode's frames by the ranges of all the others.
    """
    lows = np.stack([each.min(0) for each in episodes])
    highs = np.stack([each.max(0) for each in episodes])
    low, next_low = np.partition(lows, 1, axis=0)[:2]
    next_high, high = np.partition(highs, -2, axis=0)[-2:]
    scale = np.sqrt(np.concatenate(episodes).var(0) + NOISE**2)
    strange = [
        beyond(
            each,
            np.where(lows[i] == low, next_low, low),
            np.where(highs[i] == high, next_high, high),
            scale,
        )
        for i, each in enumerate(episodes)
    ]
    unit = max(LEAST, float(np.quantile([calm(each) for each in strange], 1.0 - 1.0 / ABOVE)))
    return np.stack([low, high, unit * scale]), [each / unit for each in strange]
