"""What the episodes of a run came to, as the page shows it: counts, curves and the newest ones, in
words.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from robot_rl.config.evaluation_files import KINDS, parts_of
from robot_rl.dataset.counts import Figures, Point, Progress, is_helped, is_judged
from robot_rl.dataset.statistics import wilson_interval
from robot_rl.machine.small_files import is_number, read_json
from robot_rl.types import DataError

LAST = 8  # episodes that are listed


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
    """What the episodes of a run came to, all and the recent ones; `last` are the newest, newest
    first.
    """

    episodes: int = 0
    total: Figures = field(default_factory=Figures)
    recent: Figures = field(default_factory=Figures)
    curve: Sequence[Point] = ()
    last: Sequence[Ended] = ()


class Tally:
    """What the episodes of a run come to, one after the other, and the last ones in words."""

    def __init__(self) -> None:
        self.progress = Progress()
        self._last: deque[Ended] = deque(maxlen=LAST)

    def add(self, row: dict[str, Any]) -> None:
        """One more episode: a line of `episodes.jsonl`."""
        if word := self.progress.add(row):
            before, good = self._last[-1], False if word == "denied" else None
            self._last[-1] = replace(before, verdict=f"{before.verdict}, {word}", good=good)
        self._last.append(ended(row))

    @property
    def history(self) -> History:
        """All of it, as it is shown."""
        progress = self.progress
        return History(
            progress.episodes,
            progress.total,
            progress.recent,
            tuple(progress.curve),
            tuple(reversed(self._last)),
        )


def ended(row: dict[str, Any]) -> Ended:
    """A line of `episodes.jsonl` in words."""
    success, helped = bool(row["success"]), is_helped(row)
    verdict = str(row["reason"]) if not is_judged(row) else "success" if success else "failure"
    number, corrections = (
        int(row[name]) if is_number(row.get(name)) else 0 for name in ("episode", "segments")
    )
    return Ended(
        number,
        verdict + (", helped" if helped else ""),
        int(row["steps"]),
        corrections,
        success if is_judged(row) else None,
    )


def results_of(run: Path) -> list[str]:
    """A line for each evaluation of a run, and each way to act in it."""
    lines = []
    for path in sorted(run.glob("evaluation*.json")):
        try:
            for sampled, said in parts_of(read_json(path)):
                good, count = int(said["successes"]), int(said["episodes"])
                low, high = wilson_interval(good, count)
                lines.append(
                    f"evaluation, {KINDS[sampled]}: {good} of {count} succeeded (95 % interval"
                    f" {low:.0%} to {high:.0%})"
                )
        except (DataError, KeyError, TypeError, ValueError):
            continue
    return lines
