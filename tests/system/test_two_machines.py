"""One run on two machines, each with keys of its own: here two folders, and encrypted links over
loopback.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.system.main_job import SHORT, Job, require_every_step_once

STEPS = 350


class Machine:
    """A working directory and a keyring."""

    def __init__(self, place: Path, name: str):
        self.place, self.name = place / name, name
        self.place.mkdir()
        self._environment = os.environ | {
            "ROBOT_RL_KEYS": str(self.place / "keys"),
            "COLUMNS": "200",
        }

    def start(self, *arguments: str) -> Job:
        command = [sys.executable, "-m", "robot_rl", *arguments]
        process = subprocess.Popen(
            command,
            cwd=self.place,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment,
        )
        return Job(process, self.place)

    def key(self) -> str:
        code, said = self.start("keys", "--json").finish()
        assert code == 0, said
        return json.loads(said)["public"]

    def trust(self, other: "Machine") -> None:
        code, said = self.start("keys", "--trust", other.name, other.key()).finish()
        assert code == 0, said


def free_block() -> int:
    """The first of five ports that nobody listens at."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = probe.getsockname()[1]
        try:
            for port in range(first, first + 5):
                with socket.socket() as probe:
                    probe.bind(("0.0.0.0", port))
        except OSError:
            continue
        return first


def test_a_robot_joins_a_learner_elsewhere_and_leaves_with_its_policy(tmp_path):
    gpu, robot = Machine(tmp_path, "gpu"), Machine(tmp_path, "robot")
    robot.trust(gpu)
    port = free_block()
    learner = gpu.start(
        "train",
        "--trust",
        robot.name,
        robot.key(),
        "--name",
        "run",
        "--steps",
        str(STEPS),
        "--listen",
        f"tcp://0.0.0.0:{port}",
        "--wander-steps",
        "0",
        *SHORT,
    )
    join = ("join", f"tcp://gpu@127.0.0.1:{port}", "--eval-episodes", "1")
    own = robot.place / "runs" / "run-robot"
    job = robot.start(*join)
    job.wait_for(
        lambda: (
            (own / "episodes.jsonl").exists()
            and (own / "episodes.jsonl").read_text().count("\n") >= 1
        )
    )
    job.process.send_signal(signal.SIGINT)  # on Friday
    code, said = job.finish()
    assert code == 0, said
    assert "continue with: robot-rl join" in said

    code, said = robot.start(*join).finish()  # on Monday
    assert code == 0, said
    code, learner_said = learner.finish()
    assert code == 0, learner_said
    assert (gpu.place / "runs/run/demos.log").read_bytes() == (own / "demos.log").read_bytes()
    require_every_step_once(gpu.place / "runs" / "run", STEPS)
    summary = json.loads((own / "evaluation.json").read_text())
    assert summary["env_steps"] == STEPS and summary["episodes"] == 1
    assert list((own / "checkpoints").glob("step_*/policy.safetensors"))


def test_a_robot_that_is_not_trusted_stays_outside(tmp_path):
    gpu, robot = Machine(tmp_path, "gpu"), Machine(tmp_path, "robot")
    gpu.key()
    robot.trust(gpu)
    port = free_block()
    learner = gpu.start("train", "--name", "run", "--listen", f"tcp://0.0.0.0:{port}", *SHORT)
    try:
        learner.wait_for(lambda: (gpu.place / "runs/run/logs/learner.log").exists())
        code, said = robot.start("join", f"tcp://gpu@127.0.0.1:{port}").finish()
        assert code == 3 and "trust" in said, said
        assert not (robot.place / "runs").exists()
    finally:
        learner.process.send_signal(signal.SIGINT)
        learner.finish()
