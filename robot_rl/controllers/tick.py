"""One tick of control, compiled: state, reference, law, limits, and the row of the black box.

`loop.py` owns the buffers that are handed in here; the constants name their entries.
"""

import numpy as np

from robot_rl.compiled import njit
from robot_rl.controllers import safety
from robot_rl.controllers.impedance import (
    INTEGRAL,
    JOINT_CLIP,
    filter_reference,
    impedance_torque,
    integrate,
    joint_torque,
    joint_way,
    minimum_jerk,
    solve_positive,
    twist_of,
)
from robot_rl.controllers.kinematics import body_clearance
from robot_rl.geometry import pose_error
from robot_rl.types import Array

TICK_S = 0.001
"""Of a loop that its driver does not give another period (`Arm.tick_s`)."""

(
    DT, FILTER, STEP, ANGLE, NULLSPACE, NULLSPACE_GOAL, BLEND, TARE_GAIN,
    MARGIN, WORKSPACE_SLACK, BOX_SLACK, BODY_SLACK, TCP_SPEED, TCP_ROTATION_SPEED, FORCE, MOMENT,
    RETREAT_FORCE, RETREAT_MOMENT, RETREAT_M, TORQUE_STEP, JOINT_MARGIN, SPEED_MARGIN, CONE,
) = range(23)  # fmt: skip
"""Entries of `scalars`: period of a tick [s], filter gain per tick, largest reference step [m] and turn [rad] per tick,
nullspace stiffness now and soon, share of a new gain taken over per tick, gain of the tare's filter; margin of the
workspace and of keep-out boxes [m], and how much further than that an acknowledged excursion still is: outside the
workspace, in a box, of a body; then limits as in `ArmLimits`."""

FELT, SLOW, TARE = range(3)
"""Rows of `wrenches (3, 6)`: measured less the tare; measured, filtered; the tare."""

MODE, VERDICT, RETREATED, LOCKED, BRAKING = range(5)
"""Entries of `flags (5,)`, integers: the last two are of a hold, whether it has a posture to hold yet, and for how many
ticks it has braked."""

POSE, JOINTS, WRENCH, HOLD = range(4)
"""Modes: what the last command was, and so which law is in force; HOLD if none is."""

START, GOAL, NOW, SPEED = range(4)
"""Rows of `move (4, n)` [rad], [rad/s]: a joint-space move, or the posture that is held."""

PHASE, DURATION = range(2)
"""Entries of `move_clock (2,)`: how far on a joint-space move is, 0 to 1, and how long it takes [s]."""

WORKSPACE_BOX, FIRST_KEEP_OUT = 0, 1
"""`boxes (1 + k, 2, 3)`: the workspace, then what to keep out of."""

AT_REST = 0.02
BRAKE_S = 0.4
"""A hold first stops the arm, until no joint is faster than this [rad/s] or for so long [s]; then it locks the posture
that the arm has come to, so that nothing swings back."""

BRAKE_TIME_S = 0.01
"""Time constant of the brake [s]."""

LOOK_AHEAD_S = 0.06
"""A joint move looks so far ahead: what an arm at the reference's speed needs to stop."""

GUARD_M = 0.02
"""From so near on a guarded body slows down what brings it nearer [m]."""

FASTEST_RETREAT = 0.5
FARTHEST_RETREAT = 0.2
"""Of a joint, for the few centimetres of a retreat [rad/s], [rad]."""


@njit
def record_into(
    row: Array,
    times: Array,
    fault: int,
    flags: Array,
    q: Array,
    dq: Array,
    tau: Array,
    pose: Array,
    target: Array,
    reference: Array,
    wrench: Array,
    twist: Array,
) -> None:
    """Fill a row of the black box, in the order of `recorder.columns`."""
    row[:4] = times
    row[4], row[5], row[6], row[7] = fault, flags[VERDICT], flags[MODE], 1.0 if flags[MODE] == HOLD else 0.0
    n, at = q.shape[0], 8
    for values in (q, dq, tau):
        row[at : at + n] = values
        at += n
    for values in (pose, target, reference):
        row[at : at + 7] = values
        at += 7
    row[at : at + 6] = wrench
    row[at + 6 : at + 12] = twist


@njit
def next_speed(move: Array, move_clock: Array, jacobian: Array, max_speed: float, max_turn: float) -> float:
    """By which factor a joint-space move has to be slower than planned, for the tool's sake."""
    _, rate = minimum_jerk(move_clock[PHASE])
    twist = twist_of(jacobian, (move[GOAL] - move[START]) * (rate / move_clock[DURATION]))
    slow = 1.0
    if safety.norm(twist, 0) > max_speed:
        slow = max_speed / safety.norm(twist, 0)
    if safety.norm(twist, 3) * slow > max_turn:
        slow = max_turn / safety.norm(twist, 3)
    return slow


@njit
def advance_move_into(move: Array, move_clock: Array, q: Array, slow: float, dt: float) -> None:
    """One tick of a joint-space move, in place; a joint that lags is awaited."""
    for j in range(q.shape[0]):
        if abs(move[NOW, j] - q[j]) > JOINT_CLIP:
            move[SPEED] = 0.0
            return
    way = move[GOAL] - move[START]
    move_clock[PHASE] = min(move_clock[PHASE] + slow * dt / move_clock[DURATION], 1.0)
    share, rate = minimum_jerk(move_clock[PHASE])
    move[NOW] = move[START] + share * way
    move[SPEED] = (slow * rate / move_clock[DURATION]) * way


@njit
def brake_into(
    wanted: Array,
    move: Array,
    move_clock: Array,
    q: Array,
    dq: Array,
    tau: Array,
    mass: Array,
    damping: Array,
    rate: float,
) -> bool:
    """The first part of a hold: torques `wanted (n,)` that stop the arm; where it is meanwhile is what will be held.

    Every direction of the joints is damped with its own inertia, `-M v / T`, none stiffer than another. A torque falls
    no faster than at `rate` [Nm/s], and on its way to zero the one in force, `tau (n,)`, still turns the joints by
    `M^-1 tau |tau| / 2 rate`: `v` is the speed that they will have then. Without that a quick arm is thrown back.
    An inertia that is no number is done without: `damping (n,)` brakes. Returns whether the arm stands, and will.
    """
    move[START], move[GOAL], move[NOW], move[SPEED] = q, q, q, 0.0
    move_clock[PHASE] = 1.0
    if not safety.all_finite(mass.ravel()):
        wanted[:] = -damping * dq
        return np.abs(dq).max() < AT_REST
    v = dq + solve_positive(mass, tau * np.abs(tau) / (2.0 * rate))
    for j in range(q.shape[0]):
        for k in range(q.shape[0]):
            wanted[j] -= mass[j, k] * v[k] / BRAKE_TIME_S
    return max(np.abs(dq).max(), np.abs(v).max()) < AT_REST


@njit
def begin_retreat_into(
    move: Array,
    move_clock: Array,
    away: Array,
    q: Array,
    pose: Array,
    jacobian: Array,
    joint_limits: Array,
    chain: Array,
    capsules: Array,
    room: Array,
    keep_out: Array,
) -> None:
    """A held arm goes to the pose `away`, which is near, by its joints' shortest way; not if a body gets stuck."""
    change = joint_way(jacobian, pose_error(pose, away))
    goal = q.copy()
    farthest = 0.0
    for j in range(q.shape[0]):
        goal[j] += min(max(change[j], -FARTHEST_RETREAT), FARTHEST_RETREAT)
        low, high = joint_limits[safety.JOINT_LOW, j], joint_limits[safety.JOINT_HIGH, j]
        goal[j] = min(max(goal[j], min(low, q[j])), max(high, q[j]))
        farthest = max(farthest, abs(goal[j] - q[j]))
    now, _ = body_clearance(q, chain, capsules, room, keep_out)
    then, _ = body_clearance(goal, chain, capsules, room, keep_out)
    move[START], move[GOAL], move[NOW], move[SPEED] = q, q, q, 0.0
    if then >= min(now, 0.0):
        move[GOAL] = goal
    move_clock[PHASE], move_clock[DURATION] = 0.0, max(1.875 * farthest / FASTEST_RETREAT, 0.1)


@njit
def obstacle_ahead(
    q: Array,
    dq: Array,
    pose: Array,
    twist: Array,
    workspace: Array,
    keep_out: Array,
    chain: Array,
    capsules: Array,
    room: Array,
) -> int:
    """The `Verdict` bits of what an arm would leave or enter that goes on with `dq` and `twist` for `LOOK_AHEAD_S`.

    What is outside already may go on as long as it does not get further out.
    """
    at = np.empty(3)
    for part in range(1, 5):  # in steps: a thin box is no reason to jump over it
        for i in range(3):
            at[i] = pose[i] + 0.25 * part * LOOK_AHEAD_S * twist[i]
        if safety.outside_workspace(at, workspace) > max(safety.outside_workspace(pose, workspace), 0.0) + 1e-6:
            return safety.BOXED
        for k in range(keep_out.shape[0]):
            depth = safety.depth_inside(at, keep_out[k])
            if depth > max(safety.depth_inside(pose, keep_out[k]), 0.0) + 1e-6:
                return safety.KEPT_OUT
    then, _ = body_clearance(q + LOOK_AHEAD_S * dq, chain, capsules, room, keep_out)
    if then < 0.0:
        now, _ = body_clearance(q, chain, capsules, room, keep_out)
        if then < now:
            return safety.GUARDED
    return 0


@njit
def begin_hold_into(integral: Array, push: Array, flags: Array) -> None:
    """For a fault: nothing of what was wanted before is left."""
    integral[:] = 0.0
    push[:] = 0.0
    flags[MODE], flags[LOCKED], flags[BRAKING], flags[RETREATED] = HOLD, 0, 0, 0


@njit
def control_into(
    tau: Array,
    target: Array,
    reference: Array,
    integral: Array,
    push: Array,
    wrenches: Array,
    flags: Array,
    move: Array,
    move_clock: Array,
    q: Array,
    dq: Array,
    coriolis: Array,
    pose: Array,
    jacobian: Array,
    mass: Array,
    twist: Array,
    wrench: Array,
    posture: Array,
    gains: Array,
    gains_goal: Array,
    joint_gains: Array,
    joint_limits: Array,
    joint_slack: Array,
    boxes: Array,
    chain: Array,
    capsules: Array,
    room: Array,
    middle_quat: Array,
    scalars: Array,
    follows: bool,
    latched: int,
    times: Array,
    row: Array,
) -> int:
    """One tick of control: check the state, move the reference, write the next torques into `tau (n,)`.

    Returns the fault code. A new fault makes the arm hold, or back away from a hard blow; while one is latched nothing
    else is checked but the blow, and that the numbers are numbers. A hold needs angles and speeds of the joints alone:
    it goes on when the rest of a state is no number. Without these two the torques fade to zero, the arm's own gravity
    compensation is all that is left, and the first state that is one is what is held. With `follows` the arm's own
    controller follows `reference`, and torques are nobody's. What the law makes of sound numbers and comes out as none
    is a fault, too: the joints' damping brakes then, and no later tick starts from it. All that a tick knows goes into
    `row`, for the black box.
    """
    n, dt = q.shape[0], scalars[DT]
    last = reference.copy()
    if not safety.all_finite(tau):  # of a driver that does not know the torques in force
        tau[:] = 0.0
    measured = safety.all_finite(q) and safety.all_finite(dq)
    whole = measured and safety.pose_is_valid(pose) and safety.all_finite(wrench) and safety.all_finite(coriolis)
    whole = whole and safety.all_finite(twist) and safety.all_finite(jacobian.ravel())
    whole = whole and safety.all_finite(mass.ravel())
    workspace, keep_out = boxes[WORKSPACE_BOX], boxes[FIRST_KEEP_OUT:]
    felt = wrenches[FELT]
    if whole:
        for i in range(6):
            wrenches[SLOW, i] += scalars[TARE_GAIN] * (wrench[i] - wrenches[SLOW, i])
            felt[i] = wrench[i] - wrenches[TARE, i]

    # is all well?
    code = latched
    clearance, _ = body_clearance(q, chain, capsules, room, keep_out) if measured else (np.inf, -1)
    if latched == safety.NONE:
        if not whole:
            code = safety.STATE_NOT_FINITE
        else:
            code = safety.check_joints(q, dq, joint_limits, joint_slack)
        if code == safety.NONE:
            code = safety.check_tool(
                twist, pose, felt, workspace, keep_out, scalars[MARGIN],
                scalars[WORKSPACE_SLACK : BOX_SLACK + 1],
                scalars[TCP_SPEED : TCP_ROTATION_SPEED + 1], scalars[FORCE : MOMENT + 1],
            )  # fmt: skip
        if code == safety.NONE and clearance < -scalars[BODY_SLACK]:
            code = safety.BODY
        if code != safety.NONE:
            begin_hold_into(integral, push, flags)
    hard = safety.norm(felt, 0) > scalars[RETREAT_FORCE] or safety.norm(felt, 3) > scalars[RETREAT_MOMENT]
    if whole and hard and code != safety.NONE and flags[RETREATED] == 0:
        target[:] = safety.retreat_from(pose, felt, scalars[RETREAT_M], workspace, keep_out, middle_quat, scalars[CONE])
        begin_retreat_into(
            move, move_clock, target, q, pose, jacobian, joint_limits, chain, capsules, room, keep_out
        )  # fmt: skip
        flags[RETREATED], flags[LOCKED] = 1, 1
        flags[VERDICT] |= safety.RETREATING

    # gains on their way
    for r in range(gains.shape[0]):
        for i in range(6):
            gains[r, i] += scalars[BLEND] * (gains_goal[r, i] - gains[r, i])
    scalars[NULLSPACE] += scalars[BLEND] * (scalars[NULLSPACE_GOAL] - scalars[NULLSPACE])

    # the law
    wanted = np.zeros(n)
    if flags[MODE] == HOLD:
        if not measured:
            flags[LOCKED], flags[BRAKING] = 0, 0
        elif flags[LOCKED] == 0:
            stands = brake_into(wanted, move, move_clock, q, dq, tau, mass, joint_gains[1], scalars[TORQUE_STEP] / dt)
            flags[BRAKING] += 1
            if whole:
                target[:] = pose
            slow_enough = safety.norm(twist, 0) < 0.02 and safety.norm(twist, 3) < AT_REST
            if (stands and whole and slow_enough) or flags[BRAKING] * dt > BRAKE_S:
                flags[LOCKED] = 1
        else:
            move[SPEED] = 0.0
            if whole and move_clock[PHASE] < 1.0:
                slow = next_speed(move, move_clock, jacobian, scalars[STEP] / dt, scalars[ANGLE] / dt)
                advance_move_into(move, move_clock, q, slow, dt)
            wanted = joint_torque(q, dq, np.zeros(n), move[NOW], move[SPEED], joint_gains)
        if measured and safety.all_finite(coriolis):
            wanted += coriolis
        if not follows:
            reference[:] = target
        elif whole and flags[LOCKED] == 1:
            reference[:] = filter_reference(reference, target, scalars[FILTER], scalars[STEP], scalars[ANGLE])
    elif flags[MODE] == JOINTS:
        target[:] = pose
        reference[:] = pose
        slow = next_speed(move, move_clock, jacobian, scalars[STEP] / dt, scalars[ANGLE] / dt)
        _, rate = minimum_jerk(move_clock[PHASE])
        ahead = (slow * rate / move_clock[DURATION]) * (move[GOAL] - move[START])
        bits = obstacle_ahead(
            q, ahead, pose, twist_of(jacobian, ahead), workspace, keep_out, chain, capsules, room
        )  # fmt: skip
        flags[VERDICT] |= bits
        if bits != 0:
            move[SPEED] = 0.0
        else:
            advance_move_into(move, move_clock, q, slow, dt)
        wanted = joint_torque(q, dq, coriolis, move[NOW], move[SPEED], joint_gains)
    else:
        before = reference.copy()
        pushed = push.copy()
        if flags[MODE] == WRENCH:
            # a reference at the tool does not pull; a tool beyond a wall is pulled back to it
            reference[:] = safety.clip_to_workspace(pose, workspace, middle_quat, scalars[CONE])
        else:
            reference[:] = filter_reference(reference, target, scalars[FILTER], scalars[STEP], scalars[ANGLE])
            moved = pose_error(before, reference)
            slow_enough = safety.norm(moved, 0) < (1.0 - 1e-6) * scalars[STEP]
            if not (slow_enough and safety.norm(moved, 3) < (1.0 - 1e-6) * scalars[ANGLE]):
                flags[VERDICT] |= safety.SLOWED
        if keep_out.shape[0] > 0:
            allowed = safety.stay_out(reference, before, keep_out)
            if safety.differ(allowed, reference, 0, 3):
                flags[VERDICT] |= safety.KEPT_OUT
                reference[:] = allowed
        nullspace = scalars[NULLSPACE]
        if clearance < GUARD_M:
            # slower towards what a body comes near, not at all towards what it touches
            nearer = q + LOOK_AHEAD_S / dt * joint_way(jacobian, pose_error(before, reference))
            if flags[MODE] == WRENCH:
                nearer = q + LOOK_AHEAD_S * dq
            then, _ = body_clearance(nearer, chain, capsules, room, keep_out)
            share = min(max(clearance, 0.0) / GUARD_M, 1.0)
            nullspace *= share
            if then < clearance:
                flags[VERDICT] |= safety.GUARDED
                pushed *= share
                if flags[MODE] == POSE:
                    reference[:] = filter_reference(before, reference, share, np.inf, np.inf)
        if flags[MODE] == WRENCH:
            target[:] = reference
            pushed = safety.bound_push(pushed, twist, pose, reference, scalars[STEP] / dt, scalars[ANGLE] / dt)
        integral[:] = integrate(integral, pose_error(pose, reference), gains, dt)
        for i in range(6):
            if gains_goal[INTEGRAL, i] == 0.0:  # what it has wound up goes with its gain
                integral[i] *= 1.0 - scalars[BLEND]
        wanted = impedance_torque(
            q, dq, coriolis, pose, jacobian, reference, posture, gains, nullspace, pushed + integral
        )

    # the limits of the joints
    if measured:
        flags[VERDICT] |= safety.brake_joints_into(
            wanted, q, dq, joint_limits, scalars[JOINT_MARGIN], scalars[SPEED_MARGIN]
        )
    if not safety.all_finite(wanted) or (follows and whole and not safety.pose_is_valid(reference)):
        if code == safety.NONE:
            code = safety.TORQUE_NOT_FINITE
        begin_hold_into(integral, push, flags)
        target[:] = last
        reference[:] = last
        wanted = -joint_gains[1] * dq if measured else np.zeros(n)
    tau[:] = safety.limit_torque(wanted, tau, joint_limits, scalars[TORQUE_STEP])
    flags[VERDICT] |= safety.torque_verdict(wanted, tau, joint_limits)
    record_into(row, times, code, flags, q, dq, tau, pose, target, reference, felt, twist)
    return code
