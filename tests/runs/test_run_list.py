"""`robot-rl runs`: what there is in a folder, also of runs that cannot be read."""

import json
import os

import pytest

from robot_rl import cli
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.runs.list import runs_in


def test_runs_are_listed_with_what_they_came_to(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    assert cli.main(["runs"]) == 0 and "there is no run in runs/" in capsys.readouterr().out
    trained = RunFolder.create(
        "runs/trained", {"run": RunSettings("peg_insert", "sim_panda", "state", steps=500, seed=4)}
    )
    # half of the 500 are the policy's own, though more were shown
    trained.write_demos({"successes": 20, "attempts": 21, "steps": 300})
    trained.metrics_file.write_text('{"env_steps": 120}\n{"env_steps": 150}\n{"env_st')
    both = {
        "sampled": {"successes": 19, "episodes": 20},
        "greedy": {"successes": 17, "episodes": 20},
    }
    (trained.path / "evaluation.json").write_text(json.dumps({"successes": 19} | both))
    earlier = {"successes": 3, "episodes": 4, "sampled": True}  # of one kind
    (trained.path / "evaluation-sampled.json").write_text(json.dumps(earlier))
    RunFolder.create("runs/new", {"run": RunSettings("my_peg", "my_bench")})
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "config.json").write_text("{")
    for wall_s, name in enumerate(("broken", "trained", "new")):
        for file in (tmp_path / "runs" / name).iterdir():
            os.utime(file, (1000.0 + wall_s, 1000.0 + wall_s))
    assert cli.main(["runs", "--json"]) == 0
    broken, done, new = json.loads(capsys.readouterr().out)["runs"]
    assert broken["name"] == "broken" and "config.json is damaged" in broken["problem"]
    assert (done["task"], done["obs"], done["seed"], done["demos"]) == (
        "peg_insert",
        "state",
        4,
        20,
    )
    assert (done["steps"], done["of_steps"], done["t_wall"]) == (450, 550, 1001.0)
    assert done["evaluations"] == [
        {"sampled": True, "successes": 19, "episodes": 20},
        {"sampled": False, "successes": 17, "episodes": 20},
    ]
    assert (new["hardware"], new["steps"], new["evaluations"]) == ("my_bench", 0, [])
    assert cli.main(["runs"]) == 0
    shown = capsys.readouterr().out
    assert "17 of 20" in shown and "450 of 550" in shown and "cannot be read" in shown


def test_a_run_whose_config_is_a_link_to_nowhere_is_listed_as_one_that_cannot_be_read(tmp_path):
    (tmp_path / "lost").mkdir()
    (tmp_path / "lost" / "config.json").symlink_to(tmp_path / "gone.json")
    (tmp_path / "no_run").mkdir()
    (found,) = runs_in(tmp_path)
    assert found.name == "lost" and "config.json" in found.problem


def test_a_folder_that_is_no_run_says_where_runs_are_listed(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["eval", "no_such_run"]) == 2
    assert "robot-rl runs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shown", "own"), [(0, 6_500), (3_058, 3_442), (5_590, 3_250), (9_000, 3_250)]
)
def test_a_slow_hand_leaves_a_policy_half_of_the_steps(shown, own):
    """What was shown is part of a run's steps; an operator who takes nearly all of them left 910 of 6,500
    for learning, and the policy made 40 of 87.
    """
    assert RunSettings("peg_insert", "sim_panda", steps=6_500).own_steps(shown) == own
