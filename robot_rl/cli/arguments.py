"""What verbs take from the command line: names, options, defaults of a task."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, TypeVar

import tyro

from robot_rl import config
from robot_rl.config import Hardware, Task
from robot_rl.run_folder import run_path as run_path
from robot_rl.types import ConfigError
from robot_rl.validation import nearest

T = TypeVar("T")
DEFAULT_TASK = "peg_insert"
DEFAULT_HARDWARE = "sim_panda"
TaskName = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")]
RunName = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]
DataPath = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PATH")]
FolderPath = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="FOLDER")]
EpisodeName = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="EPISODE")]
HardwareName = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="HARDWARE")]
Trust = Annotated[tuple[str, str] | None, tyro.conf.arg(metavar="NAME KEY")]
LearnerAddress = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ADDRESS")]
Flat = tyro.conf.arg(name="")  # the fields of a dataclass as options without a prefix


def parse(verb: str, command: Callable[..., Any], arguments: Sequence[str]) -> Any:
    """Call `command` with its parameters from the command line. Exits with help or with what is wrong in a line."""
    return tyro.cli(command, prog=f"robot-rl {verb}", args=list(arguments))


def with_task_defaults(task: str, options: T) -> T:
    """Run options as the task file wants them. Raises ConfigError with every default that is none, with its line."""
    loaded, problems = config.load_task(task), []
    for key, value in loaded.defaults.items():
        try:
            options = config.apply_overrides(options, {key: value}, source="")
        except ConfigError as error:
            lines = (line.removeprefix(f": {key}").removeprefix(": ").lstrip() for line in str(error).splitlines())
            problems += [(("defaults", key), line) for line in lines]
    config.complain(loaded, problems)
    return options


def read_files(task: str, hardware: str) -> tuple[Task, Hardware]:
    """The two files, each sound, and fit for each other, on the machine that the arms' processes run on."""
    read = config.load_task(task), config.load_hardware(hardware)
    config.check_fit(*read)
    config.require_machine(read[1])
    return read


def look_at_files(arguments: Sequence[str]) -> None:
    """Read the files that the line of a new run names, before libraries are loaded that take seconds.

    A mistake in them is told at once. The verb itself reads the line properly, and the files again; where the line does
    not say plainly which task it means, it alone does.
    """
    said = dict(zip(arguments, [*arguments[1:], ""], strict=True))
    said |= dict(argument.split("=", 1) for argument in arguments if argument.startswith("--") and "=" in argument)
    if {"--help", "-h", "--resume"} & said.keys():
        return
    first = arguments[0] if arguments and not arguments[0].startswith("-") else ""
    name = first or next((word for word in arguments if config.has_task(word)), "")
    task = config.load_task(name) if name else None
    usual = task.defaults.get("hardware", DEFAULT_HARDWARE) if task else DEFAULT_HARDWARE
    hardware = config.load_hardware(said.get("--hardware") or usual)
    if task is not None:
        config.check_fit(task, hardware)
    if "--listen" not in said:  # then the arms' processes run on another machine
        config.require_machine(hardware)


def choose_arm(hardware: config.Hardware, name: str, address: str) -> config.ArmConfig:
    """The named arm of a hardware file, or its first, listening at `address` if one is given."""
    arms = {arm.name: arm for arm in hardware.arms}
    if name and name not in arms:
        raise ConfigError(f"arm {name!r} is not in hardware {hardware.name!r}; it has: {nearest(name, arms)}")
    chosen = arms[name] if name else hardware.arms[0]
    return replace(chosen, address=address) if address else chosen


def json_object(text: str, option: str) -> dict[str, Any]:
    """Options as JSON from the command line. Raises ConfigError for anything but an object."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text!r:.100} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f'{option} {text!r:.100}: wanted an object, as {{"steps": 5}}')
    return value


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))
