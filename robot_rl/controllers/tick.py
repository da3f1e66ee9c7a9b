"""One tick of control, compiled: state, reference, law, limits, and the row of the black box."""

import numpy as np

from robot_rl.controllers import safety
from robot_rl.controllers.hold import begin_retreat_into, hold_torque
from robot_rl.controllers.impedance import (
    INTEGRAL,
    filter_reference,
    impedance_torque,
    integrate,
    joint_way,
)
from robot_rl.controllers.joint_move import LOOK_AHEAD_S, joint_move_torque
from robot_rl.controllers.kinematics import body_clearance
from robot_rl.controllers.law import SPARE_S, SPRINT, Law, blend_into
from robot_rl.controllers.neighbours import (
    FAULT_M,
    hold_back_into,
    keep_off,
)
from robot_rl.controllers.outline import NEAR_M, separation
from robot_rl.controllers.tick_values import (
    HOLD,
    JOINTS,
    MODE,
    RETREATED,
    VERDICT,
    Bounds,
    Control,
    Measured,
    begin_hold_into,
)
from robot_rl.geometry import pose_error
from robot_rl.machine.compiled import njit
from robot_rl.types import Array

GUARD_M = 0.02
"""From so near on a guarded body slows down what brings it nearer [m]."""


@njit
def control_into(
    control: Control,
    law: Law,
    bounds: Bounds,
    now: Measured,
    latched: int,
    times: Array,
    row: Array,
) -> int:
    """One tick of control: check the state, move the reference, write the next torques into
    `control.tau`.

    Returns the fault code. A new fault makes the arm hold, or back away from a hard blow; while one
    is latched nothing else is checked but the blow, and that the numbers are numbers. A hold needs
    angles and speeds of the joints alone: it goes on when the rest of a state is no number. Without
    these two the torques fade to zero, the arm's own gravity compensation is all that is left, and
    the first state that is one is what is held. With `law.follows` the arm's own controller follows
    `control.reference`, and torques are nobody's. What the law makes of sound numbers and comes out
    as none is a fault, too: the joints' damping brakes then, and no later tick starts from it. All
    that a tick knows goes into `row`, for the black box.
    """
    flags, last = control.flags, control.reference.copy()
    if not safety.all_finite(control.tau):  # of a driver that does not know the torques in force
        control.tau[:] = 0.0
    measured = safety.all_finite(now.q) and safety.all_finite(now.dq)
    whole = measured and is_whole(now)
    if whole:
        for i in range(6):
            control.slow[i] += law.tare_gain * (now.wrench[i] - control.slow[i])
            control.felt[i] = now.wrench[i] - control.tare[i]

    # is all well?
    code, clearance = latched, np.inf
    if measured:
        clearance, _ = body_clearance(
            now.q, bounds.chain, bounds.capsules, bounds.room, bounds.keep_out
        )
    distances, slopes, _ = separation(now.q, bounds.chain, bounds.outline, bounds.neighbours)
    apart = distances.min()
    if latched == safety.NONE:
        code = (
            find_fault(control.felt, bounds, now, clearance, apart)
            if whole
            else safety.STATE_NOT_FINITE
        )
        if code != safety.NONE:
            begin_hold_into(control)
    if np.isnan(apart) and flags[MODE] != HOLD:  # a neighbour that may be anywhere
        flags[VERDICT] |= safety.KEPT_OFF
        begin_hold_into(control)
    force, moment = safety.norm(control.felt, 0), safety.norm(control.felt, 3)
    hard = force > bounds.retreat[0] or moment > bounds.retreat[1]
    if whole and hard and code != safety.NONE and flags[RETREATED] == 0:
        begin_retreat_into(control, bounds, now)

    # gains on their way
    blend_into(law)

    # the law
    if flags[MODE] == HOLD:
        wanted = hold_torque(control, law, bounds, now, measured, whole)
    elif flags[MODE] == JOINTS:
        wanted = joint_move_torque(control, law, bounds, now, distances, slopes)
    else:
        wanted = pose_torque(control, law, bounds, now, clearance, distances, slopes)
    if flags[MODE] != HOLD and apart < NEAR_M and hold_back_into(wanted, now, distances, slopes):
        flags[VERDICT] |= safety.KEPT_OFF

    # the limits of the joints
    if measured:
        flags[VERDICT] |= safety.brake_joints_into(
            wanted, now.q, now.dq, bounds.joints, bounds.joint_margin, bounds.joint_speed_margin
        )
    lost = law.follows and whole and not safety.pose_is_valid(control.reference)
    if lost or not safety.all_finite(wanted):
        if code == safety.NONE:
            code = safety.TORQUE_NOT_FINITE
        begin_hold_into(control)
        control.target[:] = last
        control.reference[:] = last
        wanted = -law.joint_gains[1] * now.dq if measured else np.zeros(now.q.shape[0])
    control.tau[:] = safety.limit_torque(wanted, control.tau, bounds.joints, bounds.torque_step)
    flags[VERDICT] |= safety.torque_verdict(wanted, control.tau, bounds.joints)
    record_into(row, times, code, control, now)
    return code


@njit
def is_whole(now: Measured) -> bool:
    """Whether every number of a state is one, beside the joints' angles and speeds."""
    numbers = (
        safety.pose_is_valid(now.pose)
        and safety.all_finite(now.wrench)
        and safety.all_finite(now.coriolis)
    )
    numbers = numbers and safety.all_finite(now.twist) and safety.all_finite(now.jacobian.ravel())
    return numbers and safety.all_finite(now.mass.ravel())


@njit
def find_fault(felt: Array, bounds: Bounds, now: Measured, clearance: float, apart: float) -> int:
    """The `Fault` code that a whole state deserves; `apart` [m] is how far the neighbours are."""
    code = safety.check_joints(now.q, now.dq, bounds.joints, bounds.joint_slack)
    if code == safety.NONE:
        code = safety.check_tool(
            now.twist, now.pose, felt, bounds.workspace, bounds.keep_out,
            bounds.margin, bounds.slack[:2], bounds.speeds, bounds.forces,
        )  # fmt: skip
    if code == safety.NONE and clearance < -bounds.slack[2]:
        code = safety.BODY
    if code == safety.NONE and apart < FAULT_M - bounds.slack[3]:
        code = safety.NEIGHBOUR
    return code


@njit
def advance_into(reference: Array, spare: Array, target: Array, law: Law) -> bool:
    """Move the reference on by a tick, towards the target; whether that is slower than its filter
    would have it. `spare (2,)` [m, rad] is what it may make up for, and is then left.
    """
    before = reference.copy()
    step = min(law.step + spare[0], SPRINT * law.step)
    angle = min(law.angle + spare[1], SPRINT * law.angle)
    reference[:] = filter_reference(reference, target, law.filter, step, angle)
    moved = pose_error(before, reference)
    gone, turned = safety.norm(moved, 0), safety.norm(moved, 3)
    saved = SPARE_S / law.dt
    spare[0] = max(0.0, min(spare[0] + law.step - gone, saved * law.step))
    spare[1] = max(0.0, min(spare[1] + law.angle - turned, saved * law.angle))
    return gone >= (1.0 - 1e-6) * step or turned >= (1.0 - 1e-6) * angle


@njit
def pose_torque(
    control: Control,
    law: Law,
    bounds: Bounds,
    now: Measured,
    clearance: float,
    distances: Array,
    slopes: Array,
) -> Array:
    """The torques `(n,)` that pull the tool to the reference, which moves on by a tick."""
    reference, flags, before = control.reference, control.flags, control.reference.copy()
    if advance_into(reference, control.spare, control.target, law):
        flags[VERDICT] |= safety.SLOWED
    if bounds.keep_out.shape[0] > 0:
        allowed = safety.stay_out(reference, before, bounds.keep_out)
        if safety.differ(allowed, reference, 0, 3):
            flags[VERDICT] |= safety.KEPT_OUT
            reference[:] = allowed

    # slower towards what a guarded body comes near, not at all towards what it touches
    nullspace = law.nullspace[0]
    if clearance < GUARD_M:
        nearer = now.q + LOOK_AHEAD_S / law.dt * joint_way(
            now.jacobian, pose_error(before, reference)
        )
        then, _ = body_clearance(
            nearer, bounds.chain, bounds.capsules, bounds.room, bounds.keep_out
        )
        share = min(max(clearance, 0.0) / GUARD_M, 1.0)
        nullspace *= share
        if then < clearance:
            flags[VERDICT] |= safety.GUARDED
            reference[:] = filter_reference(before, reference, share, np.inf, np.inf)

    # slower towards a neighbour, and no nearer than a margin
    if distances.min() < NEAR_M:
        allowed, bound = keep_off(reference, before, now, distances, slopes, law.dt, law.follows)
        if bound:
            flags[VERDICT] |= safety.KEPT_OFF
            reference[:] = allowed

    integral = control.integral
    integral[:] = integrate(integral, pose_error(now.pose, reference), law.gains, law.dt)
    for i in range(6):
        if law.gains_goal[INTEGRAL, i] == 0.0:  # what it has wound up goes with its gain
            integral[i] *= 1.0 - law.blend
    return impedance_torque(
        now.q,
        now.dq,
        now.coriolis,
        now.pose,
        now.jacobian,
        reference,
        law.posture,
        law.gains,
        nullspace,
        integral,
    )


@njit
def record_into(row: Array, times: Array, fault: int, control: Control, now: Measured) -> None:
    """Fill a row of the black box, in the order of `recorder.columns`."""
    flags = control.flags
    row[:4] = times
    row[4] = fault
    row[5] = flags[VERDICT]
    row[6] = flags[MODE]
    row[7] = 1.0 if flags[MODE] == HOLD else 0.0
    n, at = now.q.shape[0], 8
    for values in (now.q, now.dq, control.tau):
        row[at : at + n] = values
        at += n
    for values in (now.pose, control.target, control.reference):
        row[at : at + 7] = values
        at += 7
    row[at : at + 6] = control.felt
    row[at + 6 : at + 12] = now.twist
