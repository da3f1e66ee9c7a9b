"""Statistics of recorded episodes, and what looks wrong with them, in words: dead actions, frozen
cameras, late steps.

```
collector = Collector(rate_hz=10.0)
for episode in recording.episodes():
    collector.add(episode)
statistics = collector.result()
```
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robot_rl.dataset.assembly import Episode, EpisodeFacts
from robot_rl.stream.codec import ACTIONS
from robot_rl.types import Array

QUANTILES = (0.01, 0.1, 0.5, 0.9, 0.99)
"""Those that LeRobot's stats.json holds."""

STILL = 1e-6  # a standard deviation below this: the entry never moves
AT_LIMIT = 1.0 - 1e-6  # an action of this size is clipped, or would be
DIFFERS = 1e-3  # executed and commanded, in units of the action space; below it is rounding
LATE = 1.1  # a period is late from this multiple of the nominal one on
DARK, BRIGHT = 8.0, 247.0  # mean brightness of 255 outside of which nothing is to be seen


@dataclass(frozen=True)
class Entry:
    """One entry of an observation or action over all steps. `quantiles` are those of QUANTILES."""

    name: str
    min: float
    max: float
    mean: float
    std: float
    quantiles: tuple[float, ...]

    @property
    def column(self) -> str:
        """Which column of the observation or action it is."""
        return self.name.partition("[")[2].removesuffix("]")

    @property
    def still(self) -> bool:
        return self.std <= STILL * max(1.0, abs(self.mean))


@dataclass(frozen=True)
class Camera:
    """All frames of a camera: `repeats` is the share equal to the frame before, `brightness` the
    mean (0 to 255).
    """

    name: str
    shape: tuple[int, ...]
    frames: int
    repeats: float
    longest_repeat: int
    brightness: float


@dataclass(frozen=True)
class Timing:
    """Control periods [s]. `late` is the share above LATE times `nominal_s`: the task's, or the
    median if unknown.
    """

    nominal_s: float
    p50_s: float
    p99_s: float
    max_s: float
    late: float


@dataclass(frozen=True)
class Statistics:
    """Shares are of all steps. `attempts` are the episodes that were a success or a failure;
    `clipped` is by entry of the commanded action, 0 for a gripper's choice; `differs` is where the
    arms' executed action is not the commanded one. (A hand that is shut carries out no order to shut.)
    """

    episodes: int
    attempts: int
    successes: int
    steps: int
    duration_s: float
    ends: Mapping[str, int]
    acted: Mapping[str, int]
    corrections: int
    intervention_share: float
    observations: tuple[Entry, ...]
    actions: tuple[Entry, ...]
    clipped: tuple[float, ...]
    differs: float
    cameras: tuple[Camera, ...]
    timing: Timing | None
    warnings: tuple[str, ...]


class _Frames:
    """Counts the frames of one camera that equal the one before."""

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape
        self.frames = self.pairs = self.repeats = self.longest = 0
        self.brightness = 0.0

    def add(self, frames: Array) -> None:
        run = 0
        for i, frame in enumerate(frames):
            run = run + 1 if i and np.array_equal(frame, frames[i - 1]) else 0
            self.repeats += run > 0
            self.longest = max(self.longest, run)
            self.brightness += float(frame[::4, ::4].mean())
        self.frames += len(frames)
        self.pairs += len(frames) - 1

    def result(self, name: str) -> Camera:
        share = self.repeats / max(self.pairs, 1)
        return Camera(
            name,
            self.shape,
            self.frames,
            share,
            self.longest,
            self.brightness / max(self.frames, 1),
        )


class Collector:
    """Takes episodes one by one; keeps the numbers of each step, but no frames."""

    def __init__(
        self,
        rate_hz: float | None = None,
        actions: Sequence[str] = (),
        choices: Sequence[int] = (),
    ):
        """`actions` are the names of an action's numbers; without them they are counted. `choices` are
        the indices of those that are a gripper's.
        """
        self._rate_hz, self._actions, self._choices = rate_hz, actions, list(choices)
        self._numbers: dict[str, list[Array]] = defaultdict(list)
        self._periods: list[Array] = []
        self._cameras: dict[str, _Frames] = {}
        self._facts: list[EpisodeFacts] = []

    def add(self, episode: Episode, facts: EpisodeFacts | None = None) -> None:
        """Count an episode; its `facts`, if given, know the operator's marks."""
        self._facts.append(facts or EpisodeFacts.of(episode))
        for name, array in episode.states.items():
            self._numbers[name].append(array.reshape(len(array), -1))
        for name in ACTIONS:
            self._numbers[f"action/{name}"].append(getattr(episode, name))
        for name, frames in episode.cameras.items():
            self._cameras.setdefault(name, _Frames(frames.shape[1:])).add(frames)
        self._periods.append(np.diff(episode.t_monotonic))

    def result(self) -> Statistics:
        """The statistics of what was added so far."""
        numbers = {name: np.concatenate(parts) for name, parts in self._numbers.items()}
        steps = sum(facts.length for facts in self._facts)
        acted: Counter[str] = Counter()
        for facts in self._facts:
            acted.update(facts.acted)
        described: dict[bool, list[Entry]] = {False: [], True: []}
        for name, values in numbers.items():
            if len(values):
                is_action = name.startswith("action/")
                names = self._actions if is_action else ()
                described[is_action] += entries(name.removeprefix("action/"), values, names)
        nothing = np.zeros((0, 0))
        commanded = numbers.get("action/commanded", nothing)
        executed = numbers.get("action/executed", nothing)
        if steps:
            commanded, executed = commanded.copy(), executed.copy()
            commanded[:, self._choices] = executed[:, self._choices] = 0.0
        clipped = (np.abs(commanded) >= AT_LIMIT).mean(axis=0).tolist() if steps else ()
        differs = (
            float((np.abs(commanded - executed) > DIFFERS).any(axis=1).mean()) if steps else 0.0
        )
        judged = [facts.label for facts in self._facts if facts.label.is_judged]
        statistics = Statistics(
            episodes=len(self._facts),
            attempts=len(judged),
            successes=sum(verdict.succeeded for verdict in judged),
            steps=steps,
            duration_s=round(sum(facts.duration_s for facts in self._facts), 3),
            ends=dict(Counter(facts.end for facts in self._facts)),
            acted=dict(acted),
            corrections=sum(facts.corrections for facts in self._facts),
            intervention_share=acted["human"] / max(acted["human"] + acted["policy"], 1),
            observations=tuple(described[False]),
            actions=tuple(described[True]),
            clipped=tuple(clipped),
            differs=differs,
            cameras=tuple(frames.result(name) for name, frames in self._cameras.items()),
            timing=_timing(np.concatenate([*self._periods, np.zeros(0)]), self._rate_hz),
            warnings=(),
        )
        return Statistics(**vars(statistics) | {"warnings": tuple(warnings(statistics))})


def entries(name: str, values: Array, names: Sequence[str] = ()) -> list[Entry]:
    """Each column of `values (N, n)`, N > 0; without `names` they are counted."""
    columns = names or [str(i) for i in range(values.shape[1])]
    wide = values.astype(np.float64)
    figures = np.stack([wide.min(axis=0), wide.max(axis=0), wide.mean(axis=0), wide.std(axis=0)])
    quantiles = np.quantile(wide, QUANTILES, axis=0)
    return [
        Entry(f"{name}[{columns[i]}]", low, high, mean, std, tuple(quantiles[:, i].tolist()))
        for i, (low, high, mean, std) in enumerate(figures.T.tolist())
    ]


def _timing(periods: Array, rate_hz: float | None) -> Timing | None:
    if not len(periods):
        return None
    p50, p99 = np.quantile(periods, (0.5, 0.99))
    nominal = 1.0 / rate_hz if rate_hz else float(p50)
    late = float((periods > LATE * nominal).mean())
    return Timing(nominal, float(p50), float(p99), float(periods.max()), late)


def warnings(statistics: Statistics) -> list[str]:
    """What deserves a look before anybody trains on it."""
    if not statistics.steps:
        return ["there is no step in it yet"]
    return [
        *_about_episodes(statistics),
        *_about_actions(statistics),
        *(
            f"observation {entry.name} never changes"
            for entry in statistics.observations
            if entry.still
        ),
        *_about_cameras(statistics),
        *_about_timing(statistics),
    ]


def _about_episodes(statistics: Statistics) -> list[str]:
    found = []
    if cut := statistics.ends.get("cut off", 0):
        found.append(f"{count(cut, 'episode')} cut off in the middle (a killed process, or a gap)")
    if statistics.attempts and not statistics.successes:
        found.append(f"none of {count(statistics.attempts, 'episode')} succeeded")
    return found


def _about_actions(statistics: Statistics) -> list[str]:
    executed = [e for e in statistics.actions if e.name.startswith("executed[")]
    found = [f"action {entry.column} never moves" for entry in executed if entry.still]
    found += [
        f"action {entry.column} is at its limit in {percent(share)} of the steps: its scale may be"
        " too small"
        for entry, share in zip(executed, statistics.clipped, strict=True)
        if share > 0.3
    ]
    if statistics.differs > 0.05:
        found.append(f"executed differs from commanded in {percent(statistics.differs)} of the steps "
                     "(limits, leash or workspace cut in)")  # fmt: skip
    return found


def _about_cameras(statistics: Statistics) -> list[str]:
    found = []
    for camera in statistics.cameras:
        if camera.repeats > 0.01:
            found.append(f"camera {camera.name} repeats {percent(camera.repeats)} of its frames, "
                         f"up to {camera.longest_repeat} in a row")  # fmt: skip
        if not DARK < camera.brightness < BRIGHT:
            found.append(f"camera {camera.name} is {'dark' if camera.brightness <= DARK else 'blinded'}: "
                         f"mean brightness {camera.brightness:.0f} of 255")  # fmt: skip
    return found


def _about_timing(statistics: Statistics) -> list[str]:
    timing = statistics.timing
    if timing is None or timing.late <= 0.01:
        return []
    return [f"{percent(timing.late)} of the steps are late: the period should be {1e3 * timing.nominal_s:.0f} ms, "
            f"its 99 % quantile is {1e3 * timing.p99_s:.0f} ms"]  # fmt: skip


def percent(share: float) -> str:
    """A share for people: as many digits as it takes to tell it from nothing and from all."""
    return f"{share:.1%}" if share < 0.095 or 0.995 < share < 1.0 else f"{share:.0%}"


def count(n: int, noun: str) -> str:
    """`1 episode`, `2 episodes`."""
    return f"{n} {noun}" + ("" if n == 1 else "s")


def wilson_interval(successes: int, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """95 % score interval of a success rate (Wilson 1927), which stays inside [0, 1] and is honest
    at 0 and 100 %.
    """
    if trials == 0:
        return 0.0, 1.0
    rate = successes / trials
    scale = 1.0 + z * z / trials
    middle = (rate + z * z / (2 * trials)) / scale
    half = z / scale * math.sqrt(rate * (1.0 - rate) / trials + z * z / (4 * trials * trials))
    return max(0.0, middle - half), min(1.0, middle + half)


def upper_bound(events: int, trials: int, confidence: float = 0.95) -> float:
    """Exact one-sided upper bound of a rate (Clopper and Pearson 1934): the event is at most so
    frequent, with this confidence.

    The rate at which as few events or fewer have the chance 1 - confidence; 1 without any trial.
    """
    if events >= trials:
        return 1.0
    k = np.arange(events + 1)
    log_choose = (
        math.lgamma(trials + 1)
        - np.array([math.lgamma(i + 1) for i in k])
        - np.array([math.lgamma(trials - i + 1) for i in k])
    )
    low, high = events / trials, 1.0
    while high - low > 1e-12:
        rate = 0.5 * (low + high)
        chance = np.exp(log_choose + k * math.log(rate) + (trials - k) * math.log1p(-rate)).sum()
        low, high = (rate, high) if chance > 1.0 - confidence else (low, rate)
    return high


def lower_bound(events: int, trials: int, confidence: float = 0.95) -> float:
    """Exact one-sided lower bound of a rate (Clopper and Pearson 1934): n of n prove
    0.05 ** (1 / n) with 95 %.
    """
    return 1.0 - upper_bound(trials - events, trials, confidence)
