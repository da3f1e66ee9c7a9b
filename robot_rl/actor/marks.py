"""What is said of whole episodes, as marks for the log: by the operator, and why one was broken off."""

import time
from collections.abc import Sequence

from robot_rl.types import Mark, MarkKind, Outcome

MAX_REASON = 500  # letters


def discard(episode: int, actor: str = "", epoch: int = -1) -> Mark:
    """The episode stays in the log, and nobody learns from it."""
    return Mark(MarkKind.DISCARD, episode, actor=actor, epoch=epoch, t_wall=time.time())


def truncated(episode: int, reason: str) -> Mark:
    """The episode was broken off behind its last step."""
    return Mark(MarkKind.TRUNCATED, episode, reason=reason[:MAX_REASON], t_wall=time.time())


class OperatorMarks:
    """Turns what the operator says into marks, when an episode ends. Nothing is deleted: each word can be taken back.

    ```
    for mark in marks.of(episode, on_last=summary.on_last, discarded=summary.discarded):
        log.append_mark(mark)
    ```
    """

    def __init__(self) -> None:
        self._last = -1
        self._counts = self._changeable = False

    def of(
        self, episode: int, *, on_last: Sequence[Outcome], discarded: bool = False, failed: bool = False
    ) -> list[Mark]:
        """The marks to append after `episode`: on the one before it (`on_last`), and on itself.

        One that `failed` (an attempt at a demonstration) is discarded for good: there is nothing to take back.
        """
        marks = self.now(on_last)
        if discarded or failed:
            marks.append(discard(episode))
        self._last, self._counts, self._changeable = episode, not discarded, not failed
        return marks

    def now(self, on_last: Sequence[Outcome]) -> list[Mark]:
        """The marks for what is said of the last episode before another one begins."""
        return [mark for word in on_last for mark in self._change(word)]

    def _change(self, word: Outcome) -> list[Mark]:
        """UNDO changes whether the last episode counts, DISCARD makes that it does not."""
        if not self._changeable or (word == Outcome.DISCARD and not self._counts):
            return []
        self._counts = not self._counts
        if not self._counts:
            return [discard(self._last)]
        return [Mark(MarkKind.UNDO, self._last, t_wall=time.time())]
