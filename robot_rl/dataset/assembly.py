"""Whole episodes out of a log's records: the arrays of one episode, and the few facts that a table
shows of it.

Steps of several actors may be interleaved in a log; an episode is (actor, epoch, episode number)
there. It is over when its last step says so, or when the same actor has gone on to something else:
then it was cut off at its last step (which counts as truncated). Otherwise it is open: its actor
may be at it, or hand the rest in when it is started again.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from robot_rl.stream.codec import ACTIONS, StepCodec, decode_mark, encode_mark
from robot_rl.stream.episodes import OUTCOMES, End, EpisodeLabel, Relabel, end_of
from robot_rl.stream.log import StepLog
from robot_rl.stream.motion import given
from robot_rl.stream.records import Kind
from robot_rl.stream.relabels import relabels_in
from robot_rl.types import Array, DataError, MarkKind, Provenance, RecordId, Step

_OF_AN_EPISODE = (*OUTCOMES, MarkKind.DISCARD, MarkKind.UNDO, MarkKind.GAP, MarkKind.TRUNCATED)


@dataclass(frozen=True, order=True)
class EpisodeKey:
    """Which episode this is, for ever. `first` is the index of its first step: 0, unless steps
    before it are missing.

    As text `actor/epoch/episode`, the epoch in hexadecimal, with `+first` behind it if that is not
    0.
    """

    actor: str
    epoch: int
    episode: int
    first: int = 0

    def __str__(self) -> str:
        return f"{self.actor}/{self.epoch:x}/{self.episode}" + (
            f"+{self.first}" if self.first else ""
        )

    @classmethod
    def parse(cls, text: str) -> "EpisodeKey":
        """The inverse of `str`; raises DataError."""
        try:
            actor, epoch, rest = text.rsplit("/", 2)
            episode, _, first = rest.partition("+")
            return cls(actor, int(epoch, 16), int(episode), int(first or 0))
        except ValueError as error:
            raise DataError(
                f"{text!r} names no episode; a name is ACTOR/EPOCH/EPISODE, as in actor/1f/3"
            ) from error


@dataclass(frozen=True)
class Episode:
    """T actions and the T+1 observations around them.

    `observations` are `(T+1, ...)`, as are `t_monotonic` and `t_wall` [s], the time of each
    observation. The actions `(T, A)`, `reward`, `terminated`, `truncated`, `provenance` and
    `weights_version` `(T,)` belong to what was done between observation i and i+1. `source` is the
    log that it was written to. `success` is the judge's word. `corrected` `(T, A)` bool says which
    numbers of the actions a person gave; None: wherever one acted, all of them.
    """

    key: EpisodeKey
    source: str
    end: End
    success: bool
    observations: Mapping[str, Array]
    proposed: Array
    commanded: Array
    executed: Array
    reward: Array
    terminated: Array
    truncated: Array
    provenance: Array
    weights_version: Array
    t_monotonic: Array
    t_wall: Array
    corrected: Array | None = None

    @property
    def length(self) -> int:
        """T."""
        return len(self.reward)

    @property
    def cameras(self) -> dict[str, Array]:
        """The frames `(T+1, H, W, 3)` of each camera, by its name."""
        return {
            n.removeprefix("image/"): a
            for n, a in self.observations.items()
            if n.startswith("image/")
        }

    @property
    def states(self) -> dict[str, Array]:
        """The observations that are numbers, `(T+1, n)`."""
        return {n: a for n, a in self.observations.items() if not n.startswith("image/")}


@dataclass(frozen=True)
class EpisodeFacts:
    """What a table shows of an episode, and what the archive's index keeps of it; plain JSON by
    `to_json`.

    `success` is the judge's word; `marks` are all that was said of the episode later, as plain JSON
    in the order of the log, `relabel` is what the newest version of a learned judge makes of it, and
    `label` is what it comes to with them. `acted` counts steps by
    who acted, `corrections` are the operator's segments. `missing` steps before its first one are
    not in the log.
    """

    key: EpisodeKey
    source: str
    length: int
    duration_s: float
    end: End
    success: bool
    reward: float
    acted: Mapping[str, int]
    corrections: int
    weights_versions: tuple[int, int]
    t_wall: float
    missing: int = 0
    marks: tuple[Mapping[str, Any], ...] = ()
    relabel: Relabel | None = None

    @classmethod
    def of(cls, episode: Episode) -> "EpisodeFacts":
        """The facts of an episode. Its marks come from elsewhere, at any later time."""
        acted = {p.name.lower(): int((episode.provenance == p).sum()) for p in Provenance}
        human = np.concatenate([[False], episode.provenance == Provenance.HUMAN])
        versions = episode.weights_version
        return cls(
            key=episode.key,
            source=episode.source,
            length=episode.length,
            duration_s=round(float(episode.t_monotonic[-1] - episode.t_monotonic[0]), 6),
            end=episode.end,
            success=episode.success,
            reward=float(episode.reward.sum()),
            acted={name: count for name, count in acted.items() if count},
            corrections=int((human[1:] & ~human[:-1]).sum()),
            weights_versions=(int(versions.min()), int(versions.max()))
            if episode.length
            else (0, 0),
            t_wall=float(episode.t_wall[0]),
            missing=episode.key.first,
        )

    @cached_property
    def label(self) -> EpisodeLabel:
        """What is known of the episode, its marks included."""
        label = EpisodeLabel(
            newest=self.key.first + self.length,
            success=self.success,
            end=self.end,
            authors={Provenance[who.upper()] for who in self.acted},
            relabel=self.relabel,
        )
        for mark in self.marks:
            label.hear(decode_mark(json.dumps(mark).encode()))
        return label

    @property
    def ending(self) -> str:
        """`success`, `failure`, or how it ended otherwise."""
        if self.label.succeeded:
            return "success"
        return "failure" if self.end == "terminated" or self.label.said is not None else self.end

    def to_json(self) -> dict[str, Any]:
        """Without what was said of it later."""
        data = {name: getattr(self, name) for name in self._own_fields()}
        return data | {"key": str(self.key), "weights_versions": list(self.weights_versions)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "EpisodeFacts":
        """The inverse of `to_json`; what else stands in `data` is passed over. Raises DataError."""
        try:
            values = {name: data[name] for name in cls._own_fields()}
            low, high = values["weights_versions"]
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"this does not describe an episode ({error!r}): {data!r}") from error
        return cls(
            **values | {"key": EpisodeKey.parse(values["key"]), "weights_versions": (low, high)}
        )

    @classmethod
    def _own_fields(cls) -> list[str]:
        return [name for name in cls.__dataclass_fields__ if name not in ("marks", "relabel")]


class Assembler:
    """Puts steps together to episodes, as a log is read.

    ```
    for record in log.records():
        for episode in assembler.add(*record):
            ...                      # complete, in the order in which they ended
    assembler.unfinished()           # what may still go on
    # known only after the last record: marks follow at any later time
    assembler.marks_of(key)
    ```
    `finished` are the keys of all that were yielded.
    Holds the steps of the episodes at hand, one per actor. `images` False leaves the frames out.
    """

    def __init__(self, log: StepLog, source: str = "", images: bool = True):
        self._codec = StepCodec(log.space)
        self._source = source
        self._names = [
            n for n in sorted(log.space.observations) if images or not n.startswith("image/")
        ]
        self._open: dict[str, tuple[EpisodeKey, list[Step]]] = {}
        self._marks: dict[tuple[str, int, int], list[dict[str, Any]]] = defaultdict(list)
        self.finished: list[EpisodeKey] = []
        self._relabels = relabels_in(log.path.with_name("relabels.jsonl"))

    def add(self, kind: int, identity: RecordId, payload: bytes) -> Iterator[Episode]:
        """Take one record; yields the episode that it ends, and the one before it if that was cut
        off.
        """
        if kind == Kind.MARK:
            yield from self._add_mark(identity, payload)
        if kind != Kind.STEP:
            return
        step = self._codec.decode(payload, recorded=True)
        key = EpisodeKey(identity.actor, identity.epoch, step.episode, step.index)
        if (held := self._open.get(identity.actor)) is not None:
            last = held[1][-1]
            if (held[0].epoch, last.episode, last.index + 1) == (
                key.epoch,
                step.episode,
                step.index,
            ):
                key = held[0]
            else:
                yield self._finish(identity.actor)
        key, steps = self._open.setdefault(identity.actor, (key, []))
        steps.append(step)
        if end_of(step) != "open":
            yield self._finish(identity.actor)

    def marks_of(self, key: EpisodeKey) -> list[dict[str, Any]]:
        """What was said of an episode so far, as plain JSON in the order of the log."""
        return self._marks.get((key.actor, key.epoch, key.episode), [])

    def relabel_of(self, key: EpisodeKey) -> Relabel | None:
        """What the newest version of the run's learned judge makes of an episode, if it has looked."""
        return self._relabels.get((key.actor, key.epoch, key.episode))

    def unfinished(self) -> list[Episode]:
        """The episodes that have not ended, as far as they are here."""
        return [self._stack(key, steps) for key, steps in self._open.values()]

    def _add_mark(self, identity: RecordId, payload: bytes) -> Iterator[Episode]:
        """A gap ends the episode that stopped there; where it was broken off, its last step is a
        truncated one.
        """
        mark = decode_mark(payload)
        actor, epoch = mark.process(identity.stream)
        held = self._open.get(actor)
        is_open = held is not None and held[0].epoch == epoch and held[0].episode == mark.episode
        is_note = mark.kind == MarkKind.DENY and is_open
        if mark.kind in _OF_AN_EPISODE and not is_note:
            self._marks[actor, epoch, mark.episode].append(json.loads(encode_mark(mark)))
        if actor not in self._open or self._open[actor][0].epoch != epoch:
            return
        if mark.kind == MarkKind.TRUNCATED:
            steps = self._open[actor][1]
            steps[-1] = replace(steps[-1], truncated=True, cut_short=True)
        if mark.kind in (MarkKind.GAP, MarkKind.TRUNCATED):
            yield self._finish(actor)

    def _finish(self, actor: str) -> Episode:
        key, steps = self._open.pop(actor)
        self.finished.append(key)
        end = end_of(steps[-1])
        return self._stack(key, steps, "cut off" if end == "open" else end)

    def _stack(self, key: EpisodeKey, steps: Sequence[Step], end: End = "open") -> Episode:
        done = steps[1:]
        shape = (len(done), self._codec.space.action_size)
        actions = {
            name: np.array([getattr(s, name) for s in done], np.float32).reshape(shape)
            for name in ACTIONS
        }
        return Episode(
            key=key,
            source=self._source,
            end=end,
            success=steps[-1].success,
            observations={
                name: np.stack([s.observation[name] for s in steps]) for name in self._names
            },
            reward=np.array([s.reward for s in done], np.float64),
            terminated=np.array([s.terminated for s in done], bool),
            truncated=np.array([s.truncated for s in done], bool),
            provenance=np.array([s.provenance for s in done], np.uint8),
            weights_version=np.array([s.weights_version for s in done], np.int64),
            t_monotonic=np.array([s.t_monotonic for s in steps], np.float64),
            t_wall=np.array([s.t_wall for s in steps], np.float64),
            corrected=np.array([given(s) for s in done])
            if any(s.corrected is not None for s in done)
            else None,
            **actions,
        )


def with_marks(
    facts: EpisodeFacts, marks: Sequence[Mapping[str, Any]], relabel: Relabel | None = None
) -> EpisodeFacts:
    """The same facts, with what the operator and the newest judge said of the episode."""
    return replace(facts, marks=tuple(marks), relabel=relabel)
