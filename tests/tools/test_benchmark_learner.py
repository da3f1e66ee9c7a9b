"""The benchmark of the learner: processes that take turns, and a table that compares side by side."""

import math
from pathlib import Path

import pytest

from benchmarks import learner
from benchmarks.learner import Case, Timing, lines, measure, ratio, table
from benchmarks.updates import KINDS, measured


def test_each_kind_has_a_name() -> None:
    assert set(learner.NAMES) == set(KINDS)


def test_a_ratio_is_of_turns_that_were_side_by_side() -> None:
    """The machine was ten times slower in the second round: medians would say 1.5."""
    assert ratio([2.0, 20.0, 3.0], [1.0, 10.0, 2.0]) == 2.0
    assert ratio([2.0, 20.0], [1.0, 10.0, 2.0]) == 2.0  # it failed in the third round
    assert math.isnan(ratio([], [1.0]))


def test_rows_say_milliseconds_spread_and_how_ours_compares() -> None:
    results = {
        Case("sb3", 2, 1): Timing([0.006, 0.008, 0.060], [0.006, 0.006, 0.007]),
        Case("sb3", 2, 0): Timing([0.004, 0.004, 0.004], [0.008, 0.008, 0.008]),
        Case("ours", 2, 1): Timing([0.002, 0.002, 0.020], [0.002, 0.002, 0.002]),
        Case("ours_alike", 2, 1): Timing([0.003, 0.004, 0.040], [0.003, 0.003, 0.003]),
        Case("sbx", 2, 1): Timing(failed="ImportError: no jax"),
    }
    rows = {(row.kind, row.threads): row for row in lines(results)}
    assert [(row.kind, row.threads) for row in lines(results)] == [
        ("ours", "1"), ("ours_alike", "1"), ("sb3", "1"), ("sbx", "1"), ("sb3", "all"),
    ]  # fmt: skip
    row = rows["sb3", "1"]
    assert (row.ms, row.low_ms, row.high_ms, row.cpu_ms) == pytest.approx((8.0, 6.0, 60.0, 6.0))
    assert (row.per_s, row.alike, row.ours) == pytest.approx((125.0, 2.0, 3.0))
    both = rows["sb3", "all"]  # there is no row of ours with as many threads
    assert math.isnan(both.alike)
    assert both.ours == pytest.approx(2.0)
    assert table(lines(results), {"cores": 2}).row_count == 5
    assert learner.number_or_none(rows["sbx", "1"].ms) is None


def test_a_turn_ends_with_what_was_asked_for_or_at_its_limit() -> None:
    made: list[int] = []
    said = measured(made.append, asked=10, limit_s=60.0, call=4)
    assert made == [4, 4, 4]
    assert said["updates"] == 12
    assert measured(made.append, asked=10, limit_s=0.0, call=4)["updates"] == 4


@pytest.mark.slow
def test_ours_makes_updates_and_who_cannot_run_is_a_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")  # uncompiled
    monkeypatch.setattr(learner, "PEERS", tmp_path / "none")
    works, fails, missing = Case("ours", 2, 1), Case("ours", 1, 1), Case("sb3", 2, 1)
    timings = measure([works, fails, missing], rounds=2, updates=4, call=2, limit_s=60.0)
    assert len(timings[works].seconds) == len(timings[works].cpu_s) == 2
    assert all(seconds > 0.0 for seconds in timings[works].seconds)
    assert not timings[works].failed
    assert "ConfigError" in timings[fails].failed  # the target is of two critics
    assert "make bench-peers" in timings[missing].failed
