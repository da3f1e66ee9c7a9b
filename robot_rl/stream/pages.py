"""The bytes of a log or spool: its tables, what its head says, and the pages that SQLite lays them
out on.

SQLite reads and writes the file; what is here of its own format
(https://sqlite.org/fileformat2.html) finds records where its tables are damaged. A record's header
stands in one piece on a page and has a checksum of its own, so it is found by itself; the payload
goes on behind it, and from there over pages that each name the next one. Whether the right ones
were found its checksum says.
"""

import contextlib
import json
import os
import sqlite3
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robot_rl.machine.sync import beside, sync_path
from robot_rl.packing import crc32c
from robot_rl.stream import records
from robot_rl.stream.records import HEADER_SIZE, Header, Record
from robot_rl.types import ActorStream, Array

PAGE = 8192
"""Bytes of a page: with 4096 a step of 98 kB takes as long, with 16384 a step of 600 bytes takes
twice as long.
"""
ROW_MAGIC = b"RRhd"
_ROW = struct.Struct("<4sII")
_TABLES = {
    "head": "CREATE TABLE head(id INTEGER PRIMARY KEY, row BLOB NOT NULL)",
    "spare": "CREATE TABLE spare(id INTEGER PRIMARY KEY, row BLOB NOT NULL)",
    "streams": "CREATE TABLE streams(id INTEGER PRIMARY KEY, header BLOB NOT NULL)",
    "records": (
        "CREATE TABLE records(n INTEGER PRIMARY KEY, header BLOB NOT NULL, payload BLOB NOT NULL)"
    ),
}
SCHEMA_ROWS = [
    (b"table", name.encode(), name.encode(), root, sql.encode())
    for root, (name, sql) in enumerate(_TABLES.items(), 2)
]
LOG, SPOOL = "step log", "spool"
OLD_MAGICS = (b"RRLOG\x00", b"RRSPL\x00")
"""How files of records began before they were SQLite's."""
_WAL_HEAD, _FRAME = struct.Struct(">4s3I4s4s2I"), struct.Struct(">II8s2I")
_HEAD_SUMMED, _FRAME_SUMMED = 24, 8  # bytes of the two that are in their checksums


def create_file(path: Path, about: dict[str, Any]) -> None:
    """A new file with this head. Under another name first: what is there under its own is never
    half made.
    """
    draft = beside(path, ".new")
    draft.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(draft, isolation_level=None)) as db:
        for pragma in (f"page_size={PAGE}", "journal_mode=MEMORY", "synchronous=OFF"):
            db.execute(f"PRAGMA {pragma}")
        db.execute("BEGIN")
        for sql in _TABLES.values():
            db.execute(sql)
        state = state_row(turn=0, first=0, closed=0, lost=0, streams=0)
        db.execute("INSERT INTO head VALUES (0, ?), (1, ?)", (seal(about), seal(state)))
        db.execute("INSERT INTO spare VALUES (0, ?)", (seal(about),))
        db.execute("COMMIT")
    sync_path(draft)
    draft.rename(path)
    sync_path(path.parent)


def unseal(data: bytes) -> dict[str, Any] | None:
    """What a row of the head says, at the beginning of these bytes; None if it does not match its
    checksum.
    """
    if len(data) < _ROW.size or not data.startswith(ROW_MAGIC):
        return None
    _, length, crc = _ROW.unpack_from(data)
    text = data[_ROW.size : _ROW.size + length]
    if len(text) != length or crc32c(text) != crc:
        return None
    said: dict[str, Any] = json.loads(text)
    return said


def seal(said: dict[str, Any]) -> bytes:
    text = json.dumps(said).encode()
    return _ROW.pack(ROW_MAGIC, len(text), crc32c(text)) + text


def state_row(turn: int, first: int, closed: int | None, lost: int, streams: int) -> dict[str, Any]:
    """The second row of the head. `turn` goes up with each; all are of one length, each is written
    over the last.
    """
    state: dict[str, Any] = {
        "turn": turn,
        "first": first,
        "closed": closed,
        "lost": lost,
        "streams": streams,
    }
    return state | {"room": " " * (160 - len(json.dumps(state)))}


def is_corrupt(error: sqlite3.Error) -> bool:
    """Whether SQLite says so of the file, and not of the disk."""
    name = getattr(error, "sqlite_errorname", "") or ""
    return name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", "SQLITE_SCHEMA"))


def reason_of(error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name == "SQLITE_FULL":
        return "No space left on device"
    if name.startswith("SQLITE_READONLY"):
        return "Read-only file system, or no permission to write"
    return f"{error} ({name})" if name else str(error)


class Pages:
    """The pages of a file, as its writer left them: those in its write-ahead log lie over those in
    itself.
    """

    def __init__(self, fd: int, wal: bytes):
        self._fd = fd
        self._written: dict[int, bytes] = {}
        self.count = -(-os.fstat(fd).st_size // PAGE)
        self._read_wal(wal)

    def page(self, number: int) -> bytes:
        """Page `number`, counted from 1; zeros where there is none."""
        found = self._written.get(number) or os.pread(self._fd, PAGE, (number - 1) * PAGE)
        return found.ljust(PAGE, b"\0")

    def _read_wal(self, data: bytes) -> None:
        """Frame by frame up to the last that ends a transaction, as far as each one's checksum goes
        on from the one before (https://sqlite.org/fileformat2.html, section 4): what lies behind is
        of an earlier turn, or torn."""
        if len(data) < _WAL_HEAD.size:
            return
        magic, *_, one_salt, other_salt, first, second = _WAL_HEAD.unpack_from(data)
        words = ">u4" if magic[-1] & 1 else "<u4"
        sums = _checksum(data[:_HEAD_SUMMED], (0, 0), words)
        if sums != (first, second):
            return
        pending: dict[int, bytes] = {}
        for at in range(_WAL_HEAD.size, len(data) - PAGE - _FRAME.size + 1, PAGE + _FRAME.size):
            number, size, salts, first, second = _FRAME.unpack_from(data, at)
            page = data[at + _FRAME.size : at + _FRAME.size + PAGE]
            sums = _checksum(data[at : at + _FRAME_SUMMED] + page, sums, words)
            if salts != one_salt + other_salt or sums != (first, second):
                return
            pending[number] = page
            if size:
                self._written |= pending
                self.count = max(self.count, size)
                pending = {}


def _checksum(data: bytes, sums: tuple[int, int], words: str) -> tuple[int, int]:
    """SQLite's, which goes on from `sums`: s0 += x0 + s1, then s1 += x1 + s0, for each two words of
    32 bits.

    That is linear: what stands n pairs before the end is multiplied n times by the same matrix.
    """
    pairs = np.frombuffer(data, words).astype(np.uint32).reshape(-1, 2)
    added = np.vstack([
        np.array([sums], np.uint32),
        np.stack([pairs[:, 0], pairs[:, 0] + pairs[:, 1]], axis=1),
    ])
    first, second = np.einsum("nij,nj->i", _powers(len(added))[::-1], added)
    return int(first), int(second)


@cache
def _powers(count: int) -> Array:
    """The matrix of one pair's turn, to the powers 0 to `count` - 1, modulo 2**32."""
    turn = np.array([[1, 1], [1, 2]], np.uint32)
    powers = [np.eye(2, dtype=np.uint32)]
    for _ in range(count - 1):
        powers.append(powers[-1] @ turn)
    return np.stack(powers)


class Place(NamedTuple):
    """Where a header was found: in the row of which record (None: that does not say), on which
    page, at which byte.
    """

    n: int | None
    header: Header
    page: int
    at: int
    whole: bool

    @property
    def stream(self) -> ActorStream:
        return self.header.identity.actor, self.header.identity.epoch


def places(pages: Pages) -> Iterator[Place]:
    """Every header that matches its checksum."""
    for number in range(1, pages.count + 1):
        page = pages.page(number)
        for at in find_all(page, records.MAGIC):
            header = records.parse(page[at : at + HEADER_SIZE])
            if header is not None:
                n = _number(page, at, header)
                yield Place(
                    n, header, number, at, payload_at(pages, number, at, header) is not None
                )


def find_all(page: bytes, word: bytes) -> Iterator[int]:
    at = page.find(word)
    while at >= 0:
        yield at
        at = page.find(word, at + 1)


def _row_head(header: Header) -> bytes:
    """What stands in front of a record in its row: the types of the columns, as SQLite writes them."""
    types = b"\0" + _varint(12 + 2 * HEADER_SIZE) + _varint(12 + 2 * header.length)
    return bytes([1 + len(types)]) + types


def _number(page: bytes, at: int, header: Header) -> int | None:
    """The number of the row that a header stands in: in front of it are the row's size, its number
    and its head.
    """
    head = _row_head(header)
    size, end = _varint(len(head) + HEADER_SIZE + header.length), at - len(head)
    for begin in range(end - 1, end - 10, -1):
        number = _from_varint(page[max(0, begin) : end])
        if number is not None and begin >= len(size) and page[begin - len(size) : begin] == size:
            return number
    return None


def payload_at(pages: Pages, number: int, at: int, header: Header) -> bytes | None:
    """The payload behind a header, or None if it does not match its checksum.

    What does not fit into the page of the row goes on in others, each of which begins with the
    number of the next.
    """
    size = len(_row_head(header)) + HEADER_SIZE + header.length
    if header.length > pages.count * PAGE:
        return None
    here, least = size, (PAGE - 12) * 32 // 255 - 23
    if size > PAGE - 35:
        here = least + (size - least) % (PAGE - 4)
        here = here if here <= PAGE - 35 else least
    page = pages.page(number)
    begin, end = at + HEADER_SIZE, at - len(_row_head(header)) + here
    parts, have = [page[begin:end]], end - begin
    following = page[end : end + 4]
    while have < header.length:
        next_page = int.from_bytes(following, "big")
        if not 0 < next_page <= pages.count:
            return None
        page = pages.page(next_page)
        following = page[:4]
        parts.append(page[4 : 4 + min(PAGE - 4, header.length - have)])
        have += len(parts[-1])
    payload = b"".join(parts)
    record = Record(
        header.kind,
        header.identity,
        records.frame(header.kind, header.identity, payload).header,
        payload,
    )
    return payload if records.parse(record.header) == header else None


def _varint(value: int) -> bytes:
    """As SQLite writes a number below 2**56."""
    out = [value & 0x7F]
    while value := value >> 7:
        out.append(value & 0x7F | 0x80)
    return bytes(reversed(out))


def _from_varint(data: bytes) -> int | None:
    """The number that these bytes are, all of them and no more."""
    if not data or data[-1] & 0x80 or not all(byte & 0x80 for byte in data[:-1]) or data[0] == 0x80:
        return None
    value = 0
    for byte in data:
        value = value << 7 | byte & 0x7F
    return value
