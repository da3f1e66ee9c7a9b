"""What was handed over, as nobody can deny it: the spool's files themselves, held open by the test.

How can a test know what must not be lost? The actor appends each record to its spool before it is sent; from then on
it may not be lost. The witness opens each segment as it appears and keeps it open. A file that is held open lives on
when the spool removes it, so at any time, also after the end, the witness can read every record that ever lay in the
spool, byte for byte, whoever was killed meanwhile. It polls: a segment lives as long as its actor process at least,
which is seconds. (It asks neither actor nor learner, whose counters might be wrong together.)
"""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from robot_rl.data import records
from robot_rl.data.recovery import LOG_MAGIC, SPOOL_MAGIC
from robot_rl.types import DataError, Identity

Records = dict[Identity, int]
"""The checksum of the payload of each record, in their order."""


class Witness:
    """Watches the spool folder of one actor until `close`."""

    def __init__(self, spool: Path, period_s: float = 0.05):
        self._spool, self._period_s = spool, period_s
        self._files: dict[tuple[int, int], int] = {}  # by device and inode
        self._ever: Records = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)
        self._thread.start()

    def held(self) -> Records:
        """Every whole record in a segment that there is or was, as it is now."""
        self._look()
        found: Records = {}
        with self._lock:
            for fd in self._files.values():
                found |= dict(read_records(fd, SPOOL_MAGIC))
            self._ever |= found
        return found

    def ever(self) -> Records:
        """Also those that were there at an earlier call of `held` or `ever`, before a file was cut or damaged."""
        self.held()
        return dict(self._ever)

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        for fd in self._files.values():
            os.close(fd)

    def _run(self) -> None:
        while not self._closing.wait(self._period_s):
            self._look()

    def _look(self) -> None:
        with self._lock:
            for path in sorted(self._spool.glob("*.seg")):
                try:
                    fd = os.open(path, os.O_RDONLY)
                except FileNotFoundError:
                    continue
                about = os.fstat(fd)
                if self._files.setdefault((about.st_dev, about.st_ino), fd) != fd:
                    os.close(fd)


def read_records(fd: int, magic: bytes) -> Iterator[tuple[Identity, int]]:
    """Identity and checksum of the payload of each record up to the first that is not whole."""
    try:
        _, start = records.read_head(Path(f"/proc/self/fd/{fd}"), fd, magic, "file")
    except DataError:
        return  # its head is not written yet
    for offset, header in records.scan(fd, start, os.fstat(fd).st_size):
        if records.read(fd, offset) is None:
            return
        yield header.identity, header.crc


def logged(log: Path) -> list[tuple[Identity, int]]:
    """The records in a learner's log, which may be in use."""
    try:
        fd = os.open(log, os.O_RDONLY)
    except FileNotFoundError:
        return []
    try:
        return list(read_records(fd, LOG_MAGIC))
    finally:
        os.close(fd)
