"""Who gets which episodes: some are fitted to, others calibrate, and on yet others it is proven what a
classifier is worth.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from robot_rl.classifier.frames import Frames
from robot_rl.types import DataError

Part = Literal["fit", "calibrate", "test"]
PARTS: tuple[Part, ...] = ("fit", "fit", "fit", "calibrate", "test")
"""Of five episodes so many are for each."""
HELD_OUT: tuple[Part, ...] = ("calibrate", "test")
MANY_SITTINGS = 5
"""From so many on, whole sittings are held out."""


def split(episodes: Sequence[Frames], seed: int = 0) -> dict[Part, list[Frames]]:
    """Of five episodes three to fit, one to calibrate, one to test; of many sittings whole ones. Those
    are held out as far as their labels are proven.

    Successes and failures are dealt apart, each five in an order drawn for them, so that an episode
    stays where it is when others come behind it. Raises DataError where a part would lack either.
    """
    parts = {}
    if len({each.sitting for each in episodes}) >= MANY_SITTINGS:
        parts = _deal(episodes, seed, by_sitting=True)
    if not parts or _lacks(parts):
        parts = _deal(episodes, seed, by_sitting=False)
    if lacking := _lacks(parts):
        successes = sum(each.has_success for each in episodes)
        raise DataError(
            f"{len(episodes)} episodes, {successes} of them with success, are too few to hold some"
            f" out: {lacking}. A classifier needs at least 5 episodes that show success, and 5 that"
            " show none or show it late; collect more with: robot-rl outcomes TASK"
        )
    return parts


def _deal(episodes: Sequence[Frames], seed: int, by_sitting: bool) -> dict[Part, list[Frames]]:
    dealt: dict[Part, list[Frames]] = {"fit": [], "calibrate": [], "test": []}
    place: dict[tuple[str, bool], Part] = {}
    counts = {True: 0, False: 0}
    for each in episodes:
        unit = (each.sitting, False) if by_sitting else (each.key, each.has_success)
        if unit not in place:
            place[unit] = (
                "fit" if each.unspoken and not by_sitting else _part(counts[unit[1]], seed)
            )
            counts[unit[1]] += 1
        part = place[unit]
        dealt[part].append(each.proven() if part in HELD_OUT else each)
    return dealt


def _part(number: int, seed: int) -> Part:
    """Of the number-th episode of its kind."""
    order = np.random.default_rng([seed, number // len(PARTS)]).permutation(len(PARTS))
    return PARTS[order[number % len(PARTS)]]


def _lacks(parts: Mapping[Part, Sequence[Frames]]) -> str:
    """Which part has nobody's word for a success, or for a failure, in words; "": none."""
    for part, episodes in parts.items():
        spoken = [each.label for each in episodes if not each.unspoken]
        labels = np.concatenate([np.zeros(0, bool), *spoken])
        if not labels.any() or labels.all():
            return f"no frame {'without' if labels.any() else 'with'} success is left to {part}"
    return ""
