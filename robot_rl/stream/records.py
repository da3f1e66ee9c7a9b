"""Records: how what must not be lost is framed, in the learner's log, in the actor's spool and on
the wire alike.

    record  = header (magic, kind, actor, epoch, seq, length, crc of the payload, crc of the header)
    | payload

A header is made once, with the record; spool, link and log hand it on as it is.
Everything little-endian, the checksums are CRC-32C.
"""

import struct
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from robot_rl.packing import crc32c
from robot_rl.types import DataError, RecordId

Payload = bytes | memoryview


class Kind(IntEnum):
    """What the payload of a record is."""

    STEP = 0
    MARK = 1


class Header(NamedTuple):
    """What stands in front of a payload of `length` bytes, whose checksum is `crc`."""

    kind: int
    identity: RecordId
    length: int
    crc: int


class Record(NamedTuple):
    """A record as bytes, with its kind and identity; `header` is the bytes in front of the payload."""

    kind: int
    identity: RecordId
    header: bytes
    payload: Payload

    @property
    def size(self) -> int:
        return len(self.header) + len(self.payload)


_HEADER = struct.Struct("<4sB3x32sQQII")
_CRC = struct.Struct("<I")
MAGIC = b"RRr2"
HEADER_SIZE = _HEADER.size + _CRC.size
ACTOR_BYTES = 32
"""The longest name of an actor, in UTF-8."""


def frame(kind: int, identity: RecordId, payload: Payload) -> Record:
    """The record of a payload. DataError for a name of an actor that does not fit."""
    actor = check_actor(identity.actor)
    header = _HEADER.pack(
        MAGIC, kind, actor, identity.epoch, identity.seq, len(payload), crc32c(payload)
    )
    return Record(kind, identity, header + _CRC.pack(crc32c(header)), payload)


def parse(data: Payload) -> Header | None:
    """The header in these bytes, or None if they are no whole header."""
    if (
        len(data) != HEADER_SIZE
        or crc32c(data[: _HEADER.size]) != _CRC.unpack_from(data, _HEADER.size)[0]
    ):
        return None
    magic, kind, actor, epoch, seq, length, crc = _HEADER.unpack_from(data)
    return Header(kind, RecordId(_name(actor), epoch, seq), length, crc) if magic == MAGIC else None


def is_whole(record: Record) -> bool:
    """Whether the payload matches the checksum in its header."""
    checksum: int = _HEADER.unpack_from(record.header)[-1]
    return crc32c(record.payload) == checksum


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
