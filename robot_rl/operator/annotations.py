"""What is said of whole episodes, as marks for the log: by the operator, and why one was broken
off.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from robot_rl.links.events import OperatorEvent
from robot_rl.types import Mark, MarkKind, OperatorCommand

MAX_REASON = 500  # letters


def discard(episode: int, actor: str = "", epoch: int = -1) -> Mark:
    """The episode stays in the log, and nobody learns from it."""
    return Mark(MarkKind.DISCARD, episode, actor=actor, epoch=epoch, t_wall=time.time())


def truncated(episode: int, reason: str) -> Mark:
    """The episode was broken off behind its last step."""
    return Mark(MarkKind.TRUNCATED, episode, reason=reason[:MAX_REASON], t_wall=time.time())


def outcome_mark(episode: int, said: OperatorCommand) -> Mark | None:
    """How the episode came out, by the operator's word; None where that says nothing of it."""
    if said == OperatorCommand.SUCCESS:
        return Mark(MarkKind.SUCCESS, episode, 1.0, t_wall=time.time())
    if said == OperatorCommand.FAILURE:
        return Mark(MarkKind.FAILURE, episode, 0.0, t_wall=time.time())
    return None


SAID_AFTERWARDS = {
    OperatorCommand.SUCCESS,
    OperatorCommand.FAILURE,
    OperatorCommand.UNDO,
    OperatorCommand.DISCARD,
    OperatorCommand.DENY,
}
"""What an operator may say of an episode that is over."""


@dataclass
class _Ended:
    """An episode that is over: whether it counts, whether the operator can change that, and whether
    it succeeded.

    `success` is None where a program judges. `deniable`: the judge, whoever it is, said success;
    `denied`: the operator's newest word is that it was none.
    """

    episode: int
    counts: bool
    changeable: bool
    success: bool | None
    deniable: bool
    denied: bool = False


class OperatorMarks:
    """Turns what the operator says of an episode that is over into marks, at once. Each can be
    taken back.

    ```
    marks = OperatorMarks(sender.send)
    marks.end(episode, discarded=summary.discarded)       # an episode is over
    marks.hear(event)                                     # from then on
    ```
    """

    def __init__(self, append: Callable[[Mark], object]):
        self._append = append
        self._ended: deque[_Ended] = deque(maxlen=2)

    def end(
        self,
        episode: int,
        *,
        discarded: bool = False,
        failed: bool = False,
        success: bool | None = None,
        deniable: bool = False,
        said: OperatorCommand = OperatorCommand.NONE,
    ) -> list[Mark]:
        """The marks to append behind an episode that is over. What was `said` to end it, and not by a
        judge that learns, is on record as the operator's: no later version of it says otherwise.

        One that `failed` (an attempt at a demonstration) is discarded for good: there is nothing to
        take back. With `success`, what the operator or a judge that learns has said of it, the
        operator can say otherwise afterwards. Of a success that is `deniable` they can say that it
        was none.
        """
        self._ended.append(_Ended(episode, not discarded, not failed, success, deniable))
        outcome = outcome_mark(episode, said)
        marks = [outcome] if outcome is not None else []
        return [*marks, discard(episode)] if discarded or failed else marks

    def hear(self, event: OperatorEvent) -> bool:
        """Append the mark that an event asks for, if it does. Returns whether it is about the last
        episode.

        UNDO is about the episode before the one that went on when it was said, the others about
        that one itself; what was said between two is about the one before.
        """
        about = self._about(event) if event.command in SAID_AFTERWARDS else None
        if about is None:
            return False
        if (mark := self._mark(event.command, about)) is not None:
            self._append(mark)
        return about is self._ended[-1]

    def note(self, event: OperatorEvent) -> None:
        """Append what is said of a moment: of the one that was asked about, or of what an episode
        that still goes on shows now."""
        if (moment := event.moment) is not None:
            success = event.command == OperatorCommand.SUCCESS
            kind = MarkKind.SUCCESS if success else MarkKind.DENY
            mark = Mark(kind, moment.episode, t_wall=moment.t_wall, index=moment.index)
            self._append(mark)
            for ended in self._ended if success else ():
                if ended.episode == moment.episode and ended.success is not None:
                    ended.success, ended.deniable, ended.denied = True, True, False
        elif event.episode is not None:
            self._append(Mark(MarkKind.DENY, event.episode, t_wall=time.time()))

    def discard_last(self) -> None:
        """The last episode does not count, if it still does."""
        self.hear(OperatorEvent(OperatorCommand.DISCARD, time.monotonic(), "console", None))

    def _about(self, event: OperatorEvent) -> _Ended | None:
        for ended in reversed(self._ended):
            if event.episode is None or ended.episode < event.episode:
                return ended
            if ended.episode == event.episode and event.command != OperatorCommand.UNDO:
                return ended
        return None

    def _mark(self, command: OperatorCommand, about: _Ended) -> Mark | None:
        """UNDO takes a DENY back, or changes whether the episode counts; DISCARD makes that it does
        not; the others say how it ended.
        """
        episode = about.episode
        if not about.changeable:
            return None
        if command == OperatorCommand.UNDO and about.counts and about.denied:
            about.denied = False
            return Mark(MarkKind.UNDO, episode, t_wall=time.time())
        if command == OperatorCommand.UNDO:
            about.counts = not about.counts
            if about.counts:
                return Mark(MarkKind.UNDO, episode, t_wall=time.time())
            return discard(episode)
        if not about.counts:
            return None
        if command == OperatorCommand.DISCARD:
            about.counts = False
            return discard(episode)
        if command == OperatorCommand.DENY:
            if about.denied or not about.deniable:
                return None
            about.denied = True
            return Mark(MarkKind.DENY, episode, t_wall=time.time())
        success = command == OperatorCommand.SUCCESS
        if about.success is None or (about.success and success and not about.denied):
            return None
        about.success = about.deniable = success
        about.denied = False
        return outcome_mark(episode, command)
