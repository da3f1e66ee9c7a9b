"""What is known of an episode's outcome: the judge's word at its last step, and the operator's over it."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from robot_rl.types import Identity, Mark, MarkKind, Step

OUTCOMES = (MarkKind.SUCCESS, MarkKind.FAILURE)

Entries = Iterable[tuple[Identity, Step | Mark]]
_Key = tuple[str, int, int]  # actor, epoch, episode


@dataclass
class Verdict:
    """`judged`: reward and terminated of the episode's newest step. `words`: the operator's in force, oldest first."""

    judged: tuple[float, bool] = (0.0, False)
    words: list[Mark] = field(default_factory=list)

    def hear(self, mark: Mark) -> None:
        """Take a mark in. UNDO takes back the newest DISCARD, SUCCESS or FAILURE; other kinds say nothing of this."""
        if mark.kind == MarkKind.DISCARD or mark.kind in OUTCOMES:
            self.words.append(mark)
        elif mark.kind == MarkKind.UNDO and self.words:
            self.words.pop()

    @property
    def counts(self) -> bool:
        """Whether the episode is learnt from."""
        return all(word.kind != MarkKind.DISCARD for word in self.words)

    @property
    def outcome(self) -> tuple[float, bool]:
        """Reward of the newest step, and whether the return ends there."""
        said = [word for word in self.words if word.kind in OUTCOMES]
        return (said[-1].reward, True) if said else self.judged

    @property
    def succeeded(self) -> bool:
        reward, over = self.outcome
        return over and reward > 0.0


def counted_steps(entries: Entries) -> list[Step]:
    """The steps of a log's entries whose episodes count, in their order."""
    steps: list[tuple[_Key, Step]] = []
    verdicts: defaultdict[_Key, Verdict] = defaultdict(Verdict)
    for identity, said in entries:
        if isinstance(said, Step):
            steps.append((_episode_of(identity, said), said))
        else:
            verdicts[_episode_of(identity, said)].hear(said)
    return [step for key, step in steps if verdicts[key].counts]


def newest_successes(read: Callable[[], Entries], most: int) -> list[list[Step]]:
    """The newest `most` episodes of a log that succeeded and count, oldest first, each with its steps.

    `read` begins to read the log; that is done twice, so that no more than these is ever held.
    """
    verdicts: defaultdict[_Key, Verdict] = defaultdict(Verdict)
    for identity, said in read():
        verdict = verdicts[_episode_of(identity, said)]
        if isinstance(said, Step):
            verdict.judged = said.reward, said.terminated
        else:
            verdict.hear(said)
    succeeded = [key for key, verdict in verdicts.items() if verdict.counts and verdict.succeeded]
    episodes: dict[_Key, list[Step]] = {key: [] for key in succeeded[max(0, len(succeeded) - most) :]}
    for identity, said in read():
        if isinstance(said, Step) and (key := _episode_of(identity, said)) in episodes:
            episodes[key].append(said)
    return [steps for steps in episodes.values() if steps]


def _episode_of(identity: Identity, said: Step | Mark) -> _Key:
    """Which episode a step is of, or a mark speaks of: the operator's may be of another actor's."""
    sender = identity.actor, identity.epoch
    return *(said.process(sender) if isinstance(said, Mark) else sender), said.episode
