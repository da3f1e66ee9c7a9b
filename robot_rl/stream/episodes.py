"""What an episode is: how it ended, whether it succeeded, and whether it counts. Decided here
alone.

Replay, demonstrations, pretraining, archive and tables ask a `EpisodeLabel`, which hears the
episode's steps, its marks, and what later versions of a learned judge make of it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, NamedTuple

from robot_rl.config import Task, driver
from robot_rl.types import BY_ITSELF, ActorStream, Mark, MarkKind, Provenance, RecordId, Step

OUTCOMES = (MarkKind.SUCCESS, MarkKind.FAILURE, MarkKind.DENY)
"""The operator's words on how an episode came out."""

Entries = Iterable[tuple[RecordId, Step | Mark]]
EpisodeOf = tuple[str, int, int]
"""Which episode of a log: actor and epoch of the process that recorded it, and its number there."""


class Relabel(NamedTuple):
    """What `version` of a learned judge makes of an episode that an older one has judged: it fires
    first at the step of index `fires`, or never (None).
    """

    version: int
    fires: int | None


Relabels = Mapping[EpisodeOf, Relabel]
"""The newest of each episode that has one."""
NO_RELABELS: Relabels = MappingProxyType({})


class Outcome(NamedTuple):
    """What a step comes to. Terminated ends the return; truncated does not."""

    reward: float
    terminated: bool = False
    truncated: bool = False
    success: bool = False


End = Literal["terminated", "truncated", "cut short", "cut off", "open"]
"""How an episode ended: by its judge; by its time limit or a fault; by a stop, a discard, a silent
device or the end of the run; because its process was killed, or what follows is lost; not yet."""

# from a change on the bench to the word for it: 0.2 to 0.3 s to see it, and a key to press
REACTION_S = 0.45


def end_of(step: Step) -> End:
    """How the episode ended whose newest step this is, as far as the step says so."""
    if step.terminated:
        return "terminated"
    if step.truncated:
        return "cut short" if step.cut_short else "truncated"
    return "open"


@dataclass
class EpisodeLabel:
    """One episode, whose steps and marks are heard in the order of the log.

    `newest` is the index of its newest step, `success` whether the judge said so there; `authors`:
    who acted. `words`: the operator's in force, oldest first. `relabel` is the newest version's.
    """

    newest: int = -1
    success: bool = False
    end: End = "open"
    authors: set[Provenance] = field(default_factory=set)
    words: list[Mark] = field(default_factory=list)
    relabel: Relabel | None = None

    def hear(self, said: Step | Mark | Relabel) -> None:
        """Take in the newest step, a mark, or what a version says, in whatever order versions come.

        UNDO takes back the newest DISCARD, SUCCESS, FAILURE or DENY of the whole episode. GAP and
        TRUNCATED end an episode that is open. Other kinds say nothing of it, nor do DENY while it
        is open and an answer about a single step other than yes.
        """
        if isinstance(said, Relabel):
            if self.relabel is None or said.version >= self.relabel.version:
                self.relabel = said
        elif isinstance(said, Step):
            self.newest, self.success, self.end = said.index, said.success, end_of(said)
            self.authors.add(said.provenance)
        elif (said.index >= 0 and said.kind != MarkKind.SUCCESS) or (
            said.kind == MarkKind.DENY and self.end == "open"
        ):
            return
        elif said.kind == MarkKind.DISCARD or said.kind in OUTCOMES:
            self.words.append(said)
        elif said.kind == MarkKind.UNDO:
            if whole := [place for place, word in enumerate(self.words) if word.index < 0]:
                del self.words[whole[-1]]
        elif said.kind in (MarkKind.GAP, MarkKind.TRUNCATED) and self.end == "open":
            self.end = "cut off" if said.kind == MarkKind.GAP else "cut short"

    @property
    def counts(self) -> bool:
        """Whether the episode is learnt from."""
        return all(word.kind != MarkKind.DISCARD for word in self.words)

    @property
    def said(self) -> Mark | None:
        """The operator's word on how it came out that is in force. It wins over any version."""
        return next((word for word in reversed(self.words) if word.kind in OUTCOMES), None)

    @property
    def in_force(self) -> Relabel | None:
        """The version's word, unless the operator has spoken, or a person has shown the task."""
        return None if self.said is not None or self.is_demonstration else self.relabel

    @property
    def succeeded(self) -> bool:
        """The operator's word where there is one, else the newest judge's; rewards have no say in
        it.
        """
        if self.said is not None:
            return self.said.kind == MarkKind.SUCCESS
        return self.success if self.in_force is None else self.in_force.fires is not None

    @property
    def success_at(self) -> int | None:
        """The index of the step at which it succeeded, where somebody has looked at its steps again:
        the operator, who was asked about that one, or the newest version.
        """
        if self.said is not None:
            return self.said.index if self.said.index >= 0 else None
        return None if self.in_force is None else self.in_force.fires

    def reaches(self, index: int) -> bool:
        """Whether the step of this index is of the episode: not behind its success, as it is known
        now.
        """
        return self.success_at is None or index <= self.success_at

    def of(self, index: int, recorded: Outcome) -> Outcome:
        """What the step of this index comes to, which was `recorded` as this.

        The operator's SUCCESS and FAILURE are about the last step, an answer is about its own. A
        success that was denied, or that the newest version does not see there, is taken back:
        nobody knows what would have followed, so that the episode is truncated at this frame.
        """
        said, relabel = self.said, self.in_force
        if said is not None and said.kind != MarkKind.DENY and said.index < 0:
            succeeds = said.kind == MarkKind.SUCCESS
            is_last = index == self.newest
            return Outcome(said.reward, True, success=succeeds) if is_last else recorded
        if self.success_at == index:
            return Outcome(1.0, terminated=True, success=True)
        is_doubted = said is not None or relabel is not None
        return Outcome(0.0, truncated=True) if recorded.success and is_doubted else recorded

    @property
    def is_demonstration(self) -> bool:
        """Whether somebody showed the task."""
        return Provenance.DEMO in self.authors

    @property
    def is_judged(self) -> bool:
        """Whether it is a success or a failure: somebody tried the task, and it came to its own
        end.

        What was taken back is neither. A failed demonstration is always discarded, and is a
        failure.
        """
        if self.authors <= BY_ITSELF:
            return False
        ended = self.end in ("terminated", "truncated") or self.said is not None or self.succeeded
        return ended and (self.counts or (self.is_demonstration and not self.succeeded))

    @property
    def has_failed(self) -> bool:
        """Whether somebody tried the task, and did not succeed."""
        return self.is_judged and not self.succeeded

    def on(self, step: Step) -> Step:
        """The step as it is to be learnt from: with the words of operator and versions in it."""
        recorded = Outcome(step.reward, step.terminated, step.truncated, step.success)
        outcome = self.of(step.index, recorded)
        return step if outcome == recorded else replace(step, **outcome._asdict())


class _Labels(dict[EpisodeOf, EpisodeLabel]):
    """Of the episodes of a log, each with what the newest version makes of it."""

    def __init__(self, relabels: Relabels):
        super().__init__()
        self._relabels = relabels

    def __missing__(self, key: EpisodeOf) -> EpisodeLabel:
        self[key] = EpisodeLabel(relabel=self._relabels.get(key))
        return self[key]


def counted_steps(entries: Entries, relabels: Relabels = NO_RELABELS) -> list[Step]:
    """The steps of a log's entries that count, in their order, as they are to be learnt from."""
    steps: list[tuple[EpisodeOf, Step]] = []
    labels = _Labels(relabels)
    for identity, said in entries:
        key = episode_of(identity.stream, said)
        labels[key].hear(said)
        if isinstance(said, Step):
            steps.append((key, said))
    counted = ((labels[key], step) for key, step in steps if labels[key].counts)
    return [label.on(step) for label, step in counted if label.reaches(step.index)]


def by_episode(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """Steps in their order, one episode after the other."""
    episode: list[Step] = []
    for step in steps:
        if step.index == 0 and episode:
            yield episode
            episode = []
        episode.append(step)
    if episode:
        yield episode


def first_shown(outcome: Sequence[Step]) -> int | None:
    """Where in an episode of outcomes success is shown first; None: nowhere."""
    return next((place for place, step in enumerate(outcome) if step.reward > 0.0), None)


def shown_successes(outcomes: Iterable[Step], first: int) -> list[Step]:
    """The episodes of a log of outcomes (`dataset/outcomes.py`) that show a success, each up to
    there, as an operator's demonstrations: their numbers begin with `first`.
    """
    shown: list[Step] = []
    for episode in by_episode(outcomes):
        if end := first_shown(episode):  # what begins with it shows no way to it
            shown += [replace(step, episode=first) for step in episode[:end]]
            shown.append(
                replace(
                    episode[end],
                    episode=first,
                    reward=1.0,
                    terminated=True,
                    truncated=False,
                    success=True,
                )
            )
            first += 1
    return shown


def said_late_s(task: Task) -> float:
    """How much later [s] a task's judge says success than it is meant: a person needs a moment, a
    program none.
    """
    return REACTION_S if driver("rewards", task.reward.name).needs_operator else 0.0


def meant(success: Sequence[Step], said_late_s: float) -> Step:
    """The step at which the success was meant that ends an episode and was said so much later [s]."""
    said_t = success[-1].t_monotonic
    return next(
        (step for step in reversed(success) if step.t_monotonic <= said_t - said_late_s), success[0]
    )


class EndedEpisode(NamedTuple):
    """An episode that counts and came to its own end: its steps, a success's up to where it was one."""

    steps: list[Step]
    success: bool


def newest_episodes(
    read: Callable[[], Entries],
    most: int,
    relabels: Relabels = NO_RELABELS,
    *,
    failures: bool = False,
) -> list[EndedEpisode]:
    """The newest `most` episodes of a log that succeeded and count, oldest first; with `failures`
    those that did not, too. `read` is as for `newest_by_key`.
    """
    return [*newest_by_key(read, most, relabels, failures=failures).values()]


def newest_by_key(
    read: Callable[[], Entries],
    most: int,
    relabels: Relabels = NO_RELABELS,
    *,
    failures: bool = False,
) -> dict[EpisodeOf, EndedEpisode]:
    """What `newest_episodes` finds, and which episode of the log each is, oldest first.

    `read` begins to read the log; that is done twice, so that no more than these is ever held.
    """
    labels = _Labels(relabels)
    for identity, said in read():
        labels[episode_of(identity.stream, said)].hear(said)
    wanted = [
        key
        for key, label in labels.items()
        if label.counts and (label.succeeded or (failures and label.has_failed))
    ]
    episodes: dict[EpisodeOf, list[Step]] = {
        key: [] for key in wanted[max(0, len(wanted) - most) :]
    }
    for identity, said in read():
        key = episode_of(identity.stream, said)
        if isinstance(said, Step) and key in episodes and labels[key].reaches(said.index):
            episodes[key].append(said)
    return {
        key: EndedEpisode(steps, labels[key].succeeded) for key, steps in episodes.items() if steps
    }


def episode_of(sender: ActorStream, said: Step | Mark) -> EpisodeOf:
    """Which episode a step is of, or a mark speaks of: the operator's may be of another actor's."""
    return *(said.process(sender) if isinstance(said, Mark) else sender), said.episode
