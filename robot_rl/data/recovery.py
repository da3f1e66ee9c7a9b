"""Opening a file of records after whatever became of its writer: a torn tail goes, damage in the middle is named.

A tail is torn if nothing whole follows: the record in hand at a kill, or what a power cut kept from the disk. A record
that is damaged before whole ones is an error that changes nothing; `repair` keeps all the others. But a power cut may
also leave a hole: a block that the disk never got, with later ones that it did. The file ends there then, and what
follows the hole, which nobody had been promised, is set aside.
"""

import logging
import os
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from robot_rl.data import records
from robot_rl.data.marks import encode_mark
from robot_rl.data.records import HEADER_SIZE, Header, Kind, Record
from robot_rl.types import DataError, Identity, Mark, MarkKind, Stream

log = logging.getLogger(__name__)

LOG_MAGIC = b"RRLOG\x00\x02\n"
SPOOL_MAGIC = b"RRSPL\x00\x02\n"
KINDS = {LOG_MAGIC: "step log", SPOOL_MAGIC: "spool"}
"""The kinds of files made of records, by how they begin."""
BLOCK = 4096
MAYBE_UNSYNCED, MAYBE_UNSYNCED_RECORDS = 32 << 20, 4_000
"""Bytes and records at the end of a file among which holes are looked for: far more than a robot makes until the next
sync."""

Positions = dict[Stream, int]
"""The last sequence number of each stream."""


class Contents(NamedTuple):
    """Where each whole record of a file begins, where the last one ends, and the last seq of each stream."""

    offsets: array
    end: int
    positions: Positions


def recover(path: Path, fd: int, start: int, what: str, writable: bool = True) -> Contents:
    """Walk over the headers from byte `start` on and cut a torn tail off; DataError for damage in the middle.

    The newest payloads are looked at too.
    """
    size = os.fstat(fd).st_size
    offsets, end, positions = array("q"), start, {}
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # the payloads between the headers are not wanted from the disk
    for offset, header in records.scan(fd, start, size):
        offsets.append(offset)
        positions[header.identity.actor, header.identity.epoch] = header.identity.seq
        end = offset + HEADER_SIZE + header.length
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_NORMAL)
    used = _without_zeros(fd, end, size)
    follows = end < used and records.next_header(fd, end + 1, used) is not None
    if follows and not (used < size and is_hole(fd, end, end + HEADER_SIZE)):
        raise DataError(f"{what} {path} is damaged in the middle: record {len(offsets)} at byte {end} has no valid "
                        f"header, and there are records behind it. {how_to_repair(path)}")  # fmt: skip
    whole = len(offsets)
    torn = _first_torn(fd, offsets, end, used < size)
    if torn < whole:
        follows |= any(records.read(fd, offset) for offset in offsets[torn + 1 :])
        end = offsets[torn]
        del offsets[torn:]
        positions = _count_again(fd, offsets)
    if end < used:
        if writable and follows:
            _set_aside(path, fd, end, used)
        done = "was cut off" if writable else "is passed over"
        log.warning("%s %s: a torn tail of %d bytes %s, %d records remain", what, path, used - end, done, len(offsets))
    if end < size and writable:
        os.ftruncate(fd, end)
    return Contents(offsets, end, positions)


def is_hole(fd: int, begin: int, end: int) -> bool:
    """Whether a block of the disk that these bytes lie in, wholly or in part, holds zeros alone."""
    first = begin - begin % BLOCK
    data = os.pread(fd, -(-(end - first) // BLOCK) * BLOCK, first)
    return any(not data[at : at + BLOCK].strip(b"\0") for at in range(0, len(data), BLOCK))


def _first_torn(fd: int, offsets: array, end: int, unclosed: bool) -> int:
    """Which record a power cut has torn; their number, if none.

    In a file that was not closed that is where there is a hole; else where nothing whole follows.
    """
    torn = len(offsets)
    first = bisect_left(offsets, end - MAYBE_UNSYNCED, max(0, torn - MAYBE_UNSYNCED_RECORDS)) if unclosed else torn
    for number in range(first, torn):
        ends = offsets[number + 1] if number + 1 < torn else end
        if records.read(fd, offsets[number]) is None and is_hole(fd, offsets[number], ends):
            return number
    while torn and records.read(fd, offsets[torn - 1]) is None:
        torn -= 1  # a power cut may leave several whose bytes never reached the disk
    return torn


def _without_zeros(fd: int, begin: int, end: int) -> int:
    """Where the zeros begin with which these bytes end."""
    while end > begin:
        data = os.pread(fd, min(end - begin, 1 << 20), max(begin, end - (1 << 20)))
        kept = len(data.rstrip(b"\0"))
        end -= len(data) - kept
        if kept:
            break
    return end


def _set_aside(path: Path, fd: int, begin: int, end: int) -> None:
    """Keep the bytes that are about to be cut off although there are whole records among them."""
    aside = path.with_name(f"{path.name}.cut-at-{begin}")
    with aside.open("wb") as out:
        for at in range(begin, end, 1 << 20):
            out.write(os.pread(fd, min(1 << 20, end - at), at))
    log.warning("%s: the disk never got a block of the record at byte %d (a power cut does that); the file ends there "
                "now, and what followed is in %s", path, begin, aside)  # fmt: skip


def damaged(path: Path, what: str, number: int, offset: int) -> DataError:
    """The error for a record that does not match its checksum although others follow it."""
    return DataError(f"{what} {path} is damaged: record {number} at byte {offset} does not match its checksum. "
                     f"{how_to_repair(path)}")  # fmt: skip


def how_to_repair(path: Path) -> str:
    """What to do about a file with a damaged record in its middle."""
    return (
        f"The records before it and behind it are whole: 'robot-rl data repair {path}' keeps them all, puts a mark in "
        "the place of what is lost, and leaves the damaged file beside it. Nothing was changed so far"
    )


def repair(path: Path) -> tuple[int, int]:
    """Write the file anew from its whole records; the damaged one stays beside it as `NAME.damaged`.

    The seq of each stream stays without holes: a mark GAP stands for each record that is lost. Those at the end of a
    stream are simply not there, since who sent them sends them again; unless it is over, because its actor has begun
    another. Returns how many records are kept, and how many are lost. Nobody may have the file open. Raises DataError
    if it is no file of records, OSError if it cannot be written.
    """
    path = Path(path)
    draft = path.with_name(path.name + ".repairing")
    with path.open("rb") as file, draft.open("wb") as out:
        fd = file.fileno()
        magic = next((one for one in KINDS if os.pread(fd, 8, 0) in records.versions(one)), None)
        if magic is None:
            raise DataError(f"{path} is neither of these: {', '.join(KINDS.values())}")
        head, start = records.read_head(path, fd, magic, KINDS[magic])
        out.write(magic + os.pread(fd, start, 0)[len(magic) :])
        writer = _Repaired(out, {(head["actor"], head["epoch"]): head["first"] - 1} if "first" in head else {})
        for part in _parts(fd, start):
            if isinstance(part, Record):
                writer.keep(part)
            else:
                writer.miss(part)
        out.flush()
        os.fsync(out.fileno())
    path.rename(path.with_name(path.name + ".damaged"))
    draft.rename(path)
    return writer.kept, writer.lost


class _Repaired:
    """Writes the whole records of a damaged file, and a mark in the place of each that is lost."""

    def __init__(self, out: BinaryIO, last: Positions):
        self._out, self._last = out, last
        self._newest: Stream | None = None
        self._missed: Positions = {}  # the last seq of each stream that damaged records had
        self._unknown = False  # whether there was one, since the newest whole record, that does not say whose it was
        self.kept = self.lost = 0

    def keep(self, record: Record) -> None:
        """The next record that is whole."""
        stream, seq = (record.identity.actor, record.identity.epoch), record.identity.seq
        if stream not in self._last:
            if self._unknown and seq == 0:
                self._miss_behind(self._newest)
            # a new process: nobody sends again what the one before has sent
            for over in [missed for missed in self._missed if missed[0] == stream[0]]:
                self._fill(over, self._missed.pop(over) + 1)
        self._fill(stream, seq)
        self._write(record)
        self._last[stream] = seq
        self._newest, self._unknown = stream, False
        self.kept += 1

    def miss(self, header: Header | None) -> None:
        """A record that is not whole comes next, or bytes that are not even a header."""
        if header is not None:
            self._missed[header.identity.actor, header.identity.epoch] = header.identity.seq
        self._unknown |= header is None

    def _miss_behind(self, stream: Stream | None) -> None:
        """The record behind the last one of a stream is lost; None: the very first of the file, whoever sent it."""
        if stream is None:
            self.lost += 1
        else:
            self._missed[stream] = max(self._last[stream], self._missed.get(stream, -1)) + 1

    def _fill(self, stream: Stream, end: int) -> None:
        """Marks for what is missing of a stream before the seq `end`."""
        for seq in range(self._last.get(stream, -1) + 1, end):
            self._write(placeholder(Identity(*stream, seq)))
            self._last[stream] = seq
            self.lost += 1

    def _write(self, record: Record) -> None:
        self._out.write(record.header)
        self._out.write(record.payload)


def placeholder(identity: Identity) -> Record:
    """The mark that stands for a record that is lost."""
    mark = Mark(MarkKind.GAP, actor=identity.actor, epoch=identity.epoch, last_seq=identity.seq - 1)
    return records.frame(Kind.MARK, identity, encode_mark(mark))


def _parts(fd: int, start: int) -> Iterator[Record | Header | None]:
    """What a damaged file holds: whole records, headers of those whose payload is not, None for other bytes."""
    size = os.fstat(fd).st_size
    at: int | None = start
    while at is not None and at < size:
        record = records.read(fd, at)
        if record is not None:
            yield record
            at += record.size
        else:
            yield records.parse(os.pread(fd, HEADER_SIZE, at))
            at = records.next_header(fd, at + 1, size)


def _count_again(fd: int, offsets: array) -> Positions:
    positions: Positions = {}
    for offset in offsets:
        header = records.parse(os.pread(fd, HEADER_SIZE, offset))
        if header is not None:
            positions[header.identity.actor, header.identity.epoch] = header.identity.seq
    return positions
