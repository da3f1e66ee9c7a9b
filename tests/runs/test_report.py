"""What a run came to, from its own files."""

import json
from typing import Any

import pytest

from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.machine.small_files import read_lines
from robot_rl.runs.report import plot_demos, plot_learning, training_summary
from robot_rl.stream.log import StepLog
from robot_rl.types import Provenance
from tests.helpers import make_step


@pytest.fixture
def folder(tmp_path):
    settings = RunSettings("peg_insert", "sim_panda", obs="state", steps=100, seed=4)
    folder = RunFolder.create(tmp_path / "run", {"run": settings})
    folder.demos_file.write_text(json.dumps({"successes": 2, "attempts": 3, "steps": 50}))
    rows = [
        {
            "episode": n,
            "steps": 20,
            "human_steps": 5 * n,
            "segments": n,
            "success": True,
            "env_steps": 20 * (n + 1),
        }
        for n in range(2)
    ]
    folder.episodes_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    figures = {
        "critic_loss": 0.1,
        "q": 0.2,
        "q_start": 0.4,
        "return_start": 0.3,
        "critic_grad_norm": 0.1,
    }
    metrics = [{"env_steps": 0, "pretraining": {}}, {"env_steps": 45, "updates": 180} | figures]
    folder.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in metrics))
    return folder


def test_a_line_that_is_still_being_written_is_left_out(tmp_path):
    path = tmp_path / "rows.jsonl"
    assert not list(read_lines(path))
    path.write_text('{"a": 1}\n{"a": 2}\n{"a": ')
    assert list(read_lines(path)) == [{"a": 1}, {"a": 2}]


def test_robot_time_counts_demonstrations_and_steps_of_an_episode_that_was_cut_off(folder):
    summary = training_summary(folder, 90.0, {"training": 60.0})
    assert summary["env_steps"] == 50 + 45  # two whole episodes of 20 steps, and 5 of a third
    assert summary["robot_minutes"] == pytest.approx(95 / 10 / 60)
    assert (summary["interventions"], summary["intervention_steps"], summary["train_seed"]) == (
        1,
        5,
        4,
    )


def test_two_clocks_minutes_of_online_data_and_minutes_on_the_wall_with_stops(folder):
    assert (
        training_summary(folder, 90.0, {})["elapsed_minutes"] is None
    )  # of before lines had times
    with folder.episodes_file.open("a") as table:
        for t_wall in (700.0, 1900.0):
            row = {"success": 1, "steps": 20, "human_steps": 0, "segments": 0, "env_steps": 45}
            table.write(json.dumps(row | {"t_wall": t_wall}) + "\n")
    summary = training_summary(folder, 90.0, {})
    assert summary["online_minutes"] == pytest.approx(45 / 10 / 60)
    assert summary["elapsed_minutes"] == pytest.approx(20.0)
    with StepLog(folder.demos_log, folder.spaces(), run=folder.settings.id) as log:
        log.append_step(make_step(space=folder.spaces(), t_wall=100.0))
        log.append_step(make_step(1, space=folder.spaces(), t_wall=110.0))
    assert training_summary(folder, 90.0, {})["elapsed_minutes"] == pytest.approx(30.0)
    folder.demos_log.write_bytes(b"damaged")
    assert training_summary(folder, 90.0, {})["elapsed_minutes"] == pytest.approx(20.0)


def test_how_long_it_took_when_it_was_shown_is_of_the_demonstrations_that_count(folder):
    assert training_summary(folder, 90.0, {})["demonstration_cycle_s"] is None
    shown: dict[str, Any] = {
        "space": folder.spaces(),
        "provenance": Provenance.DEMO,
        "truncated": False,
    }
    with StepLog(folder.demos_log, folder.spaces(), run=folder.settings.id) as log:
        for episode, (length, success) in enumerate(((10, True), (50, False), (30, True))):
            for index in range(length + 1):
                over = index == length
                done = {"terminated": over, "success": over and success}
                log.append_step(make_step(index, episode=episode, **shown | done))
    assert training_summary(folder, 90.0, {})["demonstration_cycle_s"] == pytest.approx(2.0)


def test_wall_time_of_earlier_sittings_is_added(folder):
    folder.training_file.write_text(json.dumps(training_summary(folder, 90.0, {})))
    assert training_summary(folder, 30.0, {})["wall_minutes"] == pytest.approx(2.0)


def test_learning_curves_are_drawn_from_whatever_there_is(folder):
    assert [path.name for path in plot_learning(folder)] == ["success.png", "learner.png"]
    folder.episodes_file.unlink()
    assert [path.name for path in plot_learning(folder)] == ["learner.png"]


def test_cloning_is_drawn_over_its_updates(folder):
    same = {"env_steps": 0, "updates": 0, "updates_per_s": 9.0}
    rows = [same | {"offline_updates": n, "bc_loss": 1 / n} for n in (1, 2)]
    folder.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    folder.episodes_file.unlink()
    assert [path.name for path in plot_learning(folder)] == ["learner.png"]


def test_of_a_run_without_updates_no_empty_picture_is_drawn(folder):
    folder.metrics_file.write_text('{"env_steps": 0, "pretraining": {}}\n')
    assert [path.name for path in plot_learning(folder)] == ["success.png"]
    assert plot_demos(folder) is None
    with StepLog(folder.demos_log, folder.spaces()):
        pass
    assert plot_demos(folder) is None  # nothing was shown yet
