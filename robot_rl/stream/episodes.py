"""What an episode is: how it ended, whether it succeeded, and whether it counts. Decided here
alone.

Replay, demonstrations, pretraining, archive and tables ask a `EpisodeLabel`, which hears the episode's
steps and marks.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from robot_rl.types import ActorStream, Mark, MarkKind, Provenance, RecordId, Step

OUTCOMES = (MarkKind.SUCCESS, MarkKind.FAILURE)

Entries = Iterable[tuple[RecordId, Step | Mark]]
EpisodeOf = tuple[str, int, int]
"""Which episode of a log: actor and epoch of the process that recorded it, and its number there."""

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

    `judged`: reward and terminated of its newest step; `success`: whether the judge said so there;
    `authors`: who acted. `words`: the operator's in force, oldest first.
    """

    judged: tuple[float, bool] = (0.0, False)
    success: bool = False
    end: End = "open"
    authors: set[Provenance] = field(default_factory=set)
    words: list[Mark] = field(default_factory=list)

    def hear(self, said: Step | Mark) -> None:
        """Take in the newest step, or a mark.

        UNDO takes back the newest DISCARD, SUCCESS or FAILURE. GAP and TRUNCATED end an episode
        that is open. Other kinds, and answers about a single step, say nothing of it.
        """
        if isinstance(said, Step):
            self.judged, self.success, self.end = (
                (said.reward, said.terminated),
                said.success,
                end_of(said),
            )
            self.authors.add(said.provenance)
        elif said.index >= 0:
            return
        elif said.kind == MarkKind.DISCARD or said.kind in OUTCOMES:
            self.words.append(said)
        elif said.kind == MarkKind.UNDO and self.words:
            self.words.pop()
        elif said.kind in (MarkKind.GAP, MarkKind.TRUNCATED) and self.end == "open":
            self.end = "cut off" if said.kind == MarkKind.GAP else "cut short"

    @property
    def counts(self) -> bool:
        """Whether the episode is learnt from."""
        return all(word.kind != MarkKind.DISCARD for word in self.words)

    @property
    def said(self) -> Mark | None:
        """The operator's success or failure that is in force."""
        return next((word for word in reversed(self.words) if word.kind in OUTCOMES), None)

    @property
    def outcome(self) -> tuple[float, bool]:
        """Reward of the newest step, and whether the return ends there."""
        return self.judged if self.said is None else (self.said.reward, True)

    @property
    def succeeded(self) -> bool:
        """The operator's word where there is one, else the judge's; rewards have no say in it."""
        return self.success if self.said is None else self.said.kind == MarkKind.SUCCESS

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
        if self.authors <= {Provenance.SCRIPT}:
            return False
        ended = self.end in ("terminated", "truncated") or self.said is not None
        return ended and (self.counts or (self.is_demonstration and not self.succeeded))

    @property
    def has_failed(self) -> bool:
        """Whether somebody tried the task, and did not succeed."""
        return self.is_judged and not self.succeeded

    def on(self, step: Step) -> Step:
        """The episode's last step as it is to be learnt from: with the operator's word in it."""
        if self.said is None:
            return step
        reward, terminated = self.outcome
        return replace(
            step, reward=reward, terminated=terminated, truncated=False, success=self.succeeded
        )


def counted_steps(entries: Entries) -> list[Step]:
    """The steps of a log's entries whose episodes count, in their order, with the operator's word."""
    steps: list[tuple[EpisodeOf, Step]] = []
    labels: defaultdict[EpisodeOf, EpisodeLabel] = defaultdict(EpisodeLabel)
    for identity, said in entries:
        key = episode_of(identity.stream, said)
        labels[key].hear(said)
        if isinstance(said, Step):
            steps.append((key, said))
    last = dict(steps)
    counted = ((labels[key], step, step is last[key]) for key, step in steps if labels[key].counts)
    return [label.on(step) if is_last else step for label, step, is_last in counted]


def newest_successes(read: Callable[[], Entries], most: int) -> list[list[Step]]:
    """The newest `most` episodes of a log that succeeded and count, oldest first, each with its
    steps.

    `read` begins to read the log; that is done twice, so that no more than these is ever held.
    """
    labels: defaultdict[EpisodeOf, EpisodeLabel] = defaultdict(EpisodeLabel)
    for identity, said in read():
        labels[episode_of(identity.stream, said)].hear(said)
    succeeded = [key for key, label in labels.items() if label.counts and label.succeeded]
    episodes: dict[EpisodeOf, list[Step]] = {
        key: [] for key in succeeded[max(0, len(succeeded) - most) :]
    }
    for identity, said in read():
        if isinstance(said, Step) and (key := episode_of(identity.stream, said)) in episodes:
            episodes[key].append(said)
    return [steps for steps in episodes.values() if steps]


def episode_of(sender: ActorStream, said: Step | Mark) -> EpisodeOf:
    """Which episode a step is of, or a mark speaks of: the operator's may be of another actor's."""
    return *(said.process(sender) if isinstance(said, Mark) else sender), said.episode
