"""What a task asks of an arm before it moves, and what the arm refuses.

A setting outside its range is refused, never clamped in silence: who asked for 0.5 and got 0.1 does
not know what moves. A task may tighten the hardware file's limits; it can never widen one.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_rl.config import ArmConfig, Hardware, Task, arms_by_process, driver, make, scene_of
from robot_rl.config.compliance import compliance_problems, leash_problems
from robot_rl.config.kinds import make_options
from robot_rl.config.limits import require_tighter
from robot_rl.config.ranges import Range, beyond
from robot_rl.interfaces import Arm, Given
from robot_rl.machine.clock import ClockKind
from robot_rl.machine.validation import Problem, dotted
from robot_rl.types import ArmLimits, Array, Compliance, ConfigError, JointTarget, Use

DEFAULT_LEASH = (0.02, 0.15)
"""[m], [rad]: what binds targets where no task says otherwise."""


TOOL_LENGTH = Range(0.0, 1.0, "m")
"""From the flange to the point that is controlled. What is longer is no tool of an arm that reaches
0.9 m.
"""


@dataclass(frozen=True)
class ArmSetup:
    """The values of a task that the arm process needs: its tool, its compliance, its limits, its
    leash.

    `pose_flange_tool (7,)` is the point that is controlled; the arm calls it "tcp" from then on.
    The leash [m], [rad] bounds how far a target may run ahead of the measured pose.
    """

    pose_flange_tool: Array
    compliance: Compliance
    limits: ArmLimits
    leash_translation: float
    leash_rotation: float


def open_driver(config: ArmConfig, scene: Use | None = None, clock: ClockKind = "real") -> Any:
    """Open the arm of a hardware file with its driver, and tell it its load."""
    return open_drivers([config], scene, clock)[0]


def open_drivers(
    configs: Sequence[ArmConfig], scene: Use | None = None, clock: ClockKind = "real"
) -> list[Any]:
    """The same of the arms that one process has: one, or those that stand in one world."""
    uses = [Use(config.driver, config.options) for config in configs]
    given = [Given(name=it.name, arm=it, scene=scene, clock=clock) for it in configs]
    arms: list[Arm]
    if len(configs) == 1:
        arms = [make("controllers/arms", uses[0], given[0])]
    else:
        options = [
            make_options("controllers/arms", use, it.name)
            for use, it in zip(uses, given, strict=True)
        ]
        arms = driver("controllers/arms", uses[0].name).together(
            list(zip(options, given, strict=True))
        )
    for arm, config in zip(arms, configs, strict=True):
        if config.load is not None:
            arm.set_load(config.load)
    return arms


def open_in_company(arm: ArmConfig, hardware: Hardware, task: Task | None) -> Any:
    """Open an arm of a bench, perhaps changed since, for this process alone; a simulated one comes
    with the others of its world.
    """
    processes = arms_by_process(hardware)
    names = next(names for arms in processes if arm.name in (names := [it.name for it in arms]))
    there = [arm if it.name == arm.name else it for it in hardware.arms if it.name in names]
    return open_drivers(there, scene_of(task, hardware))[names.index(arm.name)]


def check_setup(setup: ArmSetup, hardware: ArmLimits, joints: int) -> None:
    """Raise ConfigError if the arm must not run with this set-up."""
    pose = np.asarray(setup.pose_flange_tool, float)
    if (
        pose.shape != (7,)
        or not np.isfinite(pose).all()
        or not abs(math.hypot(*pose[3:]) - 1.0) <= 1e-3
    ):
        raise ConfigError(
            f"pose_flange_tool must be 7 finite numbers with a unit quaternion (xyzw), not {pose}"
        )
    _require(beyond(("pose_flange_tool",), math.hypot(*pose[:3]), TOOL_LENGTH))
    require_tighter(hardware, setup.limits)
    check_compliance(setup.compliance, joints, setup.limits)
    _require(leash_problems(setup.leash_translation, setup.leash_rotation))


def check_compliance(compliance: Compliance, joints: int, limits: ArmLimits | None = None) -> None:
    """Raise ConfigError unless every gain is in the range that is stable at 1 kHz, and damps what
    it pulls.

    With the limits in force, it also presses no harder than what stops the arm, and pulls its elbow
    no further than the joints go.
    """
    if compliance.posture and len(compliance.posture) != joints:
        raise ConfigError(
            f"compliance.posture needs {joints} joint angles [rad]; it has"
            f" {len(compliance.posture)}"
        )
    _require(
        (("compliance", *place), message)
        for place, message in compliance_problems(compliance, limits)
    )


def check_joint_target(target: JointTarget, limits: ArmLimits) -> None:
    """Raise ConfigError for a posture that the limits do not allow, or a speed that is none."""
    joints = len(limits.joint_low)
    if len(target.q) != joints:
        raise ConfigError(f"a joint target needs {joints} angles [rad]; it has {len(target.q)}")
    for joint, (q, low, high) in enumerate(
        zip(target.q, limits.joint_low, limits.joint_high, strict=True)
    ):
        low, high = low + limits.joint_margin, high - limits.joint_margin
        if not low <= q <= high:
            raise ConfigError(
                f"joint {joint + 1} cannot go to {q:.4g} rad; allowed: {low:.4g} to {high:.4g}"
            )
    fastest = min(limits.max_joint_speed) - limits.joint_speed_margin
    _require(beyond(("speed",), target.speed, Range(0.0, fastest, "rad/s", above=True)))


def _require(problems: Iterable[Problem]) -> None:
    """Raise ConfigError with every problem, if there are any."""
    if lines := [f"{dotted(place)}{message}" for place, message in problems]:
        raise ConfigError("\n".join(lines))
