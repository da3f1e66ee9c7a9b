"""Handing a whole file to the other side, in portions, through the call "upload": the
demonstrations of a robot PC.

A file that is broken off is continued where it stopped, by the next sender of the same content. It
appears under its name whole, checked and on the disk, or not at all.
"""

import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl.links.calls import CallClient
from robot_rl.types import Array, DataError

PORTION = 4 << 20
REQUEST_BYTES = PORTION + (1 << 14)
"""What the server of the calls lets in: a portion, and what is said of it."""


class Inbox:
    """The receiving side: `answer` is the handler of the call, `arrived` is called with the file in
    place, and again for a later sender of the same file."""

    def __init__(self, target: Path, arrived: Callable[[dict[str, Any]], None]):
        self._target, self._arrived = target, arrived
        # size and time of change of the target with `_checksum`
        self._checked: tuple[int, int] | None = None
        self._checksum = 0

    def answer(self, body: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
        """Take `arrays["data"]`, the bytes from `offset` on of a file of `size` bytes with checksum
        `crc32`.

        Says how many bytes are here (`have`): the sender goes on from there. DataError for
        nonsense.
        """
        offset, size, crc = (_count(body, name) for name in ("offset", "size", "crc32"))
        if self._target.exists():
            if self._target_checksum() != crc:
                raise DataError(f"{self._target.name} is here already, and nothing is written over")
            self._arrived(
                body
            )  # again: the process that took it may have died before it could act on that
            return {"have": size}
        draft = self._target.with_name(f".{self._target.name}.{crc:08x}.part")
        data = arrays.get("data", np.zeros(0, np.uint8))
        with draft.open("ab") as file:
            have = file.tell()
            if offset == have and data.dtype == np.uint8 and have + data.size <= size:
                file.write(data.tobytes())
                have += data.size
            file.flush()
            os.fsync(file.fileno())
        if have < size:
            return {"have": have}
        if checksum(draft) != crc:
            draft.unlink()
            raise DataError(
                f"{self._target.name} arrived damaged (its checksum is wrong); send it again"
            )
        draft.rename(self._target)
        self._arrived(body)
        return {"have": have}

    def _target_checksum(self) -> int:
        """Made once, not for everybody who asks."""
        stat = self._target.stat()
        if self._checked != (stat.st_size, stat.st_mtime_ns):
            self._checksum = checksum(self._target)
            self._checked = stat.st_size, stat.st_mtime_ns
        return self._checksum


def upload(
    calls: CallClient,
    path: Path,
    facts: dict[str, Any],
    timeout_s: float = 60.0,
    to: str = "upload",
) -> None:
    """Hand the file over to the `Inbox` on the other side, with `facts` for it. LinkError if that
    fails. `to` is the name of its call.
    """
    whole = {"size": path.stat().st_size, "crc32": checksum(path)} | facts
    have = 0
    with path.open("rb") as file:
        while True:
            file.seek(have)
            data = np.frombuffer(file.read(PORTION), np.uint8)
            have = calls.call(
                to, {"offset": have} | whole, {"data": data}, timeout_s=timeout_s
            ).body["have"]
            if have >= whole["size"]:
                return


def checksum(path: Path) -> int:
    """crc32 of a file's content."""
    crc = 0
    with path.open("rb") as file:
        while data := file.read(PORTION):
            crc = zlib.crc32(data, crc)
    return crc


def _count(body: dict[str, Any], name: str) -> int:
    value = body.get(name)
    if type(value) is not int or not 0 <= value < 2**40:
        raise DataError(
            f"an upload whose {name} is {value!r}; it is a count of bytes or a checksum"
        )
    return value
