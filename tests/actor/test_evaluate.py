"""The figures of an evaluation."""

import pytest

from robot_rl.actor.evaluate import Evaluation, EvaluationEpisode, wilson_interval, write_table


def test_wilson_interval_agrees_with_published_values():
    # Newcombe 1998, table I: 81/263 and 15/148
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson_interval(15, 148) == pytest.approx((0.0624, 0.1605), abs=1e-4)


def test_wilson_interval_is_honest_at_the_ends():
    low, high = wilson_interval(100, 100)
    assert high == 1.0
    assert 0.96 < low < 0.97
    assert wilson_interval(0, 100)[0] == 0.0
    assert wilson_interval(0, 0) == (0.0, 1.0)


def test_cycle_time_is_the_mean_over_successes_and_the_table_has_a_row_per_episode(tmp_path):
    rows = (
        EvaluationEpisode(0, 11, True, 20, 2.0, False),
        EvaluationEpisode(1, 12, False, 100, 10.0, False),
        EvaluationEpisode(2, 13, True, 40, 4.0, False),
    )
    evaluation = Evaluation(7, rows)
    assert evaluation.successes == 2
    assert evaluation.success_rate == pytest.approx(2 / 3)
    assert evaluation.mean_cycle_s == pytest.approx(3.0)
    assert Evaluation(7, rows[1:2]).mean_cycle_s is None
    write_table(evaluation, tmp_path / "evaluation.csv")
    assert (tmp_path / "evaluation.csv").read_text().splitlines()[:2] == [
        "episode,seed,success,steps,cycle_s,fault",
        "0,11,True,20,2.0,False",
    ]
