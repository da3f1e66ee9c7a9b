"""What a judge's verdicts prove: bounds on a rate, calibrated probabilities, and a threshold.

All counts are of episodes. The frames of one episode look alike, so that a thousand of them prove
little more than one.
"""

import math
from dataclasses import dataclass

import numpy as np

from robot_rl.classifier.score import Rule
from robot_rl.dataset.statistics import upper_bound
from robot_rl.types import Array

CONFIDENCE = 0.95
GIVEN_UP, LARGEST_MISS = 0.1, 0.5
"""Of failures so many are given up, where the rule would miss a larger share of successes."""
LEAST_DOUBT = math.log(0.1 / 0.9)
"""The logit below which nothing is doubtful where the two sides lie far apart."""


def trials_without(bound: float, confidence: float = CONFIDENCE) -> int:
    """How many trials without an event prove a rate of at most `bound`."""
    return math.ceil(math.log(1.0 - confidence) / math.log1p(-bound) - 1e-9)


# -------------------------------------------------------------------------------- probabilities


@dataclass(frozen=True)
class Platt:
    """`p = sigmoid(weight z + bias)` of a network's logit z."""

    weight: float = 1.0
    bias: float = 0.0

    def __call__(self, logits: Array) -> Array:
        z = np.clip(self.weight * np.asarray(logits, float) + self.bias, -60.0, 60.0)
        return np.asarray(1.0 / (1.0 + np.exp(-z)))


def platt(logits: Array, labels: Array) -> Platt:
    """Fitted to frames `(N,)` as often as they occur, by Newton's method (Platt 1999; Lin, Lin and
    Weng 2007): batches that were balanced shift the bias, and this shifts it back.

    The targets are a little inside 0 and 1, so that frames that are told apart without an error
    have an answer as well.
    """
    positives, negatives = float(labels.sum()), float((~labels).sum())
    target = np.where(labels, (positives + 1.0) / (positives + 2.0), 1.0 / (negatives + 2.0))
    design = np.stack([logits, np.ones(len(logits))], -1).astype(float)
    fit = np.array([0.0, math.log((positives + 1.0) / (negatives + 1.0))])
    for _ in range(100):
        p = Platt(*fit)(logits)
        hessian = design.T @ (design * (p * (1.0 - p))[:, None]) + 1e-9 * np.eye(2)
        step = np.linalg.solve(hessian, design.T @ (p - target))
        before = _platt_loss(design @ fit, target)
        # halved until the loss falls: a whole step of Newton's may lead too far
        while _platt_loss(design @ (fit - step), target) > before and np.abs(step).max() > 1e-9:
            step = 0.5 * step
        fit = fit - step
        if np.abs(step).max() < 1e-8:
            break
    # a network that is worse than chance says nothing, rather than the opposite
    return Platt(max(float(fit[0]), 0.0), float(fit[1]))


def _platt_loss(z: Array, target: Array) -> float:
    return float((np.logaddexp(0.0, z) - target * z).sum())


def negative_log_likelihood(probabilities: Array, labels: Array) -> float:
    """Mean over the frames [nats]."""
    p = np.clip(probabilities, 1e-7, 1.0 - 1e-7)
    return float(-np.where(labels, np.log(p), np.log1p(-p)).mean())


def calibration_error(probabilities: Array, labels: Array, bins: int = 10) -> float:
    """Expected calibration error: how far the share of successes is from what was said, over bins
    of equal width, weighted by their frames (Guo et al. 2017).
    """
    place = np.minimum((probabilities * bins).astype(int), bins - 1)
    gaps = [abs(float((labels[place == i] - probabilities[place == i]).sum())) for i in range(bins)]
    return sum(gaps) / len(labels)


# ------------------------------------------------------------------------------------ threshold


@dataclass(frozen=True)
class Proof:
    """How often episodes without success fired, and what that proves; how many successes did not."""

    failures: int = 0
    """Episodes, or parts of one before its success, that never showed success."""
    fires: int = 0
    """So many of them fired: false successes."""
    successes: int = 0
    """Episodes that show success for long enough to fire."""
    misses: int = 0
    """So many of them did not."""

    @property
    def bound(self) -> float:
        """The rate of false successes per failure episode is at most this, with 95 % confidence."""
        return upper_bound(self.fires, self.failures)

    def to_json(self) -> dict[str, float]:
        """With the bound."""
        return {**vars(self), "bound_95": self.bound}


def proof(failures: Array, successes: Array, threshold: float) -> Proof:
    """What the scores of failures and of successes come to at a threshold."""
    return Proof(
        len(failures),
        int((failures >= threshold).sum()),
        len(successes),
        int((successes < threshold).sum()),
    )


def choose_rule(failures: Array, successes: Array, bound: float, frames: int) -> Rule:
    """The rule whose rate of false successes these episodes prove to be at most `bound`, or, where
    they are too few for that, the one that none of them fires.

    `failures (n,)` and `successes (m,)` are scores of episodes. Which score is the lowest that may
    not be passed follows from n alone, and the bound holds for the threshold that is found so (a
    tolerance bound of order statistics is that of Clopper and Pearson). Above it the threshold
    stands in the middle to what nearly all successes reach.

    A failure that scores as most successes do would make a judge that sees none of them. Such ones
    are given up, a tenth of all at most, and count as what they are: false successes.
    """
    may_fire = 0
    while may_fire + 1 < len(failures) and upper_bound(may_fire + 1, len(failures)) <= bound:
        may_fire += 1
    ordered = np.sort(failures)[::-1]
    most_missed = LARGEST_MISS * len(successes)
    given_up = range(may_fire, min(int(GIVEN_UP * len(failures)) + 1, len(failures)))
    enough = (n for n in given_up if (successes <= ordered[n]).sum() <= most_missed)
    may_fire = next(enough, may_fire)
    lowest = _logit(float(ordered[may_fire])) if len(failures) else 0.0
    reached = _logit(float(np.quantile(successes, 0.01, method="lower"))) if len(successes) else 0.0
    # between the two where there is room, always above the score that must not fire
    threshold = max(0.5 * (lowest + max(lowest, reached)), lowest + 1e-3, 0.0)
    # doubtful is what nearly all successes reach, and what no failure here came near
    doubt = min(reached, max(0.5 * (lowest + threshold), LEAST_DOUBT), threshold)
    return Rule(_probability(threshold), _probability(doubt), frames)


def _logit(p: float) -> float:
    p = min(max(p, 1e-9), 1.0 - 1e-9)
    return math.log(p) - math.log1p(-p)


def _probability(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit))
