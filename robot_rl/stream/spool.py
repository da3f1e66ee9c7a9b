"""The actor's spool: every record is on its disk before it is sent, and stays until the learner has
it in its log.

It is one file (`store.py`), `spool/ACTOR/records.spool`, with the records of one actor process
(epoch) after those of the one before. Acknowledged records are removed some seconds later, so that
a learner whose power was cut can ask for its last steps again. What an earlier process left behind
is found on opening, and offered before the own records.
"""

import logging
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from robot_rl.stream import records
from robot_rl.stream.codec import READABLE, SCHEMA, space_hash
from robot_rl.stream.old_files import SPOOL_FILE
from robot_rl.stream.pages import SPOOL
from robot_rl.stream.records import Record
from robot_rl.stream.store import Store
from robot_rl.types import DataError, SpaceSpec

log = logging.getLogger(__name__)

SYNC_EVERY_S = 0.5
KEEP_S = 5.0
KEEP_RECORDS = 256
"""So many stay for longer: a successor wants to know whether the last episode has its end."""
AT_ONCE = 64
"""Records that are removed together."""


class Held(NamedTuple):
    """The records `first` to `end` - 1 of one epoch, which lie in the spool."""

    epoch: int
    first: int
    end: int


class Spool:
    """The spool of one actor, used by one thread (a second one waits for the disk).

    ```
    spool = Spool(folder, "actor", epoch, space)
    for held in spool.leftovers: ...            # of earlier processes, oldest first
    spool.append_all(records)                   # seq 0, 1, 2, ... of the own epoch
    spool.read(epoch, seq)                      # until it is acknowledged
    spool.acknowledge(epoch, seq)
    ```
    Raises DataError when it cannot be opened or written, for a damaged record, and for what another
    `run` left behind.
    """

    def __init__(
        self, folder: Path, actor: str, epoch: int, space: SpaceSpec, *, run: str = "",
        sync_every_s: float = SYNC_EVERY_S, keep_s: float = KEEP_S, keep_records: int = KEEP_RECORDS,
    ):  # fmt: skip
        records.check_actor(actor)
        self.folder, self.actor, self.epoch = Path(folder), actor, epoch
        self._keep_s, self._keep_records = keep_s, keep_records
        self._make_folder()
        ours = {"schema": SCHEMA, "space": space_hash(space), "actor": actor, "run": run}
        self._store = Store(
            self.folder / SPOOL_FILE, "spool", kind=SPOOL, create=ours, sync_every_s=sync_every_s
        )  # fmt: skip
        try:
            self._check_head(ours)
            self._bases = self._find_bases()  # of each epoch: the number of its record 0
        except BaseException:
            self._store.abandon()
            raise
        lasts = {epoch: last for (_, epoch), last in self._store.positions.items()}
        held = (
            Held(each, max(0, self._store.first - base), lasts[each] + 1)
            for each, base in self._bases.items()
        )
        self.leftovers = [one for one in held if one.end > one.first]
        self._end = 0
        self._bases[epoch] = self._store.end
        # when, and up to before which number
        self._acknowledged: deque[tuple[float, int]] = deque()

    def held(self, epoch: int) -> Held:
        """What is here of an epoch."""
        base = self._bases[epoch]
        if epoch == self.epoch:
            return Held(epoch, max(0, self._store.first - base), self._end)
        left = next(held for held in self.leftovers if held.epoch == epoch)
        return left._replace(first=min(max(left.first, self._store.first - base), left.end))

    def append_all(self, several: Sequence[Record]) -> None:
        """Append the next records of the own epoch.

        DataError (disk full, read-only) with the spool as it was: all of them are in it, or none.
        """
        for seq, record in enumerate(several, self._end):
            if record.identity.seq != seq or record.identity.epoch != self.epoch:
                raise DataError(
                    f"record {record.identity} is not the next of the spool, which is {seq}"
                )
        self._store.append(several)
        self._end += len(several)

    def read(self, epoch: int, seq: int) -> Record:
        """A record that is here. DataError if it is damaged."""
        number = self._bases[epoch] + seq
        record = next(self._store.read(number, number + 1))
        if (record.identity.epoch, record.identity.seq) != (epoch, seq):
            raise self._store.damaged(number)
        return record

    def acknowledge(self, epoch: int, seq: int) -> None:
        """The learner has all of this epoch up to `seq` in its log: these may go, in time."""
        now = time.monotonic()
        self._acknowledged.append((now, self._bases[epoch] + seq + 1))
        before = self._store.first
        while self._acknowledged and now - self._acknowledged[0][0] >= self._keep_s:
            before = self._acknowledged.popleft()[1]
        before = min(before, self._store.end - self._keep_records)
        if before >= self._store.first + min(AT_ONCE, self._keep_records):
            self._store.remove(before)

    def sync_soon(self) -> None:
        """An episode is complete: let the disk have it now, in the background."""
        self._store.sync_soon()

    def close(self, delivered: bool = False) -> None:
        """Let go of the file. `delivered`: everything is acknowledged and nothing is unfinished, so
        all of it goes.
        """
        if delivered or self._store.end == self._store.first:
            self._store.abandon(removed=True)
        else:
            try:
                self._store.close()
            except DataError as error:
                # what is in it is as whole as that of a process that was killed
                log.warning("%s", error)

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            old = sorted(self.folder.glob("*.seg"))
        except OSError as error:
            raise DataError(f"spool {self.folder} cannot be written: {error.strerror}. What is in it is not lost: make "
                            "room on that disk, or make it writable, then start again, and it is sent"
                            ) from error  # fmt: skip
        if old:
            raise DataError(f"spool {self.folder} was written by an older version: 'robot-rl data convert "
                            f"{self.folder}' makes it one that can be read; the old files stay beside it")  # fmt: skip

    def _check_head(self, ours: dict[str, object]) -> None:
        theirs = self._store.about
        if theirs.get("schema") in READABLE:  # each step says of which it is
            ours = {**ours, "schema": theirs["schema"]}
        if ours["run"] and theirs["run"] and ours["run"] != theirs["run"]:
            raise DataError(f"spool {self._store.path} holds steps of another run ({theirs['run']}; this one is "
                            f"{ours['run']}): deliver them with that run, or move the file away")  # fmt: skip
        differ = [
            f"{name} {theirs.get(name)!r} (now {ours[name]!r})"
            for name in ours
            if name != "run" and theirs.get(name) != ours[name]
        ]
        if differ:
            raise DataError(f"spool {self._store.path} was written with another {', '.join(differ)}: deliver it with "
                            "the task, obs and version that wrote it, or move it away")  # fmt: skip

    def _find_bases(self) -> dict[int, int]:
        """Epochs follow one another without a hole, so the last seq of each says where it begins."""
        bases: dict[int, int] = {}
        end = self._store.end
        for (_, epoch), last in reversed(self._store.positions.items()):
            end -= last + 1
            bases[epoch] = end
        return dict(reversed(bases.items()))
