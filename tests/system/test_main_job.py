"""The main job end to end, as a user runs it: it learns, stops, goes on, repeats, and says what
went wrong.
"""

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from robot_rl.config.run_folder import RunFolder
from robot_rl.stream.codec import StepCodec
from robot_rl.stream.log import StepLog
from robot_rl.types import RecordId
from tests.system.main_job import (
    SHORT,
    Job,
    count,
    demo_steps,
    descendants,
    lines,
    require_every_step_once,
    start,
    steps_of,
    still_running,
)

EVALUATION = {
    "task", "obs", "episodes", "successes", "success_rate", "interval_95", "mean_cycle_s", "eval_seed",
    "env_steps", "robot_minutes", "wall_minutes", "interventions", "train_seed",
}  # fmt: skip


WIDE = """
from dataclasses import replace
from math import radians
from robot_rl.config import load_task
from robot_rl.types import Use

PEG = load_task("peg_insert")
near = replace(PEG.start[0], translation=(0.008, 0.008, 0.015), rotation=(radians(2.0),) * 3)
hole = {"clearance_m": 0.003, "socket_range_m": 0.008, "socket_range_rad": radians(4.0)}
TASK = replace(PEG, name="peg_wide", start=(near,), scene=Use("peg_insert", PEG.scene.options | hole),
               max_steps=60, reward=Use("simulator"))
"""
"""The task with a wide hole near the start: a third of the steps teach it."""


@pytest.mark.timeout(700)
def test_it_learns(tmp_path):
    """From a random policy, without imitation: no BC term, no cloning. State only, two minutes of
    robot time.

    It fails if learning is broken: with a learning rate of 1e-9 no episode succeeds (tried by
    hand). As it is, 20 of 20 did. A small network, two critics and large steps, because
    more take longer than a test should.
    """
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "peg_wide.py").write_text(WIDE)
    job = start(tmp_path, "train", "peg_wide", "--obs", "state", "--name", "run", "--steps", "1200",
                "--learner.no-compile", "--learner.algorithm", "rlpd",
                "--demos", "8", "--eval-episodes", "20", "--learner.agent.bc-weight", "0",
                "--learner.agent.critics", "2", "--learner.agent.actor-period", "1",
                "--learner.agent.hidden", "128", "128", "--learner.agent.batch-size", "128",
                "--learner.agent.learning-rate", "0.001", "--learner.agent.tau", "0.01",
                "--learner.agent.average-rate", "0.005")  # fmt: skip
    code, said = job.finish(650.0)  # a busy machine takes five minutes for it
    assert code == 0, said
    run = tmp_path / "runs" / "run"
    result = json.loads((run / "evaluation.json").read_text())
    assert result.keys() >= EVALUATION
    assert result["greedy"]["episodes"] == result["sampled"]["episodes"]
    assert (result["task"], result["obs"], result["episodes"], result["env_steps"]) == (
        "peg_wide",
        "state",
        20,
        1200,
    )
    assert result["interventions"] > 0
    for written in (
        "config.json",
        "metrics.jsonl",
        "episodes.jsonl",
        "evaluations/001/episodes.csv",
        "plots/success.png",
    ):
        assert (run / written).stat().st_size > 0
    assert list((run / "checkpoints").iterdir())
    assert result["success_rate"] >= 0.4, said


@pytest.mark.timeout(600)
def test_a_run_that_was_stopped_killed_and_moved_away_goes_on_and_no_step_is_lost_or_doubled(
    tmp_path,
):
    """Moved away from its task file as well, and told there how far it still has to go.

    Before that it has further to go than it can while the test looks away: on a machine that is
    busy the rest of 200 steps was played before the interrupt came.
    """
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "mine.py").write_text(
        "from dataclasses import replace\nfrom robot_rl.config import load_task\n"
        "TASK = replace(load_task('peg_insert'), name='mine')\n"
    )
    job = start(tmp_path, "train", "mine", "--name", "run", "--steps", "5000", *SHORT)
    run = tmp_path / "runs" / "run"
    wait_for_another_episode(job, run)
    below = descendants(job.process.pid)
    job.process.send_signal(signal.SIGINT)
    code, said = job.finish()
    assert code == 0, said
    assert "continue with: robot-rl train --resume runs/run" in said
    assert not (run / "evaluation.json").exists()
    assert len(below) >= 3 and not still_running(below)
    stopped = seen(run)
    assert stopped
    assert stopped[-1][2]  # the episode was ended, and its end is in the log

    job = start(tmp_path, "train", "--resume", "runs/run")
    wait_for_another_episode(job, run)
    below = descendants(job.process.pid)
    job.process.kill()  # and it takes the others along
    job.finish()
    wait_until_gone(below)
    killed = seen(run)
    assert killed[: len(stopped)] == stopped and len(killed) > len(stopped)

    end = max(220, demo_steps(run) + count(steps_of(run)) + 20)
    moved = tmp_path / "elsewhere" / "moved"
    moved.parent.mkdir()
    run.rename(moved)
    code, said = start(moved.parent, "train", "--resume", "moved", "--steps", str(end)).finish()
    assert code == 0, said
    require_every_step_once(moved, end)
    assert seen(moved)[: len(killed)] == killed
    assert json.loads((moved / "evaluation.json").read_text())["env_steps"] == end


def test_a_run_repeats_exactly_for_a_seed(tmp_path):
    logs = []
    for name in ("one", "again"):
        code, said = start(
            tmp_path, "train", "--name", name, "--steps", "170", "--seed", "7", *SHORT,
            "--eval-episodes", "0",
        ).finish()  # fmt: skip
        assert code == 0, said
        assert f"no evaluation was asked for; one is: robot-rl eval runs/{name}" in said
        assert not (tmp_path / "runs" / name / "evaluations").exists()
        logs.append(payloads(tmp_path / "runs" / name))
    assert len(logs[0]) > 170
    assert logs[0] == logs[1]


def test_whoever_else_is_killed_is_started_again_and_the_run_goes_on(tmp_path):
    run = tmp_path / "runs" / "run"
    job = start(tmp_path, "train", "--name", "run", "--steps", "800", *SHORT)
    for verb in (" actor ", " learner ", " arm "):
        wait_for_another_episode(job, run)
        (victim,) = [
            pid for pid, command in descendants(job.process.pid).items() if verb in command
        ]
        os.kill(victim, signal.SIGKILL)
    below = descendants(job.process.pid)
    code, said = job.finish()
    assert code == 0, said
    for name in ("actor", "learner", "arm-panda"):
        assert f"the process '{name}' ended with code -9 and is started again" in said
    wait_until_gone(below, timeout_s=1.0)
    require_every_step_once(run, 800)
    assert json.loads((run / "evaluation.json").read_text())["env_steps"] == 800


def wait_for_another_episode(job: Job, run: Path) -> None:
    played = lines(run / "episodes.jsonl")
    job.wait_for(lambda: lines(run / "episodes.jsonl") > played)


def seen(run: Path) -> list[tuple[RecordId, int, bool]]:
    """Of each step in the run's own log: who sent it, its place in the episode, whether that ends
    with it.
    """
    return [
        (identity, step.index, step.terminated or step.truncated)
        for identity, step in steps_of(run)
    ]


def wait_until_gone(pids, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while still_running(pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not still_running(pids)


def payloads(run: Path) -> list[bytes]:
    """Every step of demonstrations and training as it lies in the logs, without the time of day."""
    folder, out = RunFolder(run), []
    codec = StepCodec(folder.spaces())
    for path in (folder.demos_log, folder.steps_log):
        with StepLog(path, folder.spaces(), read_only=True) as log:
            out += [codec.encode(replace(step, t_wall=0.0)) for step in log.read()]
    return out
