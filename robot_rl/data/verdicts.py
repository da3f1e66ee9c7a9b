"""What is known of an episode's outcome: the judge's word at its last step, and the operator's over it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from robot_rl.types import Identity, Mark, MarkKind, Step

OUTCOMES = (MarkKind.SUCCESS, MarkKind.FAILURE)


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


def counted_steps(entries: Iterable[tuple[Identity, Step | Mark]]) -> list[Step]:
    """The steps of a log's entries whose episodes count, in their order."""
    steps: list[tuple[tuple[str, int, int], Step]] = []
    verdicts: defaultdict[tuple[str, int, int], Verdict] = defaultdict(Verdict)
    for identity, said in entries:
        if isinstance(said, Step):
            steps.append(((identity.actor, identity.epoch, said.episode), said))
        else:
            actor, epoch = (said.actor, said.epoch) if said.actor else (identity.actor, identity.epoch)
            verdicts[actor, epoch, said.episode].hear(said)
    return [step for key, step in steps if verdicts[key].counts]
