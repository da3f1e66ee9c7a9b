"""The step log: all that a run's robot did, in order, which is the durable form of the replay
buffer.

A killed process loses nothing that it had appended; `sync` bounds what a power cut can take. Damage
is an error that names the file and what to do, never passed over (`store.py`).
"""

import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

from robot_rl.stream import records
from robot_rl.stream.codec import (
    READABLE,
    SCHEMA,
    StepCodec,
    decode_mark,
    encode_mark,
    space_from_json,
    space_hash,
    space_json,
    space_words,
)
from robot_rl.stream.pages import LOG
from robot_rl.stream.records import Kind, Payload, Record
from robot_rl.stream.store import Store
from robot_rl.types import ActorStream, DataError, Mark, RecordId, SpaceSpec, Step


def read_space(path: Path) -> SpaceSpec:
    """The spaces that a log was written with."""
    store = Store(Path(path), "log", kind=LOG, read_only=True)
    try:
        return space_from_json(store.about["space"])
    finally:
        store.close()


class StepLog:
    """One log file, opened for appending (by one process at a time) or, with `read_only`, for
    reading alone.

    Written by one thread. `count` records are in it, numbered from 0; a checkpoint remembers such a
    number, and `read(start)` goes on from there. `positions` holds the last sequence number of each
    (actor, epoch): a sender resumes behind it. With `sync_every_s` a thread
    of its own tells the disk to take what was appended; without, only `sync` and `close` do. A log
    of another `run` is refused, if both have an id.
    """

    def __init__(
        self,
        path: Path,
        space: SpaceSpec,
        read_only: bool = False,
        sync_every_s: float | None = None,
        run: str = "",
    ):
        self.path = Path(path)
        self.space = space
        self._codec = StepCodec(space)
        self.own: ActorStream = ("local", secrets.randbits(63))
        """Under which this process appends what has no identity yet."""
        head = {
            "schema": SCHEMA,
            "space_hash": space_hash(space),
            "space": space_json(space),
            "run": run,
        }
        create = None if read_only else head
        self._store = Store(
            self.path, "log", kind=LOG, create=create, read_only=read_only, sync_every_s=sync_every_s
        )  # fmt: skip
        self.positions: dict[ActorStream, int] = self._store.positions
        try:
            self._check_head(run)
        except BaseException:
            self._store.close()
            raise

    @property
    def count(self) -> int:
        return self._store.end

    @property
    def lost(self) -> int:
        """Records that a repair could not even put a mark for."""
        return self._store.lost

    def append_step(self, step: Step, identity: RecordId | None = None) -> None:
        """Append a step; without an identity it is the next one of this process."""
        self.append(self._codec.encode(step), identity)

    def append_mark(self, mark: Mark, identity: RecordId | None = None) -> None:
        """Append a mark; without an identity it is the next record of this process."""
        self.append(encode_mark(mark), identity, Kind.MARK)

    def append(
        self, payload: Payload, identity: RecordId | None = None, kind: int = Kind.STEP
    ) -> None:
        """Append the record of a payload. Raises as `append_records` does."""
        if identity is None:
            identity = RecordId(*self.own, self.positions.get(self.own, -1) + 1)
        self.append_records([records.frame(kind, identity, payload)])

    def append_records(self, several: Sequence[Record]) -> None:
        """Append records, all of them or none. Raises DataError (disk full, read-only) with the log
        as it was.
        """
        self._store.append(several)
        for record in several:
            self.positions[record.identity.actor, record.identity.epoch] = record.identity.seq

    def sync(self) -> None:
        """Wait until the disk has all that was appended (0.2 to 10 ms): survives a power cut from
        then on.
        """
        self._store.sync()

    def read(self, start: int = 0) -> Iterator[Step]:
        """Steps from record number `start` on, as far as the log reaches. Raises DataError at a
        damaged record.
        """
        for kind, _, payload in self.records(start):
            if kind == Kind.STEP:
                yield self._codec.decode(payload, recorded=True)

    def entries(
        self, start: int = 0, end: int | None = None
    ) -> Iterator[tuple[RecordId, Step | Mark]]:
        """Steps and marks, with whose they are, from record number `start` on, up to `end`.

        DataError at a damaged record.
        """
        for kind, identity, payload in self.records(start, end):
            yield (
                identity,
                (
                    self._codec.decode(payload, recorded=True)
                    if kind == Kind.STEP
                    else decode_mark(payload)
                ),
            )

    def records(
        self, start: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, RecordId, bytes]]:
        """Kind, identity and payload of each record from number `start` on, up to `end`. DataError
        at a damaged one.
        """
        for record in self._store.read(start, end):
            yield record.kind, record.identity, bytes(record.payload)

    @property
    def run(self) -> str:
        """The id of the run that it is of, "" if it has none."""
        return str(self._store.about["run"])

    def close(self) -> None:
        """Sync and let go of the file."""
        self._store.close()

    def __enter__(self) -> "StepLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_head(self, run: str) -> None:
        head = self._store.about
        if head["schema"] not in READABLE or head["space_hash"] != space_hash(self.space):
            raise DataError(
                f"log {self.path} was written with schema {head['schema']} and space"
                f" {head['space_hash']} ({space_words(space_from_json(head['space']))}); this run has"
                f" schema {SCHEMA} and space {space_hash(self.space)} ({space_words(self.space)}). Use"
                " another run folder, or the same task and obs"
            )
        if run and head["run"] and head["run"] != run:
            raise DataError(f"log {self.path} is of another run ({head['run']}; this one is {run}): put this run's own "
                            "log back in its place, or use another run folder")  # fmt: skip
