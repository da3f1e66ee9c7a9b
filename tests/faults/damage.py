"""What happens to files: cut and flipped; and what the operator does about it."""

import os
import random
import subprocess
import sys
from pathlib import Path

from robot_rl.data import records
from robot_rl.data.recovery import LOG_MAGIC, SPOOL_MAGIC
from tests.faults.bench import Bench, FaultError

HEADER = records.HEADER_SIZE
BLOCK = 4096
"""What a disk writes or does not write when the power is cut [bytes]."""


def offsets_of(path: Path) -> list[int]:
    """Where each record of a log or spool begins, and where the last one ends."""
    with path.open("rb") as file:
        magic = LOG_MAGIC if file.read(8) == LOG_MAGIC else SPOOL_MAGIC
        fd = file.fileno()
        _, end = records.read_head(path, fd, magic, "file")
        offsets = []
        for offset, header in records.scan(fd, end, os.fstat(fd).st_size):
            offsets.append(offset)
            end = offset + HEADER + header.length
    return [*offsets, end]


def cut(path: Path, first: int, draw: random.Random) -> None:
    """Cut the file off somewhere behind the beginning of its record number `first`."""
    offsets = offsets_of(path)
    with path.open("r+b") as file:
        file.truncate(draw.randint(offsets[first], offsets[-1]))


def punch(path: Path, first: int, draw: random.Random) -> None:
    """A block of the disk behind the beginning of record `first` holds zeros, later ones what was written to them.

    That happens to a file that has room asked for ahead (`RecordFile`), as a longer one than these would have.
    """
    offsets = offsets_of(path)
    blocks = range(-(-offsets[first] // BLOCK), offsets[-1] // BLOCK)
    if blocks:
        with path.open("r+b") as file:
            os.pwrite(file.fileno(), bytes(BLOCK), BLOCK * draw.choice(blocks))
            file.truncate(offsets[-1] + draw.randrange(1, 16) * BLOCK)
    else:
        cut(path, first, draw)


def flip(path: Path, record: int, draw: random.Random) -> None:
    """Change one byte somewhere in a record, header or payload."""
    begin, end = offsets_of(path)[record : record + 2]
    at = draw.randrange(begin, end)
    with path.open("r+b") as file:
        old = os.pread(file.fileno(), 1, at)[0]
        os.pwrite(file.fileno(), bytes([old ^ draw.randrange(1, 256)]), at)


def newest_segment(spool: Path) -> Path:
    """The last segment of a spool; FaultError if it is empty."""
    found = sorted(spool.glob("*.seg"))
    if not found:
        raise FaultError(f"there is no segment in {spool}")
    return found[-1]


def repair(bench: Bench, path: Path, lost: int) -> None:
    """What the error told to do; FaultError if it does not give up exactly `lost` records."""
    command = [sys.executable, "-m", "robot_rl.cli", "data", "repair", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120.0)
    if done.returncode != 0 or f" {lost} lost" not in done.stdout:
        raise FaultError(f"repair of {path} ended with {done.returncode}: {done.stdout}{done.stderr}")
    bench.damaged += lost
