"""The limits below everything that learns: pure functions of a tick, with no exceptions for anyone.

A target is moved into the workspace and onto the leash, a torque is clipped in size and in rate; a measured state
outside its limits latches a fault. The same numbers bind the policy, the human and the reset.
"""

import math

import numpy as np

from robot_rl.compiled import njit
from robot_rl.geometry import (
    clip_norm,
    pose_error,
    quat_conjugate,
    quat_from_rotvec,
    quat_multiply,
    quat_normalize,
    quat_to_rotvec,
)
from robot_rl.types import Fault

NONE = int(Fault.NONE)
STATE_NOT_FINITE = int(Fault.STATE_NOT_FINITE)
JOINT_SPEED = int(Fault.JOINT_SPEED)
TCP_SPEED = int(Fault.TCP_SPEED)
WORKSPACE = int(Fault.WORKSPACE)
FORCE = int(Fault.FORCE)

LOW, HIGH = 0, 1
"""Rows of `box (2, 3)` [m]: the corners of the workspace in the base frame."""

SPEED, TORQUE = 0, 1
"""Rows of `joint_limits (2, n)`: largest joint speed [rad/s] and torque [Nm]."""


@njit
def all_finite(values):
    """Whether every number of a flat array is finite."""
    for i in range(values.shape[0]):  # noqa: SIM110 (numba does not compile all() of a generator)
        if not math.isfinite(values[i]):
            return False
    return True


@njit
def pose_is_valid(pose):
    """Whether `pose (7,)` is finite and its quaternion close enough to unit to be meant as a rotation."""
    if not all_finite(pose):
        return False
    norm = math.sqrt(pose[3] ** 2 + pose[4] ** 2 + pose[5] ** 2 + pose[6] ** 2)
    return 0.9 < norm < 1.1


@njit
def clip_to_workspace(pose, box, middle_quat, angle):
    """The nearest pose inside the workspace: position in the box, orientation within `angle` of `middle_quat`."""
    out = np.empty(7)
    for i in range(3):
        out[i] = min(max(pose[i], box[LOW, i]), box[HIGH, i])
    away = quat_to_rotvec(quat_multiply(quat_conjugate(middle_quat), pose[3:]))
    out[3:] = quat_normalize(quat_multiply(middle_quat, quat_from_rotvec(clip_norm(away, angle))))
    return out


@njit
def clip_to_leash(pose, measured, translation, rotation):
    """The target `pose`, pulled back to within `translation` [m] and `rotation` [rad] of the measured pose."""
    error = pose_error(measured, pose)
    out = np.empty(7)
    out[:3] = measured[:3] + clip_norm(error[:3], translation)
    out[3:] = quat_normalize(quat_multiply(quat_from_rotvec(clip_norm(error[3:], rotation)), measured[3:]))
    return out


@njit
def limit_torque(wanted, last, joint_limits, max_step):
    """Torques `(n,)` [Nm] within the joints' limits and within `max_step` [Nm] of the last tick's torques."""
    out = np.empty(wanted.shape[0])
    for j in range(wanted.shape[0]):
        tau = min(max(wanted[j], -joint_limits[TORQUE, j]), joint_limits[TORQUE, j])
        out[j] = last[j] + min(max(tau - last[j], -max_step), max_step)
    return out


@njit
def outside_workspace(position, box):
    """How far [m] a position lies outside the box, on the worst axis; negative inside."""
    worst = -np.inf
    for i in range(3):
        worst = max(worst, box[LOW, i] - position[i], position[i] - box[HIGH, i])
    return worst


@njit
def check_state(dq, twist, pose, wrench, joint_limits, box, margin, max_tcp_speed, max_force):
    """The `Fault` code that a measured state deserves, `NONE` if all is well.

    `margin` [m] is how far outside the box the tool may be measured; the orientation has no margin of its own, since
    the target's is clipped. Speeds in [rad/s] and [m/s]; `wrench` in base axes, of which the force [N] counts.
    """
    for j in range(dq.shape[0]):
        if abs(dq[j]) > joint_limits[SPEED, j]:
            return JOINT_SPEED
    if math.sqrt(twist[0] ** 2 + twist[1] ** 2 + twist[2] ** 2) > max_tcp_speed:
        return TCP_SPEED
    if outside_workspace(pose, box) > margin:
        return WORKSPACE
    if math.sqrt(wrench[0] ** 2 + wrench[1] ** 2 + wrench[2] ** 2) > max_force:
        return FORCE
    return NONE
