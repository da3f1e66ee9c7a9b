"""The control law: Cartesian impedance with a clipped pose error, as pure functions that run in
about a microsecond.

The law is that of serl_franka_controllers (CartesianImpedanceController), with one difference: the
rotation error is the full rotation vector, where SERL takes the vector part of the error
quaternion, which is sin(angle / 2). The rotational stiffness therefore acts fully here; a SERL
setting of 150 Nm/rad is felt as 75 Nm/rad there.

Plain loops, no `@` and no `np.linalg`, which numba would hand to scipy. Compiled once per machine
(`cache=True`).
"""

import math

import numpy as np

from robot_rl.geometry import (
    pose_error,
    quat_from_rotvec,
    quat_multiply,
    quat_normalize,
    solve_damped,
    twist_of,
)
from robot_rl.machine.compiled import njit

STIFFNESS, DAMPING, CLIP_PLUS, CLIP_MINUS, INTEGRAL = range(5)
"""Rows of `gains (5, 6)`: [N/m, Nm/rad], [Ns/m, Nms/rad], twice [m, rad], [N/(m s), Nm/(rad s)];
base axes.
"""

JOINT_CLIP = 0.05
"""Joint-space moves and holds: [rad] of lag at most, so that a blocked joint presses with stiffness
x clip at most.
"""

LARGEST_POSTURE_PULL = 3.0
"""[Nm] on each joint, whatever the posture and its stiffness: an elbow that is far from it comes at
half a rad/s at most (the pull is damped with 2 sqrt(kn)), and a hand in its way is not squeezed."""

NULLSPACE_DAMPING = 1e-3
"""Damping d of the pseudo-inverse of J^T in the posture projector. serl_franka_controllers has 0.04
beside a posture stiffness of 0.2; beside the 10 Nm/rad here that much damping lets the posture
through to the tool (2 mm, 0.015 rad)."""


@njit
def joint_way(jacobian, error):
    """The smallest change of joint angles `(n,)` [rad] that moves the tool by `error (6,)`: damped
    least squares.
    """
    y = solve_damped(jacobian, error, NULLSPACE_DAMPING)
    way = np.zeros(jacobian.shape[1])
    for j in range(jacobian.shape[1]):
        for i in range(6):
            way[j] += jacobian[i, j] * y[i]
    return way


@njit
def spring_force(error, integral, gains):
    """Static force `(6,)` [N, Nm] for a pose error `(6,)` and what an `integral (6,)` adds to it.

    Bounded on each axis by `K clip`, whatever comes in: the sum as well as the spring alone.
    """
    force = np.empty(6)
    for i in range(6):
        low, high = -gains[CLIP_MINUS, i], gains[CLIP_PLUS, i]
        K = gains[STIFFNESS, i]
        force[i] = min(max(K * min(max(error[i], low), high) + integral[i], K * low), K * high)
    return force


@njit
def integrate(integral, error, gains, dt):
    """The next integral force `(6,)` [N, Nm]: it grows with the clipped error, and never beyond
    what has effect.

    Anti-windup by clamping: with the spring's own share it stays within `K clip`, so that it
    unwinds at once.
    """
    out = np.zeros(6)
    for i in range(6):
        if gains[INTEGRAL, i] > 0.0:
            low, high = -gains[CLIP_MINUS, i], gains[CLIP_PLUS, i]
            K = gains[STIFFNESS, i]
            e = min(max(error[i], low), high)
            out[i] = min(
                max(integral[i] + gains[INTEGRAL, i] * e * dt, K * (low - e)), K * (high - e)
            )
    return out


@njit
def impedance_torque(
    q, dq, coriolis, pose, jacobian, reference, posture, gains, nullspace_stiffness, integral
):
    """Joint torques `(n,)` [Nm] that pull the tool to `reference` like a damped spring of bounded
    force.

    ```
    e   = clip(reference - pose, -clip_minus, clip_plus)  per axis; rotation as a full-angle rotation vector, base axes
    F   = clip(K e + integral, -K clip_minus, K clip_plus) - D (J dq)
    v   = clip(kn (posture - q), 3 Nm) - 2 sqrt(kn) dq    critically damped pull towards the posture
    tau = J^T F + (I - J^T (J J^T + d I)^-1 J) v + c
    ```
    The static force on each axis is at most `K clip`, with the `integral (6,)` [N, Nm] in it.
    Gravity is not: the arm compensates that itself. Source: serl_franka_controllers; the projector
    is its damped SVD, written as a 6x6 solve.
    """
    n = q.shape[0]
    spring = spring_force(pose_error(pose, reference), integral, gains)
    twist = twist_of(jacobian, dq)
    pull = np.empty(n)
    damping = 2.0 * math.sqrt(nullspace_stiffness)
    for j in range(n):
        spring_j = nullspace_stiffness * (posture[j] - q[j])
        pull[j] = min(max(spring_j, -LARGEST_POSTURE_PULL), LARGEST_POSTURE_PULL) - damping * dq[j]
    leaked = solve_damped(jacobian, twist_of(jacobian, pull), NULLSPACE_DAMPING)
    force = np.empty(6)
    for i in range(6):
        force[i] = spring[i] - gains[DAMPING, i] * twist[i] - leaked[i]
    tau = np.empty(n)
    for j in range(n):
        s = pull[j] + coriolis[j]
        for i in range(6):
            s += jacobian[i, j] * force[i]
        tau[j] = s
    return tau


@njit
def joint_torque(q, dq, coriolis, reference, reference_speed, joint_gains):
    """Joint torques `(n,)` [Nm] that pull each joint to `reference (n,)`: `K clip(q_r - q) + D
    (dq_r - dq) + c`.

    The first two rows of `joint_gains` are stiffness [Nm/rad] and damping [Nms/rad]; the clip is
    `JOINT_CLIP`.
    """
    tau = np.empty(q.shape[0])
    for j in range(q.shape[0]):
        e = min(max(reference[j] - q[j], -JOINT_CLIP), JOINT_CLIP)
        tau[j] = (
            joint_gains[0, j] * e + joint_gains[1, j] * (reference_speed[j] - dq[j]) + coriolis[j]
        )
    return tau


@njit
def minimum_jerk(phase):
    """Share of the way and its derivative by the phase, for a phase in [0, 1] (Flash and Hogan
    1985).
    """
    s = min(max(phase, 0.0), 1.0)
    return s * s * s * (10.0 + s * (6.0 * s - 15.0)), 30.0 * s * s * (1.0 - s) * (1.0 - s)


PEAK_OF_MINIMUM_JERK = 1.875
"""Its largest speed, over its mean speed."""


@njit
def filter_reference(reference, target, gain, max_step, max_angle):
    """Next reference pose `(7,)`: a first-order filter towards the target, with bounded speed.

    `gain` is `1 - exp(-dt / filter_time_s)`; a tick moves at most `max_step` [m] and turns
    `max_angle` [rad], on the straight line and on the shortest rotation (slerp).
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
