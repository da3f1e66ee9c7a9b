"""Steps, marks and what they are called by."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Any, Literal, NamedTuple

import numpy as np

from robot_rl.types.actions import STAY, ActionSpec
from robot_rl.types.arm import ArmTarget, Array, Fault, JointTarget

Observation = Mapping[str, Array]
"""Flat names: `state/...` float32 `(n,)`, `image/NAME` uint8 `(H, W, 3)` RGB; `judge/...`, of both
kinds, is for the task's judge alone: nothing that acts or learns sees it.
"""


@dataclass(frozen=True)
class Use:
    """One file of a folder of kinds, with its options: `Use("mujoco", {"width": 128})`."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


DRIVER_FAULTS = (Fault.DRIVER, Fault.REFLEX, Fault.COMMUNICATION, Fault.USER_STOP)
"""The arm itself has stopped: lost, in a reflex, out of touch, or by its own button. An
acknowledgement recovers it.
"""
Command = ArmTarget | JointTarget


@dataclass(frozen=True)
class FoundCamera:
    """A camera that is plugged in: its driver, the options that name it in a hardware file, and
    what it says it is.
    """

    driver: str
    options: Mapping[str, Any]
    description: str


@dataclass(frozen=True)
class WorldState:
    """The simulator's own truth: joint angles, the pose `(n, 7)` of each object that can move, and
    success.

    An object is a body of the scene with joints of its own, or one that a reset places. `scene_q
    (m,)` are the positions of all joints that are neither the arm's nor its fingers', in the
    model's order: how far a lid is open. `width_m` is between the fingers; NaN where they do not
    move.

    Only `cameras/mujoco.py`, `rewards/simulator.py` and the simulated operators
    (`teleop/scripted.py`, `human_like.py`) may look at it, a task's state-only variant, under its
    own name, the operator's page, for a person's eyes, and an evaluation, which judges by it
    (`actor/truth.py`) and takes it down (`evaluation_record.py`). `goal_base_tcp (7,)` is the TCP pose at
    which the task is done. `seed` is the last reset's: how the scene looks follows from it.
    `goal_back (7,)` and `success_back` are those of the task's way back, where the scene has one.
    """

    sequence: int
    t: float
    q: Array
    objects: Array
    goal_base_tcp: Array
    success: bool
    seed: int = 0
    scene_q: Array = field(default_factory=lambda: np.zeros(0))
    width_m: float = math.nan
    goal_back: Array = field(default_factory=lambda: np.full(7, math.nan))
    success_back: bool = False
    backward: bool = False
    """Whether goal and success are those of the way back."""

    def turned(self) -> "WorldState":
        """The same as the way back sees it."""
        goal, success = self.goal_back, self.success_back
        return replace(self, goal_base_tcp=goal, success=success, backward=True)


DIRECTION = "state/direction"
"""`(1,)`, of a task with a way back: 1 there, -1 back."""


PLACE = "place"
"""`state/place` `(6,)` [m, rad], of each arm: where its tool is, seen from the middle of the task's
start poses.
"""


GRASP = "grasp"
"""`state/grasp` `(6,)` [m, rad], of each arm: where its tool is, seen from where its hand has taken
hold of what it holds; zeros while it holds nothing.
"""


def goes_back(observation: Observation) -> bool:
    """Whether an observation is of an episode that goes the way back."""
    return DIRECTION in observation and bool(observation[DIRECTION][0] < 0.0)


class Provenance(IntEnum):
    """Who acted in a step. The arm by itself: SCRIPT wanders about a goal that it has reached, LOOK
    looks around before a demonstration in the same scene. GUIDE leads it along a demonstration in
    the middle of the policy's own episode (`operator/guide.py`); SEARCH is it, too, where it feels
    for the way on, which is no answer that is to be imitated.
    """

    POLICY = 0
    HUMAN = 1
    DEMO = 2
    SCRIPT = 3
    LOOK = 4
    GUIDE = 5
    SEARCH = 6


BY_ITSELF = frozenset((Provenance.SCRIPT, Provenance.LOOK))
"""The authors of episodes in which nobody tries the task: their frames are for encoder and judge."""
CORRECTS = frozenset((Provenance.HUMAN, Provenance.GUIDE, Provenance.SEARCH))
"""The authors of corrections: they take over from the policy in an episode of its own."""
SHOWS = frozenset((Provenance.DEMO, Provenance.HUMAN, Provenance.GUIDE))
"""The authors of what is to be imitated."""


@dataclass(frozen=True)
class Step:
    """One control step of an episode: what was done since the last observation, and the observation
    that followed.

    An episode of T actions is T+1 steps: the first (`index` 0) is the observation after the reset
    alone, its actions are zeros. `proposed` is the policy's action, `commanded` the policy's or
    human's, `executed` the command after all limits as the arm reports it; all `(A,)`, in the units
    of the action space. `terminated` ends the return; `truncated` (time limit, stop, fault, stale
    sensor) does not: the value is bootstrapped from this observation. An episode that simply stops
    coming was truncated at its last step. `success` is the judge's word, which ends the episode;
    `cut_short` says that a stop, a discard, a device or the end of the run truncated it, not its
    time limit. What an episode comes to with the operator's marks is decided in
    `stream/episodes.py`. `corrected` says which numbers of the action are the operator's in a step
    of theirs, bool `(A,)`, where the others are the policy's; None: all of them. Imitation counts
    these alone (`stream/motion.py`).
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
    corrected: Array | None = None


class RewardResult(NamedTuple):
    """What a reward makes of a step: the reward, whether the task is over, and whether it
    succeeded, which ends it too.

    Success says nothing of the reward: it may be a cost of -1 in each step and 0 at success.
    """

    reward: float
    terminated: bool = False
    success: bool = False


@dataclass(frozen=True)
class JudgeInputs:
    """What a judge looks at beside what the policy sees; the log holds it, under `judge/...`."""

    cameras: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Cameras of the bench, with the height and width of the pictures [pixels]."""
    numbers: tuple[str, ...] = ()
    """Of `JUDGE_NUMBERS`, one for each arm; a width for each gripper that moves."""


JUDGE_NUMBERS = ("height", "force", "width")
"""Height of the tool in the arm's base frame [m], norm of the force on it [N], and the opening of
the gripper [m].
"""


class MarkKind(StrEnum):
    """What a mark says about steps that are recorded already."""

    UNDO = "undo"
    DISCARD = "discard"
    SUCCESS = "success"
    FAILURE = "failure"
    DENY = "deny"
    GAP = "gap"
    TRUNCATED = "truncated"
    REWARD_VERSION = "reward_version"


@dataclass(frozen=True)
class Mark:
    """A word on steps that are recorded already: it is appended behind them, and nothing is
    rewritten.

    UNDO takes back the last DISCARD, SUCCESS, FAILURE or DENY of the episode. DISCARD: the episode
    does not count for learning. SUCCESS, FAILURE: the operator's word; the episode's last step gets
    `reward`, and is terminated. DENY: "that was no success"; the episode's success is taken back,
    and its last step, of reward 0, is truncated there. While the episode goes on it is a note for
    the classifier alone, at `t_wall`. GAP: a process died, or a record was damaged; what followed
    record `last_seq` of that process is missing, and `episode` (-1: none was begun) stopped there
    without an end. TRUNCATED: the episode was broken off behind its last step, for a `reason` that
    is no step's (a camera without a fresh frame). REWARD_VERSION: the episodes of this process that
    begin behind it are judged by `version` of a learned judge, whose name is the `reason`; before
    the first, by version 1.

    With an `index` the word is the operator's answer about that step, seen at `t_wall`, and a label
    for a judge that learns. SUCCESS: the episode succeeded there, and what follows is not of it.
    DENY changes nothing of how the episode ends. UNDO takes no answer back.

    `episode` is one of the process (`actor`, `epoch`); without a name it is of the process that
    sends the mark.
    """

    kind: MarkKind
    episode: int = -1
    reward: float = 0.0
    actor: str = ""
    epoch: int = -1
    last_seq: int = -1
    t_wall: float = 0.0
    reason: str = ""
    version: int = 0
    index: int = -1

    def process(self, sender: tuple[str, int]) -> tuple[str, int]:
        """Whose `episode` it is (actor, epoch): the process that is named, else the one that sends
        the mark.
        """
        return (self.actor, self.epoch) if self.actor else sender


class OperatorCommand(IntEnum):
    """What the operator says, by key, button or message.

    SUCCESS and FAILURE are for the reward that asks the operator. DISCARD and STOP end the episode
    at once; what was discarded is not learnt from. UNDO is about the episode before: if it counts,
    it no longer does, and if the operator had discarded it, it does again. DISCARD between two
    episodes is said of the one before. After PAUSE or STOP no episode begins until START. DENY says
    of the episode before that it was no success; during an episode, of what was seen last.
    """

    NONE = 0
    SUCCESS = 1
    FAILURE = 2
    UNDO = 3
    DISCARD = 4
    STOP = 5
    START = 6
    PAUSE = 7
    DENY = 8


Frame = Literal["base", "tool"]


@dataclass(frozen=True)
class TeleopEvent:
    """What an operator's device says now: the one type that leaves a file of `teleop/`.

    `twist (6,)` is how far it is deflected, translation first, in shares of full deflection, [-1,
    1]: along the axes of `frame` as the operator means them (base: x away from the operator, y to
    the left, z up), turning by the right hand. `active`: the clutch is closed, the dead-man's
    button held, or, on a device without one, anything deflected. `gripper`: 1 opens, -1 closes.
    `pace` is the share of the speed that they want now. `outcome` is the oldest word that was said
    and not read yet. `problem` says in words why the device is not there; then it is not active.
    """

    active: bool
    twist: Array
    frame: Frame = "base"
    gripper: float = 0.0
    pace: float = 1.0
    outcome: OperatorCommand = OperatorCommand.NONE
    problem: str = ""


@dataclass(frozen=True)
class TeleopMapping:
    """How a device feels in the hand. Each driver has its own; the options of a hardware file
    change it.
    """

    deadband: float = 0.0
    """This share of full deflection is taken for none, on each axis; beyond it the motion sets in
    from 0.
    """
    engage: float = 0.0
    """The largest deflection of the six from which on the operator takes hold, as a share; a device
    that has a dead-man's button or a clutch of its own goes by that alone."""
    release: float = 0.0
    """The same below which they let go."""
    release_s: float = 0.0
    """For so long [s] after that the arm holds its target, and taking hold again goes on with the
    same correction.
    """
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
class TeleopAction:
    """What the operator does now: `engaged` while they have hold of anything, `action (A,)` is meant
    only then.

    `outcome` is the word on the episode, if it was given since the last reading: a key, a button,
    the console. `problem` says why the device is not there, if it is not. `gripper` is what is said
    to the gripper of the device's arm: CLOSE, STAY or OPEN. `given (A,)` bool says which numbers of
    the action are the operator's: those of each arm whose clutch is closed, and of each gripper
    that is told to open or close; None: all of them.
    """

    engaged: bool
    action: Array
    outcome: OperatorCommand = OperatorCommand.NONE
    problem: str = ""
    gripper: float = STAY
    given: Array | None = None


@dataclass(frozen=True)
class SpaceSpec:
    """Observation and action spaces, known from task and hardware file alone, without opening
    anything.

    `observations` maps each name to (shape, dtype name).
    """

    observations: Mapping[str, tuple[tuple[int, ...], str]]
    actions: ActionSpec

    @property
    def action_size(self) -> int:
        """A."""
        return self.actions.size

    @staticmethod
    def unnamed(
        observations: Mapping[str, tuple[tuple[int, ...], str]], action_size: int
    ) -> "SpaceSpec":
        """Spaces whose actions have no names, as those of old recordings."""
        return SpaceSpec(observations, ActionSpec.unnamed(action_size))


ActorStream = tuple[str, int]
"""Who sends: actor and epoch. With the episode's number it says for ever which episode a step is
of.
"""


@dataclass(frozen=True)
class RecordId:
    """Which record this is, for ever: the `seq`-th (from 0) of one actor process, which drew
    `epoch` at its start.
    """

    actor: str
    epoch: int
    seq: int

    @property
    def stream(self) -> ActorStream:
        """Whose record it is."""
        return self.actor, self.epoch
