"""The limits below everything that learns: pure functions of a tick, with no exceptions for anyone.

A target is moved onto the leash, into the workspace and out of the keep-out boxes, a joint is
braked before its limits, a torque is clipped in size and in rate: what was done to a command is its
verdict. A measured state outside its limits latches a fault. The same numbers bind the policy, the
human and the reset.
"""

import math

import numpy as np

from robot_rl.geometry import (
    clip_norm,
    pose_error,
    quat_conjugate,
    quat_from_rotvec,
    quat_multiply,
    quat_normalize,
    quat_to_rotvec,
)
from robot_rl.machine.compiled import njit
from robot_rl.types import Fault, LimitFlags

NONE = int(Fault.NONE)
STATE_NOT_FINITE = int(Fault.STATE_NOT_FINITE)
JOINT_POSITION = int(Fault.JOINT_POSITION)
JOINT_SPEED = int(Fault.JOINT_SPEED)
TCP_SPEED = int(Fault.TCP_SPEED)
TCP_ROTATION_SPEED = int(Fault.TCP_ROTATION_SPEED)
WORKSPACE = int(Fault.WORKSPACE)
KEEP_OUT = int(Fault.KEEP_OUT)
FORCE = int(Fault.FORCE)
MOMENT = int(Fault.MOMENT)
BODY = int(Fault.BODY)
NEIGHBOUR = int(Fault.NEIGHBOUR)
TORQUE_NOT_FINITE = int(Fault.TORQUE_NOT_FINITE)

LEASHED = int(LimitFlags.LEASH)
BOXED = int(LimitFlags.WORKSPACE)
TURNED = int(LimitFlags.ORIENTATION)
KEPT_OUT = int(LimitFlags.KEEP_OUT)
SLOWED = int(LimitFlags.SPEED)
BRAKED = int(LimitFlags.JOINTS)
TORQUE_CLIPPED = int(LimitFlags.TORQUE)
TORQUE_RATE_CLIPPED = int(LimitFlags.TORQUE_RATE)
RETREATING = int(LimitFlags.RETREAT)
GUARDED = int(LimitFlags.BODY)
KEPT_OFF = int(LimitFlags.NEIGHBOUR)

LARGEST = 1e9
"""In SI units, of any angle, speed, pose, force, torque or inertia: no arm comes near it, and
neither squares nor sums of numbers up to it leave the range of float64."""

LOW, HIGH = 0, 1
"""Rows of a box `(2, 3)` [m]: its corners in the base frame."""

SPEED, TORQUE, JOINT_LOW, JOINT_HIGH, OWN_LOW, OWN_HIGH, OFFSET, DECELERATION = range(8)
"""Rows of `joint_limits (8, n)`: largest joint speed [rad/s], torque [Nm], the joint's range [rad];
then what the arm itself allows, its range [rad] and how its speeds fall towards the ends of that
(`ArmFacts`; deceleration 0: they do not)."""

OWN_SHARE = 0.8
"""Of the speed that the arm itself allows near the end of a range: faster, and the joint is braked."""

OWN_TOLERANCE = 0.02
"""[rad/s] beyond that speed are no fault yet: at the very end of a range it is zero, and noise is
not.
"""

BOX_SHARE = 0.2
"""Of the thickness of a keep-out box: found deeper inside, it is a fault, however large the margin
is.
"""

FULL_BRAKE = 0.5
"""Brakes: full torque for a joint that is so much faster than it may be [rad/s]. A wrist (12 Nm,
0.1 to 0.3 kg m^2) then slows down with a time constant of 4 to 12 ms: stable at 1 kHz, quick enough
for a margin of 0.1 rad at 2 rad/s."""


@njit
def all_finite(values):
    """Whether every number of a flat array is finite, and no larger than anything that an arm
    measures or is told.
    """
    for i in range(values.shape[0]):  # noqa: SIM110 (numba does not compile all() of a generator)
        if not abs(values[i]) <= LARGEST:  # false of NaN as well
            return False
    return True


@njit
def pose_is_valid(pose):
    """Whether `pose (7,)` is finite and its quaternion close enough to unit to be meant as a
    rotation.
    """
    if not all_finite(pose):
        return False
    norm = math.sqrt(pose[3] ** 2 + pose[4] ** 2 + pose[5] ** 2 + pose[6] ** 2)
    return 0.9 < norm < 1.1


@njit
def clip_to_workspace(pose, box, middle_quat, cone):
    """The nearest pose inside the workspace: position in the box, orientation within the `cone`
    about `middle_quat`.
    """
    out = np.empty(7)
    for i in range(3):
        out[i] = min(max(pose[i], box[LOW, i]), box[HIGH, i])
    away = clip_to_cone(quat_multiply(quat_conjugate(middle_quat), pose[3:]), cone)
    out[3:] = quat_normalize(quat_multiply(middle_quat, away))
    return out


@njit
def clip_to_cone(away, cone):
    """A rotation, a unit quaternion, within `cone (2,)`: the largest angle [rad], or, if the second
    is not 0, the largest tilt of the z axis and the largest turn about it.
    """
    if cone[1] == 0.0:
        return quat_from_rotvec(clip_norm(quat_to_rotvec(away), cone[0]))
    # first the turn about z, then the tilt (swing and twist); the sign has the turn within pi
    sign = 1.0 if away[3] >= 0.0 else -1.0
    turn = 2.0 * math.atan2(sign * away[2], sign * away[3])
    about_z = quat_from_rotvec(np.array([0.0, 0.0, turn]))
    tilt = clip_norm(quat_to_rotvec(quat_multiply(away, quat_conjugate(about_z))), cone[0])
    turn = min(max(turn, -cone[1]), cone[1])
    return quat_multiply(quat_from_rotvec(tilt), quat_from_rotvec(np.array([0.0, 0.0, turn])))


@njit
def clip_to_leash(pose, measured, translation, rotation):
    """The target `pose`, pulled back to within `translation` [m] and `rotation` [rad] of the
    measured pose.
    """
    error = pose_error(measured, pose)
    out = np.empty(7)
    out[:3] = measured[:3] + clip_norm(error[:3], translation)
    out[3:] = quat_normalize(
        quat_multiply(quat_from_rotvec(clip_norm(error[3:], rotation)), measured[3:])
    )
    return out


@njit
def depth_inside(position, box):
    """How deep [m] a position lies inside a box, to its nearest face; negative outside."""
    depth = np.inf
    for i in range(3):
        depth = min(depth, position[i] - box[LOW, i], box[HIGH, i] - position[i])
    return depth


@njit
def stay_out(pose, before, boxes):
    """The pose, stopped at the faces of the keep-out `boxes (k, 2, 3)` through which it would have
    come from `before`.

    It slides along a face. From inside a box (it was measured there) it may only go less deep.
    Since a coordinate is only ever pulled back towards the one before, a pose inside the workspace
    stays inside.
    """
    out = pose.copy()
    for _ in range(2):  # pulled out of one box it may lie in another
        for k in range(boxes.shape[0]):
            box = boxes[k]
            if depth_inside(out, box) <= 0.0:
                continue
            if depth_inside(before, box) > 0.0:
                if depth_inside(out, box) > depth_inside(before, box):
                    out[:3] = before[:3]
                continue
            best = np.inf
            axis, face = 0, 0.0
            for i in range(3):
                if before[i] <= box[LOW, i] and out[i] - box[LOW, i] < best:
                    best, axis, face = out[i] - box[LOW, i], i, box[LOW, i]
                if before[i] >= box[HIGH, i] and box[HIGH, i] - out[i] < best:
                    best, axis, face = box[HIGH, i] - out[i], i, box[HIGH, i]
            out[axis] = face
    for k in range(boxes.shape[0]):
        if depth_inside(out, boxes[k]) > max(depth_inside(before, boxes[k]), 0.0):
            out[:3] = before[:3]
    return out


@njit
def differ(a, b, first, last):
    """Whether two arrays differ between two indices by more than rounding."""
    for i in range(first, last):  # noqa: SIM110 (numba does not compile any() of a generator)
        if abs(a[i] - b[i]) > 1e-9:
            return True
    return False


@njit
def is_beyond(pose, origin, distance):
    """Whether a pose is further from `origin` than `distance (2,)` [m, rad]."""
    error = pose_error(origin, pose)
    return norm(error, 0) > distance[0] or norm(error, 3) > distance[1]


@njit
def limit_target(pose, measured, reference, reach, leash, box, boxes, middle_quat, cone):
    """A valid target `(7,)` made allowed, and what had to be done for it (`LimitFlags` bits).

    In this order: within `reach (2,)` [m, rad] of the reference, which is how far it goes until the
    next target, so that it does not run after targets that are over; onto the leash `(2,)` [m, rad]
    of the measured pose, into the workspace, out of the keep-out boxes on the side where the
    reference is. What comes out is inside the last two, whatever went in.
    """
    bits = 0
    if is_beyond(pose, reference, reach):
        pose = clip_to_leash(pose, reference, reach[0], reach[1])
        bits |= SLOWED
    leashed = clip_to_leash(pose, measured, leash[0], leash[1])
    if is_beyond(pose, measured, leash):
        bits |= LEASHED
    inside = clip_to_workspace(leashed, box, middle_quat, cone)
    if differ(inside, leashed, 0, 3):
        bits |= BOXED
    if differ(pose_error(inside, leashed), np.zeros(6), 3, 6):
        bits |= TURNED
    out = inside
    if boxes.shape[0] > 0:
        out = stay_out(inside, reference, boxes)
        if differ(out, inside, 0, 3):
            bits |= KEPT_OUT
    return out, bits


@njit
def own_speed(q, j, side, joint_limits):
    """The speed [rad/s] that the arm itself allows joint j towards a side (-1, 1), as its angle has
    it.
    """
    if joint_limits[DECELERATION, j] <= 0.0:
        return np.inf
    room = joint_limits[OWN_HIGH, j] - q[j] if side > 0.0 else q[j] - joint_limits[OWN_LOW, j]
    return max(
        math.sqrt(2.0 * joint_limits[DECELERATION, j] * max(room, 0.0)) - joint_limits[OFFSET, j],
        0.0,
    )


@njit
def brake_joints_into(tau, q, dq, joint_limits, margin, speed_margin):
    """Keep joints off their limits, in place on the torques `(n,)`; returns the `LimitFlags` bits.

    The speed that a joint may have towards a limit falls from its limit less `speed_margin` to zero
    over the last `margin` [rad] (a velocity damper: Faverjon and Tournassoud 1987); faster, and it
    is braked. Towards the limit it may push with the same share of its torque, at the limit not at
    all.
    """
    bits = 0
    for j in range(tau.shape[0]):
        largest, free = joint_limits[TORQUE, j], joint_limits[SPEED, j] - speed_margin
        for side in (-1.0, 1.0):
            room = (
                joint_limits[JOINT_HIGH, j] - q[j]
                if side > 0.0
                else q[j] - joint_limits[JOINT_LOW, j]
            )
            share = 1.0 if room >= margin else max(room, 0.0) / margin
            over = side * dq[j] - min(share * free, OWN_SHARE * own_speed(q, j, side, joint_limits))
            wanted = side * tau[j]
            if share < 1.0 and wanted > share * largest:
                wanted = share * largest
            if over > 0.0:
                wanted = min(wanted, 0.0) - largest / FULL_BRAKE * over
            if wanted != side * tau[j]:
                tau[j] = side * wanted
                bits = BRAKED
    return bits


@njit
def limit_torque(wanted, last, joint_limits, max_step):
    """Torques `(n,)` [Nm] within the joints' limits and within `max_step` [Nm] of the last tick's
    torques.
    """
    out = np.empty(wanted.shape[0])
    for j in range(wanted.shape[0]):
        tau = min(max(wanted[j], -joint_limits[TORQUE, j]), joint_limits[TORQUE, j])
        out[j] = last[j] + min(max(tau - last[j], -max_step), max_step)
    return out


@njit
def torque_verdict(wanted, out, joint_limits):
    """The `LimitFlags` bits of `limit_torque`."""
    bits = 0
    for j in range(wanted.shape[0]):
        clipped = min(max(wanted[j], -joint_limits[TORQUE, j]), joint_limits[TORQUE, j])
        if clipped != wanted[j]:
            bits |= TORQUE_CLIPPED
        if abs(clipped - out[j]) > 1e-9:
            bits |= TORQUE_RATE_CLIPPED
    return bits


@njit
def outside_workspace(position, box):
    """How far [m] a position lies outside the box, on the worst axis; negative inside."""
    worst = -np.inf
    for i in range(3):
        worst = max(worst, box[LOW, i] - position[i], position[i] - box[HIGH, i])
    return worst


@njit
def norm(vector, first):
    """Length of three numbers of a twist or wrench, from `first` on."""
    return math.sqrt(vector[first] ** 2 + vector[first + 1] ** 2 + vector[first + 2] ** 2)


@njit
def check_joints(q, dq, joint_limits, slack):
    """The `Fault` code of the joints; `slack (n,)` [rad] is how far beyond its range each may be
    (an excursion).
    """
    for j in range(dq.shape[0]):
        own = own_speed(q, j, 1.0 if dq[j] > 0.0 else -1.0, joint_limits) + OWN_TOLERANCE
        if abs(dq[j]) > min(joint_limits[SPEED, j], own):
            return JOINT_SPEED
        if (
            q[j] < joint_limits[JOINT_LOW, j] - slack[j]
            or q[j] > joint_limits[JOINT_HIGH, j] + slack[j]
        ):
            return JOINT_POSITION
    return NONE


@njit
def too_deep(position, boxes, margin):
    """How much deeper [m] a position is inside one of the keep-out boxes than it may be measured;
    negative: it is not.

    That is the margin, but no more than a share of the box's thickness: a thin wall is a wall, too.
    """
    worst = -np.inf
    for k in range(boxes.shape[0]):
        allowed = margin
        for i in range(3):
            allowed = min(allowed, BOX_SHARE * (boxes[k, HIGH, i] - boxes[k, LOW, i]))
        worst = max(worst, depth_inside(position, boxes[k]) - allowed)
    return worst


@njit
def check_tool(twist, pose, wrench, box, boxes, margin, slack, speeds, forces):
    """The `Fault` code that the tool's measured state deserves, `NONE` if all is well.

    `margin` [m] is how far outside the box, and inside a keep-out box, the tool may be measured,
    `slack (2,)` [m] how much further than that, in an excursion; the orientation has no margin of
    its own, since the target's is clipped. `speeds (2,)` [m/s, rad/s], `forces (2,)` [N, Nm].
    """
    if norm(twist, 0) > speeds[0]:
        return TCP_SPEED
    if norm(twist, 3) > speeds[1]:
        return TCP_ROTATION_SPEED
    if outside_workspace(pose, box) > margin + slack[0]:
        return WORKSPACE
    if too_deep(pose, boxes, margin) > slack[1]:
        return KEEP_OUT
    if norm(wrench, 0) > forces[0]:
        return FORCE
    if norm(wrench, 3) > forces[1]:
        return MOMENT
    return NONE


@njit
def retreat_from(pose, wrench, distance, box, boxes, middle_quat, cone):
    """The pose `distance` [m] away from what presses on the tool: along the force of `wrench (6,)`."""
    force = norm(wrench, 0)
    away = pose.copy()
    if force > 1.0:
        away[:3] += distance / force * wrench[:3]
    return stay_out(clip_to_workspace(away, box, middle_quat, cone), pose, boxes)
