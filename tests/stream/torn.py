"""What becomes of files: a byte changed, a block lost, the end missing; and what a killed writer
leaves behind.
"""

import shutil
from pathlib import Path

from robot_rl.stream.records import Record

BLOCK = 4096
"""What a disk loses at once [bytes]."""


def flip(path: Path, at: int, bits: int = 0xFF) -> None:
    """Change one byte."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ bits]))


def flip_in(path: Path, record: Record, where: str = "payload") -> None:
    """Change a byte of a record, of its header or its payload."""
    flip(
        path,
        path.read_bytes().rindex(record.header)
        + (len(record.header) + 20 if where == "payload" else 10),
    )


def punch(path: Path, block: int) -> None:
    """A block holds zeros."""
    with path.open("r+b") as file:
        file.seek(block * BLOCK)
        file.write(bytes(BLOCK))


def as_killed(path: Path, folder: Path) -> Path:
    """A copy of a log or spool that is being written, as its writer leaves it when it is killed
    now.
    """
    folder.mkdir(exist_ok=True)
    for ending in ("", "-wal"):
        shutil.copy(path.with_name(path.name + ending), folder)
    return folder / path.name
