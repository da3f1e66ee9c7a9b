"""The values that cross from one room to another: frozen, typed, with units and frames. No behaviour, no device.

Arrays inside these values are not copied when they are handed over, and nobody writes into them afterwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

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


class ArmFaultError(DeviceError):
    """The arm latched a fault: it holds its pose until somebody acknowledges."""


class LinkError(RobotRLError):
    """The process on the other side of a link is missing, silent, or speaks another version."""


class RefusedError(LinkError):
    """The other side will not work with this one: another code, task, hardware or space. Starting again does not help."""


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


@dataclass(frozen=True)
class ArmLimits:
    """What binds every motion of an arm: policy, human and reset alike. A task may tighten it, never widen it.

    The workspace is a box for the TCP in the base frame [m] and the largest tilt and turn [rad] away from
    `workspace_quat` (the orientation in its middle). A target outside is clipped to it; a measured pose more than
    `workspace_margin_m` outside latches a fault, as does a joint [rad/s], a TCP [m/s] or an external force [N] above
    its limit. Torques [Nm] and torque rates [Nm/s] are clipped.
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


@dataclass(frozen=True)
class Compliance:
    """The impedance that a task wants: per axis in the base frame, translation first.

    `stiffness` [N/m, Nm/rad] times `error_clip` [m, rad] is the largest static force [N, Nm] on each axis, whatever
    the target. `filter_time_s` is the time constant of the reference filter; `nullspace_stiffness` [Nm/rad] pulls the
    posture towards `posture` (the joint angles [rad] at the start of an episode, if left empty).
    Source: serl_franka_controllers, CartesianImpedanceController (defaults 2000/89/150/7).
    """

    stiffness: tuple[float, ...] = (2000.0, 2000.0, 2000.0, 150.0, 150.0, 150.0)
    damping: tuple[float, ...] = (89.0, 89.0, 89.0, 7.0, 7.0, 7.0)
    error_clip: tuple[float, ...] = (0.01, 0.01, 0.01, 0.05, 0.05, 0.05)
    filter_time_s: float = 0.05
    nullspace_stiffness: float = 10.0


@dataclass(frozen=True)
class ArmTarget:
    """What the actor asks of an arm, once per control period.

    The arm follows `pose_base_tcp (7,)` until the lease of `lease_periods * period_s` runs out; then it holds. In
    lockstep the simulated world advances by `period_s` for each target, and nothing moves in between.
    """

    pose_base_tcp: Array
    period_s: float
    lease_periods: float = 3.0


@dataclass(frozen=True)
class ArmState:
    """What the arm reports: measured at `t` [s], on the arm's own monotonic clock.

    `twist_base_tcp` and `wrench_base_tcp` are `(6,)`, in base axes at the TCP; the wrench is what the world exerts on
    the tool. `target_base_tcp` is the target in force, after all limits: what was *executed*.
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


@dataclass(frozen=True)
class WorldState:
    """The simulator's own truth: joint angles, the pose `(n, 7)` of each object that can move, and success.

    Only `cameras/mujoco.py`, `rewards/simulator.py` and `teleop/scripted.py` may look at it, and a task's state-only
    variant, under its own name. `goal_base_tcp (7,)` is the TCP pose at which the task is done. `seed` is the last
    reset's: how the scene looks follows from it.
    """

    sequence: int
    t: float
    q: Array
    objects: Array
    goal_base_tcp: Array
    success: bool
    seed: int = 0


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
    An episode that simply stops coming was truncated at its last step.
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


class MarkKind(StrEnum):
    """What a mark says about steps that are recorded already."""

    UNDO = "undo"
    DISCARD = "discard"
    SUCCESS = "success"
    FAILURE = "failure"
    REWARD_VERSION = "reward_version"
    GAP = "gap"
    DEMOS_COMPLETE = "demos_complete"


@dataclass(frozen=True)
class Mark:
    """A word on steps that are recorded already: it is appended behind them, and nothing is rewritten.

    UNDO takes back the last DISCARD, SUCCESS or FAILURE of the episode. DISCARD: the episode does not count for
    learning. SUCCESS, FAILURE: the operator's word; the episode's last step gets `reward`, and is terminated.
    REWARD_VERSION: rewards are the judge's of this `version` from here on. GAP: a process died, or a record was
    damaged; what followed record `last_seq` of that process is missing, and `episode` (-1: none was begun) stopped
    there without an end. DEMOS_COMPLETE: the demonstrations are all here.

    `episode` is one of the process (`actor`, `epoch`); without a name it is of the process that sends the mark.
    """

    kind: MarkKind
    episode: int = -1
    reward: float = 0.0
    version: str = ""
    actor: str = ""
    epoch: int = -1
    last_seq: int = -1
    t_wall: float = 0.0


@dataclass(frozen=True)
class TeleopReading:
    """What the operator does now: `engaged` is the clutch, `action (A,)` is meant only while it is held."""

    engaged: bool
    action: Array


@dataclass(frozen=True)
class SpaceSpec:
    """Observation and action spaces, known from task and hardware file alone, without opening anything.

    `observations` maps each name to (shape, dtype name); `action_size` is A.
    """

    observations: Mapping[str, tuple[tuple[int, ...], str]]
    action_size: int


@dataclass(frozen=True)
class Identity:
    """Which record this is, for ever: the `seq`-th (from 0) of one actor process, which drew `epoch` at its start."""

    actor: str
    epoch: int
    seq: int
