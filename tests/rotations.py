"""Rotations as MuJoCo has them, in C: what ours are compared with. Quaternions are x, y, z, w."""

import mujoco
import numpy as np

from robot_rl.types import Array


def quat_of(rotvec: Array) -> Array:
    """The quaternion `(4,)` of a rotation vector `(3,)` [rad]."""
    found, angle = np.zeros(4), float(np.linalg.norm(rotvec))
    mujoco.mju_axisAngle2Quat(found, rotvec / angle if angle else np.array([1.0, 0.0, 0.0]), angle)
    return _xyzw(found)


def rotvec_of(quat: Array) -> Array:
    """The rotation vector `(3,)` of a quaternion, on the short way [rad]."""
    found = np.zeros(3)
    mujoco.mju_quat2Vel(found, _wxyz(quat), 1.0)
    return found


def matrix_of(quat: Array) -> Array:
    """The matrix `(3, 3)` of a quaternion."""
    found = np.zeros(9)
    mujoco.mju_quat2Mat(found, _wxyz(quat))
    return found.reshape(3, 3)


def turn_between(a: Array, b: Array) -> Array:
    """The quaternion that turns `a` into `b`, in the frame in which both are given."""
    back, found = np.zeros(4), np.zeros(4)
    mujoco.mju_negQuat(back, _wxyz(a))
    mujoco.mju_mulQuat(found, _wxyz(b), back)
    return _xyzw(found)


def _wxyz(quat: Array) -> Array:
    unit = quat / np.linalg.norm(quat)
    return unit[[3, 0, 1, 2]]


def _xyzw(quat: Array) -> Array:
    return quat[[1, 2, 3, 0]]
