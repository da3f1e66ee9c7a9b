"""Small files of a run: JSON that is whole or not there, and tables that grow line by line,
whatever happened to them.

A JSON file is written beside its name and renamed, so that no moment of it is half. With a checksum
(`seal`) a digit that changed by itself is noticed. A table (`metrics.jsonl`, `episodes.jsonl`) is
for plots and for the console: a line of it that is damaged is left out with a warning, and a
table that cannot be written ends nothing.
"""

import errno
import json
import logging
import math
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Generic, Protocol, TypeVar

from robot_rl.machine.sync import sync_path
from robot_rl.types import DataError

log = logging.getLogger(__name__)

CRC = "crc32"
"""The key of a sealed object: CRC-32 of all the rest, as canonical JSON."""
MAX_LINE = 1 << 20
"""Bytes of a line at most; what is longer is no row."""
MAX_BYTES = 64 << 20
"""Bytes of a JSON file at most."""
LARGEST = 2.0**53
"""Of a number in a row: beyond it not even whole numbers are exact."""


# --------------------------------------------------------------------------------------- one object


def write_json(path: Path, value: Any, indent: int | None = None) -> None:
    """Write a JSON file whole: on the disk when this returns, and as it was before if that fails
    (DataError).
    """
    write_bytes(path, (json.dumps(finite(value), indent=indent, allow_nan=False) + "\n").encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write any file whole, as `write_json` does."""
    draft = path.with_name(f".writing_{path.name}")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        sync_path(path.parent)
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror}. What was there is as it was: make room on"
            " that disk, or make it writable, or move away what has this name, then start again"
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises DataError with the file's name and what is wrong with it."""
    try:
        with _open(path) as file:
            if os.fstat(file.fileno()).st_size > MAX_BYTES:
                raise ValueError(f"it is larger than {MAX_BYTES >> 20} MB")
            value = json.loads(file.read())
        if not isinstance(value, dict):
            raise ValueError(f"wanted an object with keys, and it is {_kind(value)}")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged: {error}") from error
    return value


def seal(value: Mapping[str, Any]) -> dict[str, Any]:
    """The object with a checksum of itself under `crc32`."""
    rest = {key: each for key, each in value.items() if key != CRC}
    return rest | {CRC: _checksum(rest)}


def require_seal(value: Mapping[str, Any]) -> None:
    """Raise DataError if an object has a checksum, and is not what was sealed. One without any
    passes.
    """
    if CRC in value and seal(value)[CRC] != value[CRC]:
        raise DataError(
            f'it is not as it was written: its checksum (the key "{CRC}") does not match'
        )


def finite(value: Any) -> Any:
    """The value as JSON has it: numbers and arrays of numpy and torch become plain, what is not
    finite None.
    """
    if isinstance(value, Mapping):
        return {str(key): finite(each) for key, each in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def is_number(value: Any) -> bool:
    """Whether a value of a row is a number, or a bool, that can be counted with."""
    return isinstance(value, int | float) and -LARGEST <= value <= LARGEST


# ------------------------------------------------------------------------------------------- tables


class JsonLines:
    """A table that one process appends to. Never raises for the disk's sake: the run goes on
    without the table.

    One line, one write: who reads beside it sees whole lines, but for the last. Where the last line
    of an earlier writer has no end (a power cut), the first new one begins behind it, so that two
    never become one.
    """

    def __init__(self, path: Path):
        self._path, self._fd, self._is_torn, self._has_warned = path, -1, False, False
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o644)
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                raise OSError(errno.EINVAL, "it is no file")
            size = os.fstat(self._fd).st_size
            self._is_torn = size > 0 and os.pread(self._fd, 1, size - 1) != b"\n"
        except OSError as error:
            self._complain(error)
            self.close()

    def append(self, row: Mapping[str, Any]) -> None:
        """Append a row; numbers that are not finite become null."""
        if self._fd < 0:
            return
        line = json.dumps(finite(row), allow_nan=False).encode() + b"\n"
        if self._is_torn:
            line = b"\n" + line
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            self._complain(error)
            return
        self._is_torn = written < len(line)

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _complain(self, error: OSError) -> None:
        if not self._has_warned:
            log.warning("%s cannot be written: %s. The run goes on, and rows are missing in it: make room, or move "
                        "away what has this name", self._path, error.strerror)  # fmt: skip
        self._has_warned = True


class Sums(Protocol):
    """What rows come to."""

    def add(self, row: dict[str, Any]) -> Any: ...


T = TypeVar("T", bound=Sums)


class Tail(Generic[T]):
    """What the rows of a growing table come to, each line read once; for one thread.

    ```
    tail = Tail(path, Newest, numbers=("env_steps",))
    newest = tail.read()        # again and again: only what is new is read
    ```
    Rows are objects in which `numbers` are numbers; any other line is left out, and one warning
    says which. A line that is still being written waits for its end. A file that was replaced or
    cut is read anew, from its beginning, into a new sum. A look reads `at_most` bytes or a little
    more, and the next one goes on; with `newest` the first look begins so many bytes before the
    end.
    """

    def __init__(
        self,
        path: Path,
        begin: Callable[[], T],
        numbers: tuple[str, ...] = (),
        at_most: float = math.inf,
        newest: float = math.inf,
    ):
        self._path = path
        self._begin = begin
        self._numbers = numbers
        self._at_most = at_most
        self._newest = newest
        self._sums = begin()
        self._place: tuple[int, int] | None = None  # device and inode
        self._at = self._line = 0
        self._end = b""  # the last bytes that were read: another file has others there
        self._is_inside = False  # of a line that is too long, or whose beginning was not read
        self._is_counted = True  # lines have their numbers
        self._bad: list[int] = []
        self._bad_count = 0
        self._has_warned = False
        self.is_through = False  # the last look came to the end

    def read(self) -> T:
        """What all rows so far come to; with `at_most`, all that have been read."""
        try:
            with _open(self._path) as file:
                self._follow(file)
                self._read(file)
        except FileNotFoundError:
            self.is_through = True
        except OSError as error:
            self.is_through = True
            self._warn(f"{self._path} cannot be read: {error.strerror}. It is only for plots and figures, which go "
                       "without it; move away what has this name, and a new one is begun")  # fmt: skip
        if self._bad_count:
            self._warn(f"{self._path}: {self._which()}: {self._bad_count} damaged (a power cut?), and left out of "
                       "plots and figures; the others count")  # fmt: skip
        return self._sums

    def _follow(self, file: IO[bytes]) -> None:
        """Begin anew if this is another file than at the last look, or less of it."""
        about = os.fstat(file.fileno())
        place = (about.st_dev, about.st_ino)
        if place == self._place and about.st_size >= self._at and self._still_ends_there(file):
            return
        if self._place is not None:
            self._sums = self._begin()
        start = int(max(0, about.st_size - self._newest)) if self._place is None else 0
        self._place, self._at, self._line, self._end = place, start, 0, b""
        self._is_inside, self._is_counted = start > 0, start == 0

    def _still_ends_there(self, file: IO[bytes]) -> bool:
        return os.pread(file.fileno(), len(self._end), self._at - len(self._end)) == self._end

    def _read(self, file: IO[bytes]) -> None:
        file.seek(self._at)
        until = self._at + self._at_most
        self.is_through = True
        while line := file.readline(MAX_LINE):
            if self._at >= until:
                self.is_through = False
                return
            ends = line.endswith(b"\n")
            if not ends and len(line) < MAX_LINE:
                return  # still being written
            self._at += len(line)
            self._end = line[-64:]
            if not self._is_inside:
                self._line += 1
                self._take(line, ends)
            self._is_inside = not ends

    def _take(self, line: bytes, ends: bool) -> None:
        """Add a line to the sums, if it is a row."""
        row = row_of(line) if ends else None
        if row is not None and all(is_number(row.get(name)) for name in self._numbers):
            self._sums.add(row)
            return
        self._bad_count += 1
        if len(self._bad) < 5:
            self._bad.append(self._line)

    def _which(self) -> str:
        if not self._is_counted:
            return "of its newest lines"
        return f"line {', '.join(map(str, self._bad))}" + (
            ", ..." if self._bad_count > len(self._bad) else ""
        )

    def _warn(self, text: str) -> None:
        if not self._has_warned and text not in _said:  # by another reader of the same file
            log.warning(text)
            _said.add(text)
        self._has_warned = True


_said: set[str] = set()


class Rows(list[dict[str, Any]]):
    def add(self, row: dict[str, Any]) -> None:
        self.append(row)


def read_lines(path: Path, numbers: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    """The rows of a table, one after the other, as `Tail` reads them; a table that is not there has
    none.
    """
    tail = Tail(path, Rows, numbers, at_most=1 << 20)
    while not tail.is_through:
        rows = tail.read()
        yield from rows
        rows.clear()


def row_of(line: bytes) -> dict[str, Any] | None:
    """The object in a line, or None if there is none. NaN and infinities, which are no JSON, are
    read as null.
    """
    try:
        row = json.loads(line, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _open(path: Path) -> IO[bytes]:
    """A file for reading. OSError if it is none: nothing that may wait for ever, or has no end."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no file")
    return file


def _checksum(value: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())


def _kind(value: Any) -> str:
    return {list: "a list", str: "a text", type(None): "null", bool: "a bool"}.get(
        type(value), "a number"
    )
