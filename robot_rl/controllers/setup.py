"""What a task asks of an arm before it moves, and what the arm refuses.

A setting outside its range is refused, never clamped in silence: who asked for 0.5 and got 0.1 does not know what
moves. A task may tighten the hardware file's limits; it can never widen one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from robot_rl.clock import ClockKind
from robot_rl.config import ArmConfig, find
from robot_rl.limits import require_tighter
from robot_rl.types import ArmLimits, Array, Compliance, ConfigError, JointTarget, Use

LARGEST_STIFFNESS = (6000.0,) * 3 + (300.0,) * 3
LARGEST_DAMPING = (400.0,) * 3 + (30.0,) * 3
"""Ranges of serl_franka_controllers' dynamic_reconfigure [N/m, Nm/rad; Ns/m, Nms/rad]: stable at 1 kHz on a Panda."""

LARGEST_ERROR_CLIP = (0.1,) * 3 + (0.5,) * 3
"""[m, rad]; the widest that HIL-SERL's examples ask for."""

LARGEST_INTEGRAL = (10_000.0,) * 3 + (500.0,) * 3
"""[N/(m s), Nm/(rad s)]: a few tenths of a second to the largest static force."""

DEFAULT_LEASH = (0.02, 0.15)
"""[m], [rad]: what binds targets where no task says otherwise."""

LARGEST_NULLSPACE_STIFFNESS = 100.0
LARGEST_FILTER_TIME_S = 2.0


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


def open_driver(config: ArmConfig, scene: Use | None, clock: ClockKind) -> Any:
    """Open the arm of a hardware file with its driver, and tell it its load. A driver may want to know the clock."""
    kind = find("controllers/arms", config.driver).Arm
    arm = kind(config, scene, clock) if "clock" in signature(kind).parameters else kind(config, scene)
    if config.load is not None and hasattr(arm, "set_load"):
        arm.set_load(config.load)
    return arm


def check_setup(setup: ArmSetup, hardware: ArmLimits, joints: int) -> None:
    """Raise ConfigError if the arm must not run with this set-up."""
    pose = np.asarray(setup.pose_flange_tool, float)
    if pose.shape != (7,) or not np.isfinite(pose).all() or abs(np.linalg.norm(pose[3:]) - 1.0) > 1e-3:
        raise ConfigError(f"pose_flange_tool must be 7 finite numbers with a unit quaternion (xyzw), not {pose}")
    check_compliance(setup.compliance, joints)
    require_tighter(hardware, setup.limits)
    _check_range("leash_translation", (setup.leash_translation,), (0.5,))
    _check_range("leash_rotation", (setup.leash_rotation,), (math.pi / 2,))


def check_compliance(compliance: Compliance, joints: int) -> None:
    """Raise ConfigError unless every gain is finite, positive and within the range that is stable at 1 kHz."""
    _check_range("compliance.stiffness", compliance.stiffness, LARGEST_STIFFNESS)
    _check_range("compliance.damping", compliance.damping, LARGEST_DAMPING)
    _check_range("compliance.error_clip", compliance.error_clip, LARGEST_ERROR_CLIP)
    if compliance.error_clip_minus:
        _check_range("compliance.error_clip_minus", compliance.error_clip_minus, LARGEST_ERROR_CLIP)
    _check_range("compliance.integral", compliance.integral, LARGEST_INTEGRAL, zero=True)
    _check_range("compliance.filter_time_s", (compliance.filter_time_s,), (LARGEST_FILTER_TIME_S,), zero=True)
    _check_range("compliance.gain_time_s", (compliance.gain_time_s,), (LARGEST_FILTER_TIME_S,), zero=True)
    largest = (LARGEST_NULLSPACE_STIFFNESS,)
    _check_range("compliance.nullspace_stiffness", (compliance.nullspace_stiffness,), largest, zero=True)
    if compliance.posture and (len(compliance.posture) != joints or not all(map(math.isfinite, compliance.posture))):
        raise ConfigError(
            f"compliance.posture is {compliance.posture}; it must be {joints} joint angles [rad], or empty"
        )


def check_joint_target(target: JointTarget, limits: ArmLimits) -> None:
    """Raise ConfigError for a posture that the limits do not allow, or a speed that is none."""
    joints = len(limits.joint_low)
    if len(target.q) != joints:
        raise ConfigError(f"a joint target needs {joints} angles [rad]; it has {len(target.q)}")
    for joint, (q, low, high) in enumerate(zip(target.q, limits.joint_low, limits.joint_high, strict=True)):
        low, high = low + limits.joint_margin, high - limits.joint_margin
        if not low <= q <= high:
            raise ConfigError(f"joint {joint + 1} cannot go to {q:.4g} rad; allowed: {low:.4g} to {high:.4g}")
    _check_range("speed", (target.speed,), (min(limits.max_joint_speed) - limits.joint_speed_margin,))


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
