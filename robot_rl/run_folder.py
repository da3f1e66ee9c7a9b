"""The run folder `runs/NAME/`: where everything about a run lies, enough to know, repeat and resume it."""

import os
import secrets
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import robot_rl
from robot_rl import config
from robot_rl.clock import ClockKind
from robot_rl.config import Hardware, ObsKind, Task
from robot_rl.small_files import CRC, read_json, require_seal, seal, write_json
from robot_rl.types import ConfigError, DataError, SpaceSpec

T = TypeVar("T")
DEMO_COUNTS = ("successes", "attempts", "steps")
MOST_SEEDS = 1 << 32
MOST_STEPS = 10**9


@dataclass(frozen=True)
class EvaluationFiles:
    """Where the newest evaluation of one kind lies."""

    summary: Path
    table: Path
    videos: Path

    @staticmethod
    def of(run: Path, sampled: bool, step: int | None = None, bench: str = "") -> "EvaluationFiles":
        """Of the newest policy, greedy: `evaluation.json`; `sampled`, of an older `step` or at a `bench`, beside it."""
        kind = ("" if step is None else f"-{step}") + ("-sampled" if sampled else "")
        kind += f"-at-{bench}" if bench else ""
        return EvaluationFiles(run / f"evaluation{kind}.json", run / f"evaluation{kind}.csv", run / f"videos{kind}")


@dataclass(frozen=True)
class RunSettings:
    """What actor, learner and evaluation of one run share.

    `steps` are the control steps of the whole run, demonstrations and wandering included: robot time; 0: no others.
    In lockstep the weights change every `block_steps` steps. `id` is drawn when the run is created, and stands in the
    heads of its files and greetings, so that no run takes another's steps; runs made before there was one have none.
    The addresses are where the processes listen; `arm_addresses`, if given, stand in for those of the hardware file,
    and so does `teleop`, the name of an operator's device. `remote_actor`: the robot is on another machine than the
    learner.
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
    teleop: str = ""

    def __post_init__(self) -> None:
        check_seed(self.seed)
        for name, least in (("steps", 0), ("demos", 0), ("wander_steps", 0), ("block_steps", 1)):
            if not least <= getattr(self, name) <= MOST_STEPS:
                raise ConfigError(
                    f"{name} is {getattr(self, name)!s:.40}; it must be a whole number from {least} to {MOST_STEPS}"
                )


def check_seed(seed: int) -> None:
    """Raise ConfigError for a seed that a generator does not take, or an arm's message cannot carry."""
    if not 0 <= seed < MOST_SEEDS:
        raise ConfigError(f"seed is {seed!s:.40}; it must be a whole number from 0 to {MOST_SEEDS - 1}")


class RunFolder:
    """Paths and the resolved config of one run.

    `config.json` is written when the run is created, with a checksum. Whoever changes it on purpose removes the key
    `crc32`: then it is taken as it is, as one of a run from before there was a checksum.
    """

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
        if not os.path.lexists(self.config_file):  # a link that leads nowhere is a damaged file
            raise ConfigError(f"'{self.path}' is not a run: it has no config.json. They are listed by: robot-rl runs")
        self._data = read_config(self.config_file)
        self.settings: RunSettings = self.read("run", RunSettings)

    @classmethod
    def create(cls, path: str | Path, sections: dict[str, Any], again: bool = False) -> "RunFolder":
        """Make the folder, for this user alone, with its resolved config: `{"run": RunSettings, "learner": ...}`.

        A run without an `id` gets one. Raises ConfigError if somebody else made the folder, or if there is a run
        already, unless it is to be written `again`.
        """
        path = Path(path)
        if (path / "config.json").exists() and not again:
            raise ConfigError(
                f"'{path}' exists already: continue it with 'robot-rl train --resume {path}', or choose another --name"
            )
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if {path.lstat().st_uid, path.stat().st_uid} != {os.geteuid()}:
            raise ConfigError(f"'{path}' belongs to somebody else: choose another --name")
        if not sections["run"].id:
            sections = sections | {"run": replace(sections["run"], id=secrets.token_hex(8))}
        data = {name: config.to_json(section) for name, section in sections.items()}
        data["code"] = {"version": robot_rl.__version__, "revision": code_revision()}
        write_config(path / "config.json", data)
        return cls(path)

    @property
    def sections(self) -> dict[str, Any]:
        """The resolved config as plain data."""
        return self._data

    def section(self, name: str) -> dict[str, Any]:
        """A section of the resolved config as plain data. ConfigError if there is none."""
        if name not in self._data:
            raise ConfigError(f"{self.config_file} is damaged: it has no section {name!r}. {CURE}")
        section: dict[str, Any] = self._data[name]
        return section

    def read(self, name: str, cls: type[T]) -> T:
        """A section of the resolved config as the dataclass that it was written from."""
        return config.from_json(cls, self.section(name), f"{self.config_file}: {name}")

    def demos(self) -> dict[str, int]:
        """How many demonstrations there are, complete: `successes`, `attempts`, `steps`.

        Raises DataError if the file that says so is missing or damaged, or belongs to another run.
        """
        try:
            counts = read_json(self.demos_file)
            for name in DEMO_COUNTS:
                if not (type(counts.get(name)) is int and 0 <= counts[name] <= MOST_STEPS):
                    raise DataError(f"{self.demos_file} is damaged: {name} is {counts.get(name)!r:.40}, no count")
        except DataError as error:
            raise DataError(
                f"{error}. It only counts what is in {self.demos_log.name}: 'robot-rl train --resume {self.path}' "
                "counts that anew"
            ) from error
        if self.settings.id and counts.get("run", self.settings.id) != self.settings.id:
            raise ConfigError(
                f"{self.demos_file} is of run {counts['run']!r}, and {self.config_file} of run {self.settings.id!r}: "
                "one of the two was put here from another run. Put back the one that belongs here"
            )
        return {name: counts[name] for name in DEMO_COUNTS}

    def write_demos(self, counts: Mapping[str, int]) -> None:
        """Say that the demonstrations are complete, and how many there are."""
        write_json(self.demos_file, dict(counts) | ({"run": self.settings.id} if self.settings.id else {}))

    def load_task(self) -> Task:
        return config.load_task(self.settings.task)

    def load_hardware(self) -> Hardware:
        hardware = config.load_hardware(self.settings.hardware)
        addresses = self.settings.arm_addresses or [arm.address for arm in hardware.arms]
        if len(addresses) != len(hardware.arms):
            raise ConfigError(
                f"{self.config_file}: run: arm_addresses has {len(addresses)} addresses, and hardware "
                f"{hardware.name!r} has {len(hardware.arms)} arms. {CURE}"
            )
        arms = (replace(arm, address=address) for arm, address in zip(hardware.arms, addresses, strict=True))
        return replace(config.with_teleop(hardware, self.settings.teleop), arms=tuple(arms))

    def spaces(self) -> SpaceSpec:
        """The spaces of this run, from its task and hardware file alone."""
        return config.spaces(self.load_task(), self.load_hardware(), self.settings.obs)


CURE = "Restore it from a copy, or start a new run"


def read_config(path: Path) -> dict[str, Any]:
    """The sections of a run's config file. Raises ConfigError if it is damaged, or was changed behind its checksum."""
    try:
        data = read_json(path)
        require_seal(data)
        sections = {name: section for name, section in data.items() if name != CRC}
        wrong = [name for name, section in sections.items() if not isinstance(section, dict)]
        if wrong:
            raise DataError(f"section {wrong[0]!r} is {sections[wrong[0]]!r:.40}, and wanted keys with values")
    except DataError as error:
        text = str(error).removeprefix(f"{path} is damaged: ").removeprefix(f"{path} ")
        raise ConfigError(
            f"{path} is damaged: {text}. {CURE}; if you have changed it yourself, remove the key {CRC!r} from it, and "
            "it is taken as it is"
        ) from error
    return sections


def write_config(path: Path, sections: Mapping[str, Any]) -> None:
    """Write a run's config file, whole, with its checksum."""
    write_json(path, seal(sections), indent=2)


def code_revision() -> str:
    """The git revision that this code was run from, or "unknown" outside a checkout."""
    here = Path(__file__).resolve().parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
