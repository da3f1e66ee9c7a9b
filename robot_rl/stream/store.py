"""The store: numbered records in one file of SQLite's, behind the learner's log and the actor's
spool alike.

    head      0: what the file is (kind, schema, space, run)    1: its state (closed with how many records, ...)
    spare     the first row of head once more, on a page of its own
    streams   the header of the newest record of each (actor, epoch)
    records   number | header | payload: the number goes up by one with each record

While it is written, the file has a write-ahead log beside it (NAME-wal), which is synced and taken
over into the file every `sync_every_s`: what a kill leaves behind is whole, and what a power cut
takes is not older than that. A file that was closed is one file, and its state says with how many
records. SQLite knows no checksums in a file; every record has its own (`records.py`), and so do the
rows of `head`.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from robot_rl.machine.sync import Lock, Periodic, beside, has_wal, remove_file, sync_path
from robot_rl.packing import crc32c
from robot_rl.stream import pages, records
from robot_rl.stream.records import Record
from robot_rl.types import ActorStream, DataError, RecordId

_CHUNK = 64


class Store:
    """One file, opened for writing (by one process at a time), or with `read_only` beside the
    writer.

    `what` names it in messages ("log PATH"). `about` is its head; a file that is not there is made
    with the head `create`, if that is given. Records are numbered from `first` (0, unless older
    ones were removed) to `end` - 1; `positions` holds the last sequence number of each (actor,
    epoch). Opening reads no records but the last; it changes nothing, and neither does closing,
    unless something was appended. Written by one thread. Raises DataError for a file that is
    damaged, is none of this kind, or is being written by another process.
    """

    def __init__(
        self, path: Path, what: str, *, kind: str, create: dict[str, Any] | None = None, read_only: bool = False,
        sync_every_s: float | None = None,
    ):  # fmt: skip
        self.path, self.what, self.kind = path, f"{what} {path}", kind
        self.first = self.end = 0
        self.lost = 0
        """Records that a repair could not even put a mark for."""
        self._headers: dict[ActorStream, tuple[int, RecordId]] = {}
        """The row of each stream, and its newest record."""
        self._read_only, self._busy = read_only, threading.Lock()
        self._turn = 0
        self._writing = self._closed = False
        self._opened = contextlib.ExitStack()
        with contextlib.ExitStack() as undone:
            undone.callback(self._opened.close)
            with self._translated("opened"):
                if not read_only:
                    self._opened.callback(Lock(path, self.what).release)
                    if create is not None and not path.exists():
                        pages.create_file(path, {"kind": kind} | create)
                self._db = self._connect()
                self._opened.callback(lambda: self._db.close())
                self._read_head()
            undone.pop_all()
        self._sync: Periodic | None = None
        if sync_every_s is not None and not read_only:
            self._sync = Periodic(sync_every_s, lambda: self.checkpoint())

    @property
    def positions(self) -> dict[ActorStream, int]:
        """The last sequence number of each stream, in the order in which they began."""
        return {stream: identity.seq for stream, (_, identity) in self._headers.items()}

    def append(self, several: Sequence[Record]) -> None:
        """Append records, all of them or none. DataError (disk full, read-only) with the file as it
        was.
        """
        if not several:
            return
        newest = {(record.identity.actor, record.identity.epoch): record for record in several}
        free = count(len(self._headers))
        rows = {s: self._headers[s][0] if s in self._headers else next(free) for s in newest}
        with self._translated("written"), self._busy:
            if self._sync is not None:
                self._sync.check()
            self._begin_writing()
            with self._transaction():
                self._db.executemany(
                    "INSERT INTO records VALUES (?, ?, ?)",
                    (
                        (n, record.header, record.payload)
                        for n, record in enumerate(several, self.end)
                    ),
                )
                self._db.executemany(
                    "INSERT OR REPLACE INTO streams VALUES (?, ?)",
                    ((rows[stream], record.header) for stream, record in newest.items()),
                )
        self.end += len(several)
        for stream, record in newest.items():
            self._headers[stream] = rows[stream], record.identity

    def read(self, start: int, end: int | None = None) -> Iterator[Record]:
        """The records from number `start` on, up to `end` or as far as they reach. DataError at a
        damaged one.
        """
        number = start
        while number < (self.end if end is None else min(end, self.end)):
            with self._translated("read", number), self._busy:
                rows = self._db.execute(
                    "SELECT n, header, payload FROM records WHERE n >= ? ORDER BY n LIMIT ?",
                    (number, min(_CHUNK, (self.end if end is None else end) - number)),
                ).fetchall()
            if not rows:
                raise self.damaged(number)
            for n, header, payload in rows:
                yield self._record(number, n, header, payload)
                number += 1

    def check(self) -> int:
        """Read everything; how many records there are. Raises DataError at what is damaged."""
        with self._translated("read"):
            self._row("spare", 0)
        return sum(1 for _ in self.read(self.first))

    def remove(self, before: int) -> None:
        """The records before this number may go. Raises DataError."""
        with self._translated("written"), self._busy:
            self._begin_writing()
            with self._transaction():
                self._db.execute("DELETE FROM records WHERE n < ?", (before,))
                self._write_state(first=before)
        self.first = before

    def sync(self) -> None:
        """Wait until the disk has all that was appended (0.2 to 10 ms): survives a power cut from
        then on.
        """
        with self._translated("written"):
            self.checkpoint()

    def sync_soon(self) -> None:
        """Have that done now, in the background."""
        if self._sync is not None:
            self._sync.soon()

    def close(self, lost: int = 0) -> None:
        """Sync and let go of the file, which then says that it was closed. `lost`: see there."""
        if self._closed:
            return
        self._end_sync()
        try:
            if self._writing or lost:
                with self._translated("written"), self._busy:
                    self._begin_writing()
                    with self._transaction():
                        self._write_state(first=self.first, closed=self.end, lost=self.lost + lost)
                    self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                    self._become_one_file()
        finally:
            self._opened.close()

    def abandon(self, removed: bool = False) -> None:
        """Let go of the file without a word in it, unless it is closed already; `removed`: and
        remove it.
        """
        if self._closed:
            return
        self._end_sync()
        self._db.close()
        try:
            if removed:
                with self._translated("removed"):
                    remove_file(self.path)
        finally:
            self._opened.close()

    def _end_sync(self) -> None:
        self._closed = True
        if self._sync is not None:
            self._sync.close()

    # -------------------------------------------------------------------------------------- opening

    def _connect(self) -> sqlite3.Connection:
        if not self.path.exists():
            raise FileNotFoundError(2, os.strerror(2))
        if not self._read_only and not os.access(self.path, os.W_OK):
            raise PermissionError(13, os.strerror(13))
        db = self._open("ro" if self._read_only else "rw")
        try:
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            db.close()
            if not self._read_only or pages.is_corrupt(error) or has_wal(self.path):
                raise
            # in a folder that cannot be written, and nobody else writes there
            db = self._open("ro&immutable=1")
        except BaseException:
            db.close()
            raise
        return db

    def _open(self, mode: str) -> sqlite3.Connection:
        name = f"file:{quote(str(self.path.absolute()))}?mode={mode}"
        db = sqlite3.connect(name, uri=True, isolation_level=None, check_same_thread=False)
        db.text_factory = bytes  # what is damaged need not be text
        return db

    def _read_head(self) -> None:
        """One view of the file: the writer may go on meanwhile."""
        self._db.execute("BEGIN")
        try:
            self._check_shape()
            self.about, self._state = self._row("head", 0), self._row("head", 1)
            if self.about["kind"] != self.kind:
                raise DataError(f"{self.what} is not a {self.kind} but a {self.about['kind']}")
            self.first, self.lost, self._turn = (
                self._state[name] for name in ("first", "lost", "turn")
            )
            newest = self._db.execute("SELECT max(n) FROM records").fetchone()[0]
            self.end = self.first if newest is None else newest + 1
            self._read_streams()
            self._check_end()
        finally:
            self._db.execute("ROLLBACK")

    def _check_shape(self) -> None:
        """The tables are these, and a file without a write-ahead log is as long as it says."""
        tables = self._db.execute("SELECT * FROM sqlite_master ORDER BY rootpage").fetchall()
        size = self.path.stat().st_size
        if tables != pages.SCHEMA_ROWS or size == 0:
            raise self.damaged()
        if has_wal(self.path):
            return
        whole = pages.PAGE * self._db.execute("PRAGMA page_count").fetchone()[0]
        unused = self._db.execute("PRAGMA freelist_count").fetchone()[0]
        # of a log nothing is ever removed
        is_odd = size != whole or (unused and self.kind == pages.LOG)
        if size < whole or (is_odd and not self._read_only):
            raise self.damaged()

    def _row(self, table: str, number: int) -> dict[str, Any]:
        found = self._db.execute(f"SELECT row FROM {table} WHERE id = ?", (number,)).fetchone()
        said = pages.unseal(found[0]) if found is not None and isinstance(found[0], bytes) else None
        if said is None:
            raise self.damaged()
        return said

    def _read_streams(self) -> None:
        crc = 0
        for number, (row, data) in enumerate(
            self._db.execute("SELECT id, header FROM streams ORDER BY id").fetchall()
        ):
            header = records.parse(data) if isinstance(data, bytes) else None
            if header is None or row != number:
                raise self.damaged()
            crc = crc32c(data, crc)
            self._headers[header.identity.actor, header.identity.epoch] = row, header.identity
        closed = self._state["closed"]
        if closed is not None and (closed != self.end or crc != self._state["streams"]):
            raise self.damaged()

    def _check_end(self) -> None:
        """The newest record is whole, and the newest of its stream."""
        if self.end == self.first:
            return
        rows = self._db.execute(
            "SELECT n, header, payload FROM records WHERE n >= ?", (self.end - 1,)
        ).fetchall()
        if len(rows) != 1:
            raise self.damaged(self.end - 1)
        identity = self._record(self.end - 1, *rows[0]).identity
        if self._headers.get((identity.actor, identity.epoch), (0, None))[1] != identity:
            raise self.damaged(self.end - 1)

    def _record(self, number: int, n: Any, header: Any, payload: Any) -> Record:
        """The record of a row; DataError if it is not whole, or not number `number`."""
        found = records.parse(header) if isinstance(header, bytes) else None
        if n != number or found is None or not isinstance(payload, bytes):
            raise self.damaged(number)
        record = Record(found.kind, found.identity, header, payload)
        if len(payload) != found.length or not records.is_whole(record):
            raise self.damaged(number)
        return record

    # -------------------------------------------------------------------------------------- writing

    def _begin_writing(self) -> None:
        """Before the first change: the file no longer says that it was closed."""
        if self._writing:
            return
        self._db.execute("PRAGMA busy_timeout=5000")
        if self._db.execute("PRAGMA journal_mode=WAL").fetchone()[0] != b"wal":
            raise sqlite3.OperationalError("the disk allows no write-ahead log beside it")
        self._db.execute("PRAGMA synchronous=NORMAL")
        if self._sync is not None:
            self._db.execute("PRAGMA wal_autocheckpoint=0")
        self._writing = True
        with self._transaction():
            self._write_state(first=self.first)
        sync_path(self.path.parent)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _write_state(self, first: int, closed: int | None = None, lost: int | None = None) -> None:
        self._turn += 1
        crc = 0
        if closed is not None:
            for (data,) in self._db.execute("SELECT header FROM streams ORDER BY id").fetchall():
                crc = crc32c(data, crc)
        state = pages.state_row(self._turn, first, closed, self.lost if lost is None else lost, crc)
        self._db.execute("UPDATE head SET row = ? WHERE id = 1", (pages.seal(state),))

    def checkpoint(self) -> None:
        """The write-ahead log to the disk, which takes a while, then into the file.

        One connection writes and does this, never two at once.
        """
        if not self._writing:
            return
        with contextlib.suppress(FileNotFoundError):
            sync_path(beside(self.path, "-wal"))
        with self._busy:
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _become_one_file(self) -> None:
        """Without a write-ahead log, so that it can be read where nothing can be written; not while
        somebody reads.
        """
        self._db.execute("PRAGMA busy_timeout=0")
        with contextlib.suppress(sqlite3.OperationalError):
            self._db.execute("PRAGMA journal_mode=DELETE")

    # --------------------------------------------------------------------------------------- errors

    @contextlib.contextmanager
    def _translated(self, doing: str, number: int | None = None) -> Iterator[None]:
        """Whatever SQLite or the system say, as a DataError."""
        try:
            yield
        except FileNotFoundError as error:
            raise DataError(f"{self.what} is not there: restore it from a copy") from error
        except OSError as error:
            raise self._refused(doing, error.strerror or str(error)) from error
        except sqlite3.OperationalError as error:
            if pages.is_corrupt(error):
                raise self._unreadable(number) from error
            raise self._refused(doing, pages.reason_of(error)) from error
        except (
            sqlite3.DatabaseError,
            sqlite3.InterfaceError,
            UnicodeDecodeError,
            OverflowError,
        ) as error:
            raise self._unreadable(number) from error

    def _refused(self, doing: str, reason: str) -> DataError:
        if doing == "opened":
            able = "readable" if self._read_only else "writable"
            return DataError(f"{self.what} cannot be opened: {reason}. Nothing in it is lost: make it {able}, then "
                             "start again")  # fmt: skip
        return DataError(f"{self.what} cannot be {doing}: {reason}. The {self.end - self.first} records in it are not "
                         "lost: make room, or make it writable, then start again")  # fmt: skip

    def _unreadable(self, number: int | None) -> DataError:
        """The error for a file that SQLite cannot read: damaged, of an older version, or something
        else entirely.
        """
        with contextlib.suppress(OSError), self.path.open("rb") as file:
            begins = file.read(8 * pages.PAGE)
            if begins.startswith(pages.OLD_MAGICS):
                return DataError(f"{self.what} was written by an older version: 'robot-rl data convert {self.path}' "
                                 "makes it one that can be read, and keeps the old one beside it")  # fmt: skip
            # what is short may be a file of ours that was cut off: its beginning tells
            is_ours = begins.startswith(b"SQLite") or not begins.strip(b"\0")
            if len(begins) > pages.PAGE:
                is_ours = pages.ROW_MAGIC in begins
            if not is_ours:
                return DataError(f"{self.path} is not a {self.kind}")
        return self.damaged(number)

    def damaged(self, number: int | None = None) -> DataError:
        """The error for a file, or its record `number`, that does not match its checksums. Nothing
        was changed.
        """
        if self.path.stat().st_size <= pages.PAGE:
            return DataError(f"{self.what} is damaged: it has {self.path.stat().st_size} bytes, which is no file of "
                             "records. Restore it from a copy; remove it if nothing was recorded yet")  # fmt: skip
        said = f": record {number} does not match its checksum, or is not there"
        where = "" if number is None else said
        return DataError(f"{self.what} is damaged{where}. 'robot-rl data repair {self.path}' keeps every record that "
                         "is whole, puts a mark in the place of what is lost, and leaves the damaged file beside it. "
                         "Nothing was changed so far")  # fmt: skip
