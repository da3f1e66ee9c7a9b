"""The step log: an append-only file of records (`records.py`), which is the durable form of the replay buffer.

Records are written with one system call straight into the page cache, so a killed process loses nothing that it had
appended; `sync` bounds what a power cut can take. A torn tail (the record in hand at a kill) is cut off on opening;
a record that is damaged in the middle is an error that says where, never passed over.
"""

import logging
import os
import secrets
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

from robot_rl.data import records
from robot_rl.data.codec import SCHEMA, StepCodec, space_from_json, space_hash, space_json
from robot_rl.data.marks import decode_mark, encode_mark
from robot_rl.data.records import Kind, Payload, Record, RecordFile
from robot_rl.data.recovery import LOG_MAGIC, damaged, recover
from robot_rl.data.sync import BackgroundSync
from robot_rl.types import DataError, Identity, Mark, SpaceSpec, Step

log = logging.getLogger(__name__)


def read_space(path: Path) -> SpaceSpec:
    """The spaces that a log was written with."""
    with path.open("rb") as file:
        return space_from_json(records.read_head(path, file.fileno(), LOG_MAGIC, "step log")[0]["space"])


class StepLog:
    """One log file, opened for appending (by one process at a time) or, with `read_only`, for reading alone.

    Written by one thread. `count` records are in it, numbered from 0; a checkpoint remembers such a number, and
    `read(start)` goes on from there. `positions` holds the last sequence number of each (actor, epoch): whoever sends
    steps to this log resumes behind it. With `sync_every_s` a thread of its own tells the disk to take what was
    appended; without, only `sync` and `close` do. Opening reads the headers alone.
    """

    def __init__(self, path: Path, space: SpaceSpec, read_only: bool = False, sync_every_s: float | None = None):
        self.path = Path(path)
        self.space = space
        self.positions: dict[tuple[str, int], int] = {}
        self._codec = StepCodec(space)
        self._own_epoch = secrets.randbits(63)
        self._offsets = array("q")
        self._file: RecordFile
        self._writable = not read_only
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
        try:
            self._fd = os.open(self.path, flags, 0o644)
        except OSError as error:
            raise DataError(
                f"log {self.path} cannot be opened: {error.strerror}. Nothing in it is lost: make it "
                f"{'readable' if read_only else 'writable'}, then start again"
            ) from error
        try:
            self._open()
        except BaseException:
            os.close(self._fd)
            raise
        self._syncing = BackgroundSync(sync_every_s) if sync_every_s is not None and self._writable else None

    @property
    def count(self) -> int:
        return len(self._offsets)

    def append_step(self, step: Step, identity: Identity | None = None) -> None:
        """Append a step; without an identity it is the next one of this process."""
        self.append(self._codec.encode(step), identity)

    def append_mark(self, mark: Mark, identity: Identity | None = None) -> None:
        """Append a mark; without an identity it is the next record of this process."""
        self.append(encode_mark(mark), identity, Kind.MARK)

    def append(self, payload: Payload, identity: Identity | None = None, kind: int = Kind.STEP) -> None:
        """Append the record of a payload. Raises as `append_record` does."""
        if identity is None:
            own = ("local", self._own_epoch)
            identity = Identity(*own, self.positions.get(own, -1) + 1)
        self.append_record(records.frame(kind, identity, payload))

    def append_record(self, record: Record) -> None:
        """Append a record as it was framed. Raises as `append_records` does."""
        self.append_records([record])

    def append_records(self, several: Sequence[Record]) -> None:
        """Append records with one system call. Raises DataError (disk full, read-only) with the log as it was."""
        if not several:
            return
        sealed = [records.seal(record) for record in several]
        at = self._file.end
        try:
            self._file.append([piece for record in sealed for piece in (record.header, record.payload)])
            if self._syncing is not None:
                self._syncing.written(self._fd)
        except OSError as error:
            raise self._unwritable(error) from error
        for record in sealed:
            self._offsets.append(at)
            at += record.size
            self.positions[record.identity.actor, record.identity.epoch] = record.identity.seq

    def sync(self) -> None:
        """Wait until the disk has all that was appended (0.2 to 10 ms): survives a power cut from then on."""
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise self._unwritable(error) from error

    def read(self, start: int = 0) -> Iterator[Step]:
        """Steps from record number `start` on, as far as the log reaches. Raises DataError at a damaged record."""
        for kind, _, payload in self.records(start):
            if kind == Kind.STEP:
                yield self._codec.decode(payload, recorded=True)

    def entries(self, start: int = 0) -> Iterator[tuple[Identity, Step | Mark]]:
        """Steps and marks, with whose they are, from record number `start` on. DataError at a damaged record."""
        for kind, identity, payload in self.records(start):
            yield identity, self._codec.decode(payload, recorded=True) if kind == Kind.STEP else decode_mark(payload)

    def records(self, start: int = 0) -> Iterator[tuple[int, Identity, bytes]]:
        """Kind, identity and payload of each record from number `start` on. Raises DataError at a damaged one."""
        number = start
        while number < len(self._offsets):
            record = records.read(self._fd, self._offsets[number])
            if record is None:
                raise damaged(self.path, "log", number, self._offsets[number])
            yield record.kind, record.identity, bytes(record.payload)
            number += 1

    def close(self) -> None:
        """Sync and let go of the file."""
        if self._fd < 0:
            return
        if self._syncing is not None:
            self._syncing.close()
        fd, self._fd = self._fd, -1
        try:
            if self._writable:
                self._file.trim()
                os.fdatasync(fd)
        except OSError as error:
            raise self._unwritable(error) from error
        finally:
            os.close(fd)

    def __enter__(self) -> "StepLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        if self._writable:
            records.lock(self._fd, f"log {self.path}")
            if records.head_is_torn(self._fd, LOG_MAGIC):
                self._create()
                return
        head, start = records.read_head(self.path, self._fd, LOG_MAGIC, "step log")
        if head["schema"] != SCHEMA or head["space_hash"] != space_hash(self.space):
            raise DataError(
                f"log {self.path} was written with schema {head['schema']} and space {head['space_hash']} "
                f"({_names(space_from_json(head['space']))}); this run has schema {SCHEMA} and space "
                f"{space_hash(self.space)} ({_names(self.space)}). Use another run folder, or the same task and obs"
            )
        self._offsets, end, self.positions = recover(self.path, self._fd, start, "log", self._writable)
        self._file = RecordFile(self._fd, end)
        if self._writable:
            records.renew_head(self._fd, LOG_MAGIC)

    def _create(self) -> None:
        torn = os.fstat(self._fd).st_size
        if torn:
            log.warning("log %s: a torn head of %d bytes was cut off", self.path, torn)
        head = {"schema": SCHEMA, "space_hash": space_hash(self.space), "space": space_json(self.space)}
        try:
            os.ftruncate(self._fd, 0)
            self._file = RecordFile(self._fd, records.write_head(self._fd, LOG_MAGIC, head))
        except OSError as error:
            raise self._unwritable(error) from error
        self.sync()

    def _unwritable(self, error: OSError) -> DataError:
        return DataError(
            f"log {self.path} cannot be written: {error.strerror}. The {self.count} records in it are not lost: "
            "make room, or make it writable, then resume the run"
        )


def _names(space: SpaceSpec) -> str:
    return ", ".join(f"{name} {tuple(shape)}" for name, (shape, _) in sorted(space.observations.items()))
