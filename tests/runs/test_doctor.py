"""What keeps a run from learning is found in its own files, and nothing in those of a healthy one."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from robot_rl.cli import main
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.runs.doctor import LINES, advised, examine
from robot_rl.types import OperatorCommand

Rows = list[dict[str, Any]]

STEPS = 4_000
"""Own steps of the runs here: 1,000 are shown of 5,000."""


def episodes(count: int = 60, alone_from: int = 20) -> Rows:
    """Of a run that learns: somebody helps each episode to success, briefly, then nobody has to."""
    return [
        {
            "episode": n, "steps": 50, "human_steps": 12 if n < alone_from else 0, "segments": 1,
            "guided_steps": 0, "reward": 1.0, "success": True, "fault": False, "late_steps": 1,
            "reason": "", "on_last": [], "env_steps": 50 * (n + 1), "weights_version": n,
        }
        for n in range(count)
    ]  # fmt: skip


def metrics() -> Rows:
    """Of one whose critics know what comes."""
    seen = {"near_position_mm": 0.4, "trained": 1.0}
    return [{"env_steps": 0, "pretraining": seen}] + [
        {
            "env_steps": 50 * n, "updates": 200 * n, "forgiven_updates": 0, "demo_transitions": 700,
            "q": 0.6, "q_start": 0.3, "return_start": 0.25, "q_before_help": 0.4,
            "return_before_help": 0.3, "q_alone": 0.6, "return_alone": 0.7, "saturation": 0.1,
            "critic_loss": 0.001, "actor_loss": -0.5,
        }
        for n in range(1, 61)
    ]  # fmt: skip


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    settings = RunSettings("peg_insert", "sim_panda", "state", steps=5_000)
    made = RunFolder.create(tmp_path / "run", {"run": settings})
    demos = {"successes": 20, "attempts": 21, "steps": 1_000, "missed_resets": 0}
    made.demos_file.write_text(json.dumps(demos))
    return made


def write(folder: RunFolder, metrics: Rows, episodes: Rows) -> None:
    for path, rows in ((folder.metrics_file, metrics), (folder.episodes_file, episodes)):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def wrong(folder: RunFolder) -> set[tuple[str, str]]:
    """What is not right, each with what to do."""
    found = [finding for finding in examine(folder) if not finding.right]
    assert all(finding.found and finding.advice for finding in found)
    return {(finding.part, finding.what) for finding in found}


def test_a_run_that_learns_is_well(folder: RunFolder) -> None:
    write(folder, metrics(), episodes())
    assert wrong(folder) == set() and advised(folder) == ""
    parts = [finding.part for finding in examine(folder)]
    assert {"shown", "sight", "updates", "critics", "policy", "acting", "alone", "judge"} <= {
        *parts
    }


@pytest.mark.parametrize("shown", [False, True])
def test_of_a_run_that_has_only_begun_nothing_is_wrong(folder: RunFolder, shown: bool) -> None:
    if not shown:
        folder.demos_file.unlink()
    assert wrong(folder) == set()
    write(folder, metrics()[:2], episodes(3))
    assert wrong(folder) == set()


def test_a_single_line_is_no_illness(folder: RunFolder) -> None:
    lines = metrics()
    lines[-1].update(q=3.0, q_start=2.0, saturation=1.0)
    write(folder, lines, episodes())
    assert LINES > 2 and wrong(folder) == set()


SICK_LINES: dict[tuple[str, str], dict[str, Any]] = {
    ("shown", "learnt from"): {"demo_transitions": 0},
    # a run of usb_insert has said so of an encoder, and nobody heard of it
    ("sight", "the goal, near it"): {"pretraining": {"near_position_mm": 170.7}},
    # usb_insert's, beside another run on two cores: ten minutes were over in the midst of it
    ("sight", "its training"): {"pretraining": {"trained": 0.4}},
    ("updates", "made"): {"forgiven_updates": 5_000},
    ("critics", "figures"): {"critic_loss": None},
    ("critics", "value"): {"q": 1.3},
    # what a learning rate that is thirty times too large has made: docs/learning.md
    ("critics", "where episodes begin"): {"q_start": 0.55, "return_start": 0.08},
    ("critics", "before a correction"): {"q_before_help": 0.62, "return_before_help": 0.14},
    ("critics", "where nobody helps"): {"q_alone": 0.9, "return_alone": 0.2},
    ("policy", "actions"): {"saturation": 0.7},
}


@pytest.mark.parametrize("ill", SICK_LINES, ids=" ".join)
def test_what_the_learner_suffers_from_is_found_and_nothing_else(
    folder: RunFolder, ill: tuple[str, str]
) -> None:
    lines = metrics()
    for line in lines[1:]:
        line.update(SICK_LINES[ill])
    write(folder, lines, episodes())
    assert wrong(folder) == {ill}


def each(count: int, **values: Any) -> Callable[[Rows], None]:
    """In each of the newest so many rows these values."""

    def change(rows: Rows) -> None:
        for row in rows[-count:]:
            row.update(values)

    return change


def in_vain(rows: Rows) -> None:
    for row in rows[-20:]:
        row.update(human_steps=12, success=row["episode"] % 2 == 0)
    rows[-1].update(human_steps=0, success=True)


def forgotten(rows: Rows) -> None:
    for row in rows[-20:-5]:
        row.update(human_steps=12)


SICK_EPISODES: dict[tuple[str, str], Callable[[Rows], None]] = {
    ("acting", "faults"): each(3, fault=True),
    ("acting", "in time"): each(15, late_steps=10),
    ("acting", "to their own end"): each(8, reason="the camera 'wrist' stopped"),
    ("acting", "newer weights"): each(20, weights_version=3),
    ("help", "leads to success"): in_vain,
    ("help", "is short"): each(10, human_steps=40),
    ("alone", "done without help"): forgotten,
    ("judge", "its successes"): each(3, on_last=[OperatorCommand.DENY]),
}


@pytest.mark.parametrize("ill", SICK_EPISODES, ids=" ".join)
def test_what_the_episodes_suffer_from_is_found(folder: RunFolder, ill: tuple[str, str]) -> None:
    rows = episodes()
    SICK_EPISODES[ill](rows)
    write(folder, metrics(), rows)
    assert ill in wrong(folder)


def test_help_is_no_illness_before_half_of_the_run_is_over(folder: RunFolder) -> None:
    early, late = episodes(30, 30), episodes(60, 60)
    write(folder, metrics(), early)
    assert early[-1]["env_steps"] < STEPS / 2 and wrong(folder) == set()
    write(folder, metrics(), late)
    assert late[-1]["env_steps"] > STEPS / 2 and wrong(folder) == {("alone", "done without help")}


def test_demonstrations_that_fail_and_a_goal_that_is_not_seen_come_first(folder: RunFolder) -> None:
    demos = {"successes": 5, "attempts": 21, "steps": 1_000, "missed_resets": 0}
    folder.demos_file.write_text(json.dumps(demos))
    blind = {"env_steps": 0, "sight": {"error_mm": 30.0, "guess_mm": 40.0}}
    write(folder, [blind, *metrics()], episodes())
    assert [(f.part, f.what) for f in examine(folder) if not f.right] == [
        ("shown", "demonstrations"),
        ("sight", "the goal"),
    ]


def test_the_verb_says_it_and_its_exit_code_whether_something_is_to_be_mended(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, metrics(), episodes())
    assert main(["doctor", str(folder.path)]) == 0
    assert "well" in capsys.readouterr().out
    write(folder, metrics(), episodes(60, 60))
    assert main(["doctor", str(folder.path), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["run"], said["well"]) == (str(folder.path), False)
    assert [f["what"] for f in said["findings"] if not f["right"]] == ["done without help"]
    assert advised(folder).startswith("not well (alone: done without help): robot-rl doctor ")
    assert main(["doctor", str(folder.path / "nowhere")]) == 2
    assert "is not a run" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["much", None, [1], {"a": 2}, True, -1e308])
def test_whatever_the_tables_hold_is_no_reason_to_fail(folder: RunFolder, value: Any) -> None:
    lines, rows = metrics(), episodes()
    for row in (*lines, *rows):
        row |= {name: value for name in row if name not in ("steps", "human_steps", "env_steps")}
    write(folder, lines, rows)
    examine(folder)
