"""Files of records as they were before SQLite kept them: read once, by `robot-rl data convert`.

file    = head | record | record | ... | zeros
head    = magic of the kind of file and its version, length, crc32 | JSON
"""

import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from robot_rl.machine.sync import lock
from robot_rl.packing import crc32c
from robot_rl.stream import records
from robot_rl.stream.pages import LOG, OLD_MAGICS, SPOOL
from robot_rl.stream.records import HEADER_SIZE, Header, Payload, Record
from robot_rl.stream.recovery import write_anew
from robot_rl.types import DataError, RecordId

_HEAD = struct.Struct("<8sII")
_HEADER, _CRC = struct.Struct("<4sB3x32sQQII"), struct.Struct("<I")
_CHECKSUMS: dict[bytes, Callable[[Payload], int]] = {b"RRr2": crc32c, b"RRrc": zlib.crc32}
_KINDS = dict(zip(OLD_MAGICS, (LOG, SPOOL), strict=True))
SPOOL_FILE = "records.spool"


def convert(path: Path) -> tuple[Path, int, int]:
    """Make a log of an older version, or the folder of an actor's spool, one of this version.

    The old file stays beside it as `NAME.old`. What is not whole has a mark in its place, but for a
    torn end. Returns the new file, how many records are in it, and how many are lost. Raises
    DataError.
    """
    path = Path(path)
    try:
        if path.is_dir():
            old, target = sorted(path.glob("*.seg")), path / SPOOL_FILE
            if not old:
                raise DataError(f"there is no spool of an older version in {path}")
        elif path.suffix == ".seg":
            return convert(path.parent)
        else:
            old, target = [path], path
        draft = target.with_name(target.name + ".converting")
        with lock(target, str(target)):
            heads = [_read_head(one) for one in old]
            about = {
                name: value for name, value in heads[0].items() if name not in ("epoch", "first")
            }
            kept, lost = write_anew(draft, about, (part for one in old for part in _parts(one)))
            for one in old:
                one.rename(one.with_name(one.name + ".old"))
            draft.rename(target)
    except OSError as error:
        raise DataError(f"{path} cannot be converted: {error.strerror}") from error
    return target, kept, lost


def _read_head(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        data = file.read(1 << 20)
    kind = _KINDS.get(data[:6])
    if kind is None or len(data) < _HEAD.size:
        raise DataError(f"{path} is no log or spool of an older version")
    _, length, crc = _HEAD.unpack_from(data)
    text = data[_HEAD.size : _HEAD.size + length]
    if len(text) != length or zlib.crc32(text) != crc:
        raise DataError(
            f"{path} is damaged: its head does not match its checksum. Restore the file from a copy"
        )
    return {"kind": kind, "run": ""} | json.loads(text)


def _parts(path: Path) -> Iterator[Record | Header]:
    """The records, as they are framed now; the headers of those whose payload is not whole."""
    with path.open("rb") as file:
        fd = file.fileno()
        size, at = os.fstat(fd).st_size, _HEAD.size + _HEAD.unpack(os.pread(fd, _HEAD.size, 0))[1]
        while at is not None and at < size:
            data = os.pread(fd, HEADER_SIZE, at)
            header = _parse(data)
            payload = b"" if header is None else os.pread(fd, header.length, at + HEADER_SIZE)
            if header is None:
                at = _next(fd, at + 1, size)
            elif len(payload) == header.length and _CHECKSUMS[data[:4]](payload) == header.crc:
                yield records.frame(header.kind, header.identity, payload)
                at += HEADER_SIZE + header.length
            else:
                following = _next(fd, at + 1, size)
                if following is not None:
                    yield header
                at = following


def _parse(data: bytes) -> Header | None:
    checksum = _CHECKSUMS.get(data[:4])
    if checksum is None or len(data) != HEADER_SIZE:
        return None
    if checksum(data[: _HEADER.size]) != _CRC.unpack_from(data, _HEADER.size)[0]:
        return None
    _, kind, actor, epoch, seq, length, crc = _HEADER.unpack_from(data)
    return Header(
        kind, RecordId(actor.rstrip(b"\0").decode(errors="replace"), epoch, seq), length, crc
    )


def _next(fd: int, start: int, size: int, block: int = 1 << 20) -> int | None:
    """Where the next whole header begins, at byte `start` or behind it."""
    while start < size:
        data = os.pread(fd, block + HEADER_SIZE, start)
        at = data.find(b"RRr")
        while 0 <= at < block:
            if _parse(data[at : at + HEADER_SIZE]) is not None:
                return start + at
            at = data.find(b"RRr", at + 1)
        start += block
    return None
