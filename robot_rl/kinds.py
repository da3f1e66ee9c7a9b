"""The folders of kinds: what there is of a kind, how one of it is found and made, and which options it takes.

What a file asks of a kind is looked at without opening anything: unknown options, wrong types, and the values that the
kind itself refuses.
"""

import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from robot_rl.types import ConfigError, RobotRLError, Use
from robot_rl.validation import Problem, nearest, plain_problems, problems_of, refusals

PACKAGE = Path(__file__).parent
KINDS = {
    "cameras": "Camera",
    "controllers/arms": "Arm",
    "controllers/grippers": "Gripper",
    "learner/agents": "Agent",
    "rewards": "Reward",
    "sim/scenes": "Scene",
    "teleop": "Teleop",
}
"""The folders that hold one file for each device or method of a kind, and the class that each of the files offers."""

GIVEN = {
    "controllers/grippers": ("name",),
    "rewards": ("world",),
    "sim/scenes": (),
    "teleop": ("task", "world", "mode", "seed", "habits", "desk"),
}
"""By kind: what the program itself hands to a maker, beside the options of a file."""


NAMES_ARE = "a name is made of letters, digits, _ and -, and is no path"


def is_name(name: str) -> bool:
    """Whether a task, a hardware file or a kind may be called so: what others say names a file of ours, and no path."""
    return re.fullmatch(r"[A-Za-z0-9_-]+", name) is not None


def folders_of(kind: str) -> list[Path]:
    """Where files of a kind are looked for: `./arms` (or `./scenes`, ...) where one works, then inside the package."""
    own = Path.cwd() / kind.rpartition("/")[2]
    return [own, PACKAGE / kind] if own != PACKAGE / kind else [own]


def names_of(kind: str) -> list[str]:
    """What there is of a kind: the names of its folders' files, `names_of("cameras")`."""
    return sorted({
        path.stem
        for folder in folders_of(kind)
        for path in folder.glob("*.py")
        if is_name(path.stem) and not path.stem.startswith("_")
    })


def find(kind: str, name: str) -> ModuleType:
    """The module `./KIND/NAME.py` or `robot_rl/KIND/NAME.py`, `find("controllers/arms", "mujoco").Arm`.

    The folder is the registry. Raises ConfigError if there is none, if it needs a package that is not installed, or,
    with file and line, if a user's own file does not run.
    """
    if name not in names_of(kind):
        raise ConfigError(f"{name!r} is not in robot_rl/{kind}; it has: {nearest(name, names_of(kind))}")
    own = folders_of(kind)[0] / f"{name}.py"
    if own.is_file() and own.parent != PACKAGE / kind:
        return load_own(own)
    module = ".".join(["robot_rl", *kind.split("/"), name])
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("robot_rl"):
            raise
        raise ConfigError(
            f"{kind}/{name} needs the package {error.name!r}, which is not installed here; if robot_rl has an extra of "
            f"that name: pip install 'robot_rl[{name}]'"
        ) from error


def load_own(path: Path) -> ModuleType:
    """A user's own file, once: it may change when the program is started again.

    Raises ConfigError, with file and line, if it does not run.
    """
    name = f"robot_rl_own.{path.parent.name}.{path.stem}"
    if name in sys.modules and sys.modules[name].__file__ == str(path):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, f"{path} ends in .py"
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        line = error.lineno if isinstance(error, SyntaxError) else line_in(path, error)
        raise ConfigError(f"{path}:{line or 1}: {type(error).__name__}: {error}") from error
    return module


def line_in(path: str | Path, error: Exception) -> int:
    """The last line of a file that an error came through; 1 if it came through none."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == str(path)), None) or 1


def find_here(kind: str, name: str) -> ModuleType | None:
    """The same, or None where there is no such file, or where this machine lacks a package that it needs.

    A learner reads the files of a bench whose devices it has no libraries for; the bench's own machine has them.
    """
    try:
        return find(kind, name)
    except ConfigError:
        return None


def make(kind: str, use: Use, *arguments: Any, **keywords: Any) -> Any:
    """One of a kind, with the options that its file was given; an option that it does not take is a ConfigError."""
    maker = getattr(find(kind, use.name), KINDS[kind])
    parameters = list(inspect.signature(maker).parameters)
    allowed = set(parameters[len(arguments) :]) - keywords.keys()
    for option in use.options:
        if option not in allowed:
            hint = nearest(option, allowed)
            raise ConfigError(f"{kind}/{use.name} takes no option {option!r} from a file; it takes: {hint}")
    return maker(*arguments, **keywords, **use.options)


def name_problems(kind: str, name: str) -> Iterator[str]:
    """That there is none of this name."""
    if name not in names_of(kind):
        yield f"= {name!r} is not in robot_rl/{kind}; it has: {nearest(name, names_of(kind))}"


def option_problems(kind: str, use: Use, also: type | None = None) -> Iterator[Problem]:
    """What is wrong with the options of a maker of `GIVEN`, by option; those of the dataclass `also` are another's."""
    if (problems := list(plain_problems(use.options))) or (module := find_here(kind, use.name)) is None:
        yield from problems
        return
    maker = getattr(module, KINDS[kind])
    takes = {name: p for name, p in inspect.signature(maker).parameters.items() if name not in GIVEN[kind]}
    hints, others = get_type_hints(maker.__init__), get_type_hints(also) if also else {}
    for option, value in use.options.items():
        if option in takes:
            found = problems_of(hints[option], value)
            yield from (((option, *place), message) for place, message in found)
            problems += found
        elif option not in others:
            problems.append(((option,), _unknown(option, kind, use.name, {*takes, *others})))
            yield problems[-1]
    for option in [name for name, p in takes.items() if p.default is p.empty and name not in use.options]:
        problems.append(((), f"lacks the option {option!r}"))
        yield problems[-1]
    if not problems and kind in ("rewards", "sim/scenes"):  # these open nothing
        yield from _value_problems(kind, use)


def _value_problems(kind: str, use: Use) -> Iterator[Problem]:
    """What the maker itself says of values."""
    try:
        make(kind, use, *[None for _ in GIVEN[kind]])
    except ConfigError as error:
        yield from refusals(error, use.options)
    except RobotRLError:  # it lacks the world, which is not what is looked at
        return


def driver_problems(kind: str, use: Use) -> Iterator[Problem]:
    """What is wrong with the options of an arm's or a camera's driver, whose dataclass `Options` says what it takes."""
    if (problems := list(plain_problems(use.options))) or (module := find_here(kind, use.name)) is None:
        yield from problems
        return
    options = getattr(module, "Options", None)
    if options is not None:
        yield from problems_of(options, dict(use.options))
        return
    for option in use.options:
        yield (option,), _unknown(option, kind, use.name, ())


def _unknown(option: str, kind: str, name: str, allowed: Any) -> str:
    takes = f"it takes: {nearest(option, allowed)}" if allowed else "it takes none"
    return f"is no option of {kind}/{name}; {takes}"
