"""Which episodes of a run count, and which of them succeeded without help: for the terminal, the plot and the page."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from robot_rl.types import Outcome

WINDOW = 20
"""Episodes that a success rate is averaged over."""


def is_judged(row: Mapping[str, Any]) -> bool:
    """Whether an episode, a line of `episodes.jsonl`, came to its own end: it succeeded, failed, or its time was up.

    One that the operator stopped or discarded, that a device or the end of the run cut short, is neither a success nor
    a failure.
    """
    return not row.get("reason")


def takes_back(row: Mapping[str, Any]) -> bool:
    """Whether the operator said, before this episode, that the one before it is not to count."""
    counts, said = True, row.get("on_last")
    for word in said if isinstance(said, list) else ():
        if word == Outcome.UNDO:
            counts = not counts
        elif word == Outcome.DISCARD:
            counts = False
    return not counts


def judged(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of the lines of `episodes.jsonl`, in their order, those that were judged and not taken back."""
    return [row for row, after in pairwise([*rows, {}]) if is_judged(row) and not takes_back(after)]


def is_alone(row: Mapping[str, Any]) -> bool:
    """Whether it succeeded without a correction: of all that were judged, the share that counts."""
    return bool(row["success"]) and not row["human_steps"] > 0
