"""Two policies in the same episodes: in turns, until it is known which is better, no longer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robot_rl.actor import compare as comparing
from robot_rl.actor.compare import compare
from robot_rl.actor.evaluate import EvaluationEpisode
from robot_rl.actor.starts import Start, drawn_starts, write_starts
from robot_rl.networks.policy import LivePolicy
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.runs.compare import compare_runs, require_comparable, verdict
from robot_rl.runs.create import TrainConfig, create_run
from robot_rl.runs.evaluate import where_to_start
from robot_rl.runs.progress import Display
from robot_rl.types import ConfigError


class Table:
    """Stands in for a bench: policy `which` succeeds where it is in `good`, and every third reset
    of a pair goes elsewhere.
    """

    def __init__(self, *_, **__):
        self.start = Start(0)

    def play(self, number, start, act, begin):
        which, good = act
        self.start = replace(start, seed=start.seed + 1) if number % 3 == 0 else start
        turns.append((number, which, start))
        if len(turns) > most:
            return None
        return EvaluationEpisode(number, start.seed, good(start.seed), 8, 0.8, False)

    def go_back(self, number, start, act, begin):
        return []

    def close(self):
        pass


turns: list[tuple[int, int, Start]] = []
most = 10**6


@pytest.fixture
def table(monkeypatch):
    turns.clear()
    monkeypatch.setattr(comparing, "Player", Table)


def played(good_0, good_1, pairs=100):
    sides: Any = ((0, good_0), None), ((1, good_1), None)
    bench: Any = None
    return compare(bench, sides, drawn_starts(5, pairs), seed=5)


def always(seed):
    return True


def never(seed):
    return False


def test_it_ends_as_soon_as_it_is_known_who_is_better_and_both_had_the_same_starts(table):
    for sides, better in (((always, never), 0), ((never, always), 1)):
        turns.clear()
        found = played(*sides)
        said = found.figures()
        assert (said["better"], said["pairs"], said["asked"]) == (better, 8, 100)  # 2^8 / 9 >= 20
        assert said["confidence"] > 0.95 and abs(said["difference"]) == 1.0
        low, high = said["difference_interval_95"]
        assert low > 0.0 if better == 0 else high < 0.0
        assert len(turns) == 16
    firsts = [which for _, which, _ in turns[::2]]
    assert {*firsts} == {0, 1}, "one policy always began"
    for (_, _, began), (number, _, start) in zip(turns[::2], turns[1::2], strict=True):
        elsewhere = replace(began, seed=began.seed + 1) if number % 3 == 0 else began
        assert start == elsewhere, "the second policy began elsewhere"


def test_equals_are_not_decided_and_the_starts_come_to_an_end(table):
    found = played(always, always, pairs=30)
    said = found.figures()
    assert (said["better"], said["pairs"], said["both"], said["evidence"]) == (None, 30, 30, 1.0)
    assert said["confidence"] == 0.0 and said["difference"] == 0.0
    assert "not decided" in verdict({"runs": ["a", "b"], **said})


def test_a_stop_leaves_the_whole_pairs(table, monkeypatch):
    monkeypatch.setattr("tests.actor.test_compare.most", 5)
    found = played(always, never)
    assert len(found.pairs) == 2 and found.better is None
    assert not played(never, always, pairs=0).pairs


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two runs from state whose policies have learnt nothing, and one of another task."""
    monkeypatch.chdir(tmp_path)
    made = [
        create_run(task, TrainConfig(name=name, obs="state"))
        for name, task in (("a", "peg_insert"), ("b", "peg_insert"), ("c", "peg_insert_hard"))
    ]
    spec = PolicySpec.from_space(made[0].spaces(), "none")
    monkeypatch.setattr("robot_rl.runs.compare.load_policy", lambda _: LivePolicy(spec, {}))
    return made


def test_runs_start_where_a_shared_list_says_else_where_their_own_training_seed_does(runs):
    other = create_run("peg_insert", TrainConfig(name="e", obs="state", seed=1))
    drawn = [where_to_start(run, 5, None, "") for run in (*runs[:2], other)]
    assert drawn[0] == drawn[1] and drawn[0][0] != drawn[2][0]
    assert not {*drawn[0][1]} & {*drawn[2][1]} and len(where_to_start(other, None, 3, "")[1]) == 100
    write_starts(Path("starts.json"), drawn[0][1])
    for run in (*runs[:2], other):
        assert where_to_start(run, None, None, "starts.json")[1] == drawn[0][1]
        assert where_to_start(run, 2, None, "starts.json")[1] == drawn[0][1][:2]
    for episodes, seed, file, complaint in (
        (6, None, "starts.json", "has 5 starts, and 6 episodes are asked for"),
        (None, 3, "starts.json", "name one of them"),
        (-1, None, "", "--episodes is -1"),
        (1, -1, "", "seed is -1"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            where_to_start(other, episodes, seed, file)


def test_runs_of_other_tasks_or_other_eyes_are_not_compared(runs):
    require_comparable(*runs[:2])
    with pytest.raises(ConfigError, match="cannot be compared: they differ in"):
        require_comparable(runs[0], runs[2])
    seeing = create_run("peg_insert", TrainConfig(name="d", obs="pixels"))
    with pytest.raises(ConfigError, match="what is observed"):
        require_comparable(runs[0], seeing)


@pytest.mark.slow
def test_two_runs_are_compared_on_their_bench(runs):
    with Display() as display:
        said = compare_runs(runs[0], runs[1], 1, display=display)
    folder = runs[0].path / "comparisons" / "001"
    assert (folder / "comparison.json").exists() and said["pairs"] == 1 and said["better"] is None
    assert len((folder / "pairs.csv").read_text().splitlines()) == 2
    assert np.isfinite(said["evidence"]) and said["policy"] == "sampled"
