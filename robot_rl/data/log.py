"""The step log: an append-only file of records, which is the durable form of the replay buffer.

    file    = head | record | record | ...
    head    = magic, length, crc32 | JSON {schema, space_hash, space}
    record  = header (magic, kind, actor, epoch, seq, length, crc32 of the payload, crc32 of the header) | payload

A record is written with one system call straight into the page cache, so a killed process loses nothing that it had
appended; `sync` bounds what a power cut can take. A torn tail (the record in hand at a kill) is cut off on opening.
"""

import fcntl
import json
import logging
import os
import secrets
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from robot_rl.data.codec import SCHEMA, StepCodec, space_from_json, space_hash, space_json
from robot_rl.types import DataError, Identity, SpaceSpec, Step

log = logging.getLogger(__name__)

STEP = 0
"""The kind of a record that holds a step."""

_HEAD = struct.Struct("<8sII")
_HEAD_MAGIC = b"RRLOG\x00\x01\n"
_HEADER = struct.Struct("<4sB3x32sQQII")
_CRC = struct.Struct("<I")
_MAGIC = b"RRrc"
_HEADER_SIZE = _HEADER.size + _CRC.size
ACTOR_BYTES = 32
"""The longest name of an actor, in UTF-8."""


def read_space(path: Path) -> SpaceSpec:
    """The spaces that a log was written with."""
    with path.open("rb") as file:
        return space_from_json(_read_head(path, file.fileno())[0]["space"])


class StepLog:
    """One log file, opened for appending (by one process at a time) or, with `read_only`, for reading alone.

    Written by one thread. `count` records are in it, numbered from 0; a checkpoint remembers such a number, and
    `read(start)` goes on from there. `positions` holds the last sequence number of each (actor, epoch): whoever sends
    steps to this log resumes behind it.
    """

    def __init__(self, path: Path, space: SpaceSpec, read_only: bool = False):
        self.path = Path(path)
        self.space = space
        self.positions: dict[tuple[str, int], int] = {}
        self._codec = StepCodec(space)
        self._own_epoch = secrets.randbits(63)
        self._offsets: list[int] = []
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT | os.O_APPEND
        try:
            self._fd = os.open(self.path, flags, 0o644)
        except OSError as error:
            raise DataError(f"log {self.path} cannot be opened: {error.strerror}") from error
        try:
            self._open(read_only)
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def count(self) -> int:
        return len(self._offsets)

    def append_step(self, step: Step, identity: Identity | None = None) -> None:
        """Append a step; without an identity it is the next one of this process."""
        self.append(self._codec.encode(step), identity)

    def append(self, payload: bytes, identity: Identity | None = None, kind: int = STEP) -> None:
        """Append a record. Raises DataError (disk full, read-only) with the log as it was before."""
        if identity is None:
            own = ("local", self._own_epoch)
            identity = Identity(*own, self.positions.get(own, -1) + 1)
        header = _encode_header(kind, identity, payload)
        self._write(header, payload)
        self._offsets.append(self._end)
        self._end += len(header) + len(payload)
        self.positions[identity.actor, identity.epoch] = identity.seq

    def sync(self) -> None:
        """Wait until the disk has all that was appended (0.2 to 10 ms): survives a power cut from then on."""
        os.fdatasync(self._fd)

    def read(self, start: int = 0) -> Iterator[Step]:
        """Steps from record number `start` on, as far as the log reaches. Raises DataError at a damaged record."""
        for kind, _, payload in self.records(start):
            if kind == STEP:
                yield self._codec.decode(payload)

    def records(self, start: int = 0) -> Iterator[tuple[int, Identity, bytes]]:
        """Kind, identity and payload of each record from number `start` on."""
        number = start
        while number < len(self._offsets):
            yield self._read_record(number)
            number += 1

    def close(self) -> None:
        """Sync and let go of the file."""
        if self._fd >= 0:
            if self._writable:
                self.sync()
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> "StepLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, read_only: bool) -> None:
        self._writable = not read_only
        if self._writable:
            self._lock()
        size = os.fstat(self._fd).st_size
        if self._writable and _head_is_torn(os.pread(self._fd, _HEAD.size, 0), size):
            if size:
                log.warning("log %s: a torn head of %d bytes was cut off", self.path, size)
            self._create()
            return
        head, self._end = _read_head(self.path, self._fd)
        if head["schema"] != SCHEMA or head["space_hash"] != space_hash(self.space):
            raise DataError(
                f"log {self.path} was written with schema {head['schema']} and space {head['space_hash']} "
                f"({_names(space_from_json(head['space']))}); this run has schema {SCHEMA} and space "
                f"{space_hash(self.space)} ({_names(self.space)}). Use another run folder, or the same task and obs"
            )
        self._index(size)
        self._drop_tail(size)

    def _create(self) -> None:
        os.ftruncate(self._fd, 0)
        head = {"schema": SCHEMA, "space_hash": space_hash(self.space), "space": space_json(self.space)}
        text = json.dumps(head).encode()
        self._end = 0
        self._write(_HEAD.pack(_HEAD_MAGIC, len(text), zlib.crc32(text)), text)
        self._end = _HEAD.size + len(text)
        self.sync()

    def _lock(self, timeout_s: float = 2.0) -> None:
        """Be the only writer. A killed predecessor may need a moment to go."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise DataError(f"log {self.path} is being written by another process: stop it, or take another "
                                    "run folder") from None  # fmt: skip
                time.sleep(0.05)

    def _write(self, header: bytes, payload: bytes) -> None:
        try:
            written = os.writev(self._fd, [header, payload])
            while written < len(header) + len(payload):
                written += os.write(self._fd, (header + payload)[written:])
        except OSError as error:
            os.ftruncate(self._fd, self._end)
            raise DataError(f"log {self.path} cannot be written: {error.strerror}. Nothing before it is lost: "
                            "make room, then resume the run") from error  # fmt: skip

    def _index(self, size: int) -> None:
        """Walk over the headers, up to the end or to the first that is not whole."""
        while self._end < size:
            header = os.pread(self._fd, _HEADER_SIZE, self._end)
            if not _is_header(header):
                return
            _, identity, length, _ = _decode_header(header)
            if self._end + _HEADER_SIZE + length > size:
                return
            self._offsets.append(self._end)
            self.positions[identity.actor, identity.epoch] = identity.seq
            self._end += _HEADER_SIZE + length

    def _drop_tail(self, size: int) -> None:
        """Cut off what follows the last whole record: torn, unless a whole header follows further on."""
        if self._end < size and self._header_follows(self._end + 1, size):
            raise DataError(f"log {self.path} is damaged in the middle: record {self.count} at byte {self._end} has no "
                            f"valid header, and there are records behind it. Restore the file from a copy; "
                            f"the {self.count} records before it are whole")  # fmt: skip
        if self._offsets and not self._is_whole(self.count - 1):
            self._end = self._offsets.pop()
            self._recount()
        if self._end == size:
            return
        if self._writable:
            os.ftruncate(self._fd, self._end)
        done = "was cut off" if self._writable else "is passed over"
        torn = size - self._end
        log.warning("log %s: a torn tail of %d bytes %s, %d records remain", self.path, torn, done, self.count)

    def _recount(self) -> None:
        self.positions.clear()
        for offset in self._offsets:
            _, identity, _, _ = _decode_header(os.pread(self._fd, _HEADER_SIZE, offset))
            self.positions[identity.actor, identity.epoch] = identity.seq

    def _is_whole(self, number: int) -> bool:
        try:
            self._read_record(number)
        except DataError:
            return False
        return True

    def _header_follows(self, start: int, size: int, block: int = 1 << 20) -> bool:
        while start < size:
            data = os.pread(self._fd, block + _HEADER_SIZE, start)
            at = data.find(_MAGIC)
            while 0 <= at < block:
                if _is_header(data[at : at + _HEADER_SIZE]):
                    return True
                at = data.find(_MAGIC, at + 1)
            start += block
        return False

    def _read_record(self, number: int) -> tuple[int, Identity, bytes]:
        offset = self._offsets[number]
        header = os.pread(self._fd, _HEADER_SIZE, offset)
        kind, identity, length, crc = _decode_header(header)
        payload = os.pread(self._fd, length, offset + _HEADER_SIZE)
        if not _is_header(header) or len(payload) != length or zlib.crc32(payload) != crc:
            raise DataError(
                f"log {self.path} is damaged: record {number} at byte {offset} does not match its checksum. "
                f"Restore the file from a copy; the {number} records before it are whole"
            )
        return kind, identity, payload


def check_actor(actor: str) -> bytes:
    """The name of an actor as it stands in a record; raises DataError if it does not fit."""
    name = actor.encode(errors="replace")
    if not 0 < len(name) <= ACTOR_BYTES or b"\x00" in name:
        raise DataError(f"the name of an actor has 1 to {ACTOR_BYTES} bytes, this one is {actor!r}")
    return name


def _encode_header(kind: int, identity: Identity, payload: bytes) -> bytes:
    actor = check_actor(identity.actor)
    header = _HEADER.pack(_MAGIC, kind, actor, identity.epoch, identity.seq, len(payload), zlib.crc32(payload))
    return header + _CRC.pack(zlib.crc32(header))


def _is_header(data: bytes) -> bool:
    return len(data) == _HEADER_SIZE and data[:4] == _MAGIC and _CRC.pack(zlib.crc32(data[: _HEADER.size])) == data[-4:]


def _decode_header(data: bytes) -> tuple[int, Identity, int, int]:
    """Kind, identity, length and crc32 of the payload."""
    _, kind, actor, epoch, seq, length, crc = _HEADER.unpack_from(data)
    return kind, Identity(actor.rstrip(b"\x00").decode(errors="replace"), epoch, seq), length, crc


def _head_is_torn(data: bytes, size: int) -> bool:
    """Whether the file ends inside its head: its creator was killed before there was any record."""
    if len(data) < _HEAD.size:
        return _HEAD_MAGIC.startswith(data[:8]) or size == 0
    return data[:8] == _HEAD_MAGIC and size < _HEAD.size + _HEAD.unpack(data)[1]


def _read_head(path: Path, fd: int) -> tuple[dict[str, Any], int]:
    """The head of a log and where it ends."""
    data = os.pread(fd, _HEAD.size, 0)
    if len(data) < _HEAD.size or data[:8] != _HEAD_MAGIC:
        raise DataError(f"{path} is not a step log")
    _, length, crc = _HEAD.unpack(data)
    text = os.pread(fd, length, _HEAD.size)
    if len(text) != length or zlib.crc32(text) != crc:
        raise DataError(f"log {path} is damaged: its head does not match its checksum. Restore the file from a copy")
    return json.loads(text), _HEAD.size + length


def _names(space: SpaceSpec) -> str:
    return ", ".join(f"{name} {tuple(shape)}" for name, (shape, _) in sorted(space.observations.items()))
