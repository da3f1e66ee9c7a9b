"""What a task file and a hardware file hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np

from robot_rl.types.actions import AXES
from robot_rl.types.arm import ArmLimits, Array, Compliance, Load
from robot_rl.types.data import Use

DEFAULT_HARDWARE = "sim_panda"
ObsKind = Literal["pixels", "state"]
GripperUse = Literal["none", "held", "moved"]


@dataclass(frozen=True)
class Guard:
    """Something that is mounted on the flange and sticks out (a camera, a bracket): a rod with
    round ends.

    It is kept out of table, walls and keep-out boxes like the arm's own links.
    """

    name: str
    """What it is, for complaints."""
    start: tuple[float, float, float]
    """Middle of one of its ends in the flange's frame [m]."""
    end: tuple[float, float, float]
    """Middle of the other one."""
    radius_m: float
    """Of the rod and its ends [m]."""


@dataclass(frozen=True)
class ArmConfig:
    """One arm of a hardware file."""

    name: str
    """By which tasks, observations and `--arm` call it."""
    driver: str
    """A file of `controllers/arms`."""
    home: tuple[float, ...]
    """Joint angles where resets begin [rad]."""
    limits: ArmLimits
    """What it may do; a task can only tighten them."""
    pose_flange_tcp: tuple[float, float, float, float, float, float, float]
    """Where the TCP, between the fingertips, is in the flange's frame [m, xyzw]."""
    address: str = "local://arm"
    """Where its process listens."""
    load: Load | None = None
    """What hangs on the flange, sent to an arm that has to know it."""
    loop_cpu: int | None = None
    """On the real clock the core that its 1 kHz loop has for itself."""
    pose_bench_base: tuple[float, float, float, float, float, float, float] = (
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        1.0,
    )
    """Where its foot stands on the bench, whose z points up [m, xyzw]: there the console draws it,
    and `state/projected_gravity` is downwards."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The driver's own."""
    guards: tuple[Guard, ...] = ()
    """What else is mounted on the flange."""
    reset_compliance: Compliance | None = None
    """The law on the way to a start pose, for tasks that have none of their own."""


@dataclass(frozen=True)
class CameraConfig:
    """One camera of a hardware file: its driver (a file of `cameras`) and that driver's own
    options.
    """

    name: str
    driver: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GripperConfig:
    """One gripper of a hardware file that moves (a file of `controllers/grippers`)."""

    name: str
    driver: str
    options: Mapping[str, Any] = field(default_factory=dict)
    arm: str = ""
    """The arm that it sits on; with one arm it may be left out."""
    open_m: float = 0.08
    """Width to which it is opened [m]."""
    closed_m: float = 0.0
    """Width at which its fingers meet [m]."""
    speed: float = 0.1
    """Of the width [m/s]."""
    force_n: float = 40.0
    """With which it closes upon something [N]."""
    toggle_s: float = 0.6
    """Between two toggles, of the policy's or the operator's, at least [s]."""


@dataclass(frozen=True)
class Hardware:
    """A set-up on a bench: one hardware file, `source`, which is not there if it was changed since
    it was read.
    """

    source: ClassVar[Any] = None
    name: str
    arms: tuple[ArmConfig, ...]
    cameras: tuple[CameraConfig, ...] = ()
    grippers: tuple[GripperConfig, ...] = ()
    teleop: Use | None = None
    """The operator's device. It drives the first arm, unless its option `arm` names another."""
    more_teleop: tuple[Use, ...] = ()
    """Devices beside it, each of another arm."""

    def gripper_of(self, arm: ArmConfig) -> GripperConfig | None:
        """The gripper on an arm, if there is one that moves."""
        there = (gripper for gripper in self.grippers if gripper.arm in ("", arm.name))
        return next(there, None)


@dataclass(frozen=True)
class StartPose:
    """Where an arm's episodes start: a tool pose, and uniform ranges about it."""

    pose_base_tool: tuple[float, float, float, float, float, float, float]
    """The middle, in the base frame [m, xyzw]."""
    translation: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Half-widths along the base axes [m]."""
    rotation: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Half-widths of a rotation vector in the tool frame [rad]."""


@dataclass(frozen=True)
class Wander:
    """How far an arm may move by itself about a goal that it has just reached, so that an encoder
    learns where it is; the others stand.

    All of it but `lowest` is in the tool's axes at the goal. For goals that stand still, and that
    the tool may leave with whatever it holds.
    """

    way_out: tuple[float, float, float]
    """The straight way that frees the tool from what it was put into [m]: (0, 0, -0.025) leaves a
    hole 25 mm deep against the tool's z."""
    height: float
    """From the end of the way out the arm goes to poses up to so much further that way [m]."""
    aside: float
    """And so far to every side [m]."""
    rotation: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Turned by up to so much, a rotation vector [rad]."""
    lowest: float | None = None
    """But no lower than this, in the base frame [m], with what it holds: the limits of the arm's
    workspace are for an empty hand.
    """
    near_aside: float = 0.15
    """Half of the poses are close to the end of the way out: within this share of `aside`."""
    arm: int = 0
    """The number of the arm that does so."""
    carries: bool = False
    """Whether its hand first closes again on what it has laid down, and takes it along. It falls from
    there when the hand opens before the next reset: keep `height` low."""
    takes_from: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """With `carries` it closes somewhere between this place, seen from where it has let go [m],"""
    takes_to: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """and this one: all along what is longer than a hand is wide."""


@dataclass(frozen=True)
class Backward:
    """The way back of a task: what undoes it, so that nobody has to between two episodes.

    One policy learns both ways in turn and is told which (`state/direction`). What is not said here
    is as the task has it.
    """

    description: str
    """The way back in one line."""
    start: tuple[StartPose, ...]
    """Where its episodes start, for each arm."""
    reward: Use
    """What judges it, a file of `rewards`, with its options."""
    manual_reset: str
    """What a person does so that the task can begin anew ("close the drawer"): asked for before the
    first episode, and when the arm alone does not get on."""
    near_misses: tuple[str, ...] = ()
    """Failures that look like success on the way back."""
    retreat: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """As the task's own, after an episode of the way back [m]."""
    keeps_grip: bool = False
    """Whether hands stay as they are when it begins: they hold what is to be put back."""
    failures_at_most: int = 10
    """So many episodes in a row, either way, may fail before a person is asked to look."""


@dataclass(frozen=True)
class Task:
    """A skill to learn: everything about it that is not the hardware's.

    `source` is the file that it was read from, for complaints; it is not there if the task was
    changed since.
    """

    source: ClassVar[Any] = None
    name: str
    """The file's own."""
    description: str
    """The skill in one line."""
    start: tuple[StartPose, ...]
    """Where episodes start, for each arm."""
    cameras: tuple[str, ...]
    """Those of the hardware file that the policy sees."""
    reward: Use
    """A file of `rewards`, with its options."""
    scene: Use | None = None
    """A file of `sim/scenes`, for simulated arms."""
    rate_hz: float = 10.0
    """Control steps per second."""
    max_steps: int = 100
    """Time limit of an episode [control steps]."""
    image_size: tuple[int, int] = (128, 128)
    """Height and width of what the policy sees [pixels]."""
    action_translation: float = 0.008
    """An action of 1 moves the target so far along an axis of its own frame [m]."""
    action_rotation: float = 0.05
    """And turns it so far about one [rad]."""
    axes: tuple[str, ...] = AXES
    """The axes of the target's own frame along and about which actions move it, for every arm. The
    others are held: an action has no number for them, and the target keeps them."""
    grippers: tuple[GripperUse, ...] = ()
    """For each arm what the task does with its gripper: there is "none", it is "held" as it is, or
    "moved" by the policy. (): "none" for every arm."""
    hold_while_gripping: bool = False
    """Whether an arm stands while the fingers of its hand move, whoever moves it: HIL-SERL's waits
    0.6 s for them. What a policy's noise moves meanwhile is not between them."""
    reopen_empty: bool = False
    """Whether a hand that has closed and holds nothing opens again by itself, whoever closed it: with
    closed fingers an arm presses on what it was to take, and stays there."""
    leash_translation: float = 0.02
    """The target is kept so near the measured pose that it cannot wind up [m]."""
    leash_rotation: float = 0.15
    """The same for its rotation [rad]."""
    pose_tcp_tool: tuple[float, float, float, float, float, float, float] = (
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        1.0,
    )
    """The point of the tool that the task controls, a grasped peg's tip, seen from the hardware's
    TCP [m, xyzw].
    """
    compliance: Compliance = Compliance()
    """The law in contact."""
    reset_compliance: Compliance | None = None
    """A stiffer one, for precise resets."""
    max_drift: float | None = None
    """A reset first takes an arm home in joint space if one of its joints is further than this from
    the hardware's `home` [rad]; None: it never does."""
    manual_reset: str = ""
    """What a person has to do before each episode ("put the stick back into the holder"): the arm
    holds until it is done."""
    retreat: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """The straight way in the tool's own axes [m] by which it comes free of what it was in, after an
    episode, before it rises to the next start pose."""
    backward: Backward | None = None
    """The way back, which the same policy learns in turn with the task; None: somebody, or the
    simulation, lays everything out before each episode."""
    observe_gravity: bool = False
    """Whether the policy is told, beside the images, which way is down: where cameras are put back
    askew, they alone do not say how far the tool is tilted."""
    observe_place: bool = False
    """Whether the policy is told where the tool is on the bench, as seen from the middle of its start
    poses: for cameras that stand still beside an arm that goes far."""
    observe_grasp: bool = False
    """Whether the policy is told where each tool is, seen from where its hand has taken hold of what
    it holds: what is fetched from a table sits in the hand as high as the hand was above the table."""
    near_misses: tuple[str, ...] = ()
    """Failures that look like success, in words: the operator is asked for each in turn while
    outcomes are collected ("half in")."""
    wander: Wander | None = None
    """Allows, and bounds, the motion about the goal after a demonstration; without it there is
    none.
    """
    look_around: tuple[StartPose, ...] = ()
    """Where each arm may move by itself before a demonstration, the scene as it will be, so that an
    encoder sees what the hand is to fetch from many sides; without it, nowhere."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Tighter values for fields of the hardware's `ArmLimits`."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Run options of this task by dotted key: `{"learner.agent.discount": 0.97}`."""

    @property
    def hardware(self) -> str:
        """The hardware file that it is done on where no other is named."""
        return str(self.defaults.get("hardware", DEFAULT_HARDWARE))

    @property
    def action_scale(self) -> Array:
        """How far an action of 1 moves a target along, and turns it about, each axis of its own frame
        `(6,)` [m, rad].
        """
        return np.repeat([self.action_translation, self.action_rotation], 3)

    def gripper(self, arm: int) -> GripperUse:
        """What it does with the gripper of the arm of this number."""
        return self.grippers[arm] if self.grippers else "none"

    def half(self, backward: bool) -> "Task":
        """The task as it is one way alone: there, or with what its way back says in the place of its
        own.
        """
        if self.backward is None:
            return self
        back = self.backward
        said = {f.name: getattr(back, f.name) for f in fields(back) if f.name in SHARED}
        return replace(self, backward=None, **(said if backward else {}))


SHARED = ("description", "start", "reward", "near_misses", "retreat")
"""What a way back says for itself and a task has under the same name."""
