"""What makes a judge that knows probabilities fire, over one frame and over a whole episode.

A success is said when the probability was at or above the threshold in the last `frames` fresh
frames. The score of an episode, the maximum over time of the minimum over so many frames, is
therefore at or above the threshold if and only if it fires: a bound on the one is a bound on the
other.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from robot_rl.config import make_options
from robot_rl.config.judge import LEARNED
from robot_rl.types import Array, ConfigError, DataError, Observation

if TYPE_CHECKING:
    from robot_rl.config import Task

Said = Literal["no", "doubtful", "success"]


@dataclass(frozen=True)
class Rule:
    """When a judge says success. Raises ConfigError for a rule that could not be kept."""

    threshold: float = 0.5
    """The probability from which on a frame counts, in (0, 1]."""
    doubt: float = 0.5
    """From here to the threshold it is doubtful."""
    frames: int = 3
    """So many fresh frames in a row."""

    def __post_init__(self) -> None:
        if not (0.0 < self.doubt <= self.threshold <= 1.0 and self.frames >= 1):
            raise ConfigError(
                f"threshold {self.threshold:g}, doubt {self.doubt:g} and {self.frames} frames are no"
                " rule: wanted 0 < doubt <= threshold <= 1 and at least one frame"
            )


class Firing:
    """A rule, frame by frame.

    ```
    firing.begin()
    while firing.see(probability) != "success":
        ...
    ```
    """

    def __init__(self, rule: Rule):
        self.rule = rule
        self._recent: deque[float] = deque(maxlen=rule.frames)

    def begin(self) -> None:
        """Frames of before are none in a row with those that come."""
        self._recent.clear()

    def see(self, probability: float, fresh: bool = True, allowed: bool = True) -> Said:
        """What the frames so far come to. A frame that is not fresh says nothing; one that the
        task's predicates do not allow, or without a number, is as one of probability 0.
        """
        if not fresh:
            return "no"
        self._recent.append(probability if allowed and np.isfinite(probability) else 0.0)
        if len(self._recent) < self.rule.frames:
            return "no"
        least = min(self._recent)
        if least >= self.rule.threshold:
            return "success"
        return "doubtful" if least >= self.rule.doubt else "no"


def first_success(probabilities: Array, allowed: Array, rule: Rule) -> int | None:
    """The index of the fresh frame at which an episode fires, of `probabilities (T,)`, or None.

    `allowed (T,)` is where the task's predicates hold.
    """
    fires = np.flatnonzero(_lowest(probabilities, allowed, rule.frames) >= rule.threshold)
    return int(fires[0]) + rule.frames - 1 if len(fires) else None


def unsure(probabilities: Array, strange: Array, rule: Rule) -> Array:
    """Probabilities that may be held against a rule: what `strange (T,)` frames show is doubtful,
    and supports no success.
    """
    below = np.nextafter(rule.threshold, 0.0)
    said: Array = np.where(strange, min(rule.doubt, below), probabilities)
    return said


def doubtful_share(episodes: Sequence[Array], rule: Rule) -> float:
    """The share of all frames at which a judge with this rule is in doubt, of episodes' probabilities
    `(T,)`, if it goes on where it fires.
    """
    doubtful = 0
    for probabilities in episodes:
        lowest = _lowest(probabilities, np.ones(len(probabilities), bool), rule.frames)
        doubtful += int(((lowest >= rule.doubt) & (lowest < rule.threshold)).sum())
    return doubtful / max(1, sum(map(len, episodes)))


def episode_score(probabilities: Array, allowed: Array, frames: int) -> float:
    """The largest threshold at which the episode would fire; 0 if it is too short to fire at all."""
    return float(_lowest(probabilities, allowed, frames).max(initial=0.0))


def _lowest(probabilities: Array, allowed: Array, frames: int) -> Array:
    """The minimum over `frames` frames in a row, `(T - frames + 1,)`."""
    seen = np.where(allowed, np.nan_to_num(np.asarray(probabilities, float), nan=0.0), 0.0)
    if len(seen) < frames:
        return np.zeros(0)
    lowest: Array = np.lib.stride_tricks.sliding_window_view(seen, frames).min(-1)
    return lowest


@dataclass(frozen=True, kw_only=True)
class Predicates:
    """What has to hold beside the picture, as the task's file says it; a judge that sees a success
    elsewhere is not believed. Each arm's number has to be so.
    """

    height_below: float | None = None
    """The tool is lower than this in the arm's base frame [m]."""
    height_above: float | None = None
    """The tool is higher than this [m]."""
    force_below: float | None = None
    """The force on the tool is smaller than this [N]."""
    force_above: float | None = None
    """The force on the tool is larger than this [N]."""
    width_between: tuple[float, float] | None = None
    """The gripper's opening lies between these two [m]."""

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """What is asked of each number: `{"height": (low, high)}`."""
        low, high = self.width_between or (None, None)
        asked = {
            "height": (self.height_above, self.height_below),
            "force": (self.force_above, self.force_below),
            "width": (low, high),
        }
        return {
            name: (-np.inf if low is None else low, np.inf if high is None else high)
            for name, (low, high) in asked.items()
            if low is not None or high is not None
        }

    def allow(self, observation: Observation) -> bool:
        """Whether all of it holds in an observation. Raises DataError if a number is not in it."""
        return all(
            bool(((low < (value := number(observation, name))) & (value < high)).all())
            for name, (low, high) in self.bounds.items()
        )


def predicates_of(tasks: Iterable["Task"]) -> Predicates:
    """What the learned judges of these tasks ask for beside the pictures. Raises ConfigError where
    they ask for different things.
    """
    rewards = [task.reward for task in tasks if task.reward.name == LEARNED]
    asked: list[Predicates] = [make_options("rewards", each) for each in rewards]
    if any(each.bounds != asked[0].bounds for each in asked):
        raise ConfigError(
            "the tasks of these runs have different predicates: say with --task whose shall count"
        )
    return asked[0] if asked else NO_PREDICATES


NO_PREDICATES = Predicates()


def number(observation: Observation, name: str) -> Array:
    """`judge/NAME` of an observation, `(n,)`. Raises DataError if it is not there."""
    if (key := f"judge/{name}") not in observation:
        raise DataError(
            f"the observation has no {key!r}, which the classifier or its predicates look at:"
            " record with a task whose reward asks for it (numbers), or leave it out"
        )
    return observation[key]


def picture(observation: Observation, camera: str) -> Array:
    """The judge's own picture of a camera, else the policy's, uint8 `(H, W, 3)`. Raises DataError
    if there is none.
    """
    for key in (f"judge/{camera}", f"image/{camera}"):
        if key in observation:
            return observation[key]
    cameras = sorted({n.partition("/")[2] for n in observation if observation[n].ndim == 3})
    raise DataError(
        f"the observation has no picture of camera {camera!r}, which the classifier looks at; it"
        f" has: {', '.join(cameras) or 'none'}"
    )
