"""What the episodes of a run came to, as the page shows it: counts, curves and the newest ones, in words."""

import copy
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from robot_rl.data.counts import WINDOW, is_alone, is_judged, takes_back
from robot_rl.data.stats import wilson_interval
from robot_rl.small_files import is_number, read_json
from robot_rl.types import DataError

POINTS = 4_000  # of a curve at most: more are not to be seen
LAST = 8  # episodes that are listed
EPISODES = ("success", "steps", "human_steps")  # numbers in each of its rows


@dataclass(frozen=True)
class Ended:
    """An episode that is over, in words, and whether that is good (None: it was not judged)."""

    episode: int
    verdict: str
    steps: int
    corrections: int
    good: bool | None


@dataclass(frozen=True)
class History:
    """What the episodes of a run came to: the curves are means over the last 20 judged ones, at the `numbers`.

    `alone` of the `judged` ones succeeded without a correction, `successes` with or without. The curves are at all
    judged episodes, counted from 1, or of very many at some, evenly spread. `last` are the newest, newest first.
    """

    episodes: int = 0
    judged: int = 0
    successes: int = 0
    alone: int = 0
    recently_alone: float = 0.0
    numbers: Sequence[int] = ()
    alone_curve: Sequence[float] = ()
    success_curve: Sequence[float] = ()
    operator_curve: Sequence[float] = ()
    last: Sequence[Ended] = ()

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the share of judged episodes that succeeded without a correction."""
        return wilson_interval(self.alone, self.judged)


class Tally:
    """What the episodes of a run come to, one after the other.

    Whether one was taken back stands in the row after it: the newest is counted for now, and for good with the next.
    """

    def __init__(self) -> None:
        self.episodes = 0
        self._newest: dict[str, Any] | None = None
        self._settled = Figures()
        self._last: deque[Ended] = deque(maxlen=LAST)

    def add(self, row: dict[str, Any]) -> None:
        """One more episode: a line of `episodes.jsonl`."""
        self.episodes += 1
        if self._newest is not None:
            if takes_back(row):
                self._last[-1] = replace(self._last[-1], verdict=f"{self._last[-1].verdict}, taken back", good=None)
            else:
                self._settled.add(self._newest)
        self._newest = row
        self._last.append(ended(row))

    @property
    def history(self) -> History:
        """All of it, as it is shown."""
        figures = copy.deepcopy(self._settled)
        if self._newest is not None:
            figures.add(self._newest)
        return History(
            self.episodes,
            figures.judged,
            figures.successes,
            figures.alone,
            figures.alone_curve.newest,
            tuple(figures.alone_curve.numbers),
            tuple(figures.alone_curve.means),
            tuple(figures.success_curve.means),
            tuple(figures.share_curve.means),
            tuple(reversed(self._last)),
        )


class Figures:
    """Sums and curves of the episodes that were judged."""

    def __init__(self) -> None:
        self.judged = self.successes = self.alone = 0
        self.alone_curve, self.success_curve, self.share_curve = RunningMean(), RunningMean(), RunningMean()

    def add(self, row: dict[str, Any]) -> None:
        """One more, if it was judged."""
        if not is_judged(row):
            return
        self.judged += 1
        self.successes += bool(row["success"])
        self.alone += is_alone(row)
        self.alone_curve.add(is_alone(row))
        self.success_curve.add(bool(row["success"]))
        self.share_curve.add(row["human_steps"] / max(1, row["steps"]))


def ended(row: dict[str, Any]) -> Ended:
    """A line of `episodes.jsonl` in words."""
    success, helped = bool(row["success"]), row["human_steps"] > 0
    verdict = str(row["reason"]) if not is_judged(row) else "success" if success else "failure"
    number, corrections = (int(row[name]) if is_number(row.get(name)) else 0 for name in ("episode", "segments"))
    return Ended(
        number,
        verdict + (", helped" if helped else ""),
        int(row["steps"]),
        corrections,
        success if is_judged(row) else None,
    )


def results_of(run: Path) -> list[str]:
    """A line for each evaluation of a run."""
    lines = []
    for path in sorted(run.glob("evaluation*.json")):
        try:
            said = read_json(path)
            count, good = int(said["episodes"]), int(said["successes"])
            how = "sampled" if said.get("sampled") else "greedy"
        except (DataError, KeyError, TypeError, ValueError):
            continue
        low, high = wilson_interval(good, count)
        lines.append(f"evaluation, {how}: {good} of {count} succeeded (95 % interval {low:.0%} to {high:.0%})")
    return lines


class RunningMean:
    """The mean over the last `WINDOW` values, at each of them; of very many values at every second, fourth, ..."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.means: list[float] = []
        self._newest: deque[float] = deque(maxlen=WINDOW)
        self._count, self._every = 0, 1

    @property
    def newest(self) -> float:
        """The mean over the last ones; 0 if there is none."""
        return sum(self._newest) / max(1, len(self._newest))

    def add(self, value: float) -> None:
        """One more value."""
        self._newest.append(value)
        self._count += 1
        if self._count % self._every:
            return
        self.numbers.append(self._count)
        self.means.append(self.newest)
        if len(self.means) == POINTS:
            self._every *= 2
            self.numbers, self.means = self.numbers[1::2], self.means[1::2]
