"""A Franka's matrices as this project's poses, wrenches and Jacobians, and its torques on their
way; compiled.
"""

import math

import numpy as np

from robot_rl.geometry import (
    pose_inverse,
    pose_multiply,
    quat_from_matrix,
    quat_rotate,
    quat_to_matrix,
    quat_to_rotvec,
)
from robot_rl.machine.compiled import njit
from robot_rl.types import Array

TICK_S = 0.001
TORQUE_STEP = 0.999
"""Largest change of a torque per tick [Nm]: the robot's 1000 Nm/s, less the rounding of its float32
states.
"""

IDENTITY = tuple(np.eye(4).ravel())


@njit
def pose_of(columns: Array) -> Array:
    """A pose `(7,)` of a homogeneous matrix `(16,)`, column by column."""
    out = np.empty(7)
    out[:3] = columns[12:15]
    out[3:] = quat_from_matrix(np.ascontiguousarray(columns.reshape(4, 4)[:3, :3].T))
    return out


@njit
def measure_into(
    pose: Array,
    wrench: Array,
    jacobian: Array,
    O_T_EE: Array,
    K_F_ext: Array,
    jacobian_ee: Array,
    pose_ee_tool: Array,
    pose_ee_k: Array,
) -> None:
    """Pose `(7,)` of the tool, the wrench `(6,)` on it and its Jacobian `(6, n)`, all in base axes.

    From the robot's matrix and Jacobian `(n, 6)` (transposed) of its end effector, and its estimate
    in its stiffness frame K; where tool and K are, seen from that end effector. The robot's sign of
    a wrench is that of what the arm does to its surroundings; ours that of what they do to the
    tool.
    """
    pose_base_ee = pose_of(O_T_EE)
    pose[:] = pose_multiply(pose_base_ee, pose_ee_tool)
    k = pose_multiply(pose_base_ee, pose_ee_k)
    force, moment = -quat_rotate(k[3:], K_F_ext[:3]), -quat_rotate(k[3:], K_F_ext[3:])
    wrench[:3] = force
    wrench[3:] = moment + np.cross(k[:3] - pose[:3], force)
    lever = pose[:3] - pose_base_ee[:3]
    for j in range(jacobian.shape[1]):
        jacobian[:3, j] = jacobian_ee[j, :3] + np.cross(jacobian_ee[j, 3:], lever)
        jacobian[3:, j] = jacobian_ee[j, 3:]


@njit
def smooth_into(out: Array, tau: Array, last: Array, share: float) -> None:
    """Torques on the way from those that the robot took last to those that are wanted: a low-pass,
    then `TORQUE_STEP`.

    The filter's state is what the robot says was in force, so that lost packets leave nothing
    behind in it.

    Why there is one: damping multiplies the noise of dq. 0.01 rad/s of white noise through 30
    Nms/rad is a torque that jumps by 0.4 Nm (rms) each millisecond, which heats motors and is
    heard. First order at 100 Hz, libfranka's own default for controllers that it runs itself, takes
    over 47 % of each step: 2.7 times less torque rate.

    What it costs is a lag of 1.6 ms. Where the Cartesian law's damping balances inertia, at 30
    rad/s (89 Ns/m on 3 kg), that is 3 of 90 degrees of phase. Pure joint damping is faster: over a
    table the axes of joints 1 and 3 are nearly in line, and the simulated arm turns between them at
    400 rad/s with 50 Nms/rad, at 800 with 100. With the filter the first stands two further ticks
    of delay (three without), the second one (one).
    """
    for j in range(tau.shape[0]):
        step = share * (tau[j] - last[j])
        out[j] = last[j] + min(max(step, -TORQUE_STEP), TORQUE_STEP)


def share_per_tick(cutoff_hz: float) -> float:
    """What a first-order low-pass takes over per millisecond: all of it, if there is none (0 Hz)."""
    return 1.0 - math.exp(-2.0 * math.pi * cutoff_hz * TICK_S) if cutoff_hz > 0.0 else 1.0


def distance(a: Array, b: Array) -> tuple[float, float]:
    """How far two poses `(7,)` are from one another: [rad], [m]."""
    between = pose_multiply(pose_inverse(a), b)
    return float(np.linalg.norm(quat_to_rotvec(between[3:]))), float(np.linalg.norm(between[:3]))


def matrix_of(pose: Array) -> list[float]:
    """A pose `(7,)` as a homogeneous matrix, column by column."""
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = quat_to_matrix(pose[3:]), pose[:3]
    return list(matrix.T.ravel())
