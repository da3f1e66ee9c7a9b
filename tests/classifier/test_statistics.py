"""What verdicts prove, against exact values."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_rl.classifier.statistics import (
    Platt,
    calibration_error,
    choose_rule,
    negative_log_likelihood,
    platt,
    proof,
    trials_without,
)
from robot_rl.dataset.statistics import upper_bound


@pytest.mark.parametrize(("bound", "trials"), [(0.05, 59), (0.02, 149), (0.01, 299), (0.005, 598)])
def test_so_many_episodes_without_a_fire_prove_a_bound(bound, trials):
    assert trials_without(bound) == trials
    assert upper_bound(0, trials) <= bound < upper_bound(0, trials - 1)


@given(st.integers(0, 12), st.integers(1, 400))
def test_the_bound_is_where_so_few_events_have_a_chance_of_one_in_twenty(events, trials):
    bound = upper_bound(events, trials)
    if events >= trials:
        assert bound == 1.0
        return
    chance = sum(
        math.comb(trials, k) * bound**k * (1.0 - bound) ** (trials - k) for k in range(events + 1)
    )
    assert chance == pytest.approx(0.05, rel=1e-6)


def test_the_bound_without_trials_is_none():
    assert upper_bound(0, 0) == 1.0


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40), st.lists(st.floats(0.0, 1.0)))
def test_no_failure_fires_where_too_few_could_prove_the_bound(failures, successes):
    rule = choose_rule(np.array(failures), np.array(successes), 0.01, 3)
    fires = proof(np.array(failures), np.array(successes), rule.threshold).fires
    # a score of 1 cannot be told from the threshold
    assert fires == sum(p >= rule.threshold for p in failures)
    if 0 < fires <= len(failures) // 10:  # given up
        assert sum(p <= max(failures) for p in successes) > len(successes) / 2
    else:
        assert fires == 0 or max(failures) > 1 - 1e-6
    assert 0.0 < rule.doubt <= rule.threshold <= 1.0 and rule.threshold >= 0.5


def test_with_many_failures_so_many_may_fire_as_the_bound_allows():
    scores = np.random.default_rng(0).uniform(0.0, 0.99, 1000)
    rule = choose_rule(scores, np.full(50, 0.6), 0.05, 3)
    found = proof(scores, np.full(50, 0.6), rule.threshold)
    assert found.bound <= 0.05 < upper_bound(found.fires + 1, 1000) and found.fires > 0
    assert found.misses == 50
    assert rule.doubt == pytest.approx(0.6), "what successes reach is doubtful, and asked about"


def test_a_failure_that_looks_as_most_successes_do_is_given_up_and_counted():
    """Two of 38 bars lay beside by a hair: above their score hardly a success was seen."""
    failures, successes = np.array([0.931, 0.93, *[0.003] * 18]), np.linspace(0.927, 0.932, 40)
    found = proof(failures, successes, choose_rule(failures, successes, 0.01, 3).threshold)
    assert (found.fires, found.misses) == (2, 0)
    alone = failures[:8]  # of so few none is given up, nor where that would not do
    assert proof(alone, successes, choose_rule(alone, successes, 0.01, 3).threshold).fires == 0
    many = np.repeat(failures[:2], 10)
    assert proof(many, successes, choose_rule(many, successes, 0.01, 3).threshold).fires == 0


def test_without_failures_there_is_a_rule_as_well():
    rule = choose_rule(np.array([]), np.array([0.6, 0.9]), 0.01, 3)
    assert 0.5 <= rule.threshold <= 0.6


def test_where_both_lie_apart_the_threshold_stands_between_them():
    rule = choose_rule(np.full(20, 0.01), np.full(20, 0.999), 0.01, 3)
    assert 0.5 < rule.threshold < 0.9 and 0.1 <= rule.doubt < rule.threshold


def test_platt_takes_back_what_balanced_batches_shift():
    random = np.random.default_rng(1)
    true = random.normal(-4.0, 2.0, 20_000)
    label = random.random(20_000) < 1.0 / (1.0 + np.exp(-true))
    shifted = 0.5 * true + 1.5  # too sure of successes, and too flat
    fit = platt(shifted, label)
    assert (fit.weight, fit.bias) == pytest.approx((2.0, -3.0), abs=0.2)
    before, after = Platt()(shifted), fit(shifted)
    assert calibration_error(after, label) < 0.01 < calibration_error(before, label)
    assert negative_log_likelihood(after, label) < negative_log_likelihood(before, label)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_platt_has_an_answer_for_frames_without_an_error_and_for_a_network_worse_than_chance(sign):
    logits, label = np.array([-9.0, -8.0, 8.0, 9.0] * 5), np.array([False, False, True, True] * 5)
    p = platt(sign * logits, label)(sign * logits)
    assert np.isfinite(p).all()
    assert (p[label] > 0.9).all() == (sign > 0.0) and p[label].min() >= p[~label].max()


def test_the_calibration_error_is_the_gap_between_what_was_said_and_what_came():
    said = np.array([0.95] * 10 + [0.05] * 10)
    label = np.array([True] * 9 + [False] + [False] * 10)
    assert calibration_error(said, label) == pytest.approx(0.05)
    assert calibration_error(np.array([1.0, 0.0]), np.array([True, False])) == 0.0
