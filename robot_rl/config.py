"""Task and hardware files: what they hold, where they are found, and how a mistake in them is reported.

A task file is typed Python (`tasks/NAME.py` with `TASK = Task(...)`), a hardware file validated YAML
(`hardware_configs/NAME.yaml`). Both folders are looked for in the working directory first, then inside the package.
Spaces follow from the two files, without opening anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from robot_rl.types import ArmLimits, Compliance, Use

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
