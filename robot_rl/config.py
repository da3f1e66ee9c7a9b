"""Task and hardware files: what they hold, where they are found, and how a mistake in them is reported.

A task file is typed Python (`tasks/NAME.py` with `TASK = Task(...)`), a hardware file validated YAML
(`hardware_configs/NAME.yaml`). Both folders are looked for in the working directory first, then inside the package.
Spaces follow from the two files, without opening anything.
"""

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from robot_rl.types import ArmLimits, Compliance, ConfigError, Use
from robot_rl.validation import from_json, from_yaml, nearest, to_json

PACKAGE = Path(__file__).parent
ObsKind = Literal["pixels", "state"]


@dataclass(frozen=True)
class ArmConfig:
    """One arm of a hardware file: its driver (a file of `controllers/arms`), where its process listens, its limits.

    `home` are the joint angles [rad] where resets begin; `pose_flange_tcp` places the TCP between the fingertips.
    """

    name: str
    driver: str
    home: tuple[float, ...]
    limits: ArmLimits
    pose_flange_tcp: tuple[float, float, float, float, float, float, float]
    address: str = "tcp://127.0.0.1:5560"
    options: Mapping[str, Any] = field(default_factory=dict)


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
    from the hardware's TCP (a grasped peg's tip). `limits` tightens fields of the hardware's `ArmLimits`. `scene` is
    a file of `sim/scenes`, for simulated arms. `defaults` overrides run options by dotted key
    (`{"agent.discount": 0.97}`).
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
        raise ConfigError(f"{kind}/{name} needs the package {error.name!r}, which is not installed here") from error


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
    return from_yaml(Hardware, _locate("hardware_configs", name, ".yaml"), name=name)


def _locate(folder: str, name: str, ending: str) -> Path:
    """The user's own file, or the one in the wheel (`robot_rl/FOLDER`) or the source tree (beside `robot_rl`)."""
    folders = [Path.cwd() / folder, PACKAGE / folder, PACKAGE.parent / folder]
    for candidate in folders:
        if (candidate / f"{name}{ending}").is_file():
            return candidate / f"{name}{ending}"
    known = {path.stem for candidate in folders for path in candidate.glob(f"*{ending}")}
    raise ConfigError(f"{folder}/{name}{ending} does not exist; there is: {nearest(name, known)}")
