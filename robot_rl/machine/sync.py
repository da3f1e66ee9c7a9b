"""Files that must not be lost: the disk is told to take them, at once or in the background, and one
process writes.
"""

import contextlib
import fcntl
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

from robot_rl.types import DataError

log = logging.getLogger(__name__)


def sync_path(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Periodic:
    """A thread that calls `work` every `period_s`. What that raises of the disk, the next `check`
    raises.
    """

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


class Lock:
    """The right to write a file: one process has it. It lies in a file of its own beside it.

    (SQLite's locks would go if this process opened and closed the file itself.)
    """

    def __init__(self, path: Path, what: str, timeout_s: float = 2.0):
        self._path = beside(path, ".lock")
        deadline = time.monotonic() + timeout_s
        while not self._take():
            if time.monotonic() > deadline:
                raise DataError(
                    f"{what} is being written by another process: stop it, or take another run"
                    " folder"
                )
            time.sleep(0.05)  # a killed predecessor may need a moment to go

    def _take(self) -> bool:
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # else its holder has just removed it
            if os.fstat(self._fd).st_ino == self._path.stat().st_ino:
                return True
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(self._fd)
        return False

    def release(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._fd)


def lock(path: Path, what: str) -> contextlib.ExitStack:
    """Be the only one who writes this file, until the end of the block; DataError."""
    held = contextlib.ExitStack()
    held.callback(Lock(path, what).release)
    return held


def remove_file(path: Path) -> None:
    """A closed or abandoned store and what lies beside it. Raises OSError."""
    for name in ("", "-wal", "-shm"):
        beside(path, name).unlink(missing_ok=True)


def beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def has_wal(path: Path) -> bool:
    """Whether a write-ahead log lies beside a file of SQLite's, with something in it."""
    wal = beside(path, "-wal")
    return wal.exists() and wal.stat().st_size > 0
