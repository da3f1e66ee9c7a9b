"""What a classifier is worth on labelled episodes: figures, and the sentences that say them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robot_rl.classifier.frames import Frames
from robot_rl.classifier.score import Rule, episode_score
from robot_rl.classifier.statistics import (
    calibration_error,
    negative_log_likelihood,
    proof,
    trials_without,
)
from robot_rl.types import Array

BOUNDS = (0.05, 0.02, 0.01, 0.005)
"""What is worth proving, one after the other."""


def episode_scores(
    probabilities: Sequence[Array], episodes: Sequence[Frames], frames: int
) -> tuple[Array, Array]:
    """The scores of failures and of successes.

    A failure is an episode without success, or the part of one that shows none, and a success the
    part that does; what is too short to fire counts as neither.
    """
    failures, successes = [], []
    for p, episode in zip(probabilities, episodes, strict=True):
        if np.count_nonzero(~episode.label) >= frames:
            failures.append(episode_score(p, ~episode.label, frames))
        if np.count_nonzero(episode.label) >= frames:
            successes.append(episode_score(p, episode.label, frames))
    return np.array(failures), np.array(successes)


def figures(
    probabilities: Sequence[Array], episodes: Sequence[Frames], rule: Rule
) -> dict[str, float]:
    """How often it fires where it must not, how often it does not where it should, and how right
    its probabilities are.
    """
    found = proof(*episode_scores(probabilities, episodes, rule.frames), rule.threshold)
    p = np.concatenate([np.zeros(0), *probabilities])
    label = np.concatenate([np.zeros(0, bool), *(each.label for each in episodes)])
    calibration = {
        "ece": calibration_error(p, label),
        "nll": negative_log_likelihood(p, label),
        "accuracy": float(((p >= 0.5) == label).mean()),
    }
    return {**found.to_json(), **(calibration if len(label) else {})}


def sentences(about: str, metrics: Mapping[str, Any], wanted: float) -> list[str]:
    """The figures of `figures` in words; `about` says which episodes they are of, `wanted` is the
    bound that was asked for.
    """
    failures, fires, bound = metrics["failures"], metrics["fires"], metrics["bound_95"]
    said = [
        f"{about}: {_times(fires, 'false success', 'false successes')} on"
        f" {_times(failures, 'failure episode', 'failure episodes')}: at most"
        f" {100.0 * bound:.3g} % (95 % confidence)",
        f"{about}: {_times(metrics['misses'], 'miss', 'misses')} on"
        f" {_times(metrics['successes'], 'success', 'successes')}",
    ]
    if "ece" in metrics:
        said.append(
            f"{about}: probabilities are off by {metrics['ece']:.3f} on average (ECE), negative"
            f" log-likelihood {metrics['nll']:.3f}, {100.0 * metrics['accuracy']:.1f} % of the"
            " frames right"
        )
    if fires == 0 and bound > wanted:
        steps = sorted({each for each in BOUNDS if wanted < each < bound} | {wanted}, reverse=True)
        more = ", ".join(f"{trials_without(each)} prove {100.0 * each:g} %" for each in steps)
        said.append(f"{about}: more episodes without a false success would prove more: {more}")
    return said


def _times(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
