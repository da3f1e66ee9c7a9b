"""Task and hardware files: what they hold, where they are found, and how a mistake in them is reported.

A task file is typed Python (`tasks/NAME.py` with `TASK = Task(...)`), a hardware file validated YAML
(`hardware_configs/NAME.yaml`). Both folders are looked for in the working directory first, then inside the package.
Spaces follow from the two files, without opening anything.
"""

import importlib
import importlib.util
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from robot_rl.limits import is_unit, limit_problems, outside
from robot_rl.limits import tighten as tighten
from robot_rl.types import ArmLimits, Compliance, ConfigError, Load, SpaceSpec, Use
from robot_rl.validation import Problem, from_json, from_yaml, nearest, to_json
from robot_rl.validation import apply_overrides as apply_overrides

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

ObsKind = Literal["pixels", "state"]


@dataclass(frozen=True)
class Guard:
    """Something that is mounted on the flange and sticks out (a camera, a bracket): a rod with round ends.

    `start` and `end` [m] are the middles of its ends in the flange's frame. It is kept out of table, walls and keep-out
    boxes like the arm's own links.
    """

    name: str
    start: tuple[float, float, float]
    end: tuple[float, float, float]
    radius_m: float


@dataclass(frozen=True)
class ArmConfig:
    """One arm of a hardware file: its driver (a file of `controllers/arms`), where its process listens, its limits.

    `home` are the joint angles [rad] where resets begin; `pose_flange_tcp` places the TCP between the fingertips;
    `load` is what hangs on the flange, sent to an arm that has to know it. On the real clock the 1 kHz loop may have
    a core of its own, `loop_cpu`. `pose_bench_base` is where its foot stands on the bench, whose z points up: there the
    console draws it, and `state/projected_gravity` is downwards. `guards` are what else is mounted on the flange.
    `reset_compliance` is the law on the way to a start pose for tasks that have none of their own.
    """

    name: str
    driver: str
    home: tuple[float, ...]
    limits: ArmLimits
    pose_flange_tcp: tuple[float, float, float, float, float, float, float]
    address: str = "tcp://127.0.0.1:5560"
    load: Load | None = None
    loop_cpu: int | None = None
    pose_bench_base: tuple[float, float, float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    options: Mapping[str, Any] = field(default_factory=dict)
    guards: tuple[Guard, ...] = ()
    reset_compliance: Compliance | None = None


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
    """A set-up on a bench: one hardware file."""

    name: str
    arms: tuple[ArmConfig, ...]
    cameras: tuple[CameraConfig, ...] = ()
    grippers: tuple[GripperConfig, ...] = ()
    teleop: Use | None = None


@dataclass(frozen=True)
class StartPose:
    """Where an arm's episodes start: a tool pose in the base frame, and uniform ranges about it.

    The ranges are half-widths per axis, [m] along the base axes and [rad] as a rotation vector in the tool frame.
    """

    pose_base_tool: tuple[float, float, float, float, float, float, float]
    translation: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rotation: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Task:
    """A skill to learn: everything about it that is not the hardware's.

    An action is a move of the target in its own frame, `[-1, 1]` times `action_translation` [m] and
    `action_rotation` [rad], per arm. The target is kept within `leash_translation` [m] and `leash_rotation` [rad] of
    the measured pose so that it cannot wind up. `pose_tcp_tool` is the point of the tool that the task controls, seen
    from the hardware's TCP (a grasped peg's tip). `compliance` is the law in contact; `reset_compliance`, if given, is
    stiffer, for precise resets. A reset first takes an arm home in joint space if one of its joints is further than
    `max_drift` [rad] from the hardware's `home` (None: it never does). `manual_reset` says what a person has to do
    before each episode ("put the stick back into the holder"): the arm holds until it is done. With `observe_gravity`
    the policy is told, beside the images, which way is down: where cameras are put back askew, they alone do not say
    how far the tool is tilted. `limits` tightens fields of the hardware's `ArmLimits`. `scene` is a file of
    `sim/scenes`, for simulated arms. `defaults` overrides run options by dotted key (`{"agent.discount": 0.97}`).
    """

    name: str
    description: str
    start: tuple[StartPose, ...]
    cameras: tuple[str, ...]
    reward: Use
    scene: Use | None = None
    rate_hz: float = 10.0
    max_steps: int = 100
    image_size: tuple[int, int] = (128, 128)
    action_translation: float = 0.008
    action_rotation: float = 0.05
    leash_translation: float = 0.02
    leash_rotation: float = 0.15
    pose_tcp_tool: tuple[float, float, float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    compliance: Compliance = Compliance()
    reset_compliance: Compliance | None = None
    max_drift: float | None = None
    manual_reset: str = ""
    observe_gravity: bool = False
    limits: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)


def names_of(kind: str) -> list[str]:
    """What there is of a kind: the names of its folder's files, `names_of("cameras")`."""
    return sorted(path.stem for path in (PACKAGE / kind).glob("*.py") if not path.stem.startswith("_"))


def find(kind: str, name: str) -> ModuleType:
    """The module `robot_rl/KIND/NAME.py`, `find("controllers/arms", "mujoco").Arm`. The folder is the registry."""
    if name not in names_of(kind):
        raise ConfigError(f"{name!r} is not in robot_rl/{kind}; it has: {nearest(name, names_of(kind))}")
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


def load_task(name: str) -> Task:
    """`tasks/NAME.py`, the working directory's before the package's. Its types are checked, its options made plain."""
    path = _locate("tasks", name, ".py")
    spec = importlib.util.spec_from_file_location(f"robot_rl_task_{name}", path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    task = getattr(module, "TASK", None)
    if not isinstance(task, Task):
        raise ConfigError(f"{path}: no TASK = Task(...) in it")
    if task.name != name:
        raise ConfigError(f"{path}: the task's name is {task.name!r}; it must be the file's, {name!r}")
    return from_json(Task, to_json(task), source=str(path))


def load_hardware(name: str) -> Hardware:
    """`hardware_configs/NAME.yaml`, the working directory's before the package's."""
    return from_yaml(Hardware, _locate("hardware_configs", name, ".yaml"), _hardware_problems, name=name)


def _locate(folder: str, name: str, ending: str) -> Path:
    """The user's own file, or the one in the wheel (`robot_rl/FOLDER`) or the source tree (beside `robot_rl`)."""
    folders = [Path.cwd() / folder, PACKAGE / folder, PACKAGE.parent / folder]
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
    check_fit(task, hardware)
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
    """Raise ConfigError with everything that is wrong with a task, alone and on this hardware; one thing per line."""
    problems = [f"task {task.name!r}: {problem}" for problem in [*_task_problems(task), *_fit_problems(task, hardware)]]
    if problems:
        raise ConfigError("\n".join(problems))


def _task_problems(task: Task) -> Iterator[str]:
    positive = ("rate_hz", "max_steps", "action_translation", "action_rotation", "leash_translation", "leash_rotation")
    for name in positive:
        if getattr(task, name) <= 0:
            yield f"{name} is {getattr(task, name)}; it must be more than 0"
    if min(task.image_size) < 1:
        yield f"image_size is {task.image_size}; height and width must be at least 1"
    for kind, use in (("rewards", task.reward), ("sim/scenes", task.scene)):
        if use is not None and use.name not in names_of(kind):
            yield f"{use.name!r} is not in robot_rl/{kind}; it has: {nearest(use.name, names_of(kind))}"
    for name in ("stiffness", "damping", "error_clip"):
        values = getattr(task.compliance, name)
        if len(values) != 6 or min(values) < 0.0:
            yield f"compliance.{name} is {values}; it must be 6 numbers, none below 0"
    if not is_unit(task.pose_tcp_tool[3:]):
        yield "pose_tcp_tool does not end in a unit quaternion xyzw"


def _fit_problems(task: Task, hardware: Hardware) -> Iterator[str]:
    cameras = [camera.name for camera in hardware.cameras]
    for name in task.cameras:
        if name not in cameras:
            yield f"camera {name!r} is not in hardware {hardware.name!r}; it has: {nearest(name, cameras)}"
    if len(set(task.cameras)) != len(task.cameras):
        yield f"cameras {task.cameras} name one twice"
    if len(task.start) != len(hardware.arms):
        yield f"{len(task.start)} start poses for the {len(hardware.arms)} arms of hardware {hardware.name!r}"
    for start, arm in zip(task.start, hardware.arms, strict=False):
        if not is_unit(start.pose_base_tool[3:]):
            yield f"the start pose of arm {arm.name!r} does not end in a unit quaternion xyzw"
        elif where := outside(
            tighten(arm.limits, task.limits), start.pose_base_tool, start.translation, start.rotation
        ):
            yield f"the start range leaves the workspace of arm {arm.name!r} {where}"


def _hardware_problems(hardware: Hardware) -> Iterator[Problem]:
    """What the types of a hardware file cannot say, with where in the file it stands."""
    if not hardware.arms:
        yield ("arms",), "is empty; at least one arm is wanted"
    kinds = {"arms": "controllers/arms", "cameras": "cameras", "grippers": "controllers/grippers"}
    for section, kind in kinds.items():
        devices = getattr(hardware, section)
        for i, device in enumerate(devices):
            if device.driver not in names_of(kind):
                hint = nearest(device.driver, names_of(kind))
                yield (section, i, "driver"), f"= {device.driver!r} is not in robot_rl/{kind}; it has: {hint}"
            if device.name in [other.name for other in devices[:i]]:
                yield (section, i, "name"), f"= {device.name!r} is taken by another of the {section}"
    if hardware.teleop and hardware.teleop.name not in names_of("teleop"):
        hint = nearest(hardware.teleop.name, names_of("teleop"))
        yield ("teleop", "name"), f"= {hardware.teleop.name!r} is not in robot_rl/teleop; it has: {hint}"
    for i, arm in enumerate(hardware.arms):
        for name in ("pose_flange_tcp", "pose_bench_base"):
            if not is_unit(getattr(arm, name)[3:]):
                yield ("arms", i, name), "does not end in a unit quaternion xyzw"
        for place, message in limit_problems(arm.limits, len(arm.home)):
            yield ("arms", i, "limits", *place), message
        for place, message in _load_problems(arm.load):
            yield ("arms", i, "load", *place), message
        for j, (at, low, high) in enumerate(zip(arm.home, arm.limits.joint_low, arm.limits.joint_high, strict=False)):
            if not low + arm.limits.joint_margin <= at <= high - arm.limits.joint_margin:
                yield ("arms", i, "home", j), f"= {at:g} is not inside the joint's limits, {low:g} to {high:g} rad"


def _load_problems(load: Load | None) -> Iterator[Problem]:
    """A load that no body can have, whose weight and inertia an arm would compensate all the same."""
    if load is None:
        return
    if not 0.0 <= load.mass_kg <= 20.0:
        yield ("mass_kg",), f"= {load.mass_kg:g}: wanted 0 to 20"
    if max(abs(at) for at in load.centre_m) > 0.5:
        yield ("centre_m",), f"= {list(load.centre_m)}: wanted within 0.5 m of the flange"
    xx, yy, zz, *products = load.inertia
    largest = max(xx, yy, zz)
    if min(xx, yy, zz) < 0.0 or 2.0 * largest > xx + yy + zz + 1e-12 or max(map(abs, products)) > largest:
        yield ("inertia",), f"= {list(load.inertia)}: no body has these moments; xx, yy, zz, xy, xz, yz [kg m^2]"
