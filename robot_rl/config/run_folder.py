"""The run folder `runs/NAME/`: where everything about a run lies, enough to know, repeat and resume
it.
"""

import logging
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import robot_rl
from robot_rl import config
from robot_rl.config import Hardware, Task
from robot_rl.config.run_settings import MOST_STEPS, RunSettings
from robot_rl.machine.clock import ClockKind
from robot_rl.machine.small_files import CRC, read_json, require_seal, seal, write_json
from robot_rl.types import ConfigError, DataError, SpaceSpec

log = logging.getLogger(__name__)
T = TypeVar("T")
DEMOS_LOG = "demos.log"
GUIDE_FILE = "guide.json"
DEMO_COUNTS = ("successes", "attempts", "steps")
CONFIG_FILE = "config.json"
LEARNT = "learnt"
"""Of a run that began with what another had learnt: that one's checkpoint."""


def is_run(path: Path) -> bool:
    """Whether a folder is a run's, be it a damaged one: a config that is a link to nowhere counts."""
    return os.path.lexists(path / CONFIG_FILE)


class RunFolder:
    """Paths and the resolved config of one run.

    `config.json` is written when the run is created, with a checksum. To change it on purpose one
    removes the key `crc32`: then it is taken as it is, as one of a run from before there was a
    checksum. It holds the task and the hardware file as data, so that the run needs neither any
    more; a run from before it did goes by their names.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.config_file = self.path / CONFIG_FILE
        self.demos_log = self.path / DEMOS_LOG
        self.guide_file = self.path / GUIDE_FILE
        self.outcomes_log = self.path / "outcomes.log"
        self.steps_log = self.path / "steps.log"
        self.features_file = self.path / "features.bin"
        self.spool = self.path / "spool"
        self.demos_file = self.path / "demos.json"
        self.outcomes_file = self.path / "outcomes.json"
        self.metrics_file = self.path / "metrics.jsonl"
        self.episodes_file = self.path / "episodes.jsonl"
        self.relabels_file = self.path / "relabels.jsonl"
        self.refits_file = self.path / "refits.jsonl"
        self.training_file = self.path / "training.json"
        self.checkpoints = self.path / "checkpoints"
        self.learnt = self.path / LEARNT
        self.plots = self.path / "plots"
        self.blackbox = self.path / "blackbox"
        self.logs = self.path / "logs"
        if not is_run(self.path):
            raise ConfigError(
                f"'{self.path}' is not a run: it has no {CONFIG_FILE}. They are listed by: robot-rl"
                " runs"
            )
        self._data = read_config(self.config_file)
        self.settings: RunSettings = self.read("run", RunSettings)
        self._copies: dict[str, Any] = {}

    @classmethod
    def create(
        cls,
        path: str | Path,
        sections: dict[str, Any],
        again: bool = False,
        verb: str = "train",
        fill: Callable[[Path, RunSettings], None] = lambda path, settings: None,
    ) -> "RunFolder":
        """Make the folder, for this user alone, with its resolved config: `{"run": RunSettings,
        "learner": ...}`.

        A run without an `id` gets one. `fill` puts into the folder what the run begins with; the
        config is written last. Raises ConfigError if somebody else made the folder, or if there is
        a run already, which `verb` would go on with, unless it is to be written `again`.
        """
        path = Path(path)
        if is_run(path) and not again:
            raise ConfigError(
                f"'{path}' exists already: continue it with 'robot-rl {verb} --resume {path}', or"
                " choose another --name"
            )
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if {path.lstat().st_uid, path.stat().st_uid} != {os.geteuid()}:
            raise ConfigError(f"'{path}' belongs to somebody else: choose another --name")
        if not sections["run"].id:
            sections = sections | {"run": replace(sections["run"], id=secrets.token_hex(8))}
        data = {name: as_json(section) for name, section in sections.items()}
        data["code"] = {"version": robot_rl.__version__, "revision": code_revision()}
        fill(path, sections["run"])
        write_config(path / CONFIG_FILE, data)
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
        section = UNSAID.get(name, {}) | {
            key: value
            for key, value in self.section(name).items()
            if key not in RETIRED.get(name, ())
        }
        if (
            name == "learner"
            and section.get("algorithm") != "rlpd"
            and "imitation" in self.section(name)
        ):
            section["agent"] = self.section(name)["imitation"]  # where such a run had its options
        return config.from_json(cls, section, f"{self.config_file}: {name}")

    def change(self, sections: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
        """Go on with other options: `sections` take the place of those that there were, and the
        config keeps what was `changed`, and when, under `history`."""
        entry = {
            "when": time.strftime("%Y-%m-%d %H:%M:%S"),
            "revision": code_revision(),
            "changed": dict(changed),
        }
        earlier = self._data.get("history", {}).get("changes", [])
        data = self._data | {name: as_json(section) for name, section in sections.items()}
        write_config(self.config_file, data | {"history": {"changes": [*earlier, entry]}})
        self._data = read_config(self.config_file)
        self.settings = self.read("run", RunSettings)

    def demos(self) -> dict[str, int]:
        """How many demonstrations there are, complete: `successes`, `attempts`, `steps`.

        Raises DataError if the file that says so is missing or damaged, or belongs to another run.
        """
        try:
            counts = read_json(self.demos_file)
            for name in DEMO_COUNTS:
                if not (type(counts.get(name)) is int and 0 <= counts[name] <= MOST_STEPS):
                    raise DataError(
                        f"{self.demos_file} is damaged: {name} is {counts.get(name)!r:.40}, no"
                        " count"
                    )
        except DataError as error:
            raise DataError(
                f"{error}. It only counts what is in {self.demos_log.name}: 'robot-rl train"
                f" --resume {self.path}' counts that anew"
            ) from error
        if self.settings.id and counts.get("run", self.settings.id) != self.settings.id:
            raise ConfigError(
                f"{self.demos_file} is of run {counts['run']!r}, and {self.config_file} of run"
                f" {self.settings.id!r}: one of the two was put here from another run. Put back the"
                " one that belongs here"
            )
        return {name: counts[name] for name in DEMO_COUNTS}

    def write_demos(self, counts: Mapping[str, int]) -> None:
        """Say that the demonstrations are complete, and how many there are."""
        write_json(
            self.demos_file, dict(counts) | ({"run": self.settings.id} if self.settings.id else {})
        )

    def load_task(self) -> Task:
        """The task as the run holds it, with this run's judge, and its own classifiers."""
        task = self._copy("task", self.settings.task, config.task_from_json, config.load_task)
        if self.settings.judge:
            task = config.with_judge(task, self.settings.judge)
        return config.with_classifiers(task, str((self.path / config.CLASSIFIERS).resolve()))

    @property
    def judge(self) -> Path | None:
        """The folder of the run's learned judge and its versions; None: its judge does not learn, or
        no more while the run does, as those of a task with a way back.
        """
        task = self.load_task()
        return config.classifier_of(task) if task.backward is None else None

    def load_hardware(self) -> Hardware:
        """The bench as the run holds it, with this run's addresses of its arms."""
        hardware = self._copy(
            "hardware", self.settings.hardware, config.hardware_from_json, config.load_hardware
        )
        addresses = self.settings.arm_addresses or [arm.address for arm in hardware.arms]
        if len(addresses) != len(hardware.arms):
            raise ConfigError(
                f"{self.config_file}: run: arm_addresses has {len(addresses)} addresses, and"
                f" hardware {hardware.name!r} has {len(hardware.arms)} arms. {CURE}"
            )
        arms = (
            replace(arm, address=address)
            for arm, address in zip(hardware.arms, addresses, strict=True)
        )
        return replace(config.with_teleop(hardware, self.settings.teleop), arms=tuple(arms))

    def at_bench(self, hardware: Hardware, clock: ClockKind) -> "RunFolder":
        """The run with another bench in the place of its own, for a policy that works there;
        nothing is written.
        """
        moved = RunFolder(self.path)
        moved._copies["hardware"] = hardware
        moved.settings = replace(
            self.settings, hardware=hardware.name, clock=clock, teleop="", arm_addresses=(),
            delay=self.settings.delay if clock == "lockstep" else 0.0,
        )  # fmt: skip
        return moved

    def _copy(
        self,
        section: str,
        name: str,
        read: Callable[[Mapping[str, Any], str], T],
        by_name: Callable[[str], T],
    ) -> T:
        """What the config holds of a file, read once; of a run from before it held any, the file of
        that name.
        """
        if section not in self._copies:
            config.require_name(FOLDERS[section], name)
            if section in self._data:
                value = read(self._data[section], f"{self.config_file}: {section}")
                if value.name != name:  # type: ignore[attr-defined]
                    raise ConfigError(
                        f"{self.config_file} is damaged: {section} is not the run's, {name!r}."
                        f" {CURE}"
                    )
            else:
                self._warn_of_no_copies()
                value = by_name(name)
            self._copies[section] = value
        copy: T = self._copies[section]
        return copy

    def _warn_of_no_copies(self) -> None:
        if self.path not in _warned:
            log.warning(
                "run %s was made before runs held their task and hardware: it goes by the files '%s' and '%s' as they "
                "are today", self.path, self.settings.task, self.settings.hardware,
            )  # fmt: skip
        _warned.add(self.path)

    def edited(self) -> list[str]:
        """What task and hardware file say otherwise today than the run, which goes by what it
        holds: a sentence each.

        Nothing of files that are not there. The task file is executed.
        """
        said = []
        for section, there_is, load, own in (
            ("task", config.has_task, config.load_task, self.load_task),
            ("hardware", config.has_hardware, config.load_hardware, self.load_hardware),
        ):
            name = getattr(self.settings, section)
            if section not in self._data or not there_is(name):
                continue
            try:
                today = config.to_json(load(name))
            except ConfigError as error:
                said.append(
                    f"{error}. The run goes by the {section} as it was when the run was made"
                )
                continue
            own()
            before = config.to_json(self._copies[section])
            if differ := [key for key in before if before[key] != today[key]]:
                said.append(
                    f"{section} '{name}' was edited since this run was made ({', '.join(differ)}):"
                    " the run goes by the one that it holds. The edited one is for a new run,"
                    " which may begin with these demonstrations: robot-rl train"
                    f" {self.settings.task} --demos-from {self.path}"
                    + f"; this run takes another device with --resume {self.path} --teleop NAME"
                    * ("teleop" in differ)
                )
        return said

    def spaces(self) -> SpaceSpec:
        """The spaces of this run, from its task and hardware file alone."""
        return config.spaces(self.load_task(), self.load_hardware(), self.settings.obs)


def run_path(run: str) -> Path:
    """The folder of a run that was given as a path, or by its name in runs/."""
    return Path(run) if Path(run).exists() else Path("runs") / run


CURE = "Restore it from a copy, or start a new run"
RETIRED = {"actor": {"release_steps"}, "learner": {"imitation"}}
"""Options that runs were made with, by their section, and that are no more."""
UNSAID: dict[str, dict[str, Any]] = {"actor": {"search": 0.0}}
"""What runs went by that were made before they could say so, where the default is another one now."""
FOLDERS = {"task": "tasks", "hardware": "hardware_configs"}
_warned: set[Path] = set()


def as_json(section: Any) -> dict[str, Any]:
    """A section of a run's config, a dataclass or plain data, as plain data."""
    return dict(section) if isinstance(section, Mapping) else config.to_json(section)


def read_config(path: Path) -> dict[str, Any]:
    """The sections of a run's config file. Raises ConfigError if it is damaged, or was changed
    behind its checksum.
    """
    try:
        data = read_json(path)
        require_seal(data)
        sections = {name: section for name, section in data.items() if name != CRC}
        wrong = [name for name, section in sections.items() if not isinstance(section, dict)]
        if wrong:
            raise DataError(
                f"section {wrong[0]!r} is {sections[wrong[0]]!r:.40}, and wanted keys with values"
            )
    except DataError as error:
        text = str(error).removeprefix(f"{path} is damaged: ").removeprefix(f"{path} ")
        raise ConfigError(
            f"{path} is damaged: {text}. {CURE}; if you have changed it yourself, remove the key"
            f" {CRC!r} from it, and it is taken as it is"
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
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=5
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"
