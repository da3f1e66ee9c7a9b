"""What was handed over, as nobody can deny it: the spool itself, read by the test.

How can a test know what must not be lost? The actor appends each record to its spool before it is
sent; from then on it may not be lost. The witness opens the spool's files as they appear and keeps
them open: a file that is held open lives on when the spool removes it. It reads them as they lie,
without SQLite and its locks, again and again, and keeps what it has seen: a record that is
acknowledged stays in the file for seconds. (It asks neither actor nor learner, whose counters might
be wrong together.)
"""

import contextlib
import os
import threading
from pathlib import Path

from robot_rl.stream import records
from robot_rl.stream.old_files import SPOOL_FILE
from robot_rl.stream.pages import LOG, SPOOL, Pages, places
from robot_rl.stream.store import Store
from robot_rl.types import DataError, RecordId

Records = dict[RecordId, int]
"""The checksum of the payload of each record, in their order."""


class Witness:
    """Watches the spool folder of one actor until `close`."""

    def __init__(self, spool: Path, period_s: float = 0.05):
        self._path, self._period_s = spool / SPOOL_FILE, period_s
        self._files: dict[
            tuple[int, int], tuple[int, int]
        ] = {}  # file and write-ahead log, by their inodes
        self._ever: Records = {}
        self._cut: set[RecordId] = set()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)
        self._thread.start()

    def held(self) -> Records:
        """Every record that was in the spool and was not cut off or damaged by the test."""
        with self._lock:
            self._look()
            return {
                identity: crc for identity, crc in self._ever.items() if identity not in self._cut
            }

    def ever(self) -> Records:
        """Also those."""
        self.held()
        return dict(self._ever)

    def cut(self) -> None:
        """The test has just torn the spool, which nobody is writing: what is no longer in it need
        not arrive.

        Unless the learner may have it already: what is there twice is still judged.
        """
        with self._lock:
            there = dict(read_records(self._path, SPOOL))
            newest = next(reversed(self._ever)).epoch
            last = max((identity.seq for identity in there if identity.epoch == newest), default=-1)
            self._cut |= {one for one in self._ever if one.epoch == newest and one.seq > last}

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        for fd in {fd for pair in self._files.values() for fd in pair if fd >= 0}:
            os.close(fd)

    def _run(self) -> None:
        while not self._closing.wait(self._period_s):
            with self._lock:
                self._look()

    def _look(self) -> None:
        self._hold()
        newest = list(self._files.values())[-2:]  # nobody writes to the older ones any more
        for fd, wal in newest:
            data = os.pread(wal, os.fstat(wal).st_size, 0) if wal >= 0 else b""
            found = [place for place in places(Pages(fd, data)) if place.whole]
            for place in sorted(found, key=lambda place: (place.n or 0, place.header.identity.seq)):
                self._ever.setdefault(place.header.identity, place.header.crc)

    def _hold(self) -> None:
        """Open what is there, unless it is held already."""
        pair = []
        for path in (self._path, Path(f"{self._path}-wal")):
            fd = -1
            with contextlib.suppress(FileNotFoundError):
                fd = os.open(path, os.O_RDONLY)
            pair.append(fd)
        inodes = [os.fstat(fd).st_ino if fd >= 0 else 0 for fd in pair]
        key = inodes[0], inodes[1]
        if pair[0] >= 0 and key not in self._files:
            self._files[key] = pair[0], pair[1]
            return
        for fd in pair:
            if fd >= 0:
                os.close(fd)


def read_records(path: Path, kind: str) -> list[tuple[RecordId, int]]:
    """Identity and checksum of the payload of each record up to the first that is not whole."""
    found = []
    try:
        store = Store(path, kind, kind=kind, read_only=True)
    except DataError:
        return []  # it is not there yet, not any more, or damaged
    try:
        for record in store.read(store.first):
            header = records.parse(record.header)
            assert header is not None
            found.append((header.identity, header.crc))
    except DataError:
        pass
    finally:
        store.close()
    return found


def logged(log: Path) -> list[tuple[RecordId, int]]:
    """The records in a learner's log, which may be in use."""
    return read_records(log, LOG)
