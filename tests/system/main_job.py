"""The main job as a user starts it: `robot-rl train ...` in a folder of its own, and a look at its processes."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from robot_rl.data.log import StepLog
from robot_rl.run_folder import RunFolder
from robot_rl.types import Identity, Step

SHORT = ["--obs", "state", "--demos", "3", "--eval-episodes", "1",
         "--learner.no-compile", "--learner.agent.batch-size", "32"]  # fmt: skip
"""Options of a run that is about processes, not about learning."""


@dataclass
class Job:
    """A `robot-rl` that runs in the folder `place`."""

    process: subprocess.Popen[str]
    place: Path

    def finish(self, timeout_s: float = 100.0) -> tuple[int, str]:
        """Wait for its end: exit code, and all that it said."""
        said, _ = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, said

    def wait_for(self, done: Callable[[], bool], timeout_s: float = 90.0) -> None:
        """Wait until the job has got so far; AssertionError with what it said if it ends or hangs before."""
        deadline = time.monotonic() + timeout_s
        while not done():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise AssertionError(f"the job did not get so far:\n{self.process.communicate()[0]}")
            time.sleep(0.05)


def start(place: Path, *arguments: str) -> Job:
    """Start `robot-rl ARGUMENTS` with `place` as its working directory."""
    command = [sys.executable, "-m", "robot_rl.cli", *arguments]
    process = subprocess.Popen(
        command,
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"COLUMNS": "200"},
    )
    return Job(process, place)


def steps_of(run: Path) -> list[tuple[Identity, Step]]:
    """What is in the run's own log, with who sent it."""
    folder = RunFolder(run)
    with StepLog(folder.steps_log, folder.spaces(), read_only=True) as log:
        return list(zip((identity for _, identity, _ in log.records()), log.read(), strict=True))


def descendants(pid: int) -> dict[int, str]:
    """The processes below `pid`, with their command lines."""
    found: dict[int, str] = {}
    for child in _children(pid):
        found[child] = _command(child)
        found |= descendants(child)
    return found


def still_running(pids: Iterator[int] | dict[int, str]) -> list[str]:
    """The command lines of those that are still there; a zombie has none."""
    return [command for command in map(_command, pids) if command]


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
