"""A hold, compiled: the arm brakes, then stays in the posture that it has come to; after a hard
blow it backs away.
"""

import numpy as np

from robot_rl.controllers import safety
from robot_rl.controllers.impedance import filter_reference, joint_torque, joint_way
from robot_rl.controllers.joint_move import advance_into, slowed_for_tool
from robot_rl.controllers.kinematics import body_clearance
from robot_rl.controllers.law import BRAKE_TIME_S, Law
from robot_rl.controllers.neighbours import STOP_M, distance_to_neighbours
from robot_rl.controllers.tick_values import (
    BRAKING,
    DURATION,
    LOCKED,
    PHASE,
    RETREATED,
    VERDICT,
    Bounds,
    Control,
    Measured,
    Move,
)
from robot_rl.geometry import pose_error, solve_positive
from robot_rl.machine.compiled import njit
from robot_rl.types import Array

AT_REST = 0.02
BRAKE_S = 0.4
"""A hold first stops the arm, until no joint is faster than this [rad/s] or for so long [s]; then
it locks the posture that the arm has come to, so that nothing swings back."""

FASTEST_RETREAT = 0.5
FARTHEST_RETREAT = 0.2
"""Of a joint, for the few centimetres of a retreat [rad/s], [rad]."""


@njit
def stay_at(move: Move, q: Array) -> None:
    """What is held is the posture `q (n,)`."""
    move.start[:], move.goal[:], move.now[:] = q, q, q
    move.speed[:] = 0.0


@njit
def brake_into(
    wanted: Array, move: Move, measured: Measured, tau: Array, damping: Array, rate: float
) -> bool:
    """The first part of a hold: torques `wanted (n,)` that stop the arm; where it is meanwhile is
    what will be held.

    Every direction of the joints is damped with its own inertia, `-M v / T`, none stiffer than
    another. A torque falls no faster than at `rate` [Nm/s], and on its way to zero the one in
    force, `tau (n,)`, still turns the joints by `M^-1 tau |tau| / 2 rate`: `v` is the speed that
    they will have then. Without that a quick arm is thrown back. An inertia that is no number is
    done without: `damping (n,)` brakes. Returns whether the arm stands, and will.
    """
    q, dq, mass = measured.q, measured.dq, measured.mass
    stay_at(move, q)
    move.clock[PHASE] = 1.0
    if not safety.all_finite(mass.ravel()):
        wanted[:] = -damping * dq
        return np.abs(dq).max() < AT_REST
    v = dq + solve_positive(mass, tau * np.abs(tau) / (2.0 * rate))
    for j in range(q.shape[0]):
        for k in range(q.shape[0]):
            wanted[j] -= mass[j, k] * v[k] / BRAKE_TIME_S
    return max(np.abs(dq).max(), np.abs(v).max()) < AT_REST


@njit
def begin_retreat_into(control: Control, bounds: Bounds, measured: Measured) -> None:
    """A held arm backs away from what hit it, by its joints' shortest way; not if a body would get
    stuck.
    """
    move, q, chain, capsules = control.move, measured.q, bounds.chain, bounds.capsules
    control.target[:] = safety.retreat_from(
        measured.pose, control.felt, bounds.retreat_m,
        bounds.workspace, bounds.keep_out, bounds.middle_quat, bounds.cone,
    )  # fmt: skip
    change = joint_way(measured.jacobian, pose_error(measured.pose, control.target))
    goal = q.copy()
    farthest = 0.0
    for j in range(q.shape[0]):
        goal[j] += min(max(change[j], -FARTHEST_RETREAT), FARTHEST_RETREAT)
        low, high = bounds.joints[safety.JOINT_LOW, j], bounds.joints[safety.JOINT_HIGH, j]
        goal[j] = min(max(goal[j], min(low, q[j])), max(high, q[j]))
        farthest = max(farthest, abs(goal[j] - q[j]))
    now, _ = body_clearance(q, chain, capsules, bounds.room, bounds.keep_out)
    then, _ = body_clearance(goal, chain, capsules, bounds.room, bounds.keep_out)
    apart = distance_to_neighbours(goal, bounds)
    free = apart >= min(distance_to_neighbours(q, bounds), STOP_M)  # not where one is not known
    stay_at(move, q)
    if then >= min(now, 0.0) and free:
        move.goal[:] = goal
    move.clock[PHASE], move.clock[DURATION] = 0.0, max(1.875 * farthest / FASTEST_RETREAT, 0.1)
    control.flags[RETREATED], control.flags[LOCKED] = 1, 1
    control.flags[VERDICT] |= safety.RETREATING


@njit
def hold_torque(
    control: Control, law: Law, bounds: Bounds, now: Measured, measured: bool, whole: bool
) -> Array:
    """The torques `(n,)` of a hold: with angles and speeds alone (`measured`) it brakes and stays
    where it is.

    Without them the torques fade to zero. Where the state is `whole`, the target is the pose that
    the arm comes to.
    """
    flags, move, dt = control.flags, control.move, law.dt
    wanted = np.zeros(now.q.shape[0])
    if not measured:
        flags[LOCKED], flags[BRAKING] = 0, 0
    elif flags[LOCKED] == 0:
        rate = bounds.torque_step / dt
        stands = brake_into(wanted, move, now, control.tau, law.joint_gains[1], rate)
        flags[BRAKING] += 1
        if whole:
            control.target[:] = now.pose
        slow_enough = safety.norm(now.twist, 0) < 0.02 and safety.norm(now.twist, 3) < AT_REST
        if (stands and whole and slow_enough) or flags[BRAKING] * dt > BRAKE_S:
            flags[LOCKED] = 1
    else:
        move.speed[:] = 0.0
        if whole and move.clock[PHASE] < 1.0:
            advance_into(move, now.q, slowed_for_tool(move, now.jacobian, law), dt)
        wanted = joint_torque(
            now.q, now.dq, np.zeros(wanted.shape[0]), move.now, move.speed, law.joint_gains
        )
    if measured and safety.all_finite(now.coriolis):
        wanted += now.coriolis
    if not law.follows:
        control.reference[:] = control.target
    elif whole and flags[LOCKED] == 1:
        control.reference[:] = filter_reference(
            control.reference, control.target, law.filter, law.step, law.angle
        )
    return wanted
