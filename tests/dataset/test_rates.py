"""What counted successes prove: exact bounds, corrected rates, and a test that may be looked at in
every pair.
"""

from fractions import Fraction
from functools import cache
from math import comb
from typing import Any

import numpy as np
import pytest

from robot_rl.dataset.rates import (
    DECIDED,
    Accuracy,
    corrected_rate,
    difference_interval,
    evidence,
    longest_streak,
)
from robot_rl.dataset.statistics import lower_bound, upper_bound


def chance_of_at_most(events: int, trials: int, rate: float) -> Fraction:
    """Exactly."""
    p = Fraction(rate)
    chances = (comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(events + 1))
    return sum(chances, start=Fraction(0))


@pytest.mark.parametrize(("events", "trials"), [(0, 41), (3, 100), (6, 600), (99, 100)])
def test_the_bounds_are_clopper_and_pearsons(events, trials):
    """Beyond them the chance of so few, or of so many, is less than one in twenty."""
    bound, near = upper_bound(events, trials), 1e-8
    assert chance_of_at_most(events, trials, bound + near) < 0.05
    assert chance_of_at_most(events, trials, bound - near) > 0.05
    bound = lower_bound(events, trials)
    if events == 0:
        assert bound == 0.0
        return
    assert 1 - chance_of_at_most(events - 1, trials, bound - near) < 0.05
    assert 1 - chance_of_at_most(events - 1, trials, bound + near) > 0.05


def test_n_straight_prove_the_rate_at_which_they_have_one_chance_in_twenty():
    for n in (1, 20, 100, 300):
        assert lower_bound(n, n) == pytest.approx(0.05 ** (1 / n), abs=1e-8)
    assert (upper_bound(0, 0), lower_bound(0, 0), upper_bound(5, 5)) == (1.0, 0.0, 1.0)
    assert [
        longest_streak(each == "1" for each in row) for row in ("", "000", "0110111", "11110")
    ] == [
        0,
        0,
        3,
        4,
    ]


@pytest.mark.parametrize(
    ("rate", "sensitivity", "specificity"), [(0.9, 0.9, 0.9), (0.4, 0.9, 0.8), (0.85, 0.99, 0.7)]
)
def test_the_corrected_rate_recovers_the_truth_and_its_interval_holds_it(
    rate, sensitivity, specificity
):
    rng, rates, held, times = np.random.default_rng(0), [], 0, 400
    for _ in range(times):
        good = rng.binomial(300, rate)
        said = rng.binomial(good, sensitivity) + rng.binomial(300 - good, 1 - specificity)
        misses, fires = rng.binomial(150, 1 - sensitivity), rng.binomial(150, 1 - specificity)
        corrected = corrected_rate(int(said), 300, Accuracy(150, int(fires), 150, int(misses)))
        low, high = corrected["interval_95"]
        rates.append(corrected["rate"])
        held += low <= rate <= high
    assert np.mean(rates) == pytest.approx(rate, abs=0.01)
    assert held >= 0.92 * times


def test_the_correction_is_refused_where_the_judge_knows_too_little():
    assert "below 0.5" in corrected_rate(90, 100, Accuracy(100, 40, 100, 11))["refused"]
    assert "rate" in corrected_rate(90, 100, Accuracy(100, 40, 100, 10))
    for judge in (Accuracy(0, 0, 10, 0), Accuracy(10, 0, 0, 0)):
        assert judge.j is None and "not tried" in corrected_rate(90, 100, judge)["refused"]
    assert "refused" in corrected_rate(0, 0, Accuracy(10, 0, 10, 0))


def test_a_judges_own_figures_are_read_only_if_they_are_counts():
    counts = {"failures": 100, "fires": 1, "successes": 50, "misses": 2}
    assert Accuracy.read(counts | {"ece": 0.1}) == Accuracy(100, 1, 50, 2)
    assert Accuracy.read({"test": counts, "fires": 9}) == Accuracy(100, 1, 50, 2)
    wrongs: tuple[Any, ...] = (None, [], {}, counts | {"fires": 0.5}, counts | {"fires": 101})
    for wrong in wrongs:
        assert Accuracy.read(wrong) is None


@cache
def against_equal(wins: int, losses: int) -> float:
    return evidence(wins, losses)


def times_decided(rate_0: float, rate_1: float, runs: int = 400, pairs: int = 150) -> float:
    """Share of comparisons that are decided, looked at after every pair."""
    rng = np.random.default_rng(1)
    outcomes = rng.random((runs, pairs, 2)) < (rate_0, rate_1)
    decided = 0
    for run in outcomes:
        alone = run[:, 0] != run[:, 1]
        wins, losses = np.cumsum(run[alone, 0]), np.cumsum(run[alone, 1])
        decided += any(
            against_equal(*both) >= DECIDED
            for both in zip(wins.tolist(), losses.tolist(), strict=True)
        )
    return decided / runs


def test_equal_policies_are_told_apart_in_at_most_one_comparison_of_twenty():
    assert max(times_decided(rate, rate) for rate in (0.5, 0.9)) <= 0.05


def test_policies_that_differ_are_told_apart_and_the_interval_says_by_how_much():
    assert times_decided(0.6, 0.95) > 0.95
    low, high = difference_interval(30, 10, 60)
    assert 0.0 < low < 0.2 < high and evidence(30, 10) >= DECIDED
    assert difference_interval(0, 0, 0) == (-1.0, 1.0)
    low, high = difference_interval(0, 0, 100)  # equal all along
    assert low == pytest.approx(-high) and -0.1 < low < 0.0
    low, high = difference_interval(6, 3, 500)
    assert low < 0.0 < high and evidence(6, 3) < DECIDED
    assert evidence(3000, 1000) > 1e9  # and nothing overflows


def test_the_interval_of_the_difference_holds_at_the_moment_of_stopping():
    rng, held, times = np.random.default_rng(2), 0, 100
    for _ in range(times):
        worth = rng.choice([1, -1, 0], p=(0.2, 0.05, 0.75), size=80)
        wins, losses = np.cumsum(worth == 1).tolist(), np.cumsum(worth == -1).tolist()
        ends = [n for n in range(80) if against_equal(wins[n], losses[n]) >= DECIDED]
        n = ends[0] if ends else 79
        # whether the interval holds it
        held += evidence(wins[n], losses[n], n + 1 - wins[n] - losses[n], 0.15) < DECIDED
    assert held >= 0.95 * times
