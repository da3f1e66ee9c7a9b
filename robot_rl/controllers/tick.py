"""One tick of control, compiled: state, reference, law, limits, and the row of the black box.

`loop.py` owns the buffers that are handed in here; the constants name their entries.
"""

import numpy as np

from robot_rl.compiled import njit
from robot_rl.controllers import safety
from robot_rl.controllers.impedance import (
    JOINT_CLIP,
    filter_reference,
    impedance_torque,
    integrate,
    joint_torque,
    minimum_jerk,
    twist_of,
)
from robot_rl.geometry import pose_error
from robot_rl.types import Array

TICK_S = 0.001

(
    FILTER, STEP, ANGLE, NULLSPACE, NULLSPACE_GOAL, BLEND, TARE_GAIN,
    MARGIN, KEEP_OUT_MARGIN, JOINT_SLACK, TCP_SPEED, TCP_ROTATION_SPEED, FORCE, MOMENT,
    RETREAT_FORCE, RETREAT_MOMENT, RETREAT_M, TORQUE_STEP, JOINT_MARGIN, SPEED_MARGIN, CONE,
) = range(21)  # fmt: skip
"""Entries of `scalars`: filter gain per tick, largest reference step [m] and turn [rad] per tick, nullspace stiffness
now and soon, share of a new gain taken over per tick, gain of the tare's filter, then limits as in `ArmLimits`."""

FELT, SLOW, TARE = range(3)
"""Rows of `wrenches (3, 6)`: measured less the tare; measured, filtered; the tare."""

MODE, VERDICT, RETREATED, HOLDING = range(4)
"""Entries of `flags (4,)`, integers."""

POSE, JOINTS, WRENCH = range(3)
"""Modes: what the last command was, and so which law is in force."""

START, GOAL, NOW, SPEED = range(4)
"""Rows of `move (4, n)` [rad], [rad/s]: a joint-space move."""

PHASE, DURATION = range(2)
"""Entries of `move_clock (2,)`: how far on a joint-space move is, 0 to 1, and how long it takes [s]."""

WORKSPACE_BOX, FIRST_KEEP_OUT = 0, 1
"""`boxes (1 + k, 2, 3)`: the workspace, then what to keep out of."""


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
    row[4], row[5], row[6], row[7] = fault, flags[VERDICT], flags[MODE], flags[HOLDING]
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
def advance_move_into(
    move: Array, move_clock: Array, q: Array, jacobian: Array, max_speed: float, max_turn: float
) -> None:
    """One tick of a joint-space move, in place: slower where the tool is too fast; a joint that lags is awaited."""
    for j in range(q.shape[0]):
        if abs(move[NOW, j] - q[j]) > JOINT_CLIP:
            move[SPEED] = 0.0
            return
    way = move[GOAL] - move[START]
    _, rate = minimum_jerk(move_clock[PHASE])
    twist = twist_of(jacobian, way * (rate / move_clock[DURATION]))
    slow = 1.0
    if safety.norm(twist, 0) > max_speed:
        slow = max_speed / safety.norm(twist, 0)
    if safety.norm(twist, 3) * slow > max_turn:
        slow = max_turn / safety.norm(twist, 3)
    move_clock[PHASE] = min(move_clock[PHASE] + slow * TICK_S / move_clock[DURATION], 1.0)
    share, rate = minimum_jerk(move_clock[PHASE])
    move[NOW] = move[START] + share * way
    move[SPEED] = (slow * rate / move_clock[DURATION]) * way


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
    twist: Array,
    wrench: Array,
    posture: Array,
    gains: Array,
    gains_goal: Array,
    joint_gains: Array,
    joint_limits: Array,
    boxes: Array,
    middle_quat: Array,
    scalars: Array,
    latched: int,
    times: Array,
    row: Array,
) -> int:
    """One tick of control: check the state, move the reference, write the next torques into `tau (n,)`.

    Returns the fault code. A new fault puts `target` and `reference` at the measured pose, so that the arm holds
    there, or backs away from a hard blow; while one is latched nothing else is checked but the blow, and that the
    numbers are numbers. Without those the torques fade to zero, and the arm's own gravity compensation is all that is
    left. Everything that a tick knows goes into `row`, for the black box.
    """
    finite = safety.pose_is_valid(pose) and safety.all_finite(q) and safety.all_finite(dq)
    if not (finite and safety.all_finite(wrench) and safety.all_finite(coriolis) and safety.all_finite(twist)):
        tau[:] = safety.limit_torque(np.zeros(tau.shape[0]), tau, joint_limits, scalars[TORQUE_STEP])
        record_into(
            row, times, safety.STATE_NOT_FINITE, flags, q, dq, tau, pose, target, reference, wrenches[FELT], twist
        )
        return safety.STATE_NOT_FINITE
    for i in range(6):
        wrenches[SLOW, i] += scalars[TARE_GAIN] * (wrench[i] - wrenches[SLOW, i])
        wrenches[FELT, i] = wrench[i] - wrenches[TARE, i]
    workspace, keep_out = boxes[WORKSPACE_BOX], boxes[FIRST_KEEP_OUT:]
    felt = wrenches[FELT]

    code = latched
    if latched == safety.NONE:
        code = safety.check_joints(q, dq, joint_limits, scalars[JOINT_SLACK])
        if code == safety.NONE:
            code = safety.check_tool(
                twist, pose, felt, workspace, keep_out, scalars[MARGIN], scalars[KEEP_OUT_MARGIN],
                scalars[TCP_SPEED : TCP_ROTATION_SPEED + 1], scalars[FORCE : MOMENT + 1],
            )  # fmt: skip
        if code != safety.NONE:
            target[:] = pose
            reference[:] = pose
            integral[:] = 0.0
            push[:] = 0.0
            flags[MODE], flags[HOLDING], flags[RETREATED] = POSE, 1, 0
    hard = safety.norm(felt, 0) > scalars[RETREAT_FORCE] or safety.norm(felt, 3) > scalars[RETREAT_MOMENT]
    if hard and code != safety.NONE and flags[RETREATED] == 0:
        target[:] = safety.retreat_from(pose, felt, scalars[RETREAT_M], workspace, keep_out, middle_quat, scalars[CONE])
        flags[RETREATED] = 1
        flags[VERDICT] |= safety.RETREATING

    for r in range(gains.shape[0]):
        for i in range(6):
            gains[r, i] += scalars[BLEND] * (gains_goal[r, i] - gains[r, i])
    scalars[NULLSPACE] += scalars[BLEND] * (scalars[NULLSPACE_GOAL] - scalars[NULLSPACE])
    if flags[MODE] == JOINTS:
        target[:] = pose
        reference[:] = pose
        advance_move_into(move, move_clock, q, jacobian, scalars[STEP] / TICK_S, scalars[ANGLE] / TICK_S)
        wanted = joint_torque(q, dq, coriolis, move[NOW], move[SPEED], joint_gains)
    else:
        before = reference.copy()
        if flags[MODE] == WRENCH:
            # a reference at the tool does not pull; a tool beyond a wall is pulled back to it
            reference[:] = safety.clip_to_workspace(pose, workspace, middle_quat, scalars[CONE])
        else:
            reference[:] = filter_reference(reference, target, scalars[FILTER], scalars[STEP], scalars[ANGLE])
            moved = pose_error(before, reference)
            slow = safety.norm(moved, 0) < (1.0 - 1e-6) * scalars[STEP]
            if not (slow and safety.norm(moved, 3) < (1.0 - 1e-6) * scalars[ANGLE]):
                flags[VERDICT] |= safety.SLOWED
        if keep_out.shape[0] > 0:
            allowed = safety.stay_out(reference, before, keep_out)
            if safety.differ(allowed, reference, 0, 3):
                flags[VERDICT] |= safety.KEPT_OUT
                reference[:] = allowed
        if flags[MODE] == WRENCH:
            target[:] = reference
        integral[:] = integrate(integral, pose_error(pose, reference), gains, TICK_S)
        wanted = impedance_torque(
            q, dq, coriolis, pose, jacobian, reference, posture, gains, scalars[NULLSPACE], push + integral
        )
    flags[VERDICT] |= safety.brake_joints_into(
        wanted, q, dq, joint_limits, scalars[JOINT_MARGIN], scalars[SPEED_MARGIN]
    )
    tau[:] = safety.limit_torque(wanted, tau, joint_limits, scalars[TORQUE_STEP])
    flags[VERDICT] |= safety.torque_verdict(wanted, tau, joint_limits)
    record_into(row, times, code, flags, q, dq, tau, pose, target, reference, felt, twist)
    return code
