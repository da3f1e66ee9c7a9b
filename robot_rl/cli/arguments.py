"""What verbs take from the command line: names, options, defaults of a task."""

import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import field, fields, make_dataclass, replace
from typing import Annotated, Any, get_type_hints

import tyro

from robot_rl import config
from robot_rl.config import DEFAULT_HARDWARE, Hardware, Task
from robot_rl.config.run_folder import RunFolder, run_path
from robot_rl.machine.validation import nearest
from robot_rl.types import ConfigError

DEFAULT_TASK = "peg_insert"
A_RUN = "Folder of a run, or its name in runs/"
A_BENCH = "A file of hardware_configs/"
TaskName = Annotated[
    tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK", help="A file of tasks/.")
]
RunName = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN", help=f"{A_RUN}.")]
HardwareName = Annotated[
    tyro.conf.Positional[str], tyro.conf.arg(metavar="HARDWARE", help=f"{A_BENCH}.")
]
Flag = tyro.conf.FlagCreatePairsOff[bool]  # --json alone, without a --no-json
Json = Annotated[Flag, tyro.conf.arg(help="One JSON object on stdout instead of text.")]
HIDDEN: Any = tyro.conf.Suppress
Flat = tyro.conf.arg(name="")  # the fields of a dataclass as options without a prefix
FIRST = (
    "hardware", "obs", "steps", "demos", "demos_from", "seed", "teleop", "name", "learner.algorithm",
)  # fmt: skip
"""The options of a run that people change first: beside --resume, what `--help` shows of them."""
RARE = ("trust",)
"""A verb's own options that `--help` does not show."""


def parse(verb: str, command: Callable[..., Any], arguments: Sequence[str], more: str = "") -> Any:
    """Call `command` with its parameters from the command line, and return what it returns.

    Exits with help, `more` under its text, or with what is wrong in a line.
    """
    # a sentence is a line
    command.__doc__ = re.sub(r"\n {8}", " ", inspect.cleandoc(command.__doc__ or ""))
    paragraphs = (command.__doc__.partition("\n\nArgs:")[0] + more).split("\n\n")
    # tyro joins the lines of a paragraph that are not indented, and breaks none
    filled = [
        textwrap.fill(each, 80, initial_indent="  ", subsequent_indent="  ") for each in paragraphs
    ]
    return tyro.cli(
        command, prog=f"robot-rl {verb}", args=plain(arguments), description="\n".join(filled)
    )


def plain(arguments: Sequence[str]) -> list[str]:
    """The words of a line as the parser takes them: it has one kind of help."""
    return ["--help" if word == "--help-all" else word for word in arguments]


def parse_run(verb: str, command: Callable[..., Any], arguments: Sequence[str]) -> Any:
    """Call a verb that takes the options of a run beside its own.

    Code < task < command line; of a run that goes on, code < task < run < command line.
    """
    look_at_files(arguments)
    from robot_rl.runs.changes import options_of
    from robot_rl.runs.create import TrainConfig

    if {"-h", "--help"} & set(arguments):
        first = said_to(command, brief(TrainConfig, FIRST)())
        kinds = first.__annotations__
        kinds |= {name: HIDDEN[kinds[name]] for name in kinds.keys() & RARE}
        parse(verb, first, arguments, f"\n\nAll options: robot-rl {verb} --help-all")
    defaults = for_algorithm(TrainConfig(), arguments)
    said = parse(verb, said_to(command, defaults), arguments)
    if said["resume"]:
        defaults = options_of(RunFolder(run_path(said["resume"])))
    else:
        defaults = with_task_defaults(said["task"], replace(TrainConfig(), obs=said["options"].obs))
    defaults = for_algorithm(defaults, arguments)
    return command(**parse(verb, said_to(command, defaults), arguments))


def said_to(command: Callable[..., Any], options: Any) -> Callable[..., dict[str, Any]]:
    """What takes the command line of a verb, with `options` as the defaults of its parameter of
    that name; it returns what was said."""

    def said(**values: Any) -> dict[str, Any]:
        return values

    takes = inspect.signature(command)
    kind: Any = Annotated[type(options), Flat]
    typed = takes.parameters["options"].replace(annotation=kind, default=options)
    parameters = {**takes.parameters, "options": typed}
    said.__doc__ = command.__doc__
    said.__signature__ = takes.replace(parameters=list(parameters.values()))  # type: ignore[attr-defined]
    said.__annotations__ = {name: each.annotation for name, each in parameters.items()}
    return said


def brief(cls: type, shown: Collection[str], prefix: str = "") -> type:
    """The dataclass `cls` with those of its fields alone in its help that are shown, by dotted
    name.
    """
    hints = get_type_hints(cls, include_extras=True)
    changed: list[Any] = []
    for each in fields(cls):
        name = prefix + each.name
        if any(other.startswith(f"{name}.") for other in shown):
            inner = brief(hints[each.name], shown, f"{name}.")
            changed.append((each.name, inner, field(default_factory=inner)))
        elif name not in shown:
            default = field(default=each.default, default_factory=each.default_factory)
            changed.append((each.name, HIDDEN[hints[each.name]], default))
    return make_dataclass(cls.__name__, changed, bases=(cls,), frozen=True)


OF_PICTURES = ("learner.encoder", "learner.cameras")


def with_task_defaults(task: str, options: Any) -> Any:
    """Run options as the task file wants them; from state, without pictures, without what is for them.
    Raises ConfigError with every default that is none, with its line.
    """
    loaded, problems = config.load_task(task), []
    wanted = dict(loaded.defaults)
    if options.obs == "state":
        wanted = {key: value for key, value in wanted.items() if key not in OF_PICTURES}
    for key, value in wanted.items():
        try:
            options = config.apply_overrides(options, {key: value}, source="")
        except ConfigError as error:
            lines = (
                line.removeprefix(f": {key}").removeprefix(": ").lstrip()
                for line in str(error).splitlines()
            )
            problems += [(("defaults", key), line) for line in lines]
    config.complain(loaded, problems)
    return options


def for_algorithm(options: Any, arguments: Sequence[str]) -> Any:
    """Options of a run with those of the algorithm that the line names, which may say more about
    them.
    """
    said = dict(zip(arguments, [*arguments[1:], ""], strict=True))
    said |= dict(
        argument.split("=", 1)
        for argument in arguments
        if argument.startswith("--") and "=" in argument
    )
    algorithm = said.get("--learner.algorithm", options.learner.algorithm)
    return replace(options, learner=replace(options.learner, algorithm=algorithm))


def read_files(task: str, hardware: str) -> tuple[Task, Hardware]:
    """The two files, each sound, and fit for each other, on the machine that the arms' processes
    run on.
    """
    read = config.load_task(task), config.load_hardware(hardware)
    config.check_fit(*read)
    config.require_machine(read[1])
    return read


def look_at_files(arguments: Sequence[str]) -> None:
    """Read the files that the line of a new run names, before libraries are loaded that take
    seconds.

    A mistake in them is told at once. The verb itself reads the line properly, and the files again;
    where the line does not say plainly which task it means, it alone does.
    """
    said = dict(zip(arguments, [*arguments[1:], ""], strict=True))
    said |= dict(
        argument.split("=", 1)
        for argument in arguments
        if argument.startswith("--") and "=" in argument
    )
    if {"--help", "--help-all", "-h", "--resume"} & said.keys():
        return
    first = arguments[0] if arguments and not arguments[0].startswith("-") else ""
    name = first or next((word for word in arguments if config.has_task(word)), "")
    task = config.load_task(name) if name else None
    usual = task.hardware if task else DEFAULT_HARDWARE
    hardware = config.load_hardware(said.get("--hardware") or usual)
    if task is not None:
        config.check_fit(task, hardware)
    if "--listen" not in said:  # then the arms' processes run on another machine
        config.require_machine(hardware)


def choose_arm(hardware: config.Hardware, name: str) -> config.ArmConfig:
    """The named arm of a hardware file, or its first."""
    arms = {arm.name: arm for arm in hardware.arms}
    if name and name not in arms:
        raise ConfigError(
            f"arm {name!r} is not in hardware {hardware.name!r}; it has: {nearest(name, arms)}"
        )
    return arms[name] if name else hardware.arms[0]


def choose_arms(
    hardware: config.Hardware, name: str, addresses: Sequence[str]
) -> list[config.ArmConfig]:
    """The named arm of a hardware file, or its first, with those that its process serves as well;
    listening at `addresses` if they are given.
    """
    chosen = choose_arm(hardware, name)
    arms = next(arms for arms in config.arms_by_process(hardware) if chosen in arms)
    if not addresses:
        return list(arms)
    if len(addresses) != len(arms):
        names = ", ".join(arm.name for arm in arms)
        raise ConfigError(
            f"--address says {len(addresses)}, and the process is that of {len(arms)} arm(s):"
            f" {names}; wanted one for each"
        )
    return [replace(arm, address=there) for arm, there in zip(arms, addresses, strict=True)]


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


def print_problems(problems: Iterable[str]) -> None:
    for problem in problems:
        print(problem, file=sys.stderr)
