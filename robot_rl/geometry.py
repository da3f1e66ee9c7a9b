"""Rigid-body geometry in plain loops, compiled once and used by every process.

Conventions, everywhere in this project: SI units; quaternions are xyzw and unit; a pose is `(7,)`,
translation then quaternion; `pose_a_b` is the pose of frame b expressed in frame a, so poses chain
as `pose_a_c = a_b * b_c`; a rotation vector is axis times angle [rad]; a twist or wrench is `(6,)`,
linear part first.

The functions are compiled with numba because the 1 kHz loop calls them; they take and return
float64 arrays.
"""

import math

import numpy as np

from robot_rl.machine.compiled import njit

IDENTITY = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])


@njit
def quat_multiply(a, b):
    """Hamilton product `a * b`: the rotation b, then the rotation a."""
    return np.array([
        a[3] * b[0] + a[0] * b[3] + a[1] * b[2] - a[2] * b[1],
        a[3] * b[1] - a[0] * b[2] + a[1] * b[3] + a[2] * b[0],
        a[3] * b[2] + a[0] * b[1] - a[1] * b[0] + a[2] * b[3],
        a[3] * b[3] - a[0] * b[0] - a[1] * b[1] - a[2] * b[2],
    ])


@njit
def quat_conjugate(a):
    """Inverse rotation of a unit quaternion."""
    return np.array([-a[0], -a[1], -a[2], a[3]])


@njit
def quat_rotate(a, v):
    """Rotate the vector `v (3,)` by the unit quaternion `a`."""
    tx = 2.0 * (a[1] * v[2] - a[2] * v[1])
    ty = 2.0 * (a[2] * v[0] - a[0] * v[2])
    tz = 2.0 * (a[0] * v[1] - a[1] * v[0])
    return np.array([
        v[0] + a[3] * tx + a[1] * tz - a[2] * ty,
        v[1] + a[3] * ty + a[2] * tx - a[0] * tz,
        v[2] + a[3] * tz + a[0] * ty - a[1] * tx,
    ])


@njit
def quat_normalize(a):
    """Unit quaternion along `a`."""
    n = math.sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2] + a[3] * a[3])
    return np.array([a[0] / n, a[1] / n, a[2] / n, a[3] / n])


@njit
def quat_from_rotvec(r):
    """Unit quaternion of a rotation vector `(3,)` [rad]."""
    angle = math.sqrt(r[0] * r[0] + r[1] * r[1] + r[2] * r[2])
    # sin(x/2)/x by its series near zero, where the quotient loses digits
    s = math.sin(0.5 * angle) / angle if angle > 1e-8 else 0.5 - angle * angle / 48.0
    return np.array([s * r[0], s * r[1], s * r[2], math.cos(0.5 * angle)])


@njit
def quat_to_rotvec(a):
    """Rotation vector `(3,)` [rad] of a unit quaternion, with angle in [0, pi]: the full angle, on
    the short way.
    """
    sign = 1.0 if a[3] >= 0.0 else -1.0
    n = math.sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2])
    s = sign * 2.0 * math.atan2(n, sign * a[3]) / n if n > 1e-8 else sign * 2.0
    return np.array([s * a[0], s * a[1], s * a[2]])


@njit
def quat_from_matrix(R):
    """Unit quaternion of a rotation matrix `(3, 3)` (Shepperd's method: the largest component
    first).
    """
    trace = R[0, 0] + R[1, 1] + R[2, 2]
    if trace > R[0, 0] and trace > R[1, 1] and trace > R[2, 2]:
        q = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1], 1.0 + trace])
    elif R[0, 0] > R[1, 1] and R[0, 0] > R[2, 2]:
        q = np.array([
            1.0 + 2.0 * R[0, 0] - trace,
            R[1, 0] + R[0, 1],
            R[2, 0] + R[0, 2],
            R[2, 1] - R[1, 2],
        ])
    elif R[1, 1] > R[2, 2]:
        q = np.array([
            R[1, 0] + R[0, 1],
            1.0 + 2.0 * R[1, 1] - trace,
            R[2, 1] + R[1, 2],
            R[0, 2] - R[2, 0],
        ])
    else:
        q = np.array([
            R[2, 0] + R[0, 2],
            R[2, 1] + R[1, 2],
            1.0 + 2.0 * R[2, 2] - trace,
            R[1, 0] - R[0, 1],
        ])
    return quat_normalize(q)


@njit
def quat_to_matrix(a):
    """Rotation matrix `(3, 3)` of a unit quaternion."""
    x, y, z, w = a[0], a[1], a[2], a[3]
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ])


def pose_from_vector(vector):
    """Pose `(7,)` of a translation [m] and rotation vector [rad] `(6,)`, as observations hold it."""
    vector = np.asarray(vector, np.float64)
    return np.concatenate((vector[:3], quat_from_rotvec(vector[3:])))


@njit
def pose_multiply(pose_a_b, pose_b_c):
    """Chain two poses: `pose_a_c (7,)`."""
    out = np.empty(7)
    out[:3] = pose_a_b[:3] + quat_rotate(pose_a_b[3:], pose_b_c[:3])
    out[3:] = quat_normalize(quat_multiply(pose_a_b[3:], pose_b_c[3:]))
    return out


@njit
def pose_inverse(pose_a_b):
    """`pose_b_a (7,)`."""
    out = np.empty(7)
    out[3:] = quat_conjugate(pose_a_b[3:])
    out[:3] = -quat_rotate(out[3:], pose_a_b[:3])
    return out


@njit
def pose_move(pose, delta):
    """Move a pose by `delta (6,)` (translation [m], rotation vector [rad]) given in the pose's own
    frame.

    Translation and rotation act side by side on the frame's origin and its axes: a pure translation
    leaves the orientation alone, a pure rotation leaves the origin in place (no adjoint, no lever
    arm).
    """
    out = np.empty(7)
    out[:3] = pose[:3] + quat_rotate(pose[3:], delta[:3])
    out[3:] = quat_normalize(quat_multiply(pose[3:], quat_from_rotvec(delta[3:])))
    return out


@njit
def pose_delta(pose_from, pose_to):
    """The `delta (6,)` with `pose_move(pose_from, delta) == pose_to`."""
    inverse = quat_conjugate(pose_from[3:])
    out = np.empty(6)
    out[:3] = quat_rotate(inverse, pose_to[:3] - pose_from[:3])
    out[3:] = quat_to_rotvec(quat_multiply(inverse, pose_to[3:]))
    return out


@njit
def pose_error(pose_from, pose_to):
    """Error `(6,)` from one pose to another in the base frame: translation [m], full-angle rotation
    vector [rad].
    """
    out = np.empty(6)
    out[:3] = pose_to[:3] - pose_from[:3]
    out[3:] = quat_to_rotvec(quat_multiply(pose_to[3:], quat_conjugate(pose_from[3:])))
    return out


@njit
def rotate_spatial(quat, vector):
    """Express a twist or wrench `(6,)` in other axes at the same point: `diag(R, R)`, no lever arm."""
    out = np.empty(6)
    out[:3] = quat_rotate(quat, vector[:3])
    out[3:] = quat_rotate(quat, vector[3:])
    return out


@njit
def clip_norm(vector, limit):
    """`vector (3,)` shortened to length `limit` if it is longer; the direction stays."""
    n = math.sqrt(vector[0] * vector[0] + vector[1] * vector[1] + vector[2] * vector[2])
    scale = limit / n if n > limit else 1.0
    return np.array([vector[0] * scale, vector[1] * scale, vector[2] * scale])


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
    squared = np.empty((6, 6))
    for i in range(6):
        for j in range(i + 1):
            s = damping if i == j else 0.0
            for k in range(jacobian.shape[1]):
                s += jacobian[i, k] * jacobian[j, k]
            squared[i, j] = s
    return solve_positive(squared, vector)


@njit
def solve_positive(A, b):
    """Solve `A x = b` for `x (n,)`: Cholesky, of the lower half of a positive definite `A (n, n)`."""
    n = b.shape[0]
    L = np.empty((n, n))
    x = np.empty(n)
    for i in range(n):
        for j in range(i + 1):
            s = A[i, j]
            for k in range(j):
                s -= L[i, k] * L[j, k]
            L[i, j] = math.sqrt(max(s, 1e-12)) if i == j else s / L[j, j]
        s = b[i]
        for k in range(i):
            s -= L[i, k] * x[k]
        x[i] = s / L[i, i]
    for i in range(n - 1, -1, -1):
        s = x[i]
        for k in range(i + 1, n):
            s -= L[k, i] * x[k]
        x[i] = s / L[i, i]
    return x
