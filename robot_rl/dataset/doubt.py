"""Whether a judge that learns still sees what it learnt from: how strange the frames are to it, and
how often it abstains, against the episodes that it was trained and tested on.

The frames of an episode look alike, so an episode counts once.

- Strangeness (`classifier/strange.py`): of the `episodes` of the training, `above` were at its level
  or above when they were left out. If nothing has changed, those and the last `WINDOW` are in an
  order of chance, and how many of these are above the level is held against the hypergeometric
  distribution that follows (a precedence test; Balakrishnan and Ng 2006).
- Doubt: if nothing has changed, the expected share of doubtful frames in an episode is that of the
  test, q, whatever its distribution; by Markov's inequality the share is F q or more in at most one
  of F episodes. How many of the last `WINDOW` were is held against the binomial distribution with
  1 / F (a one-sided test, for each F of `FACTORS`).

It is looked at after every episode. The j-th look since the process began, or since the judge's
newest version, has the level `LEVEL / (j (j + 1))`; these add up to `LEVEL`, so that among a hundred
runs of any length in which nothing has changed at most five ever say that something has.
"""

import math
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robot_rl.machine.small_files import is_number, read_json
from robot_rl.machine.versions import files_of
from robot_rl.types import DataError

WINDOW = 20
LEVEL = 0.05
FACTORS = (3.0, 10.0)
TESTS = len(FACTORS) + 1
"""That share the level of a look."""
LEAST = 0.01
"""A judge that never doubted in its test is taken to doubt as many of the frames."""
WHY = "has a camera moved, or the light?"


@dataclass(frozen=True)
class Trained:
    """What the file of a judge's version says of its training; None: it does not say."""

    doubtful: float | None = None
    """The share of doubtful frames in its test."""
    level: float | None = None
    """As strange as this, or stranger, were `above` of the `episodes`, each when it was left out."""
    above: int = 0
    episodes: int = 0


class DoubtWatch:
    """`drift` says in a sentence that the judge sees something else than it learnt from, or ""."""

    def __init__(self, classifier: Path | None):
        """`classifier` is the folder of its versions; without one there is nothing to compare."""
        self.drift = ""
        self._classifier = classifier
        self._version = self._looks = 0
        self._trained = Trained()
        self._episodes: deque[tuple[int, int]] = deque(maxlen=WINDOW)
        self._strange: deque[bool] = deque(maxlen=WINDOW)

    def add(
        self, version: int, doubtful: int, steps: int, strangeness: float | None = None
    ) -> None:
        """One more episode: in `doubtful` of its steps the judge, of this version, abstained, and
        it was so strange to it.
        """
        if version != self._version:
            self.drift, self._version, self._looks = "", version, 0
            self._trained = trained(self._classifier, version) if self._classifier else Trained()
            self._episodes.clear()
            self._strange.clear()
        if steps < 1:
            return
        known = self._trained
        self._looks += 1
        self.drift = ""
        if known.level is not None and strangeness is not None:
            self._strange.append(strangeness > known.level)
            self.drift = strange_in([*self._strange], known, self._looks)
        if known.doubtful is not None:
            self._episodes.append((doubtful, steps))
            doubts = drift_in([*self._episodes], known.doubtful, self._looks)
            self.drift = self.drift or doubts


def level_of(look: int) -> float:
    """Of each test at this look, the first being 1."""
    return LEVEL / (look * (look + 1)) / TESTS


def strange_in(strange: list[bool], trained: Trained, looks: int) -> str:
    """What it says at this look that these episodes were above the level of the training, or not."""
    many, of = sum(strange), len(strange)
    if precede(many, of, trained.above, trained.episodes) > level_of(looks):
        return ""
    return (
        f"the judge sees what it has not learnt from: {many} of the last {of} episodes are as strange"
        f" to it as {trained.above} of {trained.episodes} were when it was trained: {WHY}"
    )


def drift_in(episodes: list[tuple[int, int]], trained: float, looks: int) -> str:
    """What the doubtful frames of these episodes, of so many each, say at this look, the first
    being 1; `trained` is their share in the judge's test."""
    usual = max(trained, LEAST)
    for factor in FACTORS:
        many = sum(doubtful >= factor * usual * steps for doubtful, steps in episodes)
        if at_least(many, len(episodes), 1.0 / factor) <= level_of(looks):
            now = sum(d for d, _ in episodes) / sum(steps for _, steps in episodes)
            return f"the judge doubts {now:.0%} of frames, {trained:.0%} when it was trained: {WHY}"
    return ""


def precede(many: int, of: int, above: int, episodes: int) -> float:
    """The probability that so many of new episodes, or more, are stranger than the `above`-th
    strangest of the old `episodes`, if all of them are in an order of chance.
    """
    # then of the strangest `top` of all together, so many or more are new
    top, together = many + above - 1, math.comb(of + episodes, many + above - 1)
    likely = sum(
        math.comb(of, new) * math.comb(episodes, top - new) for new in range(many, top + 1)
    )
    return likely / together


def at_least(successes: int, trials: int, chance: float) -> float:
    """The probability of so many successes or more in independent trials (binomial)."""
    return sum(
        math.comb(trials, k) * chance**k * (1.0 - chance) ** (trials - k)
        for k in range(successes, trials + 1)
    )


def trained(classifier: Path, version: int) -> Trained:
    """What the file of a version says of its training, as far as it makes sense."""
    try:
        metrics: Any = read_json(files_of(classifier, version)["json"]).get("metrics")
    except DataError:
        return Trained()
    said: dict[str, Any] = metrics if isinstance(metrics, dict) else {}
    rate: Any = said.get("doubtful_rate")
    doubtful = float(rate) if is_number(rate) and 0.0 <= rate <= 1.0 else None
    strange: Any = said.get("strangeness")
    strange = strange if isinstance(strange, dict) else {}
    level, above, episodes = (strange.get(name) for name in ("level", "above", "episodes"))
    counted = type(above) is int and type(episodes) is int and 1 <= above <= episodes
    if not (counted and is_number(level) and level >= 0.0):
        return Trained(doubtful)
    return Trained(doubtful, float(level), above, episodes)
