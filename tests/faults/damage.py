"""What happens to files: torn, holed and flipped; and what the operator does about it."""

import contextlib
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from robot_rl.stream.records import HEADER_SIZE, Record
from robot_rl.stream.store import Store
from robot_rl.types import DataError, RecordId
from tests.faults.bench import Bench, FaultError

BLOCK = 4096
"""What a disk writes or does not write when the power is cut [bytes]."""


def cut(wal: Path, draw: random.Random) -> None:
    """Of what was not synced the end is missing."""
    os.truncate(wal, draw.randrange(wal.stat().st_size))


def punch(wal: Path, draw: random.Random) -> None:
    """Of what was not synced a block holds zeros, later ones what was written to them."""
    with wal.open("r+b") as file:
        os.pwrite(
            file.fileno(), bytes(BLOCK), BLOCK * draw.randrange(-(-wal.stat().st_size // BLOCK))
        )


def tear(path: Path, kind: str, how, at_least: int, draw: random.Random) -> None:
    """Do that to the write-ahead log of a log or spool whose writer is gone, so that `at_least`
    records remain.
    """
    wal = Path(f"{path}-wal")
    if not wal.exists() or not wal.stat().st_size:
        return
    for _ in range(20):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(shutil.copy(path, folder))
            torn = Path(shutil.copy(wal, folder))
            how(torn, draw)
            data = torn.read_bytes()
            if number_of(copy, kind) >= at_least:
                wal.write_bytes(data)
                # the power was cut: what was in memory is gone
                Path(f"{path}-shm").unlink(missing_ok=True)
                return


def number_of(path: Path, kind: str) -> int:
    """How many records a log or spool has had up to now."""
    store = Store(path, kind, kind=kind, read_only=True)
    try:
        return store.end
    finally:
        store.close()


def contents(path: Path, kind: str) -> list[Record]:
    """The whole records of a log or spool, up to the first that is not."""
    found: list[Record] = []
    with contextlib.suppress(DataError):
        store = Store(path, kind, kind=kind, read_only=True)
        with contextlib.closing(store), contextlib.suppress(DataError):
            found.extend(store.read(store.first))
    return found


def flip(path: Path, kind: str, identity: RecordId, draw: random.Random) -> None:
    """Change one byte somewhere in a record, header or payload. Nobody has the file open."""
    at, size = locate(path, kind, identity)
    at += draw.randrange(size)
    with path.open("r+b") as file:
        old = os.pread(file.fileno(), 1, at)[0]
        os.pwrite(file.fileno(), bytes([old ^ draw.randrange(1, 256)]), at)


def close_and_punch(path: Path, kind: str, identity: RecordId) -> None:
    """Close a log as its writer does at the end; then the block in which a record begins holds
    zeros.
    """
    store = Store(path, kind, kind=kind)
    store._begin_writing()
    store.close()
    at, _ = locate(path, kind, identity)
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), bytes(BLOCK), at - at % BLOCK)


def locate(path: Path, kind: str, identity: RecordId) -> tuple[int, int]:
    """Where a record of a settled file begins in it, and how many bytes of it lie there together."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    record = next(one for one in contents(path, kind) if one.identity == identity)
    together = record.header + bytes(record.payload)[:100]
    return path.read_bytes().rindex(together), min(len(together), HEADER_SIZE + 100)


def repair(bench: Bench, path: Path, lost: range) -> None:
    """What the error told to do; FaultError if it does not give up so many records."""
    command = [sys.executable, "-m", "robot_rl", "data", "repair", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120.0)
    said = re.search(r" (\d+) lost", done.stdout)
    if done.returncode != 0 or said is None or int(said[1]) not in lost:
        raise FaultError(
            f"repair of {path} ended with {done.returncode}: {done.stdout}{done.stderr}"
        )
    bench.damaged += int(said[1])
