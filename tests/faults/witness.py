"""What was handed over, as nobody can deny it: the spool itself, read by the test.

How can a test know what must not be lost? The actor appends each record to its spool before it is sent; from then on
it may not be lost. The witness reads along, every few hundredths of a second, and keeps what it has seen. A record that
is acknowledged stays in the spool for seconds, so nothing is missed. (It asks neither actor nor learner, whose counters
might be wrong together.)
"""

import threading
from pathlib import Path

from robot_rl.data import records
from robot_rl.data.old_files import SPOOL_FILE
from robot_rl.data.store import LOG, SPOOL, Store
from robot_rl.types import DataError, Identity

Records = dict[Identity, int]
"""The checksum of the payload of each record, in their order."""


class Witness:
    """Watches the spool folder of one actor until `close`."""

    def __init__(self, spool: Path, period_s: float = 0.05):
        self._path, self._period_s = spool / SPOOL_FILE, period_s
        self._ever: Records = {}
        self._cut: set[Identity] = set()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)
        self._thread.start()

    def held(self) -> Records:
        """Every record that was in the spool and was not cut off or damaged by the test."""
        with self._lock:
            self._look()
            return {identity: crc for identity, crc in self._ever.items() if identity not in self._cut}

    def ever(self) -> Records:
        """Also those."""
        self.held()
        return dict(self._ever)

    def cut(self) -> None:
        """The test has just torn the spool, which nobody is writing: what is no longer in it need not arrive.

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

    def _run(self) -> None:
        while not self._closing.wait(self._period_s):
            with self._lock:
                self._look()

    def _look(self) -> None:
        for identity, crc in read_records(self._path, SPOOL):
            self._ever.setdefault(identity, crc)


def read_records(path: Path, kind: str) -> list[tuple[Identity, int]]:
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


def logged(log: Path) -> list[tuple[Identity, int]]:
    """The records in a learner's log, which may be in use."""
    return read_records(log, LOG)
