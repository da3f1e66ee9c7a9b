"""The figures of a run's training: success, success without help, the operator's share. Defined
here alone.

Page, terminal and plots read the lines of `episodes.jsonl` through `Progress`.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from robot_rl.dataset.statistics import wilson_interval
from robot_rl.machine.small_files import is_number
from robot_rl.types import OperatorCommand

WINDOW = 20
"""Episodes that a figure is taken over."""
POINTS = 4_000
"""Of a curve at most: more are not to be seen."""
EPISODES = ("env_steps", "success", "steps", "human_steps", "segments")
"""What is a number in each line."""


def guided_steps(row: Mapping[str, Any]) -> int:
    """Steps in which the guide acted; lines of before there was one do not say."""
    said: Any = row.get("guided_steps")
    return int(said) if is_number(said) else 0


def is_helped(row: Mapping[str, Any]) -> bool:
    """Whether an operator or the guide acted in an episode."""
    return bool(row["human_steps"] > 0 or guided_steps(row) > 0)


Correction = Literal["", "taken back", "denied"]
"""What the operator says afterwards of an episode."""


def is_judged(row: Mapping[str, Any]) -> bool:
    """Whether an episode came to its own end: it succeeded, failed, or its time was up.

    One that the operator stopped or discarded, that a device or the end of the run cut short, is
    neither a success nor a failure.
    """
    return not row.get("reason")


def word_on_last(row: Mapping[str, Any], success: bool) -> Correction:
    """What the operator said, before this episode, of the one before it: that it is not to count,
    or that its `success` was none.
    """
    counts, denied, said = True, False, row.get("on_last")
    for word in said if isinstance(said, list) else ():
        if word == OperatorCommand.UNDO and counts and denied:
            denied = False
        elif word == OperatorCommand.UNDO:
            counts = not counts
        elif word == OperatorCommand.DISCARD:
            counts = False
        elif word == OperatorCommand.DENY and counts:
            denied = success
    return ("denied" if denied else "") if counts else "taken back"


@dataclass(frozen=True)
class Figures:
    """What some judged episodes came to; `alone` of them succeeded without a correction."""

    episodes: int = 0
    successes: int = 0
    alone: int = 0
    steps: int = 0
    human_steps: int = 0
    guided_steps: int = 0

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> "Figures":
        """The figures of these lines together."""
        figures = cls()
        for row in rows:
            figures = figures.and_one(row)
        return figures

    def and_one(self, row: Mapping[str, Any]) -> "Figures":
        """With one episode more."""
        success = bool(row["success"])
        return Figures(
            self.episodes + 1,
            self.successes + int(success),
            self.alone + int(success and not is_helped(row)),
            self.steps + int(row["steps"]),
            self.human_steps + int(row["human_steps"]),
            self.guided_steps + guided_steps(row),
        )

    @property
    def success(self) -> float:
        """Share of the episodes that succeeded, with help or without."""
        return self.successes / max(1, self.episodes)

    @property
    def without_help(self) -> float:
        """Share of the episodes that succeeded without a correction."""
        return self.alone / max(1, self.episodes)

    @property
    def operator(self) -> float:
        """The operator's share of the steps."""
        return self.human_steps / max(1, self.steps)

    @property
    def guide(self) -> float:
        """The guide's share of the steps."""
        return self.guided_steps / max(1, self.steps)

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of `without_help`."""
        return wilson_interval(self.alone, self.episodes)


class Point(NamedTuple):
    """Of a curve: figures of the last `WINDOW` judged episodes, up to `number` (from 1), at so many
    own steps.
    """

    number: int
    env_steps: int
    figures: Figures


class Progress:
    """The figures of a run as its episodes come: `total` of all that were judged and not taken
    back.

    `episodes` counts all, `env_steps` are the run's own steps at the newest. `curve` has a point
    for each judged episode, or for very many at some, evenly spread.
    """

    def __init__(self) -> None:
        self.episodes = self.env_steps = 0
        self.total = self._before = Figures()
        self.curve: list[Point] = []
        # the newest may be taken back
        self._rows: deque[Mapping[str, Any]] = deque(maxlen=WINDOW + 1)
        self._newest_counts = self._newest_succeeded = False
        self._every = 1

    @property
    def newest(self) -> list[Mapping[str, Any]]:
        """The lines of the last `WINDOW` that were judged and not taken back."""
        return [*self._rows][-WINDOW:]

    @property
    def recent(self) -> Figures:
        """Of the last `WINDOW`."""
        return Figures.of(self.newest)

    def add(self, row: Mapping[str, Any]) -> Correction:
        """One more line. Returns what it says of the episode before."""
        word = word_on_last(row, self._newest_succeeded) if self.episodes else ""
        if word and self._newest_counts:
            if self.curve and self.curve[-1].number == self.total.episodes:
                self.curve.pop()
            before = self._rows.pop()
            self.total = self._before
            if word == "denied":
                self._count({**before, "success": False})
        self.episodes, self.env_steps = self.episodes + 1, int(row["env_steps"])
        self._newest_counts, self._newest_succeeded = is_judged(row), bool(row["success"])
        if self._newest_counts:
            self._count(row)
        return word

    def _count(self, row: Mapping[str, Any]) -> None:
        self._rows.append(row)
        self._before, self.total = self.total, self.total.and_one(row)
        self._extend_curve(row)

    def _extend_curve(self, row: Mapping[str, Any]) -> None:
        if self.total.episodes % self._every:
            return
        self.curve.append(Point(self.total.episodes, int(row["env_steps"]), self.recent))
        if len(self.curve) == POINTS:
            self._every *= 2
            self.curve = self.curve[1::2]
