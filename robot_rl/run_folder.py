"""The run folder `runs/NAME/`: where everything about a run lies, enough to know, repeat and resume it."""

import json
import secrets
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import robot_rl
from robot_rl import config
from robot_rl.clock import ClockKind
from robot_rl.config import Hardware, ObsKind, Task
from robot_rl.types import ConfigError, SpaceSpec


@dataclass(frozen=True)
class EvaluationFiles:
    """Where the newest evaluation of one kind lies."""

    summary: Path
    table: Path
    videos: Path

    @staticmethod
    def of(run: Path, sampled: bool, step: int | None = None) -> "EvaluationFiles":
        """Of the newest policy, greedy: `evaluation.json`; `sampled`, or of an older `step`, beside it."""
        kind = ("" if step is None else f"-{step}") + ("-sampled" if sampled else "")
        return EvaluationFiles(run / f"evaluation{kind}.json", run / f"evaluation{kind}.csv", run / f"videos{kind}")


@dataclass(frozen=True)
class RunSettings:
    """What actor, learner and evaluation of one run share.

    `steps` are the control steps of the whole run, demonstrations and wandering included: robot time; 0: no others.
    In lockstep the weights change every `block_steps` steps. `id` is drawn when the run is created, and stands in the
    heads of its files and greetings, so that no run takes another's steps; runs made before there was one have none.
    The addresses are where the processes listen;
    `arm_addresses`, if given, stand in for those of the hardware file. `remote_actor`: the robot is on another machine
    than the learner.
    """

    task: str
    hardware: str
    obs: ObsKind = "pixels"
    clock: ClockKind = "lockstep"
    seed: int = 0
    steps: int = 8_000
    demos: int = 20
    wander_steps: int = 0
    block_steps: int = 50
    id: str = ""
    arm_addresses: tuple[str, ...] = ()
    steps_address: str = "local://steps"
    weights_address: str = "local://weights"
    calls_address: str = "local://calls"
    learner_status_address: str = "local://learner-status"
    actor_status_address: str = "local://actor-status"
    desk_address: str = "local://desk"
    remote_actor: bool = False


class RunFolder:
    """Paths and the resolved config of one run. `config.json` is written once, when the run is created."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.config_file = self.path / "config.json"
        self.demos_log = self.path / "demos.log"
        self.outcomes_log = self.path / "outcomes.log"
        self.steps_log = self.path / "steps.log"
        self.features_file = self.path / "features.bin"
        self.spool = self.path / "spool"
        self.demos_file = self.path / "demos.json"
        self.outcomes_file = self.path / "outcomes.json"
        self.metrics_file = self.path / "metrics.jsonl"
        self.episodes_file = self.path / "episodes.jsonl"
        self.training_file = self.path / "training.json"
        self.checkpoints = self.path / "checkpoints"
        self.plots = self.path / "plots"
        self.blackbox = self.path / "blackbox"
        self.logs = self.path / "logs"
        if not self.config_file.exists():
            raise ConfigError(f"'{self.path}' is not a run: it has no config.json. Runs are listed by: ls runs/")
        self._data = _read_config(self.config_file)
        self.settings: RunSettings = config.from_json(RunSettings, self._data["run"])

    @classmethod
    def create(cls, path: str | Path, sections: dict[str, Any]) -> "RunFolder":
        """Make the folder, for this user alone, with its resolved config: `{"run": RunSettings, "learner": ...}`.

        A run without an `id` gets one. Raises ConfigError if there is a run already.
        """
        path = Path(path)
        if (path / "config.json").exists():
            raise ConfigError(
                f"'{path}' exists already: continue it with 'robot-rl train --resume {path}', or choose another --name"
            )
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not sections["run"].id:
            sections = sections | {"run": replace(sections["run"], id=secrets.token_hex(8))}
        data = {name: config.to_json(section) for name, section in sections.items()}
        data["code"] = {"version": robot_rl.__version__, "revision": code_revision()}
        (path / "config.json").write_text(json.dumps(data, indent=2) + "\n")
        return cls(path)

    @property
    def sections(self) -> dict[str, Any]:
        """The resolved config as plain data."""
        return self._data

    def section(self, name: str) -> dict[str, Any]:
        """A section of the resolved config as plain data, for `config.from_json`."""
        return self._data[name]

    def load_task(self) -> Task:
        return config.load_task(self.settings.task)

    def load_hardware(self) -> Hardware:
        hardware = config.load_hardware(self.settings.hardware)
        addresses = self.settings.arm_addresses or [arm.address for arm in hardware.arms]
        arms = (replace(arm, address=address) for arm, address in zip(hardware.arms, addresses, strict=True))
        return replace(hardware, arms=tuple(arms))

    def spaces(self) -> SpaceSpec:
        """The spaces of this run, from its task and hardware file alone."""
        return config.spaces(self.load_task(), self.load_hardware(), self.settings.obs)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text())
        if not isinstance(data, dict) or "run" not in data:
            raise ValueError("it has no section 'run'")
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is damaged: {error}. Restore it from a copy, or start a new run") from error
    return data


def code_revision() -> str:
    """The git revision that this code was run from, or "unknown" outside a checkout."""
    here = Path(__file__).resolve().parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
