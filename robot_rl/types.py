"""The values that cross from one room to another: frozen, typed, with units and frames. No behaviour, no device.

Arrays inside these values are not copied when they are handed over, and nobody writes into them afterwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag, StrEnum
from typing import Any, Literal, NamedTuple

import numpy as np

Array = np.ndarray
Observation = Mapping[str, Array]
"""Flat names: `state/...` float32 `(n,)`, `image/NAME` uint8 `(H, W, 3)` RGB."""


class RobotRLError(Exception):
    """Base of every error that this project raises on purpose; its message tells the user what to do."""


class ConfigError(RobotRLError):
    """A config key, a file or an option is wrong."""


class DeviceError(RobotRLError):
    """A device is missing, silent, or answers what it must not."""


class CameraStaleError(DeviceError):
    """The `camera` of this name has no fresh frame: slow, frozen or unplugged. It is opened again in the background."""

    def __init__(self, message: str, camera: str):
        super().__init__(message)
        self.camera = camera


class ArmStaleError(DeviceError):
    """The `arm` of this name has no fresh state: its loop hangs, or the link to its robot does."""

    def __init__(self, message: str, arm: str):
        super().__init__(message)
        self.arm = arm


class ArmFaultError(DeviceError):
    """The arm latched a fault: it holds its pose until somebody acknowledges."""


class ResetMissedError(DeviceError):
    """An arm did not get to its start pose, or feels something there: a person has to see what is the matter."""


class StoppedError(RobotRLError):
    """Somebody has asked to stop what was under way: the arms hold where they were, and what there is, is kept."""


class GivenUpError(RobotRLError):
    """Demonstrations fail one after another: something is wrong that another attempt does not mend."""


class ArmDriverError(DeviceError):
    """An arm stopped, or its driver lost it: `fault` says of which kind, the message in the robot's own words."""

    def __init__(self, fault: "Fault", message: str):
        super().__init__(message)
        self.fault = fault


class LinkError(RobotRLError):
    """The process on the other side of a link is missing, silent, or speaks another version."""


class RefusedError(LinkError):
    """The other side will not work with this one: another code, task, hardware or space. A new start does not help."""


class DivergedError(RobotRLError):
    """Learning has come to numbers that are none, or beyond all that can be meant. `FINAL` ends its text."""

    FINAL = "a resume with the same options would end the same way"


class DataError(RobotRLError):
    """A message, log or checkpoint is damaged, or does not fit this run."""


@dataclass(frozen=True)
class Use:
    """One file of a folder of kinds, with its options: `Use("mujoco", {"width": 128})`."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


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


DRIVER_FAULTS = (Fault.DRIVER, Fault.REFLEX, Fault.COMMUNICATION, Fault.USER_STOP)
"""The arm itself has stopped: lost, in a reflex, out of touch, or by its own button. An acknowledgement recovers it."""


class Verdict(IntFlag):
    """What the safety governor made of the last command: passed as it was (0), limited by what, or refused and why.

    `LIMITED` bits add up, from the command itself and from every tick since. A refused command changes nothing but
    for one that is no pose, which latches a fault.
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
    REFUSED_FAULT = 1 << 16
    REFUSED_NOT_A_POSE = 1 << 17
    REFUSED_OLD = 1 << 18
    REFUSED_OUT_OF_ORDER = 1 << 19
    REFUSED_PATH = 1 << 20

    @property
    def refused(self) -> bool:
        """Whether the command was not taken at all."""
        return self >= Verdict.REFUSED_FAULT

    @property
    def reasons(self) -> str:
        """`leash, torque rate`; `passed` if there are none."""
        names = [flag.name.lower().replace("_", " ") for flag in Verdict if flag & self and flag.name]
        return ", ".join(names) or "passed"


@dataclass(frozen=True)
class Box:
    """A box in the base frame [m], by its corners."""

    low: tuple[float, float, float]
    high: tuple[float, float, float]


@dataclass(frozen=True)
class Load:
    """What hangs on the flange: mass [kg], centre of mass `(3,)` [m] in the flange frame, inertia about that centre.

    `inertia` is xx, yy, zz, xy, xz, yz [kg m^2] along the flange's axes.
    """

    mass_kg: float
    centre_m: tuple[float, float, float]
    inertia: tuple[float, float, float, float, float, float]


@dataclass(frozen=True)
class Capsule:
    """A rod with round ends around a part of an arm: what must not touch table, walls or keep-out boxes.

    `start` and `end` `(3,)` [m] are the middles of its ends, in the frame of the link that joint number `link` (from 1)
    moves (Craig's convention); one more than there are joints is the flange.
    """

    name: str
    link: int
    start: tuple[float, float, float]
    end: tuple[float, float, float]
    radius_m: float


@dataclass(frozen=True)
class ArmFacts:
    """What its maker says an arm is and can do: the attribute `facts` of a driver's class, known without a connection.

    A hardware file may ask for less, never for more. `(n,)` each: range [rad], speed [rad/s] and torque [Nm] of the
    joints; `max_torque_rate` [Nm/s], `max_tcp_speed` [m/s], `max_load_kg`. Where the speed allowed falls towards the
    ends of a range, it is `sqrt(2 deceleration room) - speed_offset` [rad/s^2], [rad/s], `room` [rad] being what is
    left (FR3: "Robot and interface specifications"); empty where it does not. `dh (n, 3)` are a [m], d [m], alpha [rad]
    of each joint in Craig's convention, `flange_m` is where the flange is along z of the last; empty: not known, and
    then its links cannot be guarded. `bodies` are the links that are.
    `joint_stiffness`, `joint_damping` (n,) [Nm/rad], [Nms/rad] are what it is held with, whatever a task asks for;
    empty: in proportion to its torques.
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


@dataclass(frozen=True)
class ArmLimits:
    """What binds every motion of an arm: policy, human and reset alike. A task may tighten it, never widen it.

    Clipped, and reported as a verdict: a target to the workspace (a box for the TCP in the base frame [m], and the
    largest tilt and turn [rad] away from `workspace_quat`, the orientation in its middle) and out of the `keep_out`
    boxes; the reference's speed; torques [Nm] and torque rates [Nm/s]. A joint that comes within `joint_margin` [rad]
    of `joint_low` or `joint_high` is braked, and may push no further at the limit itself; a joint is braked as well
    from `joint_speed_margin` [rad/s] below its largest speed on.

    Faults: a measured pose more than `workspace_margin_m` outside the workspace or inside a keep-out box; a joint
    beyond its angle or speed, a TCP beyond its speed; an external force [N] or moment [Nm] beyond its limit. Beyond
    `retreat_force` or `retreat_moment` the arm also backs away, `retreat_m` along the force, and holds there.

    `max_lease_s` [s]: a command is obeyed for so long at most, and refused if it was made from a state older than that.

    `body_low`, `body_high` (3,) [m], base frame: the room that the guarded bodies of the arm (elbow, forearm, hand, and
    the hardware file's `guards`) must stay in: table and walls. Empty: no room, but they keep out of the boxes all the
    same.
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


@dataclass(frozen=True)
class Compliance:
    """The impedance that a task wants: per axis in the base frame, translation first.

    `stiffness` [N/m, Nm/rad] times `error_clip` [m, rad] is the largest static force [N, Nm] on each axis, whatever
    the target. `error_clip` bounds the pull towards plus, and towards minus as well unless `error_clip_minus` says
    otherwise. `integral` [N/(m s), Nm/(rad s)] removes the error that friction leaves, within the same static force;
    0 in contact. `filter_time_s` is the time constant of the reference filter, `gain_time_s` that at which a change of
    these values while the arm moves takes effect. `nullspace_stiffness` [Nm/rad] pulls the posture towards `posture`
    (the joint angles [rad] at the start of an episode, if left empty).
    Source: serl_franka_controllers, CartesianImpedanceController (defaults 2000/89/150/7).
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

    The arm follows `pose_base_tcp (7,)` until the lease of `lease_periods * period_s` runs out; then it holds. In
    lockstep the simulated world advances by `period_s` for each target, and nothing moves in between. `seen_t` is the
    time, on the arm's clock, of the state that the target was made from (`ArmClient` fills it in): a target made from
    one too old, or older than the last target's, is refused.
    """

    pose_base_tcp: Array
    period_s: float
    lease_periods: float = 3.0
    seen_t: float | None = None


@dataclass(frozen=True)
class JointTarget(_Leased):
    """A move in joint space, for resets: to `q (n,)` [rad] on a minimum-jerk path, none of the joints above `speed`.

    The arm goes on while the same target keeps coming: it has the lease of an `ArmTarget`, and its `seen_t`.
    """

    q: Array
    period_s: float
    speed: float = 0.5
    lease_periods: float = 3.0
    seen_t: float | None = None


Command = ArmTarget | JointTarget


@dataclass(frozen=True)
class ArmState:
    """What the arm reports: measured at `t` [s], on the arm's own monotonic clock.

    `twist_base_tcp` and `wrench_base_tcp` are `(6,)`, in base axes at the TCP; the wrench is what the world exerts on
    the tool, less what was there at the last tare. `target_base_tcp` is the target in force, after all limits: what was
    *executed*; `verdict` is what the limits made of the last command. `reason` is the fault in words. `age_s` is how
    old the measurement was when the arm's process sent it: of a loop that hangs only the last is to be had.
    `command_success` is the share of our commands that the robot says it has got lately, 1 if it says nothing of it.
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
    verdict: Verdict = Verdict.PASSED
    reason: str = ""
    age_s: float = 0.0
    command_success: float = 1.0


@dataclass(frozen=True)
class GripperReading:
    """What a gripper measures: the width between its fingers [m], the largest there is, whether it holds something."""

    width_m: float
    max_width_m: float
    grasped: bool


@dataclass(frozen=True)
class GripperState:
    """What a gripper's process reports, measured at `t` [s] of this machine's monotonic clock.

    `busy` while an order is not carried out; `succeeded` says how the last one went. `reason` is a latched fault in
    words, empty if there is none.
    """

    t: float
    reading: GripperReading
    busy: bool
    succeeded: bool
    reason: str


@dataclass(frozen=True)
class FoundCamera:
    """A camera that is plugged in: its driver, the options that name it in a hardware file, and what it says it is."""

    driver: str
    options: Mapping[str, Any]
    description: str


@dataclass(frozen=True)
class WorldState:
    """The simulator's own truth: joint angles, the pose `(n, 7)` of each object that can move, and success.

    An object is a body of the scene with joints of its own, or one that a reset places. `scene_q (m,)` are the
    positions of all joints that are not the arm's, in the model's order: how far a lid is open.

    Only `cameras/mujoco.py`, `rewards/simulator.py` and the simulated operators (`teleop/scripted.py`, `human_like.py`)
    may look at it, a task's state-only variant, under its own name, and the operator's page, for a person's eyes.
    `goal_base_tcp (7,)` is the TCP pose at which the task is done. `seed` is the last reset's: how the scene looks
    follows from it.
    """

    sequence: int
    t: float
    q: Array
    objects: Array
    goal_base_tcp: Array
    success: bool
    seed: int = 0
    scene_q: Array = field(default_factory=lambda: np.zeros(0))


class Provenance(IntEnum):
    """Who acted in a step."""

    POLICY = 0
    HUMAN = 1
    DEMO = 2
    SCRIPT = 3


@dataclass(frozen=True)
class Step:
    """One control step of an episode: what was done since the last observation, and the observation that followed.

    An episode of T actions is T+1 steps: the first (`index` 0) is the observation after the reset alone, its actions
    are zeros. `proposed` is the policy's action, `commanded` the policy's or human's, `executed` the command after
    all limits as the arm reports it; all `(A,)`, in the units of the action space. `terminated` ends the return;
    `truncated` (time limit, stop, fault, stale sensor) does not: the value is bootstrapped from this observation.
    An episode that simply stops coming was truncated at its last step. `success` is the judge's word, which ends the
    episode; `cut_short` says that a stop, a discard, a device or the end of the run truncated it, not its time limit.
    What an episode comes to with the operator's marks is decided in `data/verdicts.py`.
    """

    episode: int
    index: int
    observation: Observation
    proposed: Array
    commanded: Array
    executed: Array
    reward: float
    terminated: bool
    truncated: bool
    provenance: Provenance
    weights_version: int
    t_monotonic: float
    t_wall: float
    success: bool = False
    cut_short: bool = False


class RewardResult(NamedTuple):
    """What a reward makes of a step: the reward, whether the task is over, and whether it succeeded, which ends it too.

    Success says nothing of the reward: it may be a cost of -1 in each step and 0 at success.
    """

    reward: float
    terminated: bool = False
    success: bool = False


class MarkKind(StrEnum):
    """What a mark says about steps that are recorded already."""

    UNDO = "undo"
    DISCARD = "discard"
    SUCCESS = "success"
    FAILURE = "failure"
    GAP = "gap"
    TRUNCATED = "truncated"


@dataclass(frozen=True)
class Mark:
    """A word on steps that are recorded already: it is appended behind them, and nothing is rewritten.

    UNDO takes back the last DISCARD, SUCCESS or FAILURE of the episode. DISCARD: the episode does not count for
    learning. SUCCESS, FAILURE: the operator's word; the episode's last step gets `reward`, and is terminated.
    GAP: a process died, or a record was damaged; what followed record `last_seq` of that process is missing, and
    `episode` (-1: none was begun) stopped there without an end. TRUNCATED: the episode was broken off behind its last
    step, for a `reason` that is no step's (a camera without a fresh frame).

    `episode` is one of the process (`actor`, `epoch`); without a name it is of the process that sends the mark.
    """

    kind: MarkKind
    episode: int = -1
    reward: float = 0.0
    actor: str = ""
    epoch: int = -1
    last_seq: int = -1
    t_wall: float = 0.0
    reason: str = ""

    def process(self, sender: tuple[str, int]) -> tuple[str, int]:
        """Whose `episode` it is (actor, epoch): the process that is named, else the one that sends the mark."""
        return (self.actor, self.epoch) if self.actor else sender


class Outcome(IntEnum):
    """What the operator says, by key, button or message.

    SUCCESS and FAILURE are for the reward that asks the operator. DISCARD and STOP end the episode at once; what was
    discarded is not learnt from. UNDO is about the episode before: if it counts, it no longer does, and if the operator
    had discarded it, it does again. DISCARD between two episodes is said of the one before. After PAUSE or STOP no
    episode begins until START.
    """

    NONE = 0
    SUCCESS = 1
    FAILURE = 2
    UNDO = 3
    DISCARD = 4
    STOP = 5
    START = 6
    PAUSE = 7


WORDS = {outcome.name.lower(): outcome for outcome in Outcome if outcome}
"""The operator's commands by their names, as buttons, keys and messages have them."""


Frame = Literal["base", "tool"]
AXES = ("x", "y", "z", "rx", "ry", "rz")
"""What a twist's six numbers are called in a hardware file."""


@dataclass(frozen=True)
class Handover:
    """What an operator's device says now: the one type that leaves a file of `teleop/`.

    `twist (6,)` is how far it is deflected, translation first, in shares of full deflection, [-1, 1]: along the axes of
    `frame` as the operator means them (base: x away from the operator, y to the left, z up), turning by the right hand.
    `active`: the clutch is closed, the dead-man's button held, or, on a device without one, anything deflected.
    `gripper`: 1 opens, -1 closes. `pace` is the share of the speed that they want now. `outcome` is the oldest word
    that was said and not read yet. `problem` says in words why the device is not there; then it is not active.
    """

    active: bool
    twist: Array
    frame: Frame = "base"
    gripper: float = 0.0
    pace: float = 1.0
    outcome: Outcome = Outcome.NONE
    problem: str = ""


@dataclass(frozen=True)
class Feel:
    """How a device feels in the hand. Each driver has its own; the options of a hardware file change it."""

    deadband: float = 0.0
    """This share of full deflection is taken for none, on each axis; beyond it the motion sets in from 0."""
    engage: float = 0.0
    """The largest deflection of the six from which on the operator takes hold, as a share; a device that has a
    dead-man's button or a clutch of its own goes by that alone."""
    release: float = 0.0
    """The same below which they let go."""
    release_s: float = 0.0
    """For so long [s] after that the arm holds its target, and taking hold again goes on with the same correction."""
    speed: float = 1.0
    """Share of the action's bound at full deflection."""
    axes: tuple[str, ...] = ("x", "y", "z", "rx", "ry", "rz")
    """Which axis of the device moves x, y, z, rx, ry, rz of the robot, with a sign ("-y")."""
    scale: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    """Factor of each of the robot's axes; 0 locks it."""
    frame: Frame | None = None
    """"base" or "tool", instead of the device's own."""
    arm: str = ""
    """Which of several arms it drives; the first, if not said."""


@dataclass(frozen=True)
class TeleopReading:
    """What the operator does now: `engaged` is the clutch, `action (A,)` is meant only while it is held.

    `outcome` is the word on the episode, if it was given since the last reading: a key, a button, the console.
    `problem` says why the device is not there, if it is not.
    """

    engaged: bool
    action: Array
    outcome: Outcome = Outcome.NONE
    problem: str = ""


@dataclass(frozen=True)
class SpaceSpec:
    """Observation and action spaces, known from task and hardware file alone, without opening anything.

    `observations` maps each name to (shape, dtype name); `action_size` is A.
    """

    observations: Mapping[str, tuple[tuple[int, ...], str]]
    action_size: int


Stream = tuple[str, int]
"""Who sends: actor and epoch. With the episode's number it says for ever which episode a step is of."""


@dataclass(frozen=True)
class Identity:
    """Which record this is, for ever: the `seq`-th (from 0) of one actor process, which drew `epoch` at its start."""

    actor: str
    epoch: int
    seq: int

    @property
    def stream(self) -> Stream:
        """Whose record it is."""
        return self.actor, self.epoch
