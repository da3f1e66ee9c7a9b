"""What a classifier is worth on labelled episodes: figures, and the sentences that say them."""

from collections.abc import Collection, Mapping, Sequence
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
MOST_FIRES, MOST_MISSES = 0.2, 0.5
"""Shares of held-out failures and successes of which a judge may be wrong before that is said."""


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
    probabilities: Sequence[Array],
    episodes: Sequence[Frames],
    rule: Rule,
    predicates: Collection[str] = (),
) -> dict[str, Any]:
    """How often it fires where it must not, how often it does not where it should, and how right
    its probabilities are; the same `in_a_run`, where the task's `predicates` are asked as well.
    """
    found = proof(*episode_scores(probabilities, episodes, rule.frames), rule.threshold)
    p = np.concatenate([np.zeros(0), *probabilities])
    label = np.concatenate([np.zeros(0, bool), *(each.label for each in episodes)])
    calibration = {
        "ece": calibration_error(p, label),
        "nll": negative_log_likelihood(p, label),
        "accuracy": float(((p >= 0.5) == label).mean()),
    }
    beside = {"in_a_run": in_a_run(probabilities, episodes, rule, predicates)} if predicates else {}
    return {**found.to_json(), **(calibration if len(label) else {}), **beside}


def in_a_run(
    probabilities: Sequence[Array],
    episodes: Sequence[Frames],
    rule: Rule,
    predicates: Collection[str],
) -> dict[str, Any]:
    """How often it would fire and miss in a run, where a frame that the predicates do not allow is
    as one of probability 0. No counts where an episode lacks the numbers that they ask for.
    """
    said: dict[str, Any] = {"predicates": sorted(predicates)}
    if any(each.allowed is None for each in episodes):
        return said
    seen = where_allowed(probabilities, episodes)
    found = proof(*episode_scores(seen, episodes, rule.frames), rule.threshold)
    return {**said, **found.to_json()}


def where_allowed(probabilities: Sequence[Array], episodes: Sequence[Frames]) -> list[Array]:
    """The probabilities as a run has them: 0 where the predicates of the task do not hold. Those of
    an episode that lacks the numbers for these stay.
    """
    return [
        p if each.allowed is None else np.where(each.allowed, p, 0.0)
        for p, each in zip(probabilities, episodes, strict=True)
    ]


def sentences(about: str, metrics: Mapping[str, Any], wanted: float) -> list[str]:
    """The figures of `figures` in words; `about` says which episodes they are of, `wanted` is the
    bound that was asked for.
    """
    said = _counts(about, metrics)
    if "in_a_run" in metrics:
        beside = metrics["in_a_run"]
        asked = f"{about}, with the task's predicates ({', '.join(beside['predicates'])})"
        said += _counts(asked, beside) if "fires" in beside else [
            f"{asked}: not counted, since not all of these frames have the numbers that they ask"
            " for: record with a task whose reward asks for them"
        ]  # fmt: skip
    if "ece" in metrics:
        said.append(
            f"{about}: probabilities are off by {metrics['ece']:.3f} on average (ECE), negative"
            f" log-likelihood {metrics['nll']:.3f}, {100.0 * metrics['accuracy']:.1f} % of the"
            " frames right"
        )
    bound = metrics["bound_95"]
    if metrics["fires"] == 0 and bound > wanted:
        steps = sorted({each for each in BOUNDS if wanted < each < bound} | {wanted}, reverse=True)
        more = ", ".join(f"{trials_without(each)} prove {100.0 * each:g} %" for each in steps)
        said.append(f"{about}: more episodes without a false success would prove more: {more}")
    if _is_wrong_often(metrics.get("in_a_run", metrics)):
        said.append(
            f"{about}: a judge that is wrong so often teaches little. Are its labels right (what they"
            " show: plots/outcomes.png of the run), and does a camera see what decides? Then show"
            " more of both, with robot-rl outcomes"
        )
    return said


def _is_wrong_often(proved: Mapping[str, Any]) -> bool:
    """Of a `Proof`, or of one that could not be made."""
    if "fires" not in proved:
        return False
    fires = proved["fires"] >= max(1, MOST_FIRES * proved["failures"])
    return fires or proved["misses"] >= max(1, MOST_MISSES * proved["successes"])


def _counts(about: str, proved: Mapping[str, Any]) -> list[str]:
    """A `Proof` in words."""
    return [
        f"{about}: {_times(proved['fires'], 'false success', 'false successes')} on"
        f" {_times(proved['failures'], 'failure episode', 'failure episodes')}: at most"
        f" {100.0 * proved['bound_95']:.3g} % (95 % confidence)",
        f"{about}: {_times(proved['misses'], 'miss', 'misses')} on"
        f" {_times(proved['successes'], 'success', 'successes')}",
    ]


def _times(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
