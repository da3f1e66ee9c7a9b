"""Telling the disk to take what was written, at once or in the background: bounds what a power cut can cost."""

import logging
import os
import threading
from pathlib import Path

log = logging.getLogger(__name__)


def sync_path(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class BackgroundSync:
    """A thread that calls fdatasync every `period_s` on the files that were written since.

    A written page survives the kill of any process; it needs this only against the loss of power. The writing thread
    calls `written(fd)` after each write (it never waits for the disk), and `forget(fd)` before it closes a file.
    When the disk refuses, the next `written` raises that OSError.
    """

    def __init__(self, period_s: float):
        self._period_s = period_s
        self._dirty: set[int] = set()
        self._busy = threading.Lock()  # held while the disk works
        self._wake = threading.Event()
        self._failure: OSError | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="sync", daemon=True)
        self._thread.start()

    def written(self, fd: int) -> None:
        """There is something new in this file."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        self._dirty.add(fd)

    def soon(self) -> None:
        """Do not wait for the period's end (an episode is complete)."""
        self._wake.set()

    def forget(self, fd: int) -> None:
        """The file is about to be closed by its owner."""
        with self._busy:
            self._dirty.discard(fd)

    def close(self) -> None:
        """Sync what is left and end the thread."""
        self._closing = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(self._period_s)
            self._wake.clear()
            with self._busy:
                self._sync_all()

    def _sync_all(self) -> None:
        while self._dirty:
            try:
                os.fdatasync(self._dirty.pop())
            except OSError as error:
                log.error("the disk does not take what was written: %s", error.strerror)
                self._failure = error
