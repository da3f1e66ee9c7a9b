"""Features of a frozen encoder, kept beside the log of a run: a resumed run need not compute them
again.

    features.bin    JSON {encoder, shape}, padded | row | row | ...
    row             crc of the step's images, crc of its features, features in float16

Never the truth: a row is good for a step if it is whole and of the very same images; from the first
that is not, all are computed again. So a log that was repaired, a torn file or another encoder cost
time and nothing else.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from robot_rl import packing
from robot_rl.packing import crc32c
from robot_rl.types import Array, Step

log = logging.getLogger(__name__)

_HEAD_BYTES = 512


class FeatureFile:
    """The features of a run's steps, in the order in which they are asked for; for one thread.

    ```
    features = FeatureFile(path, encoder=hash_of(parameters), shape=(variants, size))
    # (N, variants, size): read where they are there, else computed and written
    features.of(steps, compute)
    ```
    Never raises for the disk's sake: without it everything is computed.
    """

    def __init__(self, path: Path, encoder: str, shape: tuple[int, ...]):
        self._row = np.dtype([("images", "<u4"), ("crc", "<u4"), ("features", "<f2", shape)])
        self._path, self._next = path, 0
        head = json.dumps({"encoder": encoder, "shape": list(shape)}).encode().ljust(_HEAD_BYTES)
        self._fd = -1
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            if os.pread(self._fd, _HEAD_BYTES, 0) != head:
                os.ftruncate(self._fd, 0)
                os.pwrite(self._fd, head, 0)
        except OSError as error:
            self._give_up(error)

    def of(self, steps: Sequence[Step], compute: Callable[[Sequence[Step]], Array]) -> Array:
        """Features `(N, *shape)` float16 of the next steps. `compute` is asked for those from the
        first missing on.
        """
        rows = np.zeros(len(steps), self._row)
        rows["images"] = [checksum_of_images(step) for step in steps]
        good = self._read_into(rows)
        if good < len(steps):
            rows["features"][good:] = compute(steps[good:])
            rows["crc"][good:] = [
                crc32c(features.tobytes()) for features in rows["features"][good:]
            ]
            self._write(rows[good:], self._next + good)
        self._next += len(steps)
        return np.ascontiguousarray(rows["features"])

    def skip(self, count: int) -> None:
        """So many steps are not asked for: what comes next are those behind them."""
        self._next += count

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _read_into(self, rows: Array) -> int:
        """Fill the features in of the first rows that are there; returns how many."""
        if self._fd < 0:
            return 0
        try:
            data = os.pread(self._fd, rows.nbytes, _HEAD_BYTES + self._next * self._row.itemsize)
        except OSError as error:
            self._give_up(error)
            return 0
        there = np.frombuffer(data, self._row, len(data) // self._row.itemsize)
        good = 0
        for mine, theirs in zip(rows, there, strict=False):
            if (
                mine["images"] != theirs["images"]
                or crc32c(theirs["features"].tobytes()) != theirs["crc"]
            ):
                break
            good += 1
        rows[:good] = there[:good]
        return good

    def _write(self, rows: Array, number: int) -> None:
        if self._fd < 0:
            return
        at = _HEAD_BYTES + number * self._row.itemsize
        try:
            os.ftruncate(self._fd, at)  # what follows belongs to other images
            os.pwrite(self._fd, rows.tobytes(), at)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        log.warning("%s cannot be written: %s. Features will be computed again when the run is resumed",
                    self._path, error.strerror)  # fmt: skip
        self.close()


def checksum_of_images(step: Step) -> int:
    """CRC-32C of all images of a step, in the order of their names."""
    crc = 0
    for name in sorted(step.observation):
        if name.startswith("image/"):
            crc = crc32c(packing.raw(step.observation[name]), crc)
    return crc


def hash_of(parameters: Mapping[str, Array]) -> str:
    """32 hex digits that are equal for equal names and values: which encoder this is."""
    digest = hashlib.sha256()
    for piece in packing.pack(dict(sorted(parameters.items()))):
        digest.update(piece)
    return digest.hexdigest()[:32]
