"""Telling the disk to take what was written, at once or in the background: bounds what a power cut can cost."""

import logging
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)


def sync_path(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Periodic:
    """A thread that calls `work` every `period_s`. What that raises of the disk, the next `check` raises."""

    def __init__(self, period_s: float, work: Callable[[], None]):
        self._period_s, self._work = period_s, work
        self._wake = threading.Event()
        self._failure: Exception | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="sync", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise what the disk said in the background, once."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def soon(self) -> None:
        """Do not wait for the period's end (an episode is complete)."""
        self._wake.set()

    def close(self) -> None:
        """End the thread."""
        self._closing = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(self._period_s)
            self._wake.clear()
            try:
                self._work()
            except (OSError, sqlite3.Error) as error:
                log.error("the disk does not take what was written: %s", error)
                self._failure = error
