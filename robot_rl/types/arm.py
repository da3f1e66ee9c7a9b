"""Arms and grippers: targets, states, limits, faults. SI units; poses are `(7,)`, [m] and
quaternion xyzw.
"""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import NamedTuple

import numpy as np

Array = np.ndarray


class Fault(IntEnum):
    """Why the arm holds. Latched until somebody acknowledges it; nothing clears it by itself."""

    NONE = 0
    TARGET_NOT_FINITE = 1
    STATE_NOT_FINITE = 2
    JOINT_SPEED = 3
    TCP_SPEED = 4
    WORKSPACE = 5
    FORCE = 6
    DRIVER = 7
    JOINT_POSITION = 8
    TCP_ROTATION_SPEED = 9
    MOMENT = 10
    KEEP_OUT = 11
    REFLEX = 12
    COMMUNICATION = 13
    USER_STOP = 14
    BODY = 15
    TORQUE_NOT_FINITE = 16
    NEIGHBOUR = 17


BY_MOTION = frozenset({
    Fault.JOINT_SPEED, Fault.TCP_SPEED, Fault.TCP_ROTATION_SPEED, Fault.JOINT_POSITION,
    Fault.WORKSPACE, Fault.KEEP_OUT, Fault.BODY, Fault.NEIGHBOUR,
    Fault.FORCE, Fault.MOMENT, Fault.REFLEX,
})  # fmt: skip
"""Faults that whoever moves the arm brings about."""


class LimitFlags(IntFlag):
    """What the safety governor made of the last command: passed as it was (0), limited by what, or
    refused and why.

    `LIMITED` bits add up, from the command itself and from every tick since. A refused command
    changes nothing but for one that is no pose, which latches a fault.
    """

    PASSED = 0
    LEASH = 1 << 0
    WORKSPACE = 1 << 1
    ORIENTATION = 1 << 2
    KEEP_OUT = 1 << 3
    SPEED = 1 << 4
    JOINTS = 1 << 5
    TORQUE = 1 << 6
    TORQUE_RATE = 1 << 7
    RETREAT = 1 << 9
    BODY = 1 << 10
    NEIGHBOUR = 1 << 11
    REFUSED_FAULT = 1 << 16
    REFUSED_NOT_A_POSE = 1 << 17
    REFUSED_OLD = 1 << 18
    REFUSED_OUT_OF_ORDER = 1 << 19
    REFUSED_PATH = 1 << 20
    REFUSED_NEIGHBOUR = 1 << 21

    @property
    def refused(self) -> bool:
        """Whether the command was not taken at all."""
        return self >= LimitFlags.REFUSED_FAULT

    @property
    def reasons(self) -> str:
        """`leash, torque rate`; `passed` if there are none."""
        names = [
            flag.name.lower().replace("_", " ") for flag in LimitFlags if flag & self and flag.name
        ]
        return ", ".join(names) or "passed"


@dataclass(frozen=True)
class Box:
    """A box in the base frame [m], by its corners."""

    low: tuple[float, float, float]
    high: tuple[float, float, float]


@dataclass(frozen=True)
class Load:
    """What hangs on the flange: mass [kg], centre of mass `(3,)` [m] in the flange frame, inertia
    about that centre.

    `inertia` is xx, yy, zz, xy, xz, yz [kg m^2] along the flange's axes.
    """

    mass_kg: float
    centre_m: tuple[float, float, float]
    inertia: tuple[float, float, float, float, float, float]


@dataclass(frozen=True)
class Capsule:
    """A rod with round ends around a part of an arm: what must not touch table, walls or keep-out
    boxes.

    `start` and `end` `(3,)` [m] are the middles of its ends, in the frame of the link that joint
    number `link` (from 1) moves (Craig's convention); one more than there are joints is the flange.
    """

    name: str
    link: int
    start: tuple[float, float, float]
    end: tuple[float, float, float]
    radius_m: float


@dataclass(frozen=True)
class ArmFacts:
    """What its maker says an arm is and can do: the attribute `facts` of a driver's class, known
    without a connection.

    A hardware file may ask for less, never for more. `(n,)` each: range [rad], speed [rad/s] and
    torque [Nm] of the joints; `max_torque_rate` [Nm/s], `max_tcp_speed` [m/s], `max_load_kg`. Where
    the speed allowed falls towards the ends of a range, it is `sqrt(2 deceleration room) -
    speed_offset` [rad/s^2], [rad/s], `room` [rad] being what is left (FR3: "Robot and interface
    specifications"); empty where it does not. `dh (n, 3)` are a [m], d [m], alpha [rad] of each
    joint in Craig's convention, `flange_m` is where the flange is along z of the last; empty: not
    known, and then its links cannot be guarded. `bodies` are the links that are, from table, walls
    and boxes; `outline` is all of the arm, with its hand and fingers, for other arms to keep out of
    (empty: the `bodies`). `joint_stiffness`, `joint_damping` (n,) [Nm/rad], [Nms/rad] are what it is
    held with, whatever a task asks for; empty: in proportion to its torques.
    """

    joint_low: tuple[float, ...]
    joint_high: tuple[float, ...]
    max_joint_speed: tuple[float, ...]
    max_torque: tuple[float, ...]
    max_torque_rate: float
    max_tcp_speed: float
    max_load_kg: float
    speed_offset: tuple[float, ...] = ()
    deceleration: tuple[float, ...] = ()
    dh: tuple[tuple[float, float, float], ...] = ()
    flange_m: float = 0.0
    bodies: tuple[Capsule, ...] = ()
    joint_stiffness: tuple[float, ...] = ()
    joint_damping: tuple[float, ...] = ()
    outline: tuple[Capsule, ...] = ()


@dataclass(frozen=True)
class ArmLimits:
    """What binds every motion of an arm: policy, human and reset alike. A task may tighten it,
    never widen it.

    Clipped, and reported as a verdict: a target to the workspace (a box for the TCP in the base
    frame [m], and the largest tilt and turn [rad] away from `workspace_quat`, the orientation in
    its middle) and out of the `keep_out` boxes; the reference's speed; torques [Nm] and torque
    rates [Nm/s]. A joint that comes within `joint_margin` [rad] of `joint_low` or `joint_high` is
    braked, and may push no further at the limit itself; a joint is braked as well from
    `joint_speed_margin` [rad/s] below its largest speed on.

    Faults: a measured pose more than `workspace_margin_m` outside the workspace or inside a
    keep-out box; a joint beyond its angle or speed, a TCP beyond its speed; an external force [N]
    or moment [Nm] beyond its limit. Beyond `retreat_force` or `retreat_moment` the arm also backs
    away, `retreat_m` along the force, and holds there.

    `max_lease_s` [s]: a command is obeyed for so long at most, and refused if it was made from a
    state older than that.

    `body_low`, `body_high` (3,) [m], base frame: the room that the guarded bodies of the arm
    (elbow, forearm, hand, and the hardware file's `guards`) must stay in: table and walls. Empty:
    no room, but they keep out of the boxes all the same.

    `workspace_turn` [rad]: how far a target may turn about the z of `workspace_quat`, if that is
    further than it may tilt; `workspace_angle` then bounds the tilt of the z axis alone. 0:
    `workspace_angle` bounds both together.
    """

    workspace_low: tuple[float, float, float]
    workspace_high: tuple[float, float, float]
    workspace_quat: tuple[float, float, float, float]
    workspace_angle: float
    workspace_margin_m: float
    max_reference_speed: float
    max_reference_rotation_speed: float
    max_tcp_speed: float
    max_joint_speed: tuple[float, ...]
    max_torque: tuple[float, ...]
    max_torque_rate: float
    max_force: float
    max_moment: float
    retreat_force: float
    retreat_moment: float
    retreat_m: float
    max_tcp_rotation_speed: float
    joint_low: tuple[float, ...]
    joint_high: tuple[float, ...]
    joint_margin: float
    joint_speed_margin: float
    max_lease_s: float
    keep_out: tuple[Box, ...] = ()
    body_low: tuple[float, ...] = ()
    body_high: tuple[float, ...] = ()
    workspace_turn: float = 0.0


@dataclass(frozen=True)
class Compliance:
    """The impedance that a task wants: per axis in the base frame, translation first.

    `stiffness` [N/m, Nm/rad] times `error_clip` [m, rad] is the largest static force [N, Nm] on
    each axis, whatever the target. `error_clip` bounds the pull towards plus, and towards minus as
    well unless `error_clip_minus` says otherwise. `integral` [N/(m s), Nm/(rad s)] removes the
    error that friction leaves, within the same static force; 0 in contact. `filter_time_s` is the
    time constant of the reference filter, `gain_time_s` that at which a change of these values
    while the arm moves takes effect. `nullspace_stiffness` [Nm/rad] pulls the posture towards
    `posture` (the joint angles [rad] at the start of an episode, if left empty). Source:
    serl_franka_controllers, CartesianImpedanceController (defaults 2000/89/150/7).
    """

    stiffness: tuple[float, ...] = (2000.0, 2000.0, 2000.0, 150.0, 150.0, 150.0)
    damping: tuple[float, ...] = (89.0, 89.0, 89.0, 7.0, 7.0, 7.0)
    error_clip: tuple[float, ...] = (0.01, 0.01, 0.01, 0.05, 0.05, 0.05)
    filter_time_s: float = 0.05
    nullspace_stiffness: float = 10.0
    error_clip_minus: tuple[float, ...] = ()
    integral: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    gain_time_s: float = 0.1
    posture: tuple[float, ...] = ()


class _Leased:
    """A command that is obeyed for some control periods."""

    period_s: float
    lease_periods: float

    @property
    def lease_s(self) -> float:
        """For how long it is obeyed [s]."""
        return self.lease_periods * self.period_s


@dataclass(frozen=True)
class ArmTarget(_Leased):
    """What the actor asks of an arm, once per control period.

    The arm follows `pose_base_tcp (7,)` until the lease of `lease_periods * period_s` runs out;
    then it holds. In lockstep the simulated world advances by `period_s` for each target, and
    nothing moves in between. `seen_t` is the time, on the arm's clock, of the state that the target
    was made from (`ArmClient` fills it in): a target made from one too old, or older than the last
    target's, is refused.
    """

    pose_base_tcp: Array
    period_s: float
    lease_periods: float = 3.0
    seen_t: float | None = None


@dataclass(frozen=True)
class JointTarget(_Leased):
    """A move in joint space, for resets: to `q (n,)` [rad] on a minimum-jerk path, none of the
    joints above `speed`.

    The arm goes on while the same target keeps coming: it has the lease of an `ArmTarget`, and its
    `seen_t`.
    """

    q: Array
    period_s: float
    speed: float = 0.5
    lease_periods: float = 3.0
    seen_t: float | None = None


@dataclass(frozen=True)
class ArmState:
    """What the arm reports: measured at `t` [s], on the arm's own monotonic clock.

    `twist_base_tcp` and `wrench_base_tcp` are `(6,)`, in base axes at the TCP; the wrench is what
    the world exerts on the tool, less what was there at the last tare. `target_base_tcp` is the
    target in force, after all limits: what was *executed*; `verdict` is what the limits made of the
    last command. `reason` is the fault in words. `age_s` is how old the measurement was when the
    arm's process sent it: of a loop that hangs only the last is to be had. `command_success` is the
    share of our commands that the robot says it has got lately, 1 if it says nothing of it.
    """

    sequence: int
    t: float
    q: Array
    dq: Array
    pose_base_tcp: Array
    twist_base_tcp: Array
    wrench_base_tcp: Array
    target_base_tcp: Array
    holding: bool
    fault: Fault
    verdict: LimitFlags = LimitFlags.PASSED
    reason: str = ""
    age_s: float = 0.0
    command_success: float = 1.0


@dataclass(frozen=True)
class GripperReading:
    """What a gripper measures: the width between its fingers [m], the largest there is, whether it
    holds something.
    """

    width_m: float
    max_width_m: float
    grasped: bool


class HandState(NamedTuple):
    """A hand as an episode sees it: the width between its fingers [m] and the largest there is,
    whether it moves, whether something is between the fingers, and a latched fault in words, "" if
    there is none.
    """

    width: float
    max_width: float
    moving: bool
    held: bool
    reason: str


@dataclass(frozen=True)
class GripperState:
    """What a gripper's process reports, measured at `t` [s] of this machine's monotonic clock.

    `busy` while an order is not carried out; `succeeded` says how the last one went. `reason` is a
    latched fault in words, empty if there is none.
    """

    t: float
    reading: GripperReading
    busy: bool
    succeeded: bool
    reason: str
