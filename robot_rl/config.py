"""Task and hardware files: what they hold, where they are found, and how a mistake in them is reported.

A task file is typed Python (`tasks/NAME.py` with `TASK = Task(...)`), a hardware file validated YAML
(`hardware_configs/NAME.yaml`). Both folders are looked for in the working directory first, then inside the package.
Spaces follow from the two files, without opening anything.
"""

import ast
import importlib.util
import json
import re
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Literal

from robot_rl.hardware_problems import complete_limits, hardware_problems, machine_problems, unused_problems
from robot_rl.kinds import KINDS as KINDS
from robot_rl.kinds import NAMES_ARE, is_name, name_problems
from robot_rl.kinds import PACKAGE as PACKAGE
from robot_rl.kinds import driver as driver
from robot_rl.kinds import find as find
from robot_rl.kinds import make as make
from robot_rl.kinds import names_of as names_of
from robot_rl.limits import tighten as tighten
from robot_rl.python_lines import PythonFile
from robot_rl.task_problems import fit_problems, task_problems
from robot_rl.types import ArmLimits, Compliance, ConfigError, Load, SpaceSpec, Use
from robot_rl.validation import (
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
from robot_rl.validation import apply_overrides as apply_overrides

ObsKind = Literal["pixels", "state"]


@dataclass(frozen=True)
class Guard:
    """Something that is mounted on the flange and sticks out (a camera, a bracket): a rod with round ends.

    It is kept out of table, walls and keep-out boxes like the arm's own links.
    """

    name: str
    """What it is, for complaints."""
    start: tuple[float, float, float]
    """Middle of one of its ends in the flange's frame [m]."""
    end: tuple[float, float, float]
    """Middle of the other one."""
    radius_m: float
    """Of the rod and its ends [m]."""


@dataclass(frozen=True)
class ArmConfig:
    """One arm of a hardware file."""

    name: str
    """By which tasks, observations and `--arm` call it."""
    driver: str
    """A file of `controllers/arms`."""
    home: tuple[float, ...]
    """Joint angles where resets begin [rad]."""
    limits: ArmLimits
    """What it may do; a task can only tighten them."""
    pose_flange_tcp: tuple[float, float, float, float, float, float, float]
    """Where the TCP, between the fingertips, is in the flange's frame [m, xyzw]."""
    address: str = "local://arm"
    """Where its process listens."""
    load: Load | None = None
    """What hangs on the flange, sent to an arm that has to know it."""
    loop_cpu: int | None = None
    """On the real clock the core that its 1 kHz loop has for itself."""
    pose_bench_base: tuple[float, float, float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    """Where its foot stands on the bench, whose z points up [m, xyzw]: there the console draws it, and
    `state/projected_gravity` is downwards."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The driver's own."""
    guards: tuple[Guard, ...] = ()
    """What else is mounted on the flange."""
    reset_compliance: Compliance | None = None
    """The law on the way to a start pose, for tasks that have none of their own."""


@dataclass(frozen=True)
class CameraConfig:
    """One camera of a hardware file: its driver (a file of `cameras`) and that driver's own options."""

    name: str
    driver: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GripperConfig:
    """One gripper of a hardware file that moves (a file of `controllers/grippers`)."""

    name: str
    driver: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Hardware:
    """A set-up on a bench: one hardware file, `source`, which is not there if it was changed since it was read."""

    source: ClassVar[Source | None] = None
    name: str
    arms: tuple[ArmConfig, ...]
    cameras: tuple[CameraConfig, ...] = ()
    grippers: tuple[GripperConfig, ...] = ()
    teleop: Use | None = None


@dataclass(frozen=True)
class StartPose:
    """Where an arm's episodes start: a tool pose, and uniform ranges about it."""

    pose_base_tool: tuple[float, float, float, float, float, float, float]
    """The middle, in the base frame [m, xyzw]."""
    translation: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Half-widths along the base axes [m]."""
    rotation: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Half-widths of a rotation vector in the tool frame [rad]."""


@dataclass(frozen=True)
class Wander:
    """How far the arm may move by itself about a goal that it has just reached, so that an encoder learns where it is.

    All of it is in the tool's axes at the goal. For goals that stand still, and that the tool may leave with whatever
    it holds.
    """

    way_out: tuple[float, float, float]
    """The straight way that frees the tool from what it was put into [m]: (0, 0, -0.025) leaves a hole 25 mm deep
    against the tool's z."""
    height: float
    """From the end of the way out the arm goes to poses up to so much further that way [m]."""
    aside: float
    """And so far to every side [m]."""
    rotation: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Turned by up to so much, a rotation vector [rad]."""


@dataclass(frozen=True)
class Task:
    """A skill to learn: everything about it that is not the hardware's.

    `source` is the file that it was read from, for complaints; it is not there if the task was changed since.
    """

    source: ClassVar[Source | None] = None
    name: str
    """The file's own."""
    description: str
    """The skill in one line."""
    start: tuple[StartPose, ...]
    """Where episodes start, for each arm."""
    cameras: tuple[str, ...]
    """Those of the hardware file that the policy sees."""
    reward: Use
    """A file of `rewards`, with its options."""
    scene: Use | None = None
    """A file of `sim/scenes`, for simulated arms."""
    rate_hz: float = 10.0
    """Control steps per second."""
    max_steps: int = 100
    """Time limit of an episode [control steps]."""
    image_size: tuple[int, int] = (128, 128)
    """Height and width of what the policy sees [pixels]."""
    action_translation: float = 0.008
    """An action of 1 moves the target so far along an axis of its own frame [m]."""
    action_rotation: float = 0.05
    """And turns it so far about one [rad]."""
    leash_translation: float = 0.02
    """The target is kept so near the measured pose that it cannot wind up [m]."""
    leash_rotation: float = 0.15
    """The same for its rotation [rad]."""
    pose_tcp_tool: tuple[float, float, float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    """The point of the tool that the task controls, a grasped peg's tip, seen from the hardware's TCP [m, xyzw]."""
    compliance: Compliance = Compliance()
    """The law in contact."""
    reset_compliance: Compliance | None = None
    """A stiffer one, for precise resets."""
    max_drift: float | None = None
    """A reset first takes an arm home in joint space if one of its joints is further than this from the hardware's
    `home` [rad]; None: it never does."""
    manual_reset: str = ""
    """What a person has to do before each episode ("put the stick back into the holder"): the arm holds until it is
    done."""
    observe_gravity: bool = False
    """Whether the policy is told, beside the images, which way is down: where cameras are put back askew, they alone
    do not say how far the tool is tilted."""
    wander: Wander | None = None
    """Allows, and bounds, the motion about the goal after a demonstration; without it there is none."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Tighter values for fields of the hardware's `ArmLimits`."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Run options of this task by dotted key: `{"learner.agent.discount": 0.97}`."""


def load_task(name: str) -> Task:
    """`tasks/NAME.py`, the working directory's before the package's: every value of it is sound.

    Raises ConfigError with everything that is wrong, one thing per line: file, line, key, what is allowed.
    """
    path = _locate("tasks", name, ".py")
    tree = _parsed(path)
    task = getattr(_run(name, path, tree), "TASK", None)
    source = Source(path, tree.lines("TASK"))
    if not isinstance(task, Task):
        what = "there is no TASK" if task is None else f"TASK is {type(task).__name__}: {task!r:.60}"
        raise ConfigError(source.complaints([((), f"wanted TASK = Task(...), and {what}")]))
    problems = list(plain_problems(asdict(task))) or problems_of(Task, _plain(task))
    if not problems and task.name != name:
        problems = [(("name",), f"= {task.name!r}: the task's name must be the file's, {name!r}")]
    if not problems:
        task = from_json(Task, to_json(task))
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
        raise ConfigError(f"{path}:{error.lineno or 1}: not valid Python: {error.msg}{text}") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}:1: this is no text in UTF-8, or cannot be read: {error}") from error
    return PythonFile(tree, {cls.__name__: tuple(field.name for field in fields(cls)) for cls in _IN_TASKS})


def _run(name: str, path: Path, file: PythonFile) -> ModuleType:
    """The module of a task file. Whatever goes wrong in it is a ConfigError, with the line at which it did."""
    spec = importlib.util.spec_from_file_location(f"robot_rl_task_{name}", path)
    assert spec is not None and spec.loader is not None, f"{path} ends in .py"
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((frame.lineno for frame in reversed(frames) if frame.filename == str(path)), None) or 1
        raise ConfigError(_what_went_wrong(error, path, line, file)) from error
    return module


def _what_went_wrong(error: Exception, path: Path, line: int, file: PythonFile) -> str:
    """File, line and cause of an error in a task file; of a wrong argument, the line of that argument."""
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
    """A task from what `to_json` made of it: nothing is executed but the kinds that it names. Raises as `load_task`."""
    task = from_json(Task, data, source)
    complain(task, task_problems(task))
    return task


def hardware_from_json(data: Mapping[str, Any], source: str) -> Hardware:
    """A set-up from what `to_json` made of it. Raises as `load_hardware`."""
    hardware = from_json(Hardware, data, source)
    complain(hardware, hardware_problems(hardware))
    return hardware


def load_hardware(name: str) -> Hardware:
    """`hardware_configs/NAME.yaml`, the working directory's before the package's: every value of it is sound."""
    path = _locate("hardware_configs", name, ".yaml")
    hardware, source = from_yaml(Hardware, path, hardware_problems, complete_limits, name=name)
    object.__setattr__(hardware, "source", source)
    return hardware


def with_teleop(hardware: Hardware, name: str) -> Hardware:
    """The bench with another operator's device, a file of `teleop` (`human-like` for `human_like.py`); "": its own.

    Raises ConfigError if there is no such file.
    """
    name = name.replace("-", "_")
    if not name or (hardware.teleop and hardware.teleop.name == name):
        return hardware
    for problem in name_problems("teleop", name):
        raise ConfigError(f"teleop {problem}")
    return replace(hardware, teleop=Use(name))


def require_machine(hardware: Hardware) -> None:
    """Raise ConfigError if the arms of a bench are not to run on this machine as its file says (`loop_cpu`)."""
    complain(hardware, machine_problems(hardware))


def has_task(name: str) -> bool:
    """Whether there is a task file of this name."""
    return is_name(name) and any((folder / f"{name}.py").is_file() for folder in _folders("tasks"))


def has_hardware(name: str) -> bool:
    """Whether there is a hardware file of this name."""
    return is_name(name) and any((folder / f"{name}.yaml").is_file() for folder in _folders("hardware_configs"))


def require_name(folder: str, name: str) -> None:
    """Raise ConfigError for what cannot be the name of a file in `tasks` or `hardware_configs`."""
    if not is_name(name):
        raise ConfigError(f"{name!r:.100} is no name of a file in {folder}/: {NAMES_ARE}")


def _folders(folder: str) -> list[Path]:
    """Where files are looked for: the user's own, those in the wheel (`robot_rl/FOLDER`), those of the source tree."""
    return [Path.cwd() / folder, PACKAGE / folder, PACKAGE.parent / folder]


def _locate(folder: str, name: str, ending: str) -> Path:
    """The first file of this name in the folders. What is no name is refused before it is made into a path."""
    folders = _folders(folder)
    require_name(folder, name)
    for candidate in folders:
        if (candidate / f"{name}{ending}").is_file():
            return candidate / f"{name}{ending}"
    known = {path.stem for candidate in folders for path in candidate.glob(f"*{ending}")}
    raise ConfigError(f"{folder}/{name}{ending} does not exist; there is: {nearest(name, known)}")


def spaces(task: Task, hardware: Hardware, obs: ObsKind) -> SpaceSpec:
    """The spaces of a task on a hardware: from the two files alone. Raises ConfigError if they do not fit together.

    `state/...` is float32 `(6,)`, or `(3,)` of a direction, under `state/ARM/...` if there are several arms;
    `image/NAME` is uint8 `(H, W, 3)`.
    """
    _require_fit(task, hardware)
    if obs == "state" and task.scene is None:
        raise ConfigError(f"task {task.name!r} has no simulated scene, whose truth obs 'state' shows; use obs 'pixels'")
    sizes = {"tcp_pose": 6, "tcp_twist": 6, "tcp_wrench": 6, "target_offset": 6}
    if obs == "state":
        sizes["sim_goal"] = 6
    elif task.observe_gravity:
        sizes["projected_gravity"] = 3
    prefixes = [f"state/{arm.name}/" if len(hardware.arms) > 1 else "state/" for arm in hardware.arms]
    observations: dict[str, tuple[tuple[int, ...], str]] = {
        prefix + name: ((size,), "float32") for prefix in prefixes for name, size in sizes.items()
    }
    if obs == "pixels":
        observations |= {f"image/{name}": ((*task.image_size, 3), "uint8") for name in task.cameras}
    return SpaceSpec(observations, action_size=6 * len(hardware.arms))


def check_fit(task: Task, hardware: Hardware) -> None:
    """Raise ConfigError with everything that is wrong with a task, alone and on this hardware; one thing per line.

    And for what no task can use yet: a second arm, a gripper that moves.
    """
    _require_fit(task, hardware)
    complain(hardware, unused_problems(hardware))


def _require_fit(task: Task, hardware: Hardware) -> None:
    complain(task, list(task_problems(task)) or fit_problems(task, hardware))


def complain(about: Task | Hardware, problems: Iterable[Problem]) -> None:
    """Raise ConfigError about problems, if there are any: with file and line, if it is as its file has it."""
    if problems := list(problems):
        what = f"{type(about).__name__.lower()} {about.name!r}"
        lines = "\n".join(f"{what}: {dotted(place)}{text}" for place, text in problems)
        raise ConfigError(about.source.complaints(problems) if about.source else lines)


_CALLED_WRONGLY = re.compile(r"(\w+)\.__init__\(\) (?:got an unexpected keyword argument '(\w+)'|missing .*?: (.*))")
_IN_TASKS = (Task, StartPose, Wander, Compliance, Use)
"""The dataclasses that a task file is made of."""
