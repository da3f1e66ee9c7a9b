"""What the records of a log add up to, and from where on a learner that resumes has to read them."""

from collections.abc import Iterable
from dataclasses import dataclass

from robot_rl.stream.log import StepLog
from robot_rl.types import ActorStream, Mark, MarkKind, RecordId, Step

_AT_ONCE = 256


@dataclass
class Tally:
    """Of a log up to some record: `frames` are all its steps, `steps` those of robot time (not the
    first of an episode), `episodes` those that have ended, `next_episode` a number that none has
    yet."""

    frames: int = 0
    steps: int = 0
    episodes: int = 0
    next_episode: int = 0

    def count(self, said: Step | Mark) -> None:
        """One more record."""
        if isinstance(said, Mark):
            self.episodes += said.kind == MarkKind.TRUNCATED
            return
        self.frames += 1
        self.steps += said.index > 0
        self.episodes += said.terminated or said.truncated
        self.next_episode = max(self.next_episode, said.episode + 1)

    def without(self, entries: Iterable[tuple[RecordId, Step | Mark]]) -> "Tally":
        """What it was before these last ones; `next_episode` stays."""
        last = Tally()
        for _, said in entries:
            last.count(said)
        return Tally(self.frames - last.frames, self.steps - last.steps, self.episodes - last.episodes,
                     self.next_episode)  # fmt: skip


def tail_start(log: StepLog, steps: int) -> int:
    """A record from which on the newest `steps` steps lie, with all of the episodes that they are
    of.

    So whatever was said of one of them while it went on lies there too.
    """
    start, found = log.count, 0
    # whose oldest episode here has not been seen to its first step
    unfinished: set[ActorStream] = set()
    while start > 0 and (found < steps or unfinished):
        end, start = start, max(0, start - _AT_ONCE)
        for identity, said in reversed(list(log.entries(start, end))):
            stream = identity.stream
            if isinstance(said, Step):
                found += 1
                if found <= steps:
                    unfinished.add(stream)
                if said.index == 0:
                    unfinished.discard(stream)
            if identity.seq == 0:
                unfinished.discard(stream)
    return start
