"""What a task asks of an arm before it moves, and what the arm refuses.

A setting outside its range is refused, never clamped in silence: who asked for 0.5 and got 0.1 does not know what
moves. A task may tighten the hardware file's limits; it can never widen one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robot_rl.geometry import quat_conjugate, quat_multiply, quat_to_rotvec
from robot_rl.types import ArmLimits, Array, Compliance, ConfigError

LARGEST_STIFFNESS = (6000.0,) * 3 + (300.0,) * 3
LARGEST_DAMPING = (400.0,) * 3 + (30.0,) * 3
"""Ranges of serl_franka_controllers' dynamic_reconfigure [N/m, Nm/rad; Ns/m, Nms/rad]: stable at 1 kHz on a Panda."""

LARGEST_ERROR_CLIP = (0.1,) * 3 + (0.5,) * 3
"""[m, rad]; the widest that HIL-SERL's examples ask for."""

LARGEST_NULLSPACE_STIFFNESS = 100.0
LARGEST_FILTER_TIME_S = 2.0

TIGHTER_IS_SMALLER = (
    "workspace_margin_m",
    "max_reference_speed",
    "max_reference_rotation_speed",
    "max_tcp_speed",
    "max_joint_speed",
    "max_torque",
    "max_torque_rate",
    "max_force",
)


@dataclass(frozen=True)
class ArmSetup:
    """The values of a task that the arm process needs: its tool, its compliance, its limits, its leash.

    `pose_flange_tool (7,)` is the point that is controlled; the arm calls it "tcp" from then on. The leash [m], [rad]
    bounds how far a target may run ahead of the measured pose.
    """

    pose_flange_tool: Array
    compliance: Compliance
    limits: ArmLimits
    leash_translation: float
    leash_rotation: float


def check_setup(setup: ArmSetup, hardware: ArmLimits, joints: int) -> None:
    """Raise ConfigError if the arm must not run with this set-up."""
    pose = np.asarray(setup.pose_flange_tool, float)
    if pose.shape != (7,) or not np.isfinite(pose).all() or abs(np.linalg.norm(pose[3:]) - 1.0) > 1e-3:
        raise ConfigError(f"pose_flange_tool must be 7 finite numbers with a unit quaternion (xyzw), not {pose}")
    check_compliance(setup.compliance)
    check_limits(setup.limits, hardware, joints)
    _check_range("leash_translation", (setup.leash_translation,), (0.5,))
    _check_range("leash_rotation", (setup.leash_rotation,), (math.pi / 2,))


def check_compliance(compliance: Compliance) -> None:
    """Raise ConfigError unless every gain is finite, positive and within the range that is stable at 1 kHz."""
    _check_range("compliance.stiffness", compliance.stiffness, LARGEST_STIFFNESS)
    _check_range("compliance.damping", compliance.damping, LARGEST_DAMPING)
    _check_range("compliance.error_clip", compliance.error_clip, LARGEST_ERROR_CLIP)
    _check_range("compliance.filter_time_s", (compliance.filter_time_s,), (LARGEST_FILTER_TIME_S,), zero=True)
    largest = (LARGEST_NULLSPACE_STIFFNESS,)
    _check_range("compliance.nullspace_stiffness", (compliance.nullspace_stiffness,), largest, zero=True)


def check_limits(limits: ArmLimits, hardware: ArmLimits, joints: int) -> None:
    """Raise ConfigError if a limit is not a positive number, has the wrong size, or is wider than the hardware's."""
    for name in TIGHTER_IS_SMALLER:
        asked, allowed = _as_tuple(getattr(limits, name)), _as_tuple(getattr(hardware, name))
        if name in ("max_joint_speed", "max_torque") and not len(asked) == len(allowed) == joints:
            raise ConfigError(f"limits.{name} needs {joints} numbers, one per joint; it has {len(asked)}")
        _check_range(f"limits.{name}", asked, allowed, wider="a task may tighten a limit of the hardware, not widen it")
    low, high = np.asarray(limits.workspace_low), np.asarray(limits.workspace_high)
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ConfigError(f"limits.workspace_low {tuple(low)} must be below workspace_high {tuple(high)} on each axis")
    if (low < np.asarray(hardware.workspace_low)).any() or (high > np.asarray(hardware.workspace_high)).any():
        raise ConfigError(
            f"the workspace {tuple(low)} to {tuple(high)} is wider than the hardware's {hardware.workspace_low} to "
            f"{hardware.workspace_high}; a task may tighten a limit of the hardware, not widen it"
        )
    turn = quat_multiply(quat_conjugate(np.array(hardware.workspace_quat)), np.array(limits.workspace_quat))
    reach = float(np.linalg.norm(quat_to_rotvec(turn))) + limits.workspace_angle
    allowed_angle = hardware.workspace_angle + 1e-9
    _check_range("limits.workspace_angle (with the turn of workspace_quat)", (reach,), (allowed_angle,))


def _as_tuple(value: float | Sequence[float]) -> tuple[float, ...]:
    return tuple(value) if isinstance(value, Sequence) else (value,)


def _check_range(
    name: str, values: Sequence[float], largest: Sequence[float], *, zero: bool = False, wider: str = ""
) -> None:
    if len(values) != len(largest):
        raise ConfigError(f"{name} needs {len(largest)} numbers; it has {len(values)}")
    for index, (value, limit) in enumerate(zip(values, largest, strict=True)):
        if not math.isfinite(value) or value < 0.0 or (value == 0.0 and not zero) or value > limit:
            where = f"{name}[{index}]" if len(values) > 1 else name
            lowest = "0 <=" if zero else "0 <"
            raise ConfigError(f"{where} is {value}; allowed: {lowest} value <= {limit}{'; ' + wider if wider else ''}")
