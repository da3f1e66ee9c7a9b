"""Joint-space moves, compiled: a minimum-jerk way from posture to posture that keeps the limits of
the tool.
"""

import numpy as np

from robot_rl.controllers import safety
from robot_rl.controllers.impedance import (
    JOINT_CLIP,
    PEAK_OF_MINIMUM_JERK,
    joint_torque,
    minimum_jerk,
)
from robot_rl.controllers.kinematics import body_clearance, path_leaves
from robot_rl.controllers.law import Law
from robot_rl.controllers.neighbours import APPROACH_S, LEAD_SHARE, approach_share
from robot_rl.controllers.tick_values import (
    DURATION,
    PHASE,
    VERDICT,
    Bounds,
    Control,
    Measured,
    Move,
)
from robot_rl.geometry import twist_of
from robot_rl.machine.compiled import njit
from robot_rl.types import Array

LOOK_AHEAD_S = 0.06
"""A joint move looks so far ahead: what an arm at the reference's speed needs to stop."""


LOOK_EVERY_RAD = 0.03
"""A joint move is looked through before it begins, a posture every so many radians: in a third of a
tick.
"""


@njit
def slowed_for_tool(move: Move, jacobian: Array, law: Law) -> float:
    """By which factor a joint-space move has to be slower than planned, for the tool's sake."""
    _, rate = minimum_jerk(move.clock[PHASE])
    twist = twist_of(jacobian, (move.goal - move.start) * (rate / move.clock[DURATION]))
    max_speed, max_turn = law.step / law.dt, law.angle / law.dt
    slow = 1.0
    if safety.norm(twist, 0) > max_speed:
        slow = max_speed / safety.norm(twist, 0)
    if safety.norm(twist, 3) * slow > max_turn:
        slow = max_turn / safety.norm(twist, 3)
    return slow


@njit
def advance_into(move: Move, q: Array, slow: float, dt: float) -> None:
    """One tick of a joint-space move, in place; a joint that lags is awaited."""
    for j in range(q.shape[0]):
        if abs(move.now[j] - q[j]) > JOINT_CLIP:
            move.speed[:] = 0.0
            return
    way, clock = move.goal - move.start, move.clock
    clock[PHASE] = min(clock[PHASE] + slow * dt / clock[DURATION], 1.0)
    share, rate = minimum_jerk(clock[PHASE])
    move.now[:] = move.start + share * way
    move.speed[:] = (slow * rate / clock[DURATION]) * way


@njit
def obstacle_ahead(dq: Array, twist: Array, bounds: Bounds, measured: Measured) -> int:
    """The `LimitFlags` bits of what an arm would leave or enter that goes on with `dq` and `twist` for
    `LOOK_AHEAD_S`.

    What is outside already may go on as long as it does not get further out.
    """
    pose, q = measured.pose, measured.q
    at = np.empty(3)
    for part in range(1, 5):  # in steps: a thin box is no reason to jump over it
        for i in range(3):
            at[i] = pose[i] + 0.25 * part * LOOK_AHEAD_S * twist[i]
        outside = safety.outside_workspace(at, bounds.workspace)
        if outside > max(safety.outside_workspace(pose, bounds.workspace), 0.0) + 1e-6:
            return safety.BOXED
        for k in range(bounds.keep_out.shape[0]):
            depth = safety.depth_inside(at, bounds.keep_out[k])
            if depth > max(safety.depth_inside(pose, bounds.keep_out[k]), 0.0) + 1e-6:
                return safety.KEPT_OUT
    then, _ = body_clearance(
        q + LOOK_AHEAD_S * dq, bounds.chain, bounds.capsules, bounds.room, bounds.keep_out
    )
    if then < 0.0:
        now, _ = body_clearance(q, bounds.chain, bounds.capsules, bounds.room, bounds.keep_out)
        if then < now:
            return safety.GUARDED
    return 0


@njit
def joint_move_torque(
    control: Control,
    law: Law,
    bounds: Bounds,
    measured: Measured,
    distances: Array,
    slopes: Array,
) -> Array:
    """The torques `(n,)` of a joint move, which stops in front of an obstacle, and slows down in
    front of a neighbour; its reference moves on by a tick.
    """
    move = control.move
    control.target[:] = measured.pose
    control.reference[:] = measured.pose
    slow = slowed_for_tool(move, measured.jacobian, law)
    _, rate = minimum_jerk(move.clock[PHASE])
    ahead = (slow * rate / move.clock[DURATION]) * (move.goal - move.start)
    share = approach_share(ahead, distances, slopes, 1.0 / APPROACH_S)
    lead = approach_share(move.now - measured.q, distances, slopes, LEAD_SHARE)
    bits = obstacle_ahead(ahead, twist_of(measured.jacobian, ahead), bounds, measured)
    control.flags[VERDICT] |= bits
    if min(share, lead) < 1.0:
        control.flags[VERDICT] |= safety.KEPT_OFF
    if bits != 0 or lead < 1.0:
        move.speed[:] = 0.0
    else:
        advance_into(move, measured.q, share * slow, law.dt)
    goal = measured.q + lead * (move.now - measured.q)
    return joint_torque(
        measured.q, measured.dq, measured.coriolis, goal, move.speed, law.joint_gains
    )


def begin_into(move: Move, q: Array, goal: Array, speed: float) -> None:
    """Set out from `q (n,)` for `goal (n,)` [rad], no joint faster than `speed` [rad/s]."""
    move.start[:], move.goal[:], move.now[:], move.speed[:] = q, goal, q, 0.0
    farthest = float(np.abs(goal - q).max())
    move.clock[:] = 0.0, max(PEAK_OF_MINIMUM_JERK * farthest / speed, 0.1)


def way_leaves(begun: Array, goal: Array, tool: Array, bounds: Bounds) -> bool:
    """Whether the straight way between two postures leads out of workspace or room, or into a
    keep-out box.

    `tool (3,)` [m] is the controlled point on the flange. False where the arm's kinematics are not
    known.
    """
    b = bounds
    if not len(b.chain):
        return False
    looks = 2 + int(np.abs(goal - begun).max() / LOOK_EVERY_RAD)
    return bool(
        path_leaves(begun, goal, looks, b.chain, tool, b.capsules, b.room, b.workspace, b.keep_out)
    )
