"""The folders of kinds: what there is of a kind, how one of it is found and made, and which options
it takes.

What a file asks of a kind is looked at without opening anything: unknown options, wrong types, and
the values that the kind itself refuses.
"""

import ast
import importlib
import inspect
import re
import sys
import textwrap
import traceback
import types
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass, make_dataclass
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from robot_rl import interfaces
from robot_rl.interfaces import Given, NoOptions
from robot_rl.machine.validation import Problem, from_json, nearest, plain_problems, problems_of
from robot_rl.types import ConfigError, TeleopMapping, Use

PACKAGE = Path(__file__).parents[1]
KINDS = {
    "cameras": "Camera",
    "controllers/arms": "Arm",
    "controllers/grippers": "Gripper",
    "learner/agents": "Agent",
    "networks/encoders": "Encoder",
    "rewards": "Reward",
    "sim/scenes": "Scene",
    "teleop": "Teleop",
}
"""The folders that hold one file for each device or method of a kind, and the class that each of
the files offers.
"""

NAMES_ARE = "a name is made of letters, digits, _ and -, and is no path"


NOTHING_GIVEN = Given()


class NotInstalledError(ConfigError):
    """A driver needs a package that this machine lacks; another machine may have it."""


def is_name(name: str) -> bool:
    """Whether a task, a hardware file or a kind may be called so: what others say names a file of
    ours, and no path.
    """
    return re.fullmatch(r"[A-Za-z0-9_-]+", name) is not None


def is_class_path(name: str) -> bool:
    """Whether a name is that of a class in an installed package: `package.module:Class`."""
    return re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", name) is not None


def short_name(kind: str) -> str:
    """How the user's folder of a kind is called, and its entry points behind `robot_rl.`: `arms`,
    `scenes`, ...
    """
    return kind.rpartition("/")[2]


def folders_of(kind: str) -> list[Path]:
    """Where files of a kind are looked for: `./arms` (or `./scenes`, ...) where one works, then
    inside the package.
    """
    own = Path.cwd() / short_name(kind)
    return [own, PACKAGE / kind] if own != PACKAGE / kind else [own]


def names_of(kind: str) -> list[str]:
    """What there is of a kind, `names_of("cameras")`: files of its folders, entry points of
    installed packages.
    """
    files = {path.stem for folder in folders_of(kind) for path in folder.glob("*.py")}
    installed = _installed(f"robot_rl.{short_name(kind)}", tuple(sys.path))
    return sorted(
        name for name in {*files, *installed} if is_name(name) and not name.startswith("_")
    )


@cache
def _installed(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """The entry points of a group, by name, in the packages that are installed on `sys.path`."""
    return {point.name: point for point in entry_points(group=group)}


def find(kind: str, name: str) -> ModuleType:
    """The module `./KIND/NAME.py` or `robot_rl/KIND/NAME.py`, or that of an entry point or of
    `package.module:Class`.

    The folder is the registry. Raises ConfigError if there is none, if it needs a package that is
    not installed, or, with file and line, if a user's own file does not run.
    """
    return sys.modules[_find_class(kind, name).__module__]


def _find_class(kind: str, name: str) -> type:
    """The class of a kind as its file has it. Raises as `find`."""
    class_name = KINDS[kind]
    if is_class_path(name):
        module_name, _, class_name = name.partition(":")
        module = _imported(f"{short_name(kind)} {name!r}", module_name)
    elif name not in names_of(kind):
        raise ConfigError(f"{name!r} {_not_there(kind, name)}")
    elif (own := folders_of(kind)[0] / f"{name}.py").is_file() and own.parent != PACKAGE / kind:
        module = load_own(own)
    elif (PACKAGE / kind / f"{name}.py").is_file():
        module = _imported(f"{kind}/{name}", ".".join(["robot_rl", *kind.split("/"), name]))
    else:
        point = _installed(f"robot_rl.{short_name(kind)}", tuple(sys.path))[name]
        module, class_name = _imported(f"{kind}/{name}", point.module), point.attr or class_name
    found = vars(module).get(class_name)
    if not isinstance(found, type):
        raise ConfigError(
            f"{module.__file__}: there is no class {class_name}, which every file of {kind} has"
        )
    return found


def _not_there(kind: str, name: str) -> str:
    short = short_name(kind)
    return (
        f"is not in robot_rl/{kind}; it has: {nearest(name, names_of(kind))}; nor is there"
        f" ./{short}/{name}.py or an entry point {name!r} of robot_rl.{short}, and a class of a"
        " package is named package.module:Class"
    )


def _imported(what: str, module: str) -> ModuleType:
    """An installed module. Raises NotInstalledError if it, or what it needs, is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("robot_rl"):
            raise
        extra = what.rpartition("/")[2]
        raise NotInstalledError(
            f"{what} needs the package {error.name!r}, which is not installed here; if robot_rl has"
            f" an extra of that name: pip install 'robot_rl[{extra}]'"
        ) from error
    except Exception as error:
        _raise_interrupt(error)
        raise ConfigError(
            f"{what}: {module} does not run: {type(error).__name__}: {error}"
        ) from error


def _raise_interrupt(error: BaseException) -> None:
    """KeyboardInterrupt, if that is behind it: pybind11 makes an ImportError of one that comes while
    a compiled module is loading.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            raise cause from None
        cause = cause.__cause__


def load_own(path: Path) -> ModuleType:
    """A user's own file, once: it may change when the program is started again.

    Raises ConfigError, with file and line, if it does not run.
    """
    name = f"robot_rl_own.{path.parent.name}.{path.stem}"
    if name in sys.modules and sys.modules[name].__file__ == str(path):
        return sys.modules[name]
    module = sys.modules[name] = module_of(name, path)
    try:
        run_module(module)
    except Exception as error:
        del sys.modules[name]
        _raise_interrupt(error)
        line = error.lineno if isinstance(error, SyntaxError) else line_in(path, error)
        raise ConfigError(f"{path}:{line or 1}: {type(error).__name__}: {error}") from error
    return module


class _AsItStands(SourceFileLoader):
    """Reads the file each time. Bytecode that Python keeps beside one goes by its second and its size,
    and would be taken for what somebody wrote into it within that second.
    """

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def module_of(name: str, path: Path) -> ModuleType:
    """The module of a user's own file, which `run_module` runs."""
    spec = spec_from_file_location(name, path, loader=_AsItStands(name, str(path)))
    assert spec is not None
    return module_from_spec(spec)


def run_module(module: ModuleType) -> None:
    """Raises whatever the file raises, SyntaxError too."""
    assert module.__spec__ is not None and module.__spec__.loader is not None
    module.__spec__.loader.exec_module(module)


def line_in(path: str | Path, error: Exception) -> int:
    """The last line of a file that an error came through; 1 if it came through none."""
    frames = traceback.extract_tb(error.__traceback__)
    return (
        next((frame.lineno for frame in reversed(frames) if frame.filename == str(path)), None) or 1
    )


def driver(kind: str, name: str) -> Any:
    """The class of a device, reward or scene, with its contract's default for each optional member
    that it leaves out.

    Raises ConfigError as `find`, and if the class lacks what its contract asks for.
    """
    own = _find_class(kind, name)
    whole, where = with_defaults(kind, own), inspect.getfile(own)
    if missing := missing_of(whole):
        asked = f"robot_rl/interfaces.py, class {KINDS[kind]}, says what it is for"
        raise ConfigError(f"{where}: its class {own.__name__} lacks {', '.join(missing)}; {asked}")
    return whole


@cache
def with_defaults(kind: str, own: type) -> Any:
    """A class that derives from the contract of its kind, `own` itself if it does."""
    contract: type = getattr(interfaces, KINDS[kind])
    if contract in own.__mro__:
        return own
    about = {"__module__": own.__module__, "__doc__": own.__doc__}
    return types.new_class(own.__name__, (own, contract), exec_body=lambda body: body.update(about))


def missing_of(whole: Any) -> list[str]:
    """The members that the contract of a class asks for and the class does not have."""
    missing = set(whole.__abstractmethods__)
    if interfaces.Arm in whole.__mro__:
        needed = "follow" if whole.mode == "pose" else "write"
        missing |= {needed} if getattr(whole, needed) is getattr(interfaces.Arm, needed) else set()
        if whole.simulated:
            missing |= {
                name
                for name in ("world", "reset")
                if vars(interfaces.Arm)[name] is getattr(whole, name)
            }
    return sorted(missing)


def driver_here(kind: str, name: str) -> Any:
    """The same, or None where there is none to be used, or where this machine lacks a package that
    it needs.

    A learner reads the files of a bench whose devices it has no libraries for; the bench's own
    machine has them.
    """
    try:
        return driver(kind, name)
    except ConfigError:
        return None


def options_class(kind: str, cls: type) -> type:
    """The dataclass that the options of a driver make: `Options` of its file; of a device with
    those of `TeleopMapping`.
    """
    own: type = vars(sys.modules[cls.__module__]).get("Options", NoOptions)
    if not is_dataclass(own):
        raise ConfigError(
            f"{inspect.getfile(cls)}: Options is no dataclass: put @dataclass(frozen=True) above it"
        )
    if kind == "teleop":
        return make_dataclass("Options", (), bases=(TeleopMapping, own), frozen=True)
    return own


def make_options(kind: str, use: Use, about: str = "") -> Any:
    """The options of a driver, from plain data. Raises ConfigError with every complaint; `about`
    names the device.
    """
    source = f"{KINDS[kind].lower()} {about or use.name!r}: options"
    return from_json(options_class(kind, driver(kind, use.name)), use.options, source=source)


def make(kind: str, use: Use, given: Given = NOTHING_GIVEN) -> Any:
    """One of a kind, with the options that its file was given. Raises ConfigError for options that
    do not fit.
    """
    return driver(kind, use.name)(make_options(kind, use, given.name), given)


def name_problems(kind: str, name: str) -> Iterator[str]:
    """That there is none of this name, or that it does not run."""
    if not is_class_path(name) and name not in names_of(kind):
        yield f"= {name!r} {_not_there(kind, name)}"
        return
    try:
        driver(kind, name)
    except NotInstalledError:
        return
    except ConfigError as error:
        yield f"= {name!r} cannot be used: {error}"


def option_problems(kind: str, use: Use) -> Iterator[Problem]:
    """What is wrong with the options of a driver, by option."""
    problems = list(plain_problems(use.options))
    if not problems and (found := driver_here(kind, use.name)) is not None:
        problems = problems_of(options_class(kind, found), dict(use.options))
    yield from problems


def texts_of(options: type) -> list[tuple[str, str, str]]:
    """Name, default ("" if it must be given) and text of each option: the text stands under the
    field.
    """
    texts: dict[str, str] = {}
    for cls in reversed(options.__mro__):
        if is_dataclass(cls) and cls.__module__ != "types":
            texts |= _texts_in(cls)
    return [
        (
            field.name,
            "" if field.default is MISSING else repr(field.default),
            texts.get(field.name, ""),
        )
        for field in fields(options)
    ]


def _texts_in(cls: type) -> dict[str, str]:
    """The texts that stand under the fields of one class."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except (OSError, TypeError):  # a class without a file
        return {}
    assert isinstance(tree, ast.ClassDef), "the source of a class is a class"
    texts = {}
    for field, text in pairwise(tree.body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
        ):
            texts[field.target.id] = " ".join(ast.literal_eval(text.value).split())
    return texts
