"""Which episodes of a run count, and which of them succeeded without help: for the terminal, the plot and the page."""

from collections.abc import Mapping
from typing import Any

WINDOW = 20
"""Episodes that a success rate is averaged over."""


def is_judged(row: Mapping[str, Any]) -> bool:
    """Whether an episode, a line of `episodes.jsonl`, came to its own end: it succeeded, failed, or its time was up.

    One that the operator stopped or discarded, that a device or the end of the run cut short, is neither a success nor
    a failure.
    """
    return not row.get("reason")


def is_alone(row: Mapping[str, Any]) -> bool:
    """Whether it succeeded without a correction: of all that were judged, the share that counts."""
    return bool(row["success"]) and not row["human_steps"] > 0
