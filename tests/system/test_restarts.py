"""Processes of a run that die and are started again alone: the others go on by themselves, and nothing is lost."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from robot_rl.run import TrainConfig, create_run
from robot_rl.run_folder import RunFolder
from robot_rl.types import Mark, MarkKind
from tests.system.main_job import SHORT, entries_of, lines, require_every_step_once, start
from tests.teleop.benches import wait_until

STEPS = 400


class Run:
    """A run whose processes are started and killed one by one."""

    def __init__(self, place: Path):
        code, said = start(place, "demo", "peg_insert", "--name", "run", "--steps", str(STEPS), *SHORT).finish()
        assert code == 0, said
        self.path = place / "runs" / "run"
        self.processes: dict[str, subprocess.Popen] = {}
        settings = RunFolder(self.path).settings
        self.start("arm", settings.hardware, "--task", settings.task, "--clock", settings.clock,
                   "--address", settings.arm_addresses[0])  # fmt: skip
        for name in ("learner", "actor"):
            self.start(name, str(self.path))

    def start(self, name: str, *arguments: str) -> None:
        with (self.path / f"{name}.txt").open("a") as output:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "robot_rl", name, *(arguments or [str(self.path)])],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def kill(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()

    def wait_for(self, done: Callable[[], bool], timeout_s: float = 90.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not done():
            ended = [name for name, process in self.processes.items() if process.poll() not in (None, 0)]
            assert not ended and time.monotonic() < deadline, "\n".join(
                f"{name}: {(self.path / f'{name}.txt').read_text()}" for name in self.processes
            )
            time.sleep(0.05)

    def episodes(self) -> int:
        return lines(self.path / "episodes.jsonl")

    def wait_for_episodes(self, more: int) -> None:
        goal = self.episodes() + more
        self.wait_for(lambda: self.episodes() >= goal)

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
def run(tmp_path):
    run = Run(tmp_path)
    yield run
    run.close()


def test_learner_and_actor_are_killed_and_started_again_alone(run):
    run.wait_for_episodes(1)
    run.kill("learner")
    run.start("learner")  # the actor lives and goes on by itself
    run.wait_for_episodes(1)
    run.kill("actor")
    run.start("actor")
    run.wait_for_episodes(1)
    run.wait_for(lambda: run.processes["learner"].poll() == 0 == run.processes["actor"].poll())
    require_every_step_once(run.path, STEPS)
    entries = entries_of(run.path)
    first, second = dict.fromkeys(identity.epoch for identity, _ in entries)
    gaps = [said for _, said in entries if isinstance(said, Mark)]
    assert len(gaps) <= 1  # none if the kill came between two episodes
    for gap in gaps:
        assert (gap.kind, gap.actor, gap.epoch) == (MarkKind.GAP, "actor", first)
        of_first = [identity.seq for identity, _ in entries if identity.epoch == first]
        assert gap.last_seq == of_first[-1]
        assert entries[len(of_first)] == (entries[len(of_first)][0], gap) and second == entries[len(of_first)][0].epoch


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_ends_an_actor_that_waits_for_a_learner_that_pretrains(tmp_path, monkeypatch, number):
    monkeypatch.chdir(tmp_path)
    folder = create_run("peg_insert", TrainConfig(name="run", obs="state"))
    with subprocess.Popen([sys.executable, "-m", "robot_rl", "actor", str(folder.path)]) as actor:
        try:
            wait_until(folder.episodes_file.exists, timeout_s=60.0)
            actor.send_signal(number)
            assert actor.wait(10.0) == 0
        finally:
            actor.kill()
