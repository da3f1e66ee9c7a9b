"""Relabels of a run: what newer versions of its learned judge make of the episodes that older ones
have judged, and when a newer version is due.

`RUN/relabels.jsonl` has a line per episode and version, `{"actor", "epoch", "episode", "version",
"fires"}`. Around the lines that belong together stand two of `{"version", "records", "left"}`: with
`left` episodes to look at, and with none, when the version has looked at all that had ended before
record number `records` of the log. The file is derived from the log and the versions. What the
lines come to is said in `stream/episodes.py`.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robot_rl.machine.small_files import Rows, Tail
from robot_rl.stream.episodes import OUTCOMES, EpisodeOf, Relabel, end_of, episode_of
from robot_rl.types import ActorStream, Mark, MarkKind, RecordId, Step

WORDS = 20
"""After so many of the operator's words the judge is fitted again."""
WRONG = 4
"""As so many words counts one that says that the judge is wrong: it took for a success what is none,
which the policy finds again, or it did not see one, without which nothing is rewarded.
"""
_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Portion:
    """Where the lines stand that belong to the log's records before number `records`."""

    version: int
    records: int
    left: int


Line = tuple[EpisodeOf, Relabel] | Portion


def line_of(row: dict[str, Any]) -> Line | None:
    """What a row of the file says, or None if that is nothing."""
    counts = ("epoch", "episode") if "episode" in row else ("records", "left")
    numbers = [row.get(name) for name in ("version", *counts)]
    if not all(type(number) is int and number >= 0 for number in numbers):
        return None
    if "episode" not in row:
        return Portion(*numbers)  # type: ignore[arg-type]
    fires, actor = row.get("fires"), row.get("actor")
    if not isinstance(actor, str) or not (fires is None or (type(fires) is int and fires >= 0)):
        return None
    return (actor, row["epoch"], row["episode"]), Relabel(row["version"], fires)


def row_of(about: EpisodeOf, said: Relabel) -> dict[str, Any]:
    """The row of a line; `line_of` is the inverse."""
    actor, epoch, episode = about
    return {"actor": actor, "epoch": epoch, "episode": episode, **said._asdict()}


def weight_of(mark: Mark) -> int:
    """As so many of the operator's words a mark counts. Where a judge sees a success nobody has to say
    so.
    """
    if mark.kind not in OUTCOMES:
        return 0
    is_whole = mark.index < 0
    return WRONG if is_whole and mark.kind in (MarkKind.SUCCESS, MarkKind.DENY) else 1


class RelabelReader:
    """The lines of a file that grows, each once, in their order. What is damaged is left out."""

    def __init__(self, path: Path):
        self._tail = Tail(path, Rows, ("version",), at_most=_AT_ONCE)
        self._read: deque[Line] = deque()

    def lines(self) -> Iterator[Line]:
        """Those that have come since; whoever stops in between finds the others the next time."""
        while True:
            while self._read:
                yield self._read.popleft()
            rows = self._tail.read()
            self._read += [line for row in rows if (line := line_of(row)) is not None]
            rows.clear()
            if self._tail.is_through and not self._read:
                return


def relabels_in(path: Path) -> dict[EpisodeOf, Relabel]:
    """The newest of each episode in a file, if there is one."""
    found: dict[EpisodeOf, Relabel] = {}
    for line in RelabelReader(path).lines():
        if not isinstance(line, Portion):
            keep_newest(found, *line)
    return found


def keep_newest(found: dict[EpisodeOf, Relabel], about: EpisodeOf, said: Relabel) -> None:
    """Keep what is said of an episode, if no newer version has spoken of it."""
    if about not in found or said.version >= found[about].version:
        found[about] = said


@dataclass
class _Judged:
    """An episode of the log: its first record, and the version that has judged it."""

    start: int
    version: int
    is_over: bool = False


class Refits:
    """When a judge is to be fitted again, and which episodes it is then to judge: a function of the
    log alone, so that whoever reads it knows the same.

    ```
    refits = Refits(block_steps=50)
    for identity, said in log.entries():
        refits.hear(identity, said)
        if refits.due:                    # at a block's border
            ...                           # fit if refits.fit_due, judge refits.stale()
            refits.done(version)
    ```
    """

    def __init__(self, block_steps: int):
        self._block_steps = block_steps
        self.records = self.words = self._steps = 0
        self.version = 1
        self.due = False
        self._in_force: dict[ActorStream, int] = {}
        self._episodes: dict[EpisodeOf, _Judged] = {}
        self._open: dict[ActorStream, EpisodeOf] = {}

    @property
    def fit_due(self) -> bool:
        """Whether the operator has said enough since the last fit."""
        return self.words >= WORDS

    def hear(self, identity: RecordId, said: Step | Mark) -> None:
        """One more record of the log."""
        self.records += 1
        self.due = False
        if isinstance(said, Mark):
            self._hear_mark(identity.stream, said)
            return
        key = episode_of(identity.stream, said)
        if self._open.get(identity.stream) != key:
            self._end(identity.stream)
            version = self._in_force.get(identity.stream, 1)
            self._episodes[key] = _Judged(self.records - 1, version)
            self._open[identity.stream] = key
        if end_of(said) != "open":
            self._end(identity.stream)
        if said.index > 0:
            self._steps += 1
            is_border = self._steps % self._block_steps == 0
            self.due = is_border and (self.fit_due or bool(self.stale()))

    def stale(self, version: int = 0) -> dict[EpisodeOf, int]:
        """The first record of each episode that is over and was judged by one before `version`; 0:
        the newest.
        """
        newest = version or self.version
        judged = self._episodes.items()
        return {key: each.start for key, each in judged if each.is_over and each.version < newest}

    def done(self, version: int) -> None:
        """All that was due: the judge is of this version now, which has judged all episodes that
        are over.
        """
        self.words = 0 if self.fit_due else self.words
        self.version, self.due = max(self.version, version), False
        for key in self.stale():
            self._episodes[key].version = self.version

    def _hear_mark(self, sender: ActorStream, mark: Mark) -> None:
        self.words += weight_of(mark)
        if mark.kind == MarkKind.REWARD_VERSION:
            self._in_force[sender] = mark.version
            self.version = max(self.version, mark.version)
        if mark.kind in (MarkKind.GAP, MarkKind.TRUNCATED):
            self._end(mark.process(sender))

    def _end(self, stream: ActorStream) -> None:
        if (key := self._open.pop(stream, None)) is not None:
            self._episodes[key].is_over = True
