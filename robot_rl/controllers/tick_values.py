"""What a tick of control reads and writes, as named tuples of buffers that the compiled functions
take whole.

`loop.py` owns the buffers. Arrays are written in place; a number is changed with `_replace`,
between two ticks.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from robot_rl.controllers.kinematics import capsules_of, chain_of
from robot_rl.geometry import twist_of
from robot_rl.interfaces import ArmReading
from robot_rl.machine.compiled import njit
from robot_rl.types import ArmFacts, ArmLimits, Array, Capsule

TICK_S = 0.001
"""Of a loop that its driver does not give another period (`Arm.tick_s`)."""

POSE, JOINTS, HOLD = 0, 1, 3
"""Modes: what the last command was, and so which law is in force; HOLD if none is."""

MODE, VERDICT, RETREATED, LOCKED, BRAKING = range(5)
"""Entries of `Control.flags (5,)`, integers: the last two are of a hold, whether it has a posture
to hold yet, and for how many ticks it has braked."""


class Measured(NamedTuple):
    """What the arm measured in this tick, as in `ArmReading`: every field is there."""

    q: Array
    dq: Array
    coriolis: Array
    pose: Array
    jacobian: Array
    mass: Array
    twist: Array
    wrench: Array


def measured_of(reading: ArmReading, mass: Array) -> Measured:
    """A reading whole: with a twist, and the `mass (n, n)` of an arm that does not say its own."""
    r = reading
    twist = twist_of(r.jacobian, r.dq) if r.twist is None else r.twist
    mass = mass if r.mass is None else r.mass
    return Measured(r.q, r.dq, r.coriolis, r.pose, r.jacobian, mass, twist, r.wrench)


class Move(NamedTuple):
    """A joint-space move, or the posture that is held: `(n,)` [rad], `speed (n,)` [rad/s].

    `clock (2,)`: how far on the move is, 0 to 1 (`PHASE`), and how long it takes [s] (`DURATION`).
    """

    start: Array
    goal: Array
    now: Array
    speed: Array
    clock: Array


PHASE, DURATION = range(2)
"""Entries of `Move.clock`."""


class Control(NamedTuple):
    """What goes on from tick to tick, all of it written in place.

    Torques `tau (n,)` [Nm] in force; `target (7,)`, `reference (7,)`; the law's `integral (6,)` [N,
    Nm]. Wrenches `(6,)`: `felt` is measured less the `tare`, `slow` is measured and filtered.
    `spare (2,)` [m, rad] is what the reference has not used of its speed lately.
    """

    tau: Array
    target: Array
    reference: Array
    spare: Array
    integral: Array
    felt: Array
    slow: Array
    tare: Array
    flags: Array
    move: Move


class Bounds(NamedTuple):
    """The limits in force (`ArmLimits`), as `safety` and `kinematics` want them.

    `joints (8, n)`; `workspace (2, 3)`, `keep_out (k, 2, 3)`, `room (2, 3)` of the bodies [m];
    `speeds (2,)` [m/s, rad/s], `forces (2,)` and `retreat (2,)` [N, Nm]. How much further out an
    acknowledged excursion still is: `joint_slack (n,)` [rad] and `slack (4,)` [m], out of the
    workspace, in a box, of a body, to a neighbour. `outline (k, 8)` is the arm for its
    `neighbours (m, 7)`, which are capsules in its base: start, end, radius [m].
    """

    joints: Array
    joint_slack: Array
    joint_margin: float
    joint_speed_margin: float
    torque_step: float
    workspace: Array
    keep_out: Array
    room: Array
    margin: float
    slack: Array
    middle_quat: Array
    cone: Array
    speeds: Array
    forces: Array
    retreat: Array
    retreat_m: float
    chain: Array
    capsules: Array
    outline: Array
    neighbours: Array


@njit
def begin_hold_into(control: Control) -> None:
    """Nothing of what was wanted before is left."""
    control.integral[:] = 0.0
    flags = control.flags
    flags[MODE], flags[LOCKED], flags[BRAKING], flags[RETREATED] = HOLD, 0, 0, 0


def new_control(joints: int) -> Control:
    """The buffers of an arm that nobody has commanded yet."""
    return Control(
        tau=np.zeros(joints),
        target=np.zeros(7),
        reference=np.zeros(7),
        spare=np.zeros(2),
        integral=np.zeros(6),
        felt=np.zeros(6),
        slow=np.zeros(6),
        tare=np.zeros(6),
        flags=np.zeros(5, np.int64),
        move=Move(
            np.zeros(joints), np.zeros(joints), np.zeros(joints), np.zeros(joints), np.ones(2)
        ),
    )


def bounds_of(
    limits: ArmLimits,
    facts: ArmFacts | None,
    bodies: Sequence[Capsule],
    outline: Sequence[Capsule],
    neighbours: Array,
    tick_s: float,
) -> Bounds:
    """The limits of a set-up, with no excursion under way."""
    joints = len(limits.max_torque)
    return Bounds(
        joints=joint_limits_of(limits, facts),
        joint_slack=np.zeros(joints),
        joint_margin=float(limits.joint_margin),
        joint_speed_margin=float(limits.joint_speed_margin),
        torque_step=float(limits.max_torque_rate * tick_s),
        workspace=np.array([limits.workspace_low, limits.workspace_high], float),
        keep_out=np.array([(box.low, box.high) for box in limits.keep_out], float).reshape(
            -1, 2, 3
        ),
        room=np.array(
            [limits.body_low or (-math.inf,) * 3, limits.body_high or (math.inf,) * 3], float
        ),
        margin=float(limits.workspace_margin_m),
        slack=np.zeros(4),
        middle_quat=np.array(limits.workspace_quat, float),
        cone=np.array([limits.workspace_angle, limits.workspace_turn]),
        speeds=np.array([limits.max_tcp_speed, limits.max_tcp_rotation_speed], float),
        forces=np.array([limits.max_force, limits.max_moment], float),
        retreat=np.array([limits.retreat_force, limits.retreat_moment], float),
        retreat_m=float(limits.retreat_m),
        chain=chain_of(facts, joints),
        capsules=capsules_of(bodies),
        outline=capsules_of(outline),
        neighbours=neighbours,
    )


def joint_limits_of(limits: ArmLimits, facts: ArmFacts | None) -> Array:
    """`joint_limits (8, n)` as `safety` wants them."""
    n = len(limits.max_torque)
    file = [limits.max_joint_speed, limits.max_torque, limits.joint_low, limits.joint_high]
    if facts is None or not facts.deceleration:
        return np.array([*file, limits.joint_low, limits.joint_high, (0.0,) * n, (0.0,) * n])
    return np.array([
        *file,
        facts.joint_low,
        facts.joint_high,
        facts.speed_offset,
        facts.deceleration,
    ])
