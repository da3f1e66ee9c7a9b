"""What counted successes prove: a judge's accuracy, a rate corrected for it, and which of two
policies is better.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from robot_rl.dataset.statistics import upper_bound
from robot_rl.types import Array

Z = 1.959964  # of a two-sided 95 % interval
LEAST_J = 0.5
"""A judge with less tells success from failure too badly for any correction."""
DECIDED = 20.0
"""The evidence at which a comparison is decided: an error in at most 1 of 20."""
_BETS = (np.arange(256) + 0.5) / 256
_DIFFERENCES = np.linspace(-1.0, 1.0, 2001)[1:-1]


def longest_streak(outcomes: Iterable[bool]) -> int:
    """How many successes came in a row at most."""
    return max((len(list(run)) for good, run in groupby(outcomes) if good), default=0)


@dataclass(frozen=True)
class Accuracy:
    """What a judge said of episodes whose outcome is known: it fired on `fires` of the `failures`,
    and on all `successes` but the `misses`.
    """

    failures: int
    fires: int
    successes: int
    misses: int

    @classmethod
    def read(cls, metrics: Any) -> "Accuracy | None":
        """The four counts out of what a judge says of itself, or of its `test` alone; None if they
        are not there.
        """
        if isinstance(metrics, Mapping):
            metrics = metrics.get("test", metrics)
        if not isinstance(metrics, Mapping):
            return None
        said = [metrics.get(name) for name in ("failures", "fires", "successes", "misses")]
        counts = [count for count in said if type(count) is int and count >= 0]
        if len(counts) < len(said):
            return None
        read = cls(*counts)
        return read if read.fires <= read.failures and read.misses <= read.successes else None

    @property
    def sensitivity(self) -> float | None:
        """Share of the successes on which it fired; None without any."""
        return 1.0 - self.misses / self.successes if self.successes else None

    @property
    def specificity(self) -> float | None:
        """Share of the failures on which it did not fire; None without any."""
        return 1.0 - self.fires / self.failures if self.failures else None

    @property
    def j(self) -> float | None:
        """Youden's J (1950): 1 for a judge that is never wrong, 0 for one that knows nothing."""
        if self.sensitivity is None or self.specificity is None:
            return None
        return self.sensitivity + self.specificity - 1.0

    def to_json(self) -> dict[str, Any]:
        """As evaluation.json holds it; `bound_95` is of the rate of fires per failure episode."""
        return {
            "fires": self.fires,
            "failures": self.failures,
            "misses": self.misses,
            "successes": self.successes,
            "bound_95": upper_bound(self.fires, self.failures),
            "sensitivity": self.sensitivity,
            "specificity": self.specificity,
            "J": self.j,
        }


def corrected_rate(successes: int, trials: int, judge: Accuracy) -> dict[str, Any]:
    """The success rate behind an imperfect judge's word, with its 95 % interval; or why there is
    none (`refused`).

    The rate is Rogan and Gladen's (1978), (p + sp - 1) / J. The interval is the delta method's, and
    knows that sensitivity and specificity were counted too, in few episodes: of counts that z^2
    trials and, for the judge, a right and a wrong word are added to (Lang and Reiczigel 2014), so
    that it does not vanish where nobody erred. Both are clipped to [0, 1].
    """
    if (j := judge.j) is None or not trials:
        return {
            "refused": "the judge was not tried on both successes and failures, or nothing was"
            " played"
        }
    if j < LEAST_J:
        return {
            "refused": f"the judge's J is {j:.2f}: below {LEAST_J} the correction is mostly noise."
            " Have a person judge, or train a better classifier"
        }
    assert judge.sensitivity is not None and judge.specificity is not None
    rate = (successes / trials + judge.specificity - 1.0) / j

    # the same from counts that are never at their ends
    n, n_se, n_sp = trials + Z * Z, judge.successes + 2, judge.failures + 2
    said = (successes + Z * Z / 2) / n
    se = (judge.successes - judge.misses + 1) / n_se
    sp = (judge.failures - judge.fires + 1) / n_sp
    middle = (said + sp - 1.0) / (se + sp - 1.0)
    variance = (
        said * (1 - said) / n
        + middle**2 * se * (1 - se) / n_se
        + (1 - middle) ** 2 * sp * (1 - sp) / n_sp
    )
    half = Z * math.sqrt(variance) / (se + sp - 1.0)
    return {
        "rate": _clip(rate),
        "interval_95": [_clip(middle - half), _clip(middle + half)],
        "J": j,
        "method": "Rogan and Gladen 1978, delta method on adjusted counts",
    }


def _clip(rate: float) -> float:
    return min(1.0, max(0.0, rate))


def evidence(wins: int, losses: int, ties: int = 0, difference: float = 0.0) -> float:
    """How much pairs of episodes say against "the success rates differ by `difference`", at any
    time.

    A pair is worth x = 1 (the first alone succeeded), -1 (the second alone) or 0. Whoever bets a
    share b on each, prod(1 + b (x - difference)), wins nothing on average where the claim is true;
    the mean over all bets b that cannot go bankrupt is a martingale, so that it ever reaches 20
    with a chance of at most 1 in 20 (Ville 1939), however often one looks. Of difference 0 it is
    the Beta(1, 1) mixture of the sign test (Robbins 1970); in general Waudby-Smith and Ramdas,
    "Estimating means of bounded random variables by betting", 2024.
    """
    return float(_evidence(wins, losses, ties, np.array([difference]))[0])


def difference_interval(wins: int, losses: int, ties: int) -> tuple[float, float]:
    """95 % interval of the difference of the success rates, first less second, which holds whenever
    one stops: all differences with evidence below 20.
    """
    pairs = wins + losses + ties
    if not pairs:
        return -1.0, 1.0
    inside = _DIFFERENCES[_evidence(wins, losses, ties, _DIFFERENCES) < DECIDED]
    found = [*inside.tolist(), (wins - losses) / pairs]
    low, high = min(found), max(found)
    return (-1.0 if low <= _DIFFERENCES[0] else low), (1.0 if high >= _DIFFERENCES[-1] else high)


def _evidence(wins: int, losses: int, ties: int, differences: Array) -> Array:
    """Of each difference `(m,)`, in (-1, 1): the mean over evenly spread bets."""
    d = differences[:, None]
    least, most = -1.0 / (1.0 - d), 1.0 / (1.0 + d)
    bets = least + (most - least) * _BETS
    logs = (
        wins * np.log1p(bets * (1.0 - d))
        + losses * np.log1p(-bets * (1.0 + d))
        + ties * np.log1p(-bets * d)
    )
    top = logs.max(axis=1)
    return np.asarray(np.exp(np.minimum(top, 700.0)) * np.exp(logs - top[:, None]).mean(axis=1))
