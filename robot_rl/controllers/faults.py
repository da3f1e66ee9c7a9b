"""The faults of an arm in words: what was measured, and what is allowed; and what may be tared
away.
"""

import math
from collections.abc import Sequence

import numpy as np

from robot_rl.controllers import safety
from robot_rl.controllers.kinematics import body_clearance
from robot_rl.controllers.neighbours import FAULT_M
from robot_rl.controllers.outline import separation
from robot_rl.controllers.tick_values import Bounds, Measured
from robot_rl.types import ArmDriverError, ArmLimits, Array, Capsule, DeviceError, Fault

LARGEST_TARE = (20.0, 5.0)
"""[N], [Nm]: what a wrongly stated load explains. More than that is something that the tool
touches.
"""


def check_tare(wrench: Array) -> None:
    """Raise DeviceError if a `wrench (6,)` is more than a wrong load explains: the tool touches
    something.
    """
    force, moment = safety.norm(wrench, 0), safety.norm(wrench, 3)
    if force > LARGEST_TARE[0] or moment > LARGEST_TARE[1]:
        raise DeviceError(
            f"the wrench cannot be tared: the tool feels {force:.1f} N, {moment:.1f} Nm; allowed:"
            f" {LARGEST_TARE[0]:g} N, {LARGEST_TARE[1]:g} Nm. Does it touch something? Is `load` of"
            " the hardware file right?"
        )


def explain(
    fault: Fault,
    now: Measured,
    felt: Array,
    limits: ArmLimits,
    bounds: Bounds,
    bodies: Sequence[Capsule],
    outline: Sequence[Capsule],
    neighbours: Sequence[str],
) -> str:
    """The latched fault in words, with the wrench `felt (6,)` on the tool; empty for NONE and the
    driver's own. `bodies` and `outline` are those of the `bounds`; so are the names of the
    `neighbours`.
    """
    if fault == Fault.NEIGHBOUR:
        return explain_neighbour(now.q, bounds, outline, neighbours)
    if fault == Fault.BODY:
        _, which = body_clearance(
            now.q, bounds.chain, bounds.capsules, bounds.room, bounds.keep_out
        )
        return (
            f"its {bodies[which].name} was found in a keep-out box, or outside body_low to"
            " body_high"
        )
    own = [
        safety.own_speed(now.q, i, math.copysign(1.0, now.dq[i]), bounds.joints)
        for i in range(len(now.q))
    ]
    fastest = np.maximum(np.minimum(own, limits.max_joint_speed), 1e-3)
    j = int(np.argmax(np.abs(now.dq) / fastest))
    k = int(
        np.argmax(
            np.maximum(np.array(limits.joint_low) - now.q, now.q - np.array(limits.joint_high))
        )
    )
    at = ", ".join(f"{x:.3f}" for x in now.pose[:3])
    words = {
        Fault.STATE_NOT_FINITE: "the arm measured something that is not a finite number",
        Fault.TORQUE_NOT_FINITE: (
            "its law came to torques that are not finite: see the task's compliance and tool"
        ),
        Fault.JOINT_SPEED: (
            f"joint {j + 1} moved at {abs(now.dq[j]):.2f} rad/s; limit {fastest[j]:.3g}"
        ),
        Fault.JOINT_POSITION: (
            f"joint {k + 1} is at {now.q[k]:.3f} rad; its range is {limits.joint_low[k]:g} to "
            f"{limits.joint_high[k]:g}"
        ),
        Fault.TCP_SPEED: (
            f"the tool moved at {safety.norm(now.twist, 0):.2f} m/s; limit {limits.max_tcp_speed:g}"
        ),
        Fault.TCP_ROTATION_SPEED: (
            f"the tool turned at {safety.norm(now.twist, 3):.2f} rad/s; limit "
            f"{limits.max_tcp_rotation_speed:g}"
        ),
        Fault.WORKSPACE: f"the tool was found at ({at}) m, outside the workspace and its margin",
        Fault.KEEP_OUT: f"the tool was found at ({at}) m, inside a keep-out box",
        Fault.FORCE: f"{safety.norm(felt, 0):.1f} N on the tool; limit {limits.max_force:g}",
        Fault.MOMENT: f"{safety.norm(felt, 3):.1f} Nm on the tool; limit {limits.max_moment:g}",
    }
    return words.get(fault, "")


def explain_neighbour(
    q: Array, bounds: Bounds, outline: Sequence[Capsule], neighbours: Sequence[str]
) -> str:
    """Which part of an arm is near to what of another, and how near."""
    distances, _, which = separation(q, bounds.chain, bounds.outline, bounds.neighbours)
    k = int(np.argmin(distances))
    if not math.isfinite(distances[k]):
        return "it was found too near to another arm"
    return (
        f"its {outline[k].name} was found {1000.0 * distances[k]:.0f} mm from"
        f" {neighbours[which[k]]}; limit {1000.0 * FAULT_M:g} mm"
    )


def fault_of(error: DeviceError) -> Fault:
    """Which fault an error of the driver is."""
    return error.fault if isinstance(error, ArmDriverError) else Fault.DRIVER
