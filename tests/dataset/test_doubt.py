"""A judge that sees something else than it learnt from is told of, and one that does not hardly
ever is, however the doubtful frames lie.
"""

import json
import math

import numpy as np
import pytest

from robot_rl.dataset.doubt import LEVEL, WINDOW, DoubtWatch, at_least, precede

STEPS, TRAINED = 100, 0.03


def watch(folder, **rates: float) -> DoubtWatch:
    """Of a classifier with these versions, named v1, v2."""
    for version, rate in rates.items():
        path = folder / f"v{int(version[1:]):04d}.json"
        path.write_text(json.dumps({"metrics": {"doubtful_rate": rate}}))
    return DoubtWatch(folder)


def clumped(rng, share: float) -> int:
    """Doubt comes in a few whole episodes."""
    return STEPS * int(rng.random() < share)


def spread(rng, share: float) -> int:
    return int(rng.binomial(STEPS, share))


def at_the_bound(rng, share: float) -> int:
    """As many as count, as often as is possible: the worst there is for the test."""
    many = int(np.ceil(3.0 * share * STEPS - 1e-9))
    return many * int(rng.random() < share * STEPS / many)


@pytest.mark.parametrize("doubtful", [clumped, spread, at_the_bound])
def test_where_nothing_has_changed_it_hardly_ever_says_so(tmp_path, doubtful):
    alarms, runs = 0, 100
    for seed in range(runs):
        rng, judge = np.random.default_rng(seed), watch(tmp_path, v1=TRAINED)
        said = []
        for _ in range(60):
            judge.add(1, doubtful(rng, TRAINED), STEPS)
            said.append(judge.drift)
        alarms += int(any(said))
    assert at_least(alarms, runs, LEVEL) > 0.01


@pytest.mark.parametrize(("share", "within"), [(0.6, 3), (0.2, 14)])
def test_a_shift_is_told_from_the_first_doubtful_episodes_on(tmp_path, share, within):
    for seed in range(10):
        rng, judge = np.random.default_rng(seed), watch(tmp_path, v1=TRAINED)
        for _ in range(within):
            judge.add(1, spread(rng, share), STEPS)
        assert "3% when it was trained: has a camera moved, or the light?" in judge.drift


@pytest.mark.parametrize(("times", "told_after"), [(10, 3), (3, 8)])
def test_how_soon_a_shift_is_told_that_every_episode_shows(tmp_path, times, told_after):
    judge, said = watch(tmp_path, v1=0.02), []
    for _ in range(told_after):
        judge.add(1, 2 * times + 1, 100)
        said.append(bool(judge.drift))
    assert said == [False] * (told_after - 1) + [True]


def test_a_late_shift_is_told_within_a_window_and_is_over_when_it_is(tmp_path):
    judge = watch(tmp_path, v1=TRAINED)
    for doubtful, drifts in ((0, False), (STEPS // 2, True), (0, False)):
        for _ in range(200 if doubtful == 0 else WINDOW):
            judge.add(1, doubtful, STEPS)
        assert bool(judge.drift) == drifts
    assert not judge.drift


def test_a_new_version_is_held_against_its_own_test(tmp_path):
    judge = watch(tmp_path, v1=TRAINED, v2=0.5)
    for _ in range(5):
        judge.add(1, STEPS // 2, STEPS)
    assert judge.drift.startswith("the judge doubts 50% of frames, 3% when")
    for _ in range(30):
        judge.add(2, STEPS // 2, STEPS)
        assert not judge.drift


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"metrics": 3}', '{"metrics": {"doubtful_rate": "x"}}']
)
def test_a_file_that_does_not_say_how_much_it_doubted_is_nothing_to_compare_with(tmp_path, text):
    (tmp_path / "v0001.json").write_text(text)
    for judge in (DoubtWatch(tmp_path), DoubtWatch(tmp_path / "none"), DoubtWatch(None)):
        for _ in range(20):
            judge.add(1, STEPS, STEPS)
            judge.add(1, 0, 0)
        assert not judge.drift


def test_chances_are_those_of_the_binomial():
    assert at_least(0, 20, 0.1) == pytest.approx(1.0) and at_least(20, 20, 0.5) == 0.5**20


TRAINING = {"level": 0.5, "above": 4, "episodes": 45}


def strangeness_watch(folder, **changes) -> DoubtWatch:
    """Of a classifier that was trained on this many episodes."""
    said = {"doubtful_rate": 0.0, "strangeness": TRAINING | changes}
    (folder / "v0001.json").write_text(json.dumps({"metrics": said}))
    return DoubtWatch(folder)


def test_where_episodes_are_as_strange_as_in_training_it_hardly_ever_says_so(tmp_path):
    alarms, runs = 0, 100
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        level = float(np.sort(rng.lognormal(0.0, 2.0, 45))[-4])
        judge, said = strangeness_watch(tmp_path, level=level), []
        for _ in range(60):
            judge.add(1, 0, STEPS, float(rng.lognormal(0.0, 2.0)))
            said.append(judge.drift)
        alarms += int(any(said))
    assert at_least(alarms, runs, LEVEL) > 0.01


@pytest.mark.parametrize(("before", "within"), [(0, 4), (100, 15), (5000, WINDOW)])
def test_strange_episodes_are_told_of_and_no_longer_when_they_are_over(tmp_path, before, within):
    judge = strangeness_watch(tmp_path)
    for strangeness, episodes, told in (
        (0.4, before, False),
        (0.6, within, True),
        (0.5, 20, False),
    ):
        for _ in range(episodes):
            judge.add(1, 0, STEPS, strangeness)
        assert ("as strange" in judge.drift) == told
    assert not judge.drift


def test_of_a_judge_that_does_not_say_how_strange_nothing_is_told(tmp_path):
    judge = strangeness_watch(tmp_path)
    for wrong in (
        {},
        {"level": "x"},
        {"above": 0},
        {"above": 46},
        {"episodes": 2.5},
        {"level": -1.0},
    ):
        other = strangeness_watch(tmp_path, **wrong)
        for _ in range(20):
            other.add(1, 0, STEPS, 3.0 if wrong else None)
        assert not other.drift
    assert not judge.drift


def test_chances_of_strangers_are_those_of_an_order_of_chance():
    assert precede(0, 20, 4, 45) == pytest.approx(1.0)
    assert precede(1, 1, 4, 45) == pytest.approx(4 / 46)
    assert precede(20, 20, 1, 45) == pytest.approx(1.0 / math.comb(65, 20))
    rng = np.random.default_rng(0)
    drawn = rng.random((20_000, 15))
    many = (drawn[:, 10:] > np.sort(drawn[:, :10])[:, -2:-1]).sum(1)
    assert (many >= 3).mean() == pytest.approx(precede(3, 5, 2, 10), abs=0.01)
