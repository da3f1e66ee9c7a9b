"""What verbs take from the command line: names, options, defaults of a task."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from robot_rl import config
from robot_rl.types import ConfigError
from robot_rl.validation import nearest

T = TypeVar("T")
DEFAULT_TASK = "peg_insert"
TaskName = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")]
RunName = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]
DataPath = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PATH")]
EpisodeName = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="EPISODE")]
HardwareName = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="HARDWARE")]
Trust = Annotated[tuple[str, str] | None, tyro.conf.arg(metavar="NAME KEY")]
LearnerAddress = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ADDRESS")]
Flat = tyro.conf.arg(name="")  # the fields of a dataclass as options without a prefix


def parse(verb: str, command: Callable[..., Any], arguments: Sequence[str]) -> Any:
    """Call `command` with its parameters from the command line. Exits with help or with what is wrong in a line."""
    return tyro.cli(command, prog=f"robot-rl {verb}", args=list(arguments))


def with_task_defaults(task: str, options: T) -> T:
    """Run options as the task file wants them."""
    return config.apply_overrides(options, config.load_task(task).defaults, source=f"tasks/{task}.py: defaults")


def run_path(run: str) -> Path:
    """The folder of a run that was given as a path, or by its name in runs/."""
    return Path(run) if Path(run).exists() else Path("runs") / run


def choose_arm(hardware: config.Hardware, name: str, address: str) -> config.ArmConfig:
    """The named arm of a hardware file, or its first, listening at `address` if one is given."""
    arms = {arm.name: arm for arm in hardware.arms}
    if name and name not in arms:
        raise ConfigError(f"arm {name!r} is not in hardware {hardware.name!r}; it has: {nearest(name, arms)}")
    chosen = arms[name] if name else hardware.arms[0]
    return replace(chosen, address=address) if address else chosen


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))
