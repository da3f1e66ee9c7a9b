"""The replay in plain Python, slow and obvious, and histories to feed to both: actors, episodes,
marks, evictions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from robot_rl.learner.replay import Kind, Replay
from robot_rl.stream.episodes import EpisodeOf, Relabel
from robot_rl.types import ActorStream, Array, Mark, MarkKind, Provenance, SpaceSpec, Step

SPACE = SpaceSpec.unnamed(
    {"state/a": ((3,), "float32"), "image/eye": ((2, 3, 3), "uint8"), "state/b": ((1,), "float32")},
    2,
)
AUTHORS = (Provenance.POLICY, Provenance.HUMAN, Provenance.DEMO)
STREAMS: tuple[ActorStream, ...] = (("left", 7), ("left", 8), ("right", 7))


def make_step(
    stream: ActorStream, episode: int, index: int, author: Provenance, end: str, reward: float
) -> Step:
    """A step whose every array tells which step it is."""
    number = STREAMS.index(stream) * 10_000 + episode * 100 + index
    return Step(
        episode=episode,
        index=index,
        observation={
            "state/a": np.array([STREAMS.index(stream), episode, index], np.float32),
            "state/b": np.array([number], np.float32),
            "image/eye": np.random.default_rng(number).integers(0, 256, (2, 3, 3), np.uint8),
        },
        proposed=np.zeros(2, np.float32),
        commanded=np.array([0.0, 0.5 * (index % 3 > 0)], np.float32),
        executed=np.array([episode / 10.0 - index / 64.0, index / 8.0 - 0.5], np.float32),
        reward=reward,
        terminated=end in ("terminated", "success"),
        success=end == "success",
        truncated=end == "truncated",
        provenance=author,
        weights_version=0,
        t_monotonic=0.0,
        t_wall=0.0,
    )


Event = tuple[Any, Step | Mark | Relabel]
"""With whose it is: an ActorStream, or of a Relabel the EpisodeOf."""


def relabels(about: list[EpisodeOf]) -> st.SearchStrategy[tuple[EpisodeOf, Relabel]]:
    """What any version makes of one of these episodes."""
    fires = st.none() | st.integers(0, 5)
    return st.tuples(st.sampled_from(about), st.builds(Relabel, st.integers(1, 4), fires))


@st.composite
def histories(draw: st.DrawFn, marks: bool = True, versions: bool = True) -> list[Event]:
    """What up to three actors send, interleaved: episodes of any length and end, corrections, lost
    steps, marks; and what versions of a judge make of them, at any time.
    """
    senders = [
        iter(draw(_sent(stream, marks))) for stream in STREAMS[: draw(st.integers(1, len(STREAMS)))]
    ]
    history: list[Event] = []
    while senders:
        sender = senders[draw(st.integers(0, len(senders) - 1))]
        for _ in range(draw(st.integers(1, 6))):
            event = next(sender, None)
            if event is None:
                senders.remove(sender)
                break
            history.append(event)
    about = sorted({(*whose, said.episode) for whose, said in history if isinstance(said, Step)})
    # one never comes
    lines = relabels([*about, ("left", 7, 9)])
    for said in draw(st.lists(lines, max_size=12)) if versions else []:
        history.insert(draw(st.integers(0, len(history))), said)
    return history


@st.composite
def _sent(draw: st.DrawFn, stream: ActorStream, marks: bool) -> list[Event]:
    events: list[Event] = []
    for episode in range(draw(st.integers(1, 4))):
        length, end = (
            draw(st.integers(0, 7)),
            draw(st.sampled_from(["", "terminated", "success", "truncated"])),
        )
        among = AUTHORS[: draw(st.sampled_from([2, 2, 3]))]  # of a run, or a demonstration's too
        authors = draw(st.lists(st.sampled_from(among), min_size=length + 1, max_size=length + 1))
        lost = draw(st.integers(0, 20))
        for index, author in enumerate(authors):
            last = index == length and index > 0
            if index != lost:
                reward = draw(st.sampled_from([0.0, -0.25, 1.0]))
                events.append((
                    stream,
                    make_step(stream, episode, index, author, end if last else "", reward),
                ))
            if marks and draw(st.integers(0, 5)) == 0:
                kind = draw(st.sampled_from(list(MarkKind)))
                named = {"actor": stream[0], "epoch": stream[1]} if draw(st.booleans()) else {}
                about = draw(st.integers(-1, episode))
                reward = draw(st.sampled_from([0.0, 0.5, 1.0]))
                step = draw(st.sampled_from([-1, -1, 0, 2, index]))  # an answer is about one
                mark = Mark(kind, about, reward=reward, index=step, **named)  # type: ignore[arg-type]
                events.append((stream, mark))
    return events


@dataclass(eq=False)
class Held:
    """A step in the model, and the step that it follows."""

    step: Step
    key: tuple[ActorStream, int]
    before: "Held | None"
    ended: bool
    episode: list[Step]

    @property
    def shown(self) -> bool:
        """Whether the episode is a demonstration."""
        return any(step.provenance == Provenance.DEMO for step in self.episode)


@dataclass
class Model:
    """Everything that the replay says, worked out anew from a list of slots."""

    capacity: int
    slots: list[Held | None] = field(default_factory=list)
    last: dict[tuple[ActorStream, int], Held] = field(default_factory=dict)
    words: dict[tuple[ActorStream, int], list[Mark]] = field(default_factory=dict)
    versions: dict[tuple[ActorStream, int], Relabel] = field(default_factory=dict)
    position: int = 0
    kept: int = 0

    def __post_init__(self) -> None:
        self.slots = [None] * self.capacity

    def append(self, step: Step, stream: ActorStream) -> None:
        key = (stream, step.episode)
        last = self.last.get(key)
        follows = last is not None and not last.ended and last.step.index == step.index - 1
        episode = [step] if last is None else last.episode
        if last is not None:
            episode.append(step)
        ended = step.terminated or step.truncated
        held = Held(step, key, last if follows else None, ended, episode)
        self.slots[self.position] = self.last[key] = held
        self.position = self.position + 1 if self.position + 1 < self.capacity else self.kept

    def apply(self, mark: Mark, stream: ActorStream) -> None:
        key = (stream, mark.episode)
        if key not in self.last:
            return
        words = self.words.setdefault(key, [])
        if mark.index >= 0 and mark.kind != MarkKind.SUCCESS:
            return
        denied = mark.kind == MarkKind.DENY and self.last[key].ended
        if mark.kind in (MarkKind.DISCARD, MarkKind.SUCCESS, MarkKind.FAILURE) or denied:
            words.append(mark)
        if mark.kind == MarkKind.UNDO:
            answers = [(n, word) for n, word in enumerate(words) if word.index >= 0]
            whole = [(n, word) for n, word in enumerate(words) if word.index < 0]
            words[:] = [word for _, word in sorted(answers + whole[:-1], key=lambda each: each[0])]
        if mark.kind in (MarkKind.GAP, MarkKind.TRUNCATED):
            self.last[key].ended = True

    def relabel(self, about: EpisodeOf, said: Relabel) -> None:
        key = (about[:2], about[2])
        if key not in self.versions or self.versions[key].version <= said.version:
            self.versions[key] = said

    def transitions(self) -> list[tuple[Held, Held]]:
        """Each step that is followed by another one, both in memory, of an episode that counts."""
        pairs = [
            (held.before, held)
            for held in self.slots
            if held is not None and held.before is not None
        ]
        pairs = [(a, b) for a, b in pairs if a in self.slots and self.counts(b)]
        return [(a, b) for a, b in pairs if not self.is_behind(b)]

    def said(self, held: Held) -> Mark | None:
        words = [w for w in self.words.get(held.key, []) if w.kind != MarkKind.DISCARD]
        return words[-1] if words else None

    def version(self, held: Held) -> Relabel | None:
        """The newest version's word, where it is in force; a yes to a question is as the newest of
        all.
        """
        said = self.said(held)
        if said is not None and said.index >= 0 and said.kind == MarkKind.SUCCESS:
            return Relabel(99, said.index)
        return self.versions.get(held.key) if self.said(held) is None and not held.shown else None

    def is_behind(self, held: Held) -> bool:
        """Whether it is behind the first success."""
        version = self.version(held)
        return version is not None and version.fires is not None and held.step.index > version.fires

    def counts(self, held: Held) -> bool:
        return all(word.kind != MarkKind.DISCARD for word in self.words.get(held.key, []))

    def outcome(self, held: Held) -> tuple[float, bool, bool]:
        """Reward, terminated and success of a step: the operator's word, if it is the last of its
        episode; else the newest version's.
        """
        said, version = self.said(held), self.version(held)
        recorded = held.step.reward, held.step.terminated, held.step.success
        if said is not None and said.kind != MarkKind.DENY and version is None:
            is_last = self.last[held.key] is held
            return (said.reward, True, said.kind == MarkKind.SUCCESS) if is_last else recorded
        if version is not None and version.fires == held.step.index:
            return 1.0, True, True
        if held.step.success and (said or version is not None):
            return 0.0, False, False
        return recorded

    def window(self, done: Held, length: int) -> list[Held]:
        """The step `done` and up to `length - 1` that follow it, as far as they are in memory."""
        out = [done]
        while len(out) < length:
            following = [
                held
                for held in self.slots
                if held is not None and held.before is out[-1] and not self.is_behind(held)
            ]
            if not following:
                break
            out += following
        return out


def name_of(step: Step, stream: ActorStream) -> tuple[int, ...]:
    return (STREAMS.index(stream), step.episode, step.index)


def feed(history: list[Event], replay: Replay, model: Model, kept: int = -1) -> Iterator[None]:
    """Both hear the same; yields after each event. The first `kept` are never evicted, if there is
    room beside them.
    """
    for number, (stream, event) in enumerate(history):
        if isinstance(event, Relabel):
            replay.relabel(stream, event)
            model.relabel(stream, event)
        elif isinstance(event, Step):
            replay.append(event, stream=stream)
            model.append(event, stream)
        else:
            replay.apply(event, stream)
            model.apply(event, stream)
        if (
            number + 1 == kept
            and model.kept == 0
            and number + 3 <= replay.capacity
            and None in model.slots[-2:]
        ):
            replay.keep()
            model.kept = model.position
        yield


def kinds_of(model: Model, done: Held) -> set[Kind]:
    _, _, success = model.outcome(done)
    if done.step.provenance == Provenance.DEMO:
        return {"demonstrations"} if shows(done.step) or success else {"own"}
    return {"own", "corrections"} if shows(done.step) else {"own"}


def shows(step: Step) -> bool:
    """Whether an operator acted, and moved something."""
    return step.provenance != Provenance.POLICY and bool(step.commanded.any())


def starts(model: Model, kind: Kind | None = None) -> list[tuple[int, ...]]:
    """The names of the transitions' first steps."""
    chosen = [a for a, b in model.transitions() if kind is None or kind in kinds_of(model, b)]
    return sorted(name_of(held.step, held.key[0]) for held in chosen)


def named(states: Array) -> list[tuple[int, ...]]:
    return [tuple(int(x) for x in row[:3]) for row in states]
