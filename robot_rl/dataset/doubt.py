"""Whether a judge that learns still sees what it learnt from: how often it abstains, against how
often it did on the frames that it was tested on.

The frames of an episode look alike, so an episode counts once. If nothing has changed, the expected
share of doubtful frames in an episode is that of the test, q, whatever its distribution; by Markov's
inequality the share is F q or more in at most one of F episodes. How many of the last `WINDOW` were
is held against the binomial distribution with 1 / F (a one-sided test, for each F of `FACTORS`).

It is looked at after every episode. The j-th look since the process began, or since the judge's
newest version, has the level `LEVEL / (j (j + 1))`; these add up to `LEVEL`, so that among a hundred
runs of any length in which nothing has changed at most five ever say that something has.
"""

import math
from collections import deque
from pathlib import Path
from typing import Any

from robot_rl.machine.small_files import is_number, read_json
from robot_rl.machine.versions import files_of
from robot_rl.types import DataError

WINDOW = 20
LEVEL = 0.05
FACTORS = (3.0, 10.0)
LEAST = 0.01
"""A judge that never doubted in its test is taken to doubt as many of the frames."""


class DoubtWatch:
    """`drift` says in a sentence that the judge sees something else than it learnt from, or ""."""

    def __init__(self, classifier: Path | None):
        """`classifier` is the folder of its versions; without one there is nothing to compare."""
        self.drift = ""
        self._classifier = classifier
        self._version = self._looks = 0
        self._trained: float | None = None
        self._episodes: deque[tuple[int, int]] = deque(maxlen=WINDOW)

    def add(self, version: int, doubtful: int, steps: int) -> None:
        """One more episode: in `doubtful` of its steps the judge, of this version, abstained."""
        if version != self._version:
            self.drift, self._version, self._looks = "", version, 0
            self._trained = trained_doubt(self._classifier, version) if self._classifier else None
            self._episodes.clear()
        if self._trained is None or steps < 1:
            return
        self._looks += 1
        self._episodes.append((doubtful, steps))
        self.drift = drift_in([*self._episodes], self._trained, self._looks)


def drift_in(episodes: list[tuple[int, int]], trained: float, looks: int) -> str:
    """What the doubtful frames of these episodes, of so many each, say at this look, the first
    being 1; `trained` is their share in the judge's test."""
    level = LEVEL / (looks * (looks + 1)) / len(FACTORS)
    usual = max(trained, LEAST)
    for factor in FACTORS:
        many = sum(doubtful >= factor * usual * steps for doubtful, steps in episodes)
        if at_least(many, len(episodes), 1.0 / factor) <= level:
            now = sum(d for d, _ in episodes) / sum(steps for _, steps in episodes)
            return (
                f"the judge doubts {now:.0%} of frames, {trained:.0%} when it was trained: has a"
                " camera moved, or the light?"
            )
    return ""


def at_least(successes: int, trials: int, chance: float) -> float:
    """The probability of so many successes or more in independent trials (binomial)."""
    return sum(
        math.comb(trials, k) * chance**k * (1.0 - chance) ** (trials - k)
        for k in range(successes, trials + 1)
    )


def trained_doubt(classifier: Path, version: int) -> float | None:
    """The share of doubtful frames in the test of a version, None if its file does not say."""
    try:
        metrics: Any = read_json(files_of(classifier, version)["json"]).get("metrics")
    except DataError:
        return None
    rate: Any = metrics.get("doubtful_rate") if isinstance(metrics, dict) else None
    return float(rate) if is_number(rate) and 0.0 <= rate <= 1.0 else None
