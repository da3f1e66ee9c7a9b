"""Records: how the learner's log and the actor's spool frame what must not be lost, on disk and on the wire alike.

    file    = head | record | record | ...
    head    = magic of the kind of file, length, crc32 | JSON
    record  = header (magic, kind, actor, epoch, seq, length, crc32 of the payload, crc32 of the header) | payload

A header is made once, by whoever makes the record; spool, link and log hand it on as it is. Everything little-endian.
"""

import fcntl
import json
import os
import struct
import time
import zlib
from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from robot_rl.types import DataError, Identity

Payload = bytes | memoryview


class Kind(IntEnum):
    """What the payload of a record is."""

    STEP = 0
    MARK = 1


class Header(NamedTuple):
    """What stands in front of a payload of `length` bytes, whose checksum is `crc`."""

    kind: int
    identity: Identity
    length: int
    crc: int


class Record(NamedTuple):
    """A record as bytes, with its kind and identity; `header` is the bytes in front of the payload."""

    kind: int
    identity: Identity
    header: bytes
    payload: Payload

    @property
    def size(self) -> int:
        return len(self.header) + len(self.payload)


_HEADER = struct.Struct("<4sB3x32sQQII")
_CRC = struct.Struct("<I")
_MAGIC = b"RRrc"
_KIND_AT = 4
_UNSEALED = 0x80  # a bit of the kind: the checksum of the payload is not there (on the wire only)
_HEAD = struct.Struct("<8sII")
_MAX_HEAD = 1 << 20
HEADER_SIZE = _HEADER.size + _CRC.size
ACTOR_BYTES = 32
"""The longest name of an actor, in UTF-8."""


def frame(kind: int, identity: Identity, payload: Payload) -> Record:
    """The record of a payload. DataError for a name of an actor that does not fit."""
    actor = check_actor(identity.actor)
    header = _HEADER.pack(_MAGIC, kind, actor, identity.epoch, identity.seq, len(payload), zlib.crc32(payload))
    return Record(kind, identity, header + _CRC.pack(zlib.crc32(header)), payload)


def unsealed(kind: int, identity: Identity, payload: Payload) -> Record:
    """A record without the checksum of its payload, for who does not write it to a disk: whoever does seals it."""
    header = _HEADER.pack(
        _MAGIC, kind | _UNSEALED, check_actor(identity.actor), identity.epoch, identity.seq, len(payload), 0
    )
    return Record(kind, identity, header + _CRC.pack(zlib.crc32(header)), payload)


def seal(record: Record) -> Record:
    """The record with the checksum of its payload, if it has none yet."""
    return frame(record.kind, record.identity, record.payload) if is_unsealed(record) else record


def is_unsealed(record: Record) -> bool:
    """Whether the record comes without the checksum of its payload."""
    return bool(record.header[_KIND_AT] & _UNSEALED)


def parse(data: Payload) -> Header | None:
    """The header in these bytes, or None if they are no whole header."""
    if len(data) != HEADER_SIZE or data[:4] != _MAGIC:
        return None
    if zlib.crc32(data[: _HEADER.size]) != _CRC.unpack_from(data, _HEADER.size)[0]:
        return None
    _, kind, actor, epoch, seq, length, crc = _HEADER.unpack_from(data)
    return Header(kind & ~_UNSEALED, Identity(_name(actor), epoch, seq), length, crc)


def is_whole(record: Record) -> bool:
    """Whether the payload matches the checksum in its header, if it has one (14 us for 98 kB)."""
    return is_unsealed(record) or zlib.crc32(record.payload) == _HEADER.unpack_from(record.header)[-1]


@lru_cache(maxsize=1024)
def check_actor(actor: str) -> bytes:
    """The name of an actor as it stands in a record; raises DataError if it does not fit."""
    name = actor.encode(errors="replace")
    if not 0 < len(name) <= ACTOR_BYTES or b"\x00" in name:
        raise DataError(f"the name of an actor has 1 to {ACTOR_BYTES} bytes, this one is {actor!r}")
    return name


@lru_cache(maxsize=1024)
def _name(actor: bytes) -> str:
    return actor.rstrip(b"\x00").decode(errors="replace")


# ---------------------------------------------------------------------------------------------------- in a file


def scan(fd: int, start: int, size: int) -> Iterator[tuple[int, Header]]:
    """Offset and header of each record from byte `start` on, up to the end or to the first that is not whole.

    Only the headers are read: whether the payloads match their checksums is not looked at.
    """
    offset = start
    while offset < size:
        header = parse(os.pread(fd, HEADER_SIZE, offset))
        if header is None or offset + HEADER_SIZE + header.length > size:
            return
        yield offset, header
        offset += HEADER_SIZE + header.length


def next_header(fd: int, start: int, size: int, block: int = 1 << 20) -> int | None:
    """Where the next whole header begins, at byte `start` or behind it; None if there is none."""
    while start < size:
        data = os.pread(fd, block + HEADER_SIZE, start)
        at = data.find(_MAGIC)
        while 0 <= at < block:
            if parse(data[at : at + HEADER_SIZE]) is not None:
                return start + at
            at = data.find(_MAGIC, at + 1)
        start += block
    return None


def read(fd: int, offset: int) -> Record | None:
    """The record at `offset`, or None if it is not whole."""
    data = os.pread(fd, HEADER_SIZE, offset)
    header = parse(data)
    if header is None:
        return None
    payload = os.pread(fd, header.length, offset + HEADER_SIZE)
    if len(payload) != header.length or zlib.crc32(payload) != header.crc:
        return None
    return Record(header.kind, header.identity, data, payload)


def write(fd: int, pieces: list[Payload], end: int) -> int:
    """Append the pieces to a file opened with O_APPEND, `end` bytes long; returns its new length.

    Raises OSError (disk full, read-only) with the file cut back to what it was, if the system still lets us.
    """
    total = sum(len(piece) for piece in pieces)
    try:
        written = os.writev(fd, pieces)
        while written < total:  # a disk that is nearly full takes a part, and says why at the next attempt
            written += os.write(fd, b"".join(pieces)[written:])
    except OSError:
        cut(fd, end)
        raise
    return end + total


def cut(fd: int, end: int) -> None:
    """Cut the file off at byte `end`. What cannot be cut off now is a torn tail, and goes when the file is opened."""
    try:
        os.ftruncate(fd, end)
    except OSError:
        return


def lock(fd: int, what: str, timeout_s: float = 2.0) -> None:
    """Be the only writer of a file, or DataError. A killed predecessor may need a moment to go."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise DataError(f"{what} is being written by another process: stop it, or take another "
                                "run folder") from None  # fmt: skip
            time.sleep(0.05)


# ---------------------------------------------------------------------------------------------------- its head


def write_head(fd: int, magic: bytes, head: dict[str, Any]) -> int:
    """Write the head of an empty file; returns its length. Raises OSError."""
    text = json.dumps(head).encode()
    return write(fd, [_HEAD.pack(magic, len(text), zlib.crc32(text)), text], 0)


def head_is_torn(fd: int, magic: bytes) -> bool:
    """Whether the file ends inside its head: its creator was killed before there was any record."""
    data, size = os.pread(fd, _HEAD.size, 0), os.fstat(fd).st_size
    if len(data) < _HEAD.size:
        return magic.startswith(data[:8])
    return data[:8] == magic and size < _HEAD.size + _HEAD.unpack(data)[1]


def read_head(path: Path, fd: int, magic: bytes, what: str) -> tuple[dict[str, Any], int]:
    """The head of a file and where it ends; DataError if it is damaged, or not the head of a `what`."""
    data = os.pread(fd, _HEAD.size, 0)
    if len(data) < _HEAD.size or data[:8] != magic:
        raise DataError(f"{path} is not a {what}")
    _, length, crc = _HEAD.unpack(data)
    text = os.pread(fd, min(length, _MAX_HEAD), _HEAD.size)
    if len(text) != length or zlib.crc32(text) != crc:
        raise DataError(f"{what} {path} is damaged: its head does not match its checksum. Restore the file from a copy")
    return json.loads(text), _HEAD.size + length
