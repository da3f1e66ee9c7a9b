"""Task and hardware files: where they are found, and how a mistake in them is reported.

A task file is typed Python (`tasks/NAME.py` with `TASK = Task(...)`), a hardware file validated
YAML (`hardware_configs/NAME.yaml`). Both folders are looked for in the working directory first,
then inside the package. Spaces follow from the two files, without opening anything.
"""

import ast
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from robot_rl.config.hardware_problems import (
    complete_limits,
    hardware_problems,
    machine_problems,
)
from robot_rl.config.judge import judge_spaces, with_judge
from robot_rl.config.kinds import (
    NAMES_ARE,
    PACKAGE,
    is_name,
    line_in,
    module_of,
    name_problems,
    run_module,
)
from robot_rl.config.python_lines import PythonFile
from robot_rl.config.task_problems import fit_problems, task_problems
from robot_rl.config.worlds import stand_problems, unused_problems
from robot_rl.machine.validation import (
    Problem,
    Source,
    dotted,
    from_json,
    from_yaml,
    nearest,
    plain_problems,
    problems_of,
    to_json,
)
from robot_rl.types import (
    AXES,
    DIRECTION,
    GRASP,
    PLACE,
    ActionSpec,
    Compliance,
    ConfigError,
    SpaceSpec,
    Use,
)
from robot_rl.types.files import Backward, Hardware, ObsKind, StartPose, Task, Wander


def load_task(name: str) -> Task:
    """`tasks/NAME.py`, the working directory's before the package's: every value of it is sound.

    Raises ConfigError with everything that is wrong, one thing per line: file, line, key, what is
    allowed.
    """
    path = _locate("tasks", name, ".py")
    tree = _parsed(path)
    task = getattr(_run(name, path, tree), "TASK", None)
    source = Source(path, tree.lines("TASK"))
    if not isinstance(task, Task):
        what = (
            "there is no TASK" if task is None else f"TASK is {type(task).__name__}: {task!r:.60}"
        )
        raise ConfigError(source.complaints([((), f"wanted TASK = Task(...), and {what}")]))
    problems = list(plain_problems(asdict(task))) or problems_of(Task, _plain(task))
    if not problems and task.name != name:
        problems = [(("name",), f"= {task.name!r}: the task's name must be the file's, {name!r}")]
    if not problems:
        task = with_judge(from_json(Task, to_json(task)))
        problems = list(task_problems(task))
    if problems:
        raise ConfigError(source.complaints(problems))
    object.__setattr__(task, "source", source)
    return task


def _plain(task: Task) -> Any:
    """Plain data of a task whose types nobody has looked at yet."""
    return json.loads(json.dumps(asdict(task)))


def _parsed(path: Path) -> PythonFile:
    """A task file as text. Raises ConfigError with the line of a syntax error."""
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
    except SyntaxError as error:
        text = f": {error.text.strip()}" if error.text else ""
        raise ConfigError(
            f"{path}:{error.lineno or 1}: not valid Python: {error.msg}{text}"
        ) from error
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path}:1: this is no text in UTF-8, or cannot be read: {error}"
        ) from error
    return PythonFile(
        tree, {cls.__name__: tuple(field.name for field in fields(cls)) for cls in _IN_TASKS}
    )


def _run(name: str, path: Path, file: PythonFile) -> ModuleType:
    """The module of a task file. Whatever goes wrong in it is a ConfigError, with the line at which
    it did.
    """
    module = module_of(f"robot_rl_task_{name}", path)
    try:
        run_module(module)
    except Exception as error:
        raise ConfigError(_what_went_wrong(error, path, line_in(path, error), file)) from error
    return module


def _what_went_wrong(error: Exception, path: Path, line: int, file: PythonFile) -> str:
    """File, line and cause of an error in a task file; of a wrong argument, the line of that
    argument.
    """
    if isinstance(error, ConfigError):  # of a file that this one begins with
        return f"{path}:{line}: {error}"
    called = _CALLED_WRONGLY.match(str(error))
    cls = next((cls for cls in _IN_TASKS if called and cls.__name__ == called[1]), None)
    if called and cls and called[2]:
        names = nearest(called[2], {field.name for field in fields(cls)})
        line = file.argument_line(called[2], line)
        return f"{path}:{line}: {called[2]} is not a field of {called[1]}; allowed: {names}"
    if called and cls:
        return f"{path}:{line}: {called[1]}(...) lacks {called[3]}"
    return f"{path}:{line}: {type(error).__name__}: {error}"


def task_from_json(data: Mapping[str, Any], source: str) -> Task:
    """A task from what `to_json` made of it: nothing is executed but the kinds that it names.
    Raises as `load_task`.
    """
    task = from_json(Task, data, source)
    complain(task, task_problems(task))
    return task


def hardware_from_json(data: Mapping[str, Any], source: str) -> Hardware:
    """A set-up from what `to_json` made of it. Raises as `load_hardware`."""
    hardware = from_json(Hardware, data, source)
    complain(hardware, hardware_problems(hardware))
    return hardware


def load_hardware(name: str) -> Hardware:
    """`hardware_configs/NAME.yaml`, the working directory's before the package's: every value of it
    is sound.
    """
    path = _locate("hardware_configs", name, ".yaml")
    hardware, source = from_yaml(Hardware, path, hardware_problems, complete_limits, name=name)
    object.__setattr__(hardware, "source", source)
    return hardware


def with_teleop(hardware: Hardware, name: str) -> Hardware:
    """The bench with another operator's device, a file of `teleop` (`human-like` for
    `human_like.py`); "": its own.

    Raises ConfigError if there is no such file.
    """
    name = name.replace("-", "_")
    if not name or (hardware.teleop and hardware.teleop.name == name):
        return hardware
    for problem in name_problems("teleop", name):
        raise ConfigError(f"teleop {problem}")
    return replace(hardware, teleop=Use(name), more_teleop=())


def require_machine(hardware: Hardware) -> None:
    """Raise ConfigError if the arms of a bench are not to run on this machine as its file says
    (`loop_cpu`).
    """
    complain(hardware, machine_problems(hardware))


def has_task(name: str) -> bool:
    """Whether there is a task file of this name."""
    return is_name(name) and any((folder / f"{name}.py").is_file() for folder in _folders("tasks"))


def task_names() -> list[str]:
    """The names of all task files."""
    files = (path.stem for folder in _folders("tasks") for path in folder.glob("*.py"))
    return sorted({name for name in files if is_name(name) and not name.startswith("_")})


def has_hardware(name: str) -> bool:
    """Whether there is a hardware file of this name."""
    return is_name(name) and any(
        (folder / f"{name}.yaml").is_file() for folder in _folders("hardware_configs")
    )


def require_name(folder: str, name: str) -> None:
    """Raise ConfigError for what cannot be the name of a file in `tasks` or `hardware_configs`."""
    if not is_name(name):
        raise ConfigError(f"{name!r:.100} is no name of a file in {folder}/: {NAMES_ARE}")


def _folders(folder: str) -> list[Path]:
    """Where files are looked for: the user's own, those in the wheel (`robot_rl/FOLDER`), those of
    the source tree.
    """
    return [Path.cwd() / folder, PACKAGE / folder, PACKAGE.parent / folder]


def _locate(folder: str, name: str, ending: str) -> Path:
    """The first file of this name in the folders. What is no name is refused before it is made into
    a path.
    """
    folders = _folders(folder)
    require_name(folder, name)
    for candidate in folders:
        if (candidate / f"{name}{ending}").is_file():
            return candidate / f"{name}{ending}"
    known = {path.stem for candidate in folders for path in candidate.glob(f"*{ending}")}
    raise ConfigError(f"{folder}/{name}{ending} does not exist; there is: {nearest(name, known)}")


def spaces(task: Task, hardware: Hardware, obs: ObsKind) -> SpaceSpec:
    """The spaces of a task on a hardware: from the two files alone. Raises ConfigError if they do
    not fit together.

    `state/...` is float32 `(6,)`, or `(3,)` of a direction, under `state/ARM/...` if there are
    several arms; `image/NAME` is uint8 `(H, W, 3)`. `judge/...` is what the judge alone sees. A task
    with a way back has `state/direction` `(1,)`, 1 there and -1 back.
    """
    _require_fit(task, hardware)
    if obs == "state" and task.scene is None:
        raise ConfigError(
            f"task {task.name!r} has no simulated scene, whose truth obs 'state' shows; use obs"
            " 'pixels'"
        )
    sizes = {"tcp_pose": 6, "tcp_twist": 6, "tcp_wrench": 6, "target_offset": 6}
    if obs == "state":
        sizes["sim_goal"] = 6
    elif task.observe_gravity:
        sizes["projected_gravity"] = 3
    if task.observe_place:
        sizes[PLACE] = 6
    if task.observe_grasp:
        sizes[GRASP] = 6
    prefixes = [
        f"state/{arm.name}/" if len(hardware.arms) > 1 else "state/" for arm in hardware.arms
    ]
    observations: dict[str, tuple[tuple[int, ...], str]] = {
        prefix + name: ((size,), "float32") for prefix in prefixes for name, size in sizes.items()
    }
    for i, prefix in enumerate(prefixes):
        if task.gripper(i) == "moved":
            observations[prefix + "gripper"] = ((3,), "float32")
    if task.backward is not None:
        observations[DIRECTION] = ((1,), "float32")
    if obs == "pixels":
        observations |= {f"image/{name}": ((*task.image_size, 3), "uint8") for name in task.cameras}
    observations |= judge_spaces(task, hardware, obs)
    return SpaceSpec(observations, _actions(task, hardware))


def _actions(task: Task, hardware: Hardware) -> ActionSpec:
    """The axes of each arm that the task frees, and behind them its gripper, if the task moves it."""
    names, discrete = list[str](), list[int]()
    for i, arm in enumerate(hardware.arms):
        names += [f"{arm.name}.{axis}" for axis in AXES if axis in task.axes]
        if task.gripper(i) == "moved" and (gripper := hardware.gripper_of(arm)):
            discrete.append(len(names))
            names.append(gripper.name)
    return ActionSpec(tuple(names), tuple(discrete))


def check_fit(task: Task, hardware: Hardware) -> None:
    """Raise ConfigError with everything that is wrong with a task, alone and on this hardware; one
    thing per line.

    And for what no task can use yet: a second arm that does not stand in the first one's world.
    """
    _require_fit(task, hardware)
    complain(hardware, unused_problems(hardware))
    complain(task, stand_problems(task, hardware))


def _require_fit(task: Task, hardware: Hardware) -> None:
    complain(task, list(task_problems(task)) or fit_problems(task, hardware))


def complain(about: Task | Hardware, problems: Iterable[Problem]) -> None:
    """Raise ConfigError about problems, if there are any: with file and line, if it is as its file
    has it.
    """
    if problems := list(problems):
        what = f"{type(about).__name__.lower()} {about.name!r}"
        lines = "\n".join(f"{what}: {dotted(place)}{text}" for place, text in problems)
        raise ConfigError(about.source.complaints(problems) if about.source else lines)


_CALLED_WRONGLY = re.compile(
    r"(\w+)\.__init__\(\) (?:got an unexpected keyword argument '(\w+)'|missing .*?: (.*))"
)
_IN_TASKS = (Task, StartPose, Backward, Wander, Compliance, Use)
"""The dataclasses that a task file is made of."""
