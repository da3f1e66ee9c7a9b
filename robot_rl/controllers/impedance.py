"""The control law: Cartesian impedance with a clipped pose error, as pure functions that run in about a microsecond.

The law is that of serl_franka_controllers (CartesianImpedanceController), with one difference: the rotation error is
the full rotation vector, where SERL takes the vector part of the error quaternion, which is sin(angle / 2). The
rotational stiffness therefore acts fully here; a SERL setting of 150 Nm/rad is felt as 75 Nm/rad there.

Plain loops, no `@` and no `np.linalg`, which numba would hand to scipy. Compiled once per machine (`cache=True`).
"""

import math

import numpy as np

from robot_rl.compiled import njit
from robot_rl.geometry import pose_error, quat_from_rotvec, quat_multiply, quat_normalize

STIFFNESS, DAMPING, ERROR_CLIP = 0, 1, 2
"""Rows of `gains (3, 6)`: [N/m, Nm/rad], [Ns/m, Nms/rad], [m, rad], per axis of the base frame."""

NULLSPACE_DAMPING = 1e-3
"""Damping d of the pseudo-inverse of J^T in the posture projector. serl_franka_controllers has 0.04 beside a posture
stiffness of 0.2; beside the 10 Nm/rad here that much damping lets the posture through to the tool (2 mm, 0.015 rad)."""


@njit
def twist_of(jacobian, dq):
    """Twist `J dq (6,)` of the tool in base axes, from the measured joint speeds."""
    twist = np.zeros(6)
    for i in range(6):
        for j in range(dq.shape[0]):
            twist[i] += jacobian[i, j] * dq[j]
    return twist


@njit
def solve_damped(jacobian, vector, damping):
    """Solve `(J J^T + damping I) y = vector` for `y (6,)`, by a Cholesky factorisation in place.

    With `vector = J v` this is the damped pseudo-inverse of J^T applied to joint torques v.
    """
    n = jacobian.shape[1]
    L = np.empty((6, 6))
    y = np.empty(6)
    for i in range(6):
        for j in range(i + 1):
            s = damping if i == j else 0.0
            for k in range(n):
                s += jacobian[i, k] * jacobian[j, k]
            for k in range(j):
                s -= L[i, k] * L[j, k]
            L[i, j] = math.sqrt(s) if i == j else s / L[j, j]
        s = vector[i]
        for k in range(i):
            s -= L[i, k] * y[k]
        y[i] = s / L[i, i]
    for i in range(5, -1, -1):
        s = y[i]
        for k in range(i + 1, 6):
            s -= L[k, i] * y[k]
        y[i] = s / L[i, i]
    return y


@njit
def impedance_torque(q, dq, coriolis, pose, jacobian, reference, posture, gains, nullspace_stiffness):
    """Joint torques `(n,)` [Nm] that pull the tool to `reference` like a damped spring of bounded force.

    ```
    e   = clip(reference - pose, -clip, clip)            per axis; rotation as a full-angle rotation vector, base axes
    F   = K e - D (J dq)
    v   = kn (posture - q) - 2 sqrt(kn) dq               critically damped pull towards the posture
    tau = J^T F + (I - J^T (J J^T + d I)^-1 J) v + c
    ```
    The static force on each axis is at most `K clip`. Gravity is not in it: the arm compensates that itself.
    Source: serl_franka_controllers; the projector is its damped SVD, written as a 6x6 solve.
    """
    n = q.shape[0]
    error = pose_error(pose, reference)
    twist = twist_of(jacobian, dq)
    pull = np.empty(n)
    damping = 2.0 * math.sqrt(nullspace_stiffness)
    for j in range(n):
        pull[j] = nullspace_stiffness * (posture[j] - q[j]) - damping * dq[j]
    leaked = solve_damped(jacobian, twist_of(jacobian, pull), NULLSPACE_DAMPING)
    force = np.empty(6)
    for i in range(6):
        e = min(max(error[i], -gains[ERROR_CLIP, i]), gains[ERROR_CLIP, i])
        force[i] = gains[STIFFNESS, i] * e - gains[DAMPING, i] * twist[i] - leaked[i]
    tau = np.empty(n)
    for j in range(n):
        s = pull[j] + coriolis[j]
        for i in range(6):
            s += jacobian[i, j] * force[i]
        tau[j] = s
    return tau


@njit
def filter_reference(reference, target, gain, max_step, max_angle):
    """Next reference pose `(7,)`: a first-order filter towards the target, with bounded speed.

    `gain` is `1 - exp(-dt / filter_time_s)`; a tick moves at most `max_step` [m] and turns `max_angle` [rad], on the
    straight line and on the shortest rotation (slerp).
    """
    error = pose_error(reference, target)
    distance = math.sqrt(error[0] ** 2 + error[1] ** 2 + error[2] ** 2)
    angle = math.sqrt(error[3] ** 2 + error[4] ** 2 + error[5] ** 2)
    s = gain if gain * distance <= max_step else max_step / distance
    r = gain if gain * angle <= max_angle else max_angle / angle
    out = np.empty(7)
    for i in range(3):
        out[i] = reference[i] + s * error[i]
    out[3:] = quat_normalize(quat_multiply(quat_from_rotvec(r * error[3:]), reference[3:]))
    return out
