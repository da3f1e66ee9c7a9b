"""Records: how the learner's log and the actor's spool frame what must not be lost, on disk and on the wire alike.

    file    = head | record | record | ... | zeros
    head    = magic of the kind of file and its version, length, crc32 | JSON
    record  = header (magic, kind, actor, epoch, seq, length, crc of the payload, crc of the header) | payload

A header is made once, by whoever makes the record; spool, link and log hand it on as it is. Everything little-endian.
The magic of a record says which checksum it has: CRC-32C, or zlib's CRC-32 in files of version 1, which are read as
they are and become version 2 when they are written to. The zeros are room that the disk has been asked for ahead
(`RecordFile`); a file that was closed has none.
"""

import fcntl
import json
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from robot_rl.data.checksum import crc32c
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
_MAGIC = b"RRr2"
_CHECKSUMS: dict[bytes, Callable[[Payload], int]] = {_MAGIC: crc32c, b"RRrc": zlib.crc32}
_COMMON = b"RRr"  # how the magic of every version begins
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
    header = _HEADER.pack(_MAGIC, kind, actor, identity.epoch, identity.seq, len(payload), crc32c(payload))
    return Record(kind, identity, header + _CRC.pack(crc32c(header)), payload)


def unsealed(kind: int, identity: Identity, payload: Payload) -> Record:
    """A record without the checksum of its payload, for who does not write it to a disk: whoever does seals it."""
    header = _HEADER.pack(
        _MAGIC, kind | _UNSEALED, check_actor(identity.actor), identity.epoch, identity.seq, len(payload), 0
    )
    return Record(kind, identity, header + _CRC.pack(crc32c(header)), payload)


def seal(record: Record) -> Record:
    """The record with the checksum of its payload, if it has none yet."""
    return frame(record.kind, record.identity, record.payload) if is_unsealed(record) else record


def is_unsealed(record: Record) -> bool:
    """Whether the record comes without the checksum of its payload."""
    return bool(record.header[_KIND_AT] & _UNSEALED)


def parse(data: Payload) -> Header | None:
    """The header in these bytes, or None if they are no whole header."""
    if len(data) != HEADER_SIZE or (checksum := _CHECKSUMS.get(bytes(data[:4]))) is None:
        return None
    if checksum(data[: _HEADER.size]) != _CRC.unpack_from(data, _HEADER.size)[0]:
        return None
    _, kind, actor, epoch, seq, length, crc = _HEADER.unpack_from(data)
    return Header(kind & ~_UNSEALED, Identity(_name(actor), epoch, seq), length, crc)


def is_whole(record: Record) -> bool:
    """Whether the payload matches the checksum in its header, if it has one."""
    if is_unsealed(record):
        return True
    return _CHECKSUMS[record.header[:4]](record.payload) == _HEADER.unpack_from(record.header)[-1]


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
        at = data.find(_COMMON)
        while 0 <= at < block:
            if parse(data[at : at + HEADER_SIZE]) is not None:
                return start + at
            at = data.find(_COMMON, at + 1)
        start += block
    return None


def read(fd: int, offset: int) -> Record | None:
    """The record at `offset`, or None if it is not whole."""
    data = os.pread(fd, HEADER_SIZE, offset)
    header = parse(data)
    if header is None:
        return None
    payload = os.pread(fd, header.length, offset + HEADER_SIZE)
    if len(payload) != header.length or _CHECKSUMS[data[:4]](payload) != header.crc:
        return None
    return Record(header.kind, header.identity, data, payload)


class RecordFile:
    """The end of a file that one thread of one process appends to. `end` is where its last record ends.

    A write that makes a file longer changes its inode, and waits while the file system's journal has that in hand: up
    to 80 ms when another thread syncs. So a file that has grown to `AHEAD_FROM` gets its room ahead, in portions that
    grow with it, and writes go into that. Zeros are what it holds until then.
    """

    AHEAD_FROM = 4 << 20
    AHEAD_AT_MOST = 16 << 20

    def __init__(self, fd: int, end: int):
        self.fd, self.end = fd, end
        self._room = os.fstat(fd).st_size  # to where the file reaches

    def append(self, pieces: Sequence[Payload]) -> None:
        """Append the pieces with one system call.

        Raises OSError (disk full, read-only) with the file cut back to what it was, if the system still lets us.
        """
        total = sum(map(len, pieces))
        if self.end + total > self._room:
            self._ask_for_room(self.end + total)
        try:
            written = os.pwritev(self.fd, pieces, self.end)
            while written < total:  # a disk that is nearly full takes a part, and says why at the next attempt
                written += os.pwrite(self.fd, b"".join(pieces)[written:], self.end + written)
        except OSError:
            self.trim()
            raise
        self.end += total
        self._room = max(self._room, self.end)

    def trim(self) -> None:
        """Give the room back that is left. What cannot be cut off now goes when the file is opened."""
        try:
            os.ftruncate(self.fd, self.end)
        except OSError:
            return
        self._room = self.end

    def _ask_for_room(self, needed: int) -> None:
        if needed < self.AHEAD_FROM:
            return
        try:
            os.posix_fallocate(self.fd, self.end, min(self.end, self.AHEAD_AT_MOST) + needed - self.end)
        except OSError:  # there is not so much left, or the limit is near: as much as there is, write by write
            self.trim()
            return
        self._room = os.fstat(self.fd).st_size


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
    file = RecordFile(fd, 0)
    file.append([_HEAD.pack(magic, len(text), zlib.crc32(text)), text])
    return file.end


def versions(magic: bytes) -> tuple[bytes, bytes]:
    """How files of this kind begin: now, and in version 1."""
    return magic, magic[:6] + b"\x01\n"


def renew_head(fd: int, magic: bytes) -> None:
    """A file of version 1 is about to get records that only version 2 has: let it say so. Raises OSError."""
    if os.pread(fd, 8, 0) != magic:
        os.pwrite(fd, magic, 0)


def head_is_torn(fd: int, magic: bytes) -> bool:
    """Whether the file ends inside its head: its creator was killed before there was any record."""
    data, size = os.pread(fd, _HEAD.size, 0), os.fstat(fd).st_size
    if len(data) < _HEAD.size:
        return any(one.startswith(data[:8]) for one in versions(magic))
    return data[:8] in versions(magic) and size < _HEAD.size + _HEAD.unpack(data)[1]


def read_head(path: Path, fd: int, magic: bytes, what: str) -> tuple[dict[str, Any], int]:
    """The head of a file and where it ends; DataError if it is damaged, or not the head of a `what`."""
    data = os.pread(fd, _HEAD.size, 0)
    if len(data) < _HEAD.size or data[:8] not in versions(magic):
        raise DataError(f"{path} is not a {what}")
    _, length, crc = _HEAD.unpack(data)
    text = os.pread(fd, min(length, _MAX_HEAD), _HEAD.size)
    if len(text) != length or zlib.crc32(text) != crc:
        raise DataError(f"{what} {path} is damaged: its head does not match its checksum. Restore the file from a copy")
    return json.loads(text), _HEAD.size + length
