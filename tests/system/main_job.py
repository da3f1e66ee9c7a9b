"""The main job as a user starts it: `robot-rl train ...` in a folder of its own, and a look at its
processes.
"""

import atexit
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from robot_rl.config.run_folder import RunFolder
from robot_rl.stream.log import StepLog
from robot_rl.types import Mark, RecordId, Step

SHORT = ["--obs", "state", "--demos", "3", "--eval-episodes", "1",
         "--learner.no-compile", "--learner.agent.batch-size", "32", "--learner.agent.critics", "2",
         "--learner.schedule.utd", "2", "--learner.agent.bc-initial-updates", "0"]  # fmt: skip
"""Options of a run that is about processes, not about learning."""


@dataclass
class Job:
    """A `robot-rl` that runs in the folder `place`."""

    process: subprocess.Popen[str]
    place: Path

    def __post_init__(self) -> None:
        # of a test that fails in between nothing goes on once the tests have ended
        atexit.register(self.process.kill)

    def finish(self, timeout_s: float = 200.0) -> tuple[int, str]:
        """Wait for its end: exit code, and all that it said."""
        said, _ = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, said

    def wait_for(self, done: Callable[[], bool], timeout_s: float = 150.0) -> None:
        """Wait until the job has got so far; AssertionError with what it said if it ends or hangs
        before.
        """
        deadline = time.monotonic() + timeout_s
        while not done():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise AssertionError(
                    f"the job did not get so far:\n{self.process.communicate()[0]}{self._logs()}"
                )
            time.sleep(0.05)

    def _logs(self) -> str:
        """The ends of what its processes have said."""
        ends = {
            log: log.read_text(errors="replace")[-1500:]
            for log in self.place.glob("runs/*/logs/*.log")
        }
        return "".join(f"\n{log}:\n{said}" for log, said in ends.items())


def start(place: Path, *arguments: str) -> Job:
    """Start `robot-rl ARGUMENTS` with `place` as its working directory."""
    command = [sys.executable, "-m", "robot_rl", *arguments]
    process = subprocess.Popen(
        command,
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"COLUMNS": "200"},
    )
    return Job(process, place)


def steps_of(run: Path) -> list[tuple[RecordId, Step]]:
    """The steps in the run's own log, with who sent each."""
    return [(identity, said) for identity, said in entries_of(run) if isinstance(said, Step)]


def entries_of(run: Path) -> list[tuple[RecordId, Step | Mark]]:
    """All that is in the run's own log."""
    folder = RunFolder(run)
    with StepLog(folder.steps_log, folder.spaces(), read_only=True) as log:
        return list(log.entries())


def require_every_step_once(run: Path, asked: int | None = None) -> None:
    """Each actor process's records are numbered through, and so is each episode; there are as many
    steps as asked for.

    None: the run was stopped before its end.
    """
    entries, steps = entries_of(run), steps_of(run)
    assert asked is None or demo_steps(run) + count(steps) == asked
    for _, of_epoch in groupby(entries, key=lambda pair: pair[0].epoch):
        sequence = [identity.seq for identity, _ in of_epoch]
        assert sequence == list(range(len(sequence)))
    episodes = [
        (number, [step.index for _, step in group])
        for number, group in groupby(steps, lambda p: p[1].episode)
    ]
    assert [number for number, _ in episodes] == list(range(len(episodes)))
    assert all(indices == list(range(len(indices))) for _, indices in episodes)


def demo_steps(run: Path) -> int:
    return json.loads((run / "demos.json").read_text())["steps"]


def count(steps: list[tuple[RecordId, Step]]) -> int:
    """Control steps; the observation after a reset is none."""
    return sum(step.index > 0 for _, step in steps)


def lines(path: Path) -> int:
    """How many are in a file, which need not be there yet."""
    return path.read_text().count("\n") if path.exists() else 0


def descendants(pid: int) -> dict[int, str]:
    """The processes below `pid`, with their command lines."""
    found: dict[int, str] = {}
    for child in _children(pid):
        found[child] = _command(child)
        found |= descendants(child)
    return found


def still_running(pids: Iterable[int]) -> list[str]:
    """The command lines of those that are still there; a zombie has none."""
    return [command for command in map(_command, pids) if command]


def _children(pid: int) -> list[int]:
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
