"""A run that faults are done to: the real processes, with a bad network between actor and learner.

`Bench` starts arm, learner and actor itself and starts them again as an operator would; the
learner's side and the robot's side have a run folder each, as on two machines. `SupervisedBench` is
one `robot-rl train`, which starts its processes itself. Both are made from a template, a run that
has its demonstrations and nothing else (`record_demos`).
"""

import ctypes
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from robot_rl.config.run_folder import RunFolder, read_config, write_config
from robot_rl.links.sockets import free_addresses
from robot_rl.machine.processes import GONE, PR_SET_PDEATHSIG
from tests.faults.disks import keep_and_unmount, small_disk
from tests.faults.proxy import Proxy
from tests.faults.witness import Witness, logged
from tests.system.main_job import SHORT, descendants, start, still_running

PATIENCE_S = 300.0
"""For anything that is waited for: a slow and busy machine may need minutes for the start of an
arm, which compiles.
"""

FAREWELL_S = 15.0
"""For the actor to see that the run is over, once the learner has left."""

CHECKPOINT_STEPS = 50
RESTARTS_AT_MOST = 20
ENVIRONMENT = os.environ | {"COLUMNS": "200", "OMP_WAIT_POLICY": "PASSIVE"}


class FaultError(AssertionError):
    """The run did not do what is promised."""


def record_demos(place: Path) -> Path:
    """A run with three demonstrations and nothing else, in `place`: what a bench is made from."""
    code, said = start(place, "demo", "--name", "template", "--learner.checkpoint-steps", str(CHECKPOINT_STEPS),
                       *SHORT).finish(300.0)  # fmt: skip
    if code != 0:
        raise FaultError(said)
    return place / "runs" / "template"


def make_folder(template: Path, path: Path, **settings: Any) -> RunFolder:
    """A copy of the template with other settings."""
    shutil.copytree(template, path, dirs_exist_ok=True)
    data = read_config(path / "config.json")
    data["run"] |= settings
    write_config(path / "config.json", data)
    return RunFolder(path)


class Process:
    """One start of a process; what it says goes to a file of its own."""

    def __init__(self, command: list[str], said: Path):
        self.said = said
        with said.open("wb") as output:
            self.popen = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=ENVIRONMENT,
                preexec_fn=_die_with_parent,
            )

    @property
    def pid(self) -> int:
        return self.popen.pid

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()

    def text(self) -> str:
        return self.said.read_text(errors="replace")


class Bench:
    """Three processes, a proxy for each link, and a witness. `own_steps` are those after the
    demonstrations.
    """

    supervised = False

    def __init__(self, template: Path, place: Path, seed: int, own_steps: int):
        place.mkdir(parents=True)
        self.place, self.random, self.own_steps = place, random.Random(seed), own_steps
        self.journals = place / "journals"
        for folder in (self.journals, place / "learner", place / "robot"):
            folder.mkdir()
        own_disks = () if self.supervised else (place / "learner", place / "robot")
        self.disks = [folder for folder in own_disks if small_disk(folder)]
        arm, steps, weights, calls, learner_status, actor_status, desk = free_addresses(7)
        demo_steps = json.loads((template / "demos.json").read_text())["steps"]
        settings = {"seed": seed, "steps": demo_steps + own_steps, "arm_addresses": [arm],
                    "learner_status_address": learner_status, "actor_status_address": actor_status,
                    "desk_address": desk}  # fmt: skip
        links = {"steps_address": steps, "weights_address": weights, "calls_address": calls}
        self.learner_folder = make_folder(template, place / "learner", **settings, **links)
        self.proxies = {name: Proxy(address, seed) for name, address in links.items()}
        proxied = {name: proxy.address for name, proxy in self.proxies.items()}
        self.actor_folder = self._make_actor_folder(template, settings | proxied)
        self.witness = Witness(self.spool)
        self.processes: dict[str, Process] = {}
        self.torn_epochs: set[int] = set()  # of which the test has cut the end of the spool off
        # whose disk was full: their last steps were delivered from memory
        self.unspooled_epochs: set[int] = set()
        self.damaged = 0  # records that the test has made unreadable
        self._learner_left_at = math.inf
        self._came_too_late = False
        self._starts = 0
        self.restarts = 0  # of processes that left because another one was gone
        self._begin()

    @property
    def log(self) -> Path:
        return self.learner_folder.steps_log

    @property
    def spool(self) -> Path:
        return self.actor_folder.spool / "actor"

    @property
    def has_ended(self) -> bool:
        """The learner has all steps of the run and has left; the actor knows it, or was killed
        before it could.
        """
        learner, actor = (self.processes[name].popen.poll() for name in ("learner", "actor"))
        return learner == 0 and (actor == 0 or self._came_too_late)

    def logged_count(self) -> int:
        return len(logged(self.log))

    def start(self, *names: str) -> None:
        """Start processes, in this order."""
        for name in names:
            self._starts += 1
            said = self.place / f"{self._starts:02d}-{name}.txt"
            self.processes[name] = Process([sys.executable, "-m", *self._command(name)], said)

    def kill(self, *names: str) -> None:
        """kill -9 of all of them at once."""
        for name in names:
            self.processes[name].popen.send_signal(signal.SIGKILL)
        for name in names:
            self.processes[name].popen.wait()

    def wait_for(self, done: Callable[[], bool], what: str, tend: bool = True) -> None:
        """Wait until `done()`, meanwhile starting again whoever left because another process was
        gone.
        """
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            if time.monotonic() > deadline:
                raise FaultError(f"waited {PATIENCE_S:g} s in vain for {what}\n{self.all_said()}")
            if tend:
                self.tend()
            time.sleep(0.05)  # a look reads the whole log

    def wait_for_steps(self, more: int) -> None:
        """Wait until that many more records are in the log, or the run is over."""
        goal = self.logged_count() + more
        self.wait_for(
            lambda: self.logged_count() >= goal or self.has_ended, f"{more} more records in the log"
        )

    def tend(self) -> None:
        """What a person at the bench does: start again who left with exit code 3. Any other failure
        is a fault.
        """
        self._see_off()
        for name, process in list(self.processes.items()):
            code = process.popen.poll()
            if code in (None, 0) or (name == "actor" and self._came_too_late):
                continue
            if code != GONE or self.restarts >= RESTARTS_AT_MOST:
                raise FaultError(f"{name} ended with code {code}\n{self.all_said()}")
            self.restarts += 1
            self.start(name)

    def _see_off(self) -> None:
        """End an actor that was killed at the end of the run and started again: it waits for a
        learner that is through.

        `robot-rl train` does the same.
        """
        if self.supervised or self.processes["learner"].popen.poll() != 0:
            self._learner_left_at = math.inf
            return
        self._learner_left_at = min(self._learner_left_at, time.monotonic())
        if (
            time.monotonic() > self._learner_left_at + FAREWELL_S
            and self.processes["actor"].popen.poll() is None
        ):
            self._came_too_late = True
            self.kill("actor")

    def wait_for_refusal(self, name: str, *words: str) -> None:
        """The process ends by itself with exit code 2 and says why, in these words."""
        process = self.processes[name]
        self.wait_for(lambda: process.popen.poll() is not None, f"{name} to refuse", tend=False)
        text = process.text()
        if (
            process.popen.returncode != 2
            or any(word not in text for word in words)
            or "Traceback" in text
        ):
            raise FaultError(
                f"{name} ended with code {process.popen.returncode}, and should have said"
                f" {words}:\n{text}"
            )

    def wait_for_end(self) -> None:
        self.wait_for(lambda: self.has_ended, "the end of the run")

    def close(self) -> None:
        """End everything; the folders stay."""
        for process in self.processes.values():
            process.kill()
        for proxy in self.proxies.values():
            proxy.close()
        self.witness.close()
        for folder in self.disks:
            keep_and_unmount(folder)

    def all_said(self) -> str:
        """The end of what the processes said, the newest of each name."""
        return "\n".join(
            f"--- {name} ({p.said}):\n{p.text()[-2000:]}" for name, p in self.processes.items()
        )

    def _make_actor_folder(self, template: Path, settings: dict[str, Any]) -> RunFolder:
        return make_folder(template, self.place / "robot", **settings)

    def _begin(self) -> None:
        self.start("arm", "learner", "actor")

    def _command(self, name: str) -> list[str]:
        settings = self.learner_folder.settings
        if name == "arm":
            return ["robot_rl", "arm", settings.hardware, "--task", settings.task, "--clock", settings.clock,
                    "--address", settings.arm_addresses[0]]  # fmt: skip
        if name == "learner":
            return ["robot_rl", "learner", str(self.learner_folder.path)]
        return ["tests.faults.actor", str(self.actor_folder.path), str(self.journals)]


class SupervisedBench(Bench):
    """`robot-rl train --resume` on one machine. Whoever is killed is started again by it; `main` is
    itself.
    """

    supervised = True

    @property
    def has_ended(self) -> bool:
        return self.processes["main"].popen.poll() == 0

    def start(self, *names: str) -> None:
        if "main" in names:
            super().start("main")

    def kill(self, *names: str) -> None:
        if "main" in names:
            below = descendants(self.processes["main"].pid)
            super().kill("main")
            self.wait_for(lambda: not still_running(below),
                          "the other processes to go", tend=False)  # fmt: skip
            return
        self.wait_for(lambda: all(self._find(name) for name in names), f"the processes {names}")
        for name in names:
            os.kill(self._find(name), signal.SIGKILL)

    def _find(self, name: str) -> int:
        found = descendants(self.processes["main"].pid)
        return next((pid for pid, command in found.items() if f"robot_rl {name} " in command), 0)

    def _make_actor_folder(self, template: Path, settings: dict[str, Any]) -> RunFolder:
        return self.learner_folder

    def _begin(self) -> None:
        self.start("main")

    def _command(self, name: str) -> list[str]:
        return [
            "robot_rl",
            "train",
            "--resume",
            str(self.learner_folder.path),
            "--eval-episodes",
            "1",
        ]


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
