"""`robot-rl outcomes` as a user starts it: killed in the middle and resumed, with every frame,
counts and a picture.
"""

import json
from pathlib import Path

import cv2

from robot_rl.cli import main
from robot_rl.config.run_folder import RunFolder
from robot_rl.dataset.outcomes import labelled_frames
from robot_rl.runs.create import TrainConfig, create_run
from robot_rl.stream.log import StepLog
from robot_rl.tools.data_tools import listing
from tests.system.main_job import start


def frames(run: Path) -> list[tuple[int, int, bool]]:
    """Episode, index and label of all frames in the log, learnt from or not."""
    folder = RunFolder(run)
    with StepLog(folder.outcomes_log, folder.spaces(), read_only=True) as log:
        return [(step.episode, step.index, step.reward > 0.0) for step in log.read()]


def test_killed_and_resumed_it_has_every_frame_counts_and_a_picture(tmp_path, gl):
    run = tmp_path / "runs" / "run"
    wanted = ["--positives", "12", "--negatives", "30", "--per-episode", "4"]
    job = start(tmp_path, "outcomes", "--name", "run", *wanted)
    job.wait_for(
        lambda: (
            (run / "outcomes.log").exists() and (run / "outcomes.log").stat().st_size > 2_000_000
        )
    )
    job.process.kill()
    job.process.communicate()
    before = frames(run)
    assert len(before) >= 15

    code, said = start(tmp_path, "outcomes", "--resume", "run", *wanted).finish()
    assert code == 0 and "robot-rl console runs/run" in said, said
    after = frames(run)
    assert after[: len(before)] == before, "nothing lost, nothing twice"
    summary = json.loads((run / "outcomes.json").read_text())
    assert (
        summary["positives"] >= 12 and summary["negatives"] >= 30 and summary["with_positives"] >= 3
    )
    assert sum(summary[kind] for kind in ("positives", "negatives", "neither")) == len(after)
    assert f"{summary['positives']} positives in {summary['with_positives']} of" in " ".join(
        said.split()
    )
    folder = RunFolder(run)
    with StepLog(folder.outcomes_log, folder.spaces(), read_only=True) as log:
        read = [success for _, success in labelled_frames(log)]
    assert (sum(read), len(read) - sum(read)) == (summary["positives"], summary["negatives"])
    picture = cv2.imread(str(run / "plots" / "outcomes.png"))
    assert picture is not None and picture.std() > 10.0

    assert {each.facts.source for each in listing(run)} == {"outcomes"}


def test_what_it_refuses(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    create_run("peg_insert", TrainConfig(name="run", obs="state"))
    assert main(["outcomes", "--resume", "run", "--seed", "3"]) == 2
    assert "--resume goes on with the run's own options" in capsys.readouterr().err
    assert main(["outcomes", "--name", "other", "--positives", "0"]) == 2
    assert (
        "at least one of each" in capsys.readouterr().err
        and not (tmp_path / "runs" / "other").exists()
    )
