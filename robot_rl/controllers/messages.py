"""What an arm's process and its clients say to each other: fixed layouts, sizes checked, nothing
that executes.

A message is one ZeroMQ frame: a header of 36 bytes and a body whose layout follows from the kind.
The answer repeats kind and number of its request, so that an answer that comes after its client has
given up is recognised and dropped. An answer with another `status` than OK has an error's text as
its body. `life` is a number that the arm's process draws when it starts; a request carries the one
that its client knows, so that an arm that was started anew, and has forgotten tool and limits of
the task, obeys nobody who does not know. `setup` numbers the CONFIGURE requests of that life, from
a random one on. What moves the arm carries the number that its client got: tool and limits are then
those that it asked for. What sets it up or acknowledges carries the number that is in force, which
an answer to INFO says: so nobody does it by accident. `client` is a number that each link draws;
its `number` only grows, so that a message that comes a second time is none. Little endian.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from robot_rl.config.limits import MOST_KEEP_OUT
from robot_rl.controllers.recorder import LoopStats
from robot_rl.controllers.setup import ArmSetup
from robot_rl.machine.clock import ClockKind
from robot_rl.types import (
    ArmLimits,
    ArmState,
    ArmTarget,
    Array,
    Box,
    Compliance,
    DataError,
    Fault,
    JointTarget,
    LimitFlags,
    WorldState,
)

HEADER = struct.Struct("<4sBBHIII16s")
MAGIC = b"RRA9"
NO_SECRET = bytes(16)
SETUPS = 1 << 16
OK, ERROR, WRONG = 0, 1, 2
"""What became of a request. WRONG: it asks for what may not be asked for, so that another try will
not help.
"""

MAX_BYTES = 1 << 16
"""Larger messages are not accepted by either side."""


class Kind(IntEnum):
    """What a client may ask."""

    INFO = 1
    CONFIGURE = 2
    COMMAND = 3
    STATE = 4
    ACKNOWLEDGE = 5
    WORLD = 6
    RESET = 7
    TUNE = 8
    TARE = 9
    MOVE_JOINTS = 10
    STATS = 12
    HOLD = 13
    MOVE_FINGERS = 14
    FINGERS = 15
    PAST = 16
    PAST_WORLD = 17


MOVING = (Kind.COMMAND, Kind.MOVE_JOINTS, Kind.TUNE, Kind.TARE)
"""What only the client may ask that set the arm up last."""

DELIBERATE = (Kind.CONFIGURE, Kind.ACKNOWLEDGE, Kind.MOVE_FINGERS)
"""What anybody may ask that knows the number of the set-up in force."""

OPEN = (
    Kind.INFO, Kind.STATE, Kind.STATS, Kind.WORLD, Kind.HOLD, Kind.FINGERS, Kind.PAST, Kind.PAST_WORLD,
)  # fmt: skip
"""What may be asked without the secret: to look on, and to stop the arm."""


@dataclass(frozen=True)
class ArmInfo:
    """Who answers at an address. `joints`, `objects` and `scene_joints` fix the sizes of all other
    messages.

    `scene_joints` is how many numbers say where the joints of the scene are (7 of a free body, 1 of
    a hinge). `fingers`: whether there are some that move in its world. `shared`: whether other arms
    stand there, too: in lockstep time goes on with their targets as well.
    """

    name: str
    joints: int
    objects: int
    scene_joints: int
    clock: ClockKind
    simulated: bool
    fingers: bool = False
    shared: bool = False


INFO = np.dtype([
    ("joints", "<u4"), ("objects", "<u4"), ("scene_joints", "<u4"),
    ("lockstep", "?"), ("simulated", "?"), ("fingers", "?"), ("shared", "?"), ("name", "S64"),
])  # fmt: skip
TARGET = np.dtype([
    ("pose_base_tcp", "<f8", 7),
    ("period_s", "<f8"),
    ("lease_periods", "<f8"),
    ("seen_t", "<f8"),
])
STATS = np.dtype([(field.name, "<f8") for field in fields(LoopStats)])
FINGER_NUMBERS = ("width_m", "speed", "force_n", "tolerance_m")
FINGER_ORDER = np.dtype([("order", "u1"), *((name, "<f8") for name in FINGER_NUMBERS)])
FINGERS = np.dtype([
    ("t", "<f8"), ("width_m", "<f8"), ("max_width_m", "<f8"),
    ("grasped", "?"), ("busy", "?"), ("succeeded", "?"), ("failed", "?"),
])  # fmt: skip
"""What fingers are asked to do, in [m], [m/s], [N], and how they stand (`fingers.py`)."""
REASON_BYTES = 400
SEED = np.dtype([("seed", "<i8")])
AGE = np.dtype([("age_s", "<f8")])
MOMENT = np.dtype([("pose_base_tcp", "<f8", 7)])
"""How long ago is asked for, and where the tool was then."""


def state_layout(joints: int) -> np.dtype:
    """`ArmState`."""
    return np.dtype([
        ("sequence", "<i8"),
        ("t", "<f8"),
        ("q", "<f8", joints),
        ("dq", "<f8", joints),
        ("pose_base_tcp", "<f8", 7),
        ("twist_base_tcp", "<f8", 6),
        ("wrench_base_tcp", "<f8", 6),
        ("target_base_tcp", "<f8", 7),
        ("holding", "?"),
        ("fault", "u1"),
        ("verdict", "<u4"),
        ("reason", f"S{REASON_BYTES}"),
        ("age_s", "<f8"),
        ("command_success", "<f8"),
    ])


def world_layout(joints: int, objects: int, scene_joints: int) -> np.dtype:
    """`WorldState`."""
    return np.dtype([
        ("sequence", "<i8"),
        ("t", "<f8"),
        ("q", "<f8", joints),
        ("objects", "<f8", (objects, 7)),
        ("goal_base_tcp", "<f8", 7),
        ("success", "?"),
        ("seed", "<i8"),
        ("scene_q", "<f8", (scene_joints,)),
        ("width_m", "<f8"),
        ("goal_back", "<f8", 7),
        ("success_back", "?"),
    ])


def joint_target_layout(joints: int) -> np.dtype:
    """`JointTarget`."""
    numbers = [(name, "<f8") for name in ("period_s", "speed", "lease_periods", "seen_t")]
    return np.dtype([("q", "<f8", joints), *numbers])


def compliance_layout(joints: int) -> np.dtype:
    """`Compliance`."""
    six = ("stiffness", "damping", "error_clip", "error_clip_minus", "integral")
    return _layout_of(Compliance, dict.fromkeys(six, 6) | {"posture": joints})


def limits_layout(joints: int) -> np.dtype:
    """`ArmLimits`; of `keep_out` the low and high corners, NaN where there is no box."""
    sizes = {
        "workspace_low": 3,
        "workspace_high": 3,
        "workspace_quat": 4,
        "body_low": 3,
        "body_high": 3,
    }
    sizes |= dict.fromkeys(("max_joint_speed", "max_torque", "joint_low", "joint_high"), joints)
    return _layout_of(ArmLimits, {**sizes, "keep_out": (MOST_KEEP_OUT, 2, 3)})


def setup_layout(joints: int) -> np.dtype:
    """`ArmSetup`."""
    return np.dtype([
        ("pose_flange_tool", "<f8", 7),
        ("leash_translation", "<f8"),
        ("leash_rotation", "<f8"),
        ("compliance", compliance_layout(joints)),
        ("limits", limits_layout(joints)),
    ])


def _layout_of(kind: type, sizes: Mapping[str, int | tuple[int, ...]]) -> np.dtype:
    """The numbers of a dataclass, one after the other."""
    return np.dtype([
        (field.name, "<f8", sizes[field.name]) if field.name in sizes else (field.name, "<f8")
        for field in fields(kind)
    ])


def record(layout: np.dtype, value: object) -> Array:
    """A structured value `()` of a dataclass whose fields are the layout's; a wrong size raises
    DataError.

    What is None or empty is NaN.
    """
    out = np.zeros((), layout)
    for name in layout.names or ():
        own = getattr(value, name)
        if out.dtype[name].names:
            out[name] = record(out.dtype[name], own)
        elif isinstance(own, str):
            out[name] = own.encode()[:REASON_BYTES]
        elif name == "keep_out":
            out[name] = np.nan
            out[name][: len(own)] = [(box.low, box.high) for box in own] or np.zeros((0, 2, 3))
        elif own is None or (isinstance(own, tuple) and not own):
            out[name] = np.nan
        elif np.shape(own) != out[name].shape:
            raise DataError(
                f"{name} must have shape {out[name].shape} for this arm; it has {np.shape(own)}"
            )
        else:
            out[name] = own
    return out


def _fields(value: Array) -> dict[str, Any]:
    """Arrays and numbers by name, of a structured value; a `seen_t` of NaN is None."""
    out = {
        name: value[name].copy() if value.dtype[name].shape else value[name].item()
        for name in value.dtype.names or ()
    }
    if "seen_t" in out and math.isnan(out["seen_t"]):
        out["seen_t"] = None
    return out


def to_state(value: Array) -> ArmState:
    """The `ArmState` of a structured value."""
    out = _fields(value)
    out["fault"], out["verdict"] = Fault(out["fault"]), LimitFlags(out["verdict"])
    out["reason"] = out["reason"].decode(errors="ignore")
    return ArmState(**out)


def to_world(value: Array) -> WorldState:
    """The `WorldState` of a structured value."""
    return WorldState(**_fields(value))


def to_setup(value: Array) -> ArmSetup:
    """The `ArmSetup` of a structured value."""
    limits = _numbers(value["limits"])
    corners = [box.tolist() for box in value["limits"]["keep_out"] if not np.isnan(box).all()]
    limits["keep_out"] = tuple(Box(tuple(low), tuple(high)) for low, high in corners)
    return ArmSetup(
        pose_flange_tool=value["pose_flange_tool"].copy(),
        compliance=to_compliance(value["compliance"]),
        limits=ArmLimits(**limits),
        leash_translation=float(value["leash_translation"]),
        leash_rotation=float(value["leash_rotation"]),
    )


def to_compliance(value: Array) -> Compliance:
    """The `Compliance` of a structured value."""
    return Compliance(**_numbers(value))


def _numbers(value: Array) -> dict[str, Any]:
    """Numbers and tuples by name; a tuple of nothing but NaN is empty."""
    plain = {name: value[name].tolist() for name in value.dtype.names or ()}
    return {
        name: _tuple(number) if isinstance(number, list) else number
        for name, number in plain.items()
    }


def _tuple(numbers: list[Any]) -> tuple[Any, ...]:
    return () if all(x != x for x in numbers) else tuple(numbers)


def to_target(value: Array) -> ArmTarget:
    """The `ArmTarget` of a structured value."""
    return ArmTarget(**_fields(value))


def to_joint_target(value: Array) -> JointTarget:
    """The `JointTarget` of a structured value."""
    return JointTarget(**_fields(value))


def to_stats(value: Array) -> LoopStats:
    """The `LoopStats` of a structured value."""
    return LoopStats(**_fields(value))


def to_info(value: Array) -> ArmInfo:
    """The `ArmInfo` of a structured value."""
    clock: ClockKind = "lockstep" if value["lockstep"] else "real"
    name = bytes(value["name"]).decode()
    joints, objects, scene_joints = (
        int(value[size]) for size in ("joints", "objects", "scene_joints")
    )
    simulated, fingers, shared = (bool(value[it]) for it in ("simulated", "fingers", "shared"))
    return ArmInfo(name, joints, objects, scene_joints, clock, simulated, fingers, shared)


def info_record(info: ArmInfo) -> Array:
    """A structured value of an `ArmInfo`."""
    sizes = (info.joints, info.objects, info.scene_joints)
    return np.array(
        (
            *sizes,
            info.clock == "lockstep",
            info.simulated,
            info.fingers,
            info.shared,
            info.name.encode()[:64],
        ),
        INFO,
    )


def encode(
    kind: int,
    life: int,
    number: int,
    body: Array | bytes = b"",
    status: int = OK,
    *,
    setup: int = 0,
    client: int = 0,
    secret: bytes = NO_SECRET,
) -> bytes:
    """A message."""
    head = HEADER.pack(MAGIC, kind, status, setup, life, client, number, secret)
    return head + (body if isinstance(body, bytes) else body.tobytes())


class Message(NamedTuple):
    """A message taken apart."""

    kind: Kind
    status: int
    setup: int
    life: int
    client: int
    number: int
    body: bytes
    secret: bytes = NO_SECRET


def decode(message: bytes) -> Message:
    """The parts of a message. Raises DataError if it is none."""
    if len(message) < HEADER.size:
        raise DataError(
            f"a message of {len(message)} bytes is shorter than its header of {HEADER.size}"
        )
    magic, kind, status, setup, life, client, number, secret = HEADER.unpack_from(message)
    if magic != MAGIC:
        raise DataError(
            f"a message must begin with {MAGIC!r}, not {magic!r}: another program or another"
            " version"
        )
    if kind not in Kind.__members__.values():
        raise DataError(
            f"unknown kind {kind}; known: {', '.join(f'{k.value} {k.name}' for k in Kind)}"
        )
    return Message(Kind(kind), status, setup, life, client, number, message[HEADER.size :], secret)


def body_as(layout: np.dtype, body: bytes) -> Array:
    """A body as a structured value `()`. Raises DataError if its size is not the layout's."""
    if len(body) != layout.itemsize:
        raise DataError(f"a body of {len(body)} bytes; this kind of message has {layout.itemsize}")
    return np.frombuffer(body, layout)[0]
