"""The actor's spool: every record is on its disk before it is sent, and stays until the learner has it in its log.

    spool/ACTOR/00000001.seg   head {schema, space, actor, epoch, first} | record | record | ...

A segment holds consecutive records of one actor process (epoch). It is removed when all of it is acknowledged, some
seconds later at that, so that a learner whose power was cut can ask for its last steps again. What an earlier process
left behind is found on opening, in order, and offered before the own records. A write that fails (disk full,
read-only) leaves the segment as it was.
"""

import contextlib
import logging
import os
import time
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from robot_rl.data import records
from robot_rl.data.codec import SCHEMA, space_hash
from robot_rl.data.records import Record, RecordFile
from robot_rl.data.recovery import SPOOL_MAGIC, damaged, placeholder, recover
from robot_rl.data.sync import BackgroundSync
from robot_rl.types import DataError, Identity, SpaceSpec

log = logging.getLogger(__name__)

SEGMENT_BYTES = 256 << 20
SYNC_EVERY_S = 0.5
KEEP_S = 5.0


class Held(NamedTuple):
    """The records `first` to `end` - 1 of one epoch, which lie in the spool."""

    epoch: int
    first: int
    end: int


class Spool:
    """The spool of one actor, used by one thread (a second one waits for the disk).

    ```
    spool = Spool(folder, "actor", epoch, space)
    for held in spool.leftovers: ...            # of earlier processes, oldest first
    spool.append(record)                        # seq 0, 1, 2, ... of the own epoch
    spool.read(epoch, seq)                      # until it is acknowledged
    spool.acknowledge(epoch, seq)
    ```
    Raises DataError when it cannot be opened or written, and for a damaged record.
    """

    def __init__(
        self, folder: Path, actor: str, epoch: int, space: SpaceSpec, *, segment_bytes: int = SEGMENT_BYTES,
        sync_every_s: float = SYNC_EVERY_S, keep_s: float = KEEP_S,
    ):  # fmt: skip
        records.check_actor(actor)
        self.folder, self.actor, self.epoch = Path(folder), actor, epoch
        self._segment_bytes, self._keep_s = segment_bytes, keep_s
        self._head = {"schema": SCHEMA, "space": space_hash(space), "actor": actor}
        self._segments: dict[int, list[_Segment]] = {}  # of each epoch, in order; of the oldest epoch first
        self._number = 0
        self._files = contextlib.ExitStack()
        try:
            self._open()
        except OSError as error:
            self._files.close()
            raise self._unwritable(error) from error
        except BaseException:
            self._files.close()
            raise
        self.leftovers = [self.held(epoch) for epoch in self._segments if epoch != self.epoch]
        self._sync = BackgroundSync(sync_every_s)

    def held(self, epoch: int) -> Held:
        """What is here of an epoch."""
        segments = self._segments[epoch]
        return Held(epoch, segments[0].first, segments[-1].end_seq)

    @property
    def bytes(self) -> int:
        """Bytes on disk."""
        return sum(segment.size for segment in self._all())

    def append(self, record: Record) -> None:
        """Append the next record of the own epoch. DataError as `append_all`."""
        self.append_all([record])

    def append_all(self, several: Sequence[Record]) -> None:
        """Append the next records of the own epoch with one system call, if they fit into one segment.

        DataError (disk full, read-only) with the spool as it was: all of them are in it, or none.
        """
        segment = self._segments[self.epoch][-1]
        for seq, record in enumerate(several, segment.end_seq):
            if record.identity.seq != seq or record.identity.epoch != self.epoch:
                raise DataError(f"record {record.identity} is not the next of the spool, which is {seq}")
        try:
            if segment.offsets and segment.size + sum(record.size for record in several) > self._segment_bytes:
                segment.finish()  # no file is on the disk before the one that precedes it
                segment = self._begin_segment(segment.end_seq)
            segment.append(several)
            self._sync.written(segment.fd)
        except OSError as error:
            raise self._unwritable(error) from error

    def read(self, epoch: int, seq: int) -> Record:
        """A record that is here. DataError if it is damaged."""
        segments = self._segments[epoch]
        segment = segments[bisect_right([s.first for s in segments], seq) - 1]
        number = seq - segment.first
        record = records.read(segment.fd, segment.offsets[number])
        if record is None:
            raise damaged(segment.path, "spool", number, segment.offsets[number])
        return record

    def acknowledge(self, epoch: int, seq: int) -> None:
        """The learner has all of this epoch up to `seq` in its log: segments that hold nothing else may go, in time."""
        now = time.monotonic()
        for segment in self._segments.get(epoch, ()):
            if segment.end_seq > seq + 1 or segment is self._current:
                break
            if segment.acknowledged_at is None:
                segment.acknowledged_at = now
        for segment in list(self._all()):
            if segment.acknowledged_at is not None and now - segment.acknowledged_at >= self._keep_s:
                self._remove(segment)

    def sync_soon(self) -> None:
        """An episode is complete: let the disk have it now, in the background."""
        self._sync.soon()

    def close(self, delivered: bool = False) -> None:
        """Let go of the files. `delivered`: everything is acknowledged and nothing is unfinished, so all of it goes."""
        self._sync.close()
        self._current.file.trim()
        if delivered:
            for segment in list(self._all()):
                self._remove(segment)
        elif not self._current.offsets:
            self._remove(self._current)
        self._files.close()

    @property
    def _current(self) -> "_Segment":
        return self._segments[self.epoch][-1]

    def _all(self) -> "Iterator[_Segment]":
        for segments in self._segments.values():
            yield from segments

    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        self._files.callback(os.close, lock)
        records.lock(lock, f"the spool {self.folder}")
        self._directory = os.open(self.folder, os.O_RDONLY)
        self._files.callback(os.close, self._directory)
        for path in sorted(self.folder.glob("*.seg"), key=_number):
            self._number = _number(path)
            segment = _Segment.recover(path, self._head)
            if segment is None:
                continue
            self._files.callback(segment.close)
            self._adopt(segment)
        self._begin_segment(0)

    def _adopt(self, segment: "_Segment") -> None:
        before = self._segments.setdefault(segment.epoch, [])
        if before and segment.first > before[-1].end_seq:  # the power went while the end of the last file was in memory
            log.warning("spool %s lacks the records %d to %d: marks stand for them", before[-1].path,
                        before[-1].end_seq, segment.first - 1)  # fmt: skip
            for seq in range(before[-1].end_seq, segment.first):
                before[-1].append([placeholder(Identity(self.actor, segment.epoch, seq))])
        before.append(segment)

    def _begin_segment(self, first: int) -> "_Segment":
        """A new file for the own epoch. Raises OSError."""
        path = self.folder / f"{self._number + 1:08d}.seg"
        segment = _Segment.create(path, self._head | {"epoch": self.epoch, "first": first})
        self._number += 1
        self._files.callback(segment.close)
        os.fsync(self._directory)
        self._segments.setdefault(self.epoch, []).append(segment)
        return segment

    def _remove(self, segment: "_Segment") -> None:
        self._sync.forget(segment.fd)
        segment.close()
        segment.path.unlink(missing_ok=True)
        segments = self._segments[segment.epoch]
        segments.remove(segment)
        if not segments:
            del self._segments[segment.epoch]

    def _unwritable(self, error: OSError) -> DataError:
        written = sum(len(segment.offsets) for segment in self._all())
        what = f"The {written} records in it are" if written else "What is in it is"
        return DataError(f"spool {self.folder} cannot be written: {error.strerror}. {what} not lost: make room on "
                         "that disk, or make it writable, then start again, and it is sent")  # fmt: skip


class _Segment:
    """One file: records `first` to `end_seq` - 1 of an epoch."""

    def __init__(self, path: Path, fd: int, epoch: int, first: int, offsets: array, end: int):
        self.path, self.fd, self.epoch, self.first = path, fd, epoch, first
        self.offsets, self.file = offsets, RecordFile(fd, end)
        self.acknowledged_at: float | None = None  # since when all of it is, on the monotonic clock [s]

    @property
    def size(self) -> int:
        return self.file.end

    @property
    def end_seq(self) -> int:
        return self.first + len(self.offsets)

    @classmethod
    def create(cls, path: Path, head: dict[str, Any]) -> "_Segment":
        """A new file. Raises OSError, and then there is none."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            size = records.write_head(fd, SPOOL_MAGIC, head)
        except OSError:
            os.close(fd)
            path.unlink(missing_ok=True)
            raise
        return cls(path, fd, head["epoch"], head["first"], array("q"), size)

    @classmethod
    def recover(cls, path: Path, ours: dict[str, Any]) -> "_Segment | None":
        """An earlier process's file; None if there was no record in it, and then it is removed."""
        fd = os.open(path, os.O_RDWR)
        try:
            if records.head_is_torn(fd, SPOOL_MAGIC):
                return cls._discard(path, fd)
            head, start = records.read_head(path, fd, SPOOL_MAGIC, "spool")
            differ = [f"{name} {head[name]!r} (now {ours[name]!r})" for name in ours if head[name] != ours[name]]
            if differ:
                raise DataError(f"spool {path} was written with another {', '.join(differ)}: deliver it with the task, "
                                "obs and version that wrote it, or move it away")  # fmt: skip
            offsets, end, positions = recover(path, fd, start, "spool")
            if not offsets:
                return cls._discard(path, fd)
            stream = (ours["actor"], head["epoch"])
            if positions != {stream: head["first"] + len(offsets) - 1}:
                raise DataError(f"spool {path} is damaged: it holds {len(offsets)} records from {head['first']} on, "
                                f"but ends with {positions}. Restore the file from a copy")  # fmt: skip
            records.renew_head(fd, SPOOL_MAGIC)
            return cls(path, fd, head["epoch"], head["first"], offsets, end)
        except BaseException:
            os.close(fd)
            raise

    @classmethod
    def _discard(cls, path: Path, fd: int) -> None:
        path.unlink()
        os.close(fd)

    def append(self, several: Sequence[Record]) -> None:
        """Raises OSError with the file as it was."""
        at = self.size
        self.file.append([piece for record in several for piece in (record.header, record.payload)])
        for record in several:
            self.offsets.append(at)
            at += record.size

    def finish(self) -> None:
        """Nothing more will be appended. Waits for the disk; raises OSError."""
        self.file.trim()
        os.fdatasync(self.fd)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _number(path: Path) -> int:
    try:
        return int(path.stem)
    except ValueError as error:
        raise DataError(f"{path} is no segment of a spool, which is called 00000001.seg: move it away") from error
