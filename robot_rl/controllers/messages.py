"""What an arm's process and its clients say to each other: fixed layouts, sizes checked, nothing that executes.

A message is one ZeroMQ frame: a header of 12 bytes and a body whose layout follows from the kind. The answer repeats
kind and number of its request, so that an answer that comes after its client has given up is recognised and dropped.
An answer with `status` 1 has an error's text as its body. Little endian.
"""

import struct
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np

from robot_rl.clock import ClockKind
from robot_rl.controllers.setup import ArmSetup
from robot_rl.types import ArmLimits, ArmState, ArmTarget, Array, Compliance, DataError, Fault, WorldState

HEADER = struct.Struct("<4sBBHI")
MAGIC = b"RRA1"
OK, ERROR = 0, 1
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


@dataclass(frozen=True)
class ArmInfo:
    """Who answers at an address. `joints` and `objects` fix the sizes of all other messages."""

    name: str
    joints: int
    objects: int
    clock: ClockKind
    simulated: bool


INFO = np.dtype([("joints", "<u4"), ("objects", "<u4"), ("lockstep", "?"), ("simulated", "?"), ("name", "S64")])
TARGET = np.dtype([("pose_base_tcp", "<f8", 7), ("period_s", "<f8"), ("lease_periods", "<f8")])
SEED = np.dtype([("seed", "<i8")])


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
    ])


def world_layout(joints: int, objects: int) -> np.dtype:
    """`WorldState`."""
    return np.dtype([
        ("sequence", "<i8"),
        ("t", "<f8"),
        ("q", "<f8", joints),
        ("objects", "<f8", (objects, 7)),
        ("goal_base_tcp", "<f8", 7),
        ("success", "?"),
        ("seed", "<i8"),
    ])


def setup_layout(joints: int) -> np.dtype:
    """`ArmSetup`, with its `Compliance` and `ArmLimits` flat."""
    sizes = {
        "workspace_low": 3,
        "workspace_high": 3,
        "workspace_quat": 4,
        "max_joint_speed": joints,
        "max_torque": joints,
    }
    sizes |= {"stiffness": 6, "damping": 6, "error_clip": 6}
    names = [field.name for kind in (Compliance, ArmLimits) for field in fields(kind)]
    flat = [(name, "<f8", sizes[name]) if name in sizes else (name, "<f8") for name in names]
    return np.dtype([("pose_flange_tool", "<f8", 7), ("leash_translation", "<f8"), ("leash_rotation", "<f8"), *flat])


def record(layout: np.dtype, value: object) -> Array:
    """A structured value `()` of a dataclass whose fields are the layout's; a wrong size raises DataError."""
    out = np.zeros((), layout)
    for name in layout.names or ():
        try:
            out[name] = getattr(value, name)
        except ValueError as error:
            raise DataError(f"{name} has the wrong size for this arm: {error}") from error
    return out


def setup_record(layout: np.dtype, setup: ArmSetup) -> Array:
    """A structured value of an `ArmSetup`."""
    out = np.zeros((), layout)
    for source in (setup, setup.compliance, setup.limits):
        for name in {field.name for field in fields(source)} & set(layout.names or ()):
            value = np.asarray(getattr(source, name), float)
            if value.shape != out[name].shape:
                raise DataError(f"{name} must have shape {out[name].shape} for this arm; it has {value.shape}")
            out[name] = value
    return out


def to_state(value: Array) -> ArmState:
    """The `ArmState` of a structured value."""
    return ArmState(
        sequence=int(value["sequence"]),
        t=float(value["t"]),
        q=value["q"],
        dq=value["dq"],
        pose_base_tcp=value["pose_base_tcp"],
        twist_base_tcp=value["twist_base_tcp"],
        wrench_base_tcp=value["wrench_base_tcp"],
        target_base_tcp=value["target_base_tcp"],
        holding=bool(value["holding"]),
        fault=Fault(int(value["fault"])),
    )


def to_world(value: Array) -> WorldState:
    """The `WorldState` of a structured value."""
    return WorldState(
        sequence=int(value["sequence"]),
        t=float(value["t"]),
        q=value["q"],
        objects=value["objects"],
        goal_base_tcp=value["goal_base_tcp"],
        success=bool(value["success"]),
        seed=int(value["seed"]),
    )


def to_setup(value: Array) -> ArmSetup:
    """The `ArmSetup` of a structured value."""
    plain = {name: value[name].tolist() for name in value.dtype.names or ()}
    plain = {name: tuple(number) if isinstance(number, list) else number for name, number in plain.items()}
    return ArmSetup(
        pose_flange_tool=np.array(plain["pose_flange_tool"]),
        compliance=Compliance(**{field.name: plain[field.name] for field in fields(Compliance)}),
        limits=ArmLimits(**{field.name: plain[field.name] for field in fields(ArmLimits)}),
        leash_translation=plain["leash_translation"],
        leash_rotation=plain["leash_rotation"],
    )


def to_target(value: Array) -> ArmTarget:
    """The `ArmTarget` of a structured value."""
    return ArmTarget(value["pose_base_tcp"].copy(), float(value["period_s"]), float(value["lease_periods"]))


def to_info(value: Array) -> ArmInfo:
    """The `ArmInfo` of a structured value."""
    clock: ClockKind = "lockstep" if value["lockstep"] else "real"
    name = bytes(value["name"]).decode()
    return ArmInfo(name, int(value["joints"]), int(value["objects"]), clock, bool(value["simulated"]))


def info_record(info: ArmInfo) -> Array:
    """A structured value of an `ArmInfo`."""
    return np.array(
        (info.joints, info.objects, info.clock == "lockstep", info.simulated, info.name.encode()[:64]), INFO
    )


def encode(kind: int, number: int, body: Array | bytes = b"", status: int = OK) -> bytes:
    """A message."""
    return HEADER.pack(MAGIC, kind, status, 0, number) + (body if isinstance(body, bytes) else body.tobytes())


def decode(message: bytes) -> tuple[Kind, int, int, bytes]:
    """(kind, status, number, body) of a message. Raises DataError if it is none."""
    if len(message) < HEADER.size:
        raise DataError(f"a message of {len(message)} bytes is shorter than its header of {HEADER.size}")
    magic, kind, status, _, number = HEADER.unpack_from(message)
    if magic != MAGIC:
        raise DataError(f"a message must begin with {MAGIC!r}, not {magic!r}: another program or another version")
    if kind not in Kind.__members__.values():
        raise DataError(f"unknown kind {kind}; known: {', '.join(f'{k.value} {k.name}' for k in Kind)}")
    return Kind(kind), status, number, message[HEADER.size :]


def body_as(layout: np.dtype, body: bytes) -> Array:
    """A body as a structured value `()`. Raises DataError if its size is not the layout's."""
    if len(body) != layout.itemsize:
        raise DataError(f"a body of {len(body)} bytes; this kind of message has {layout.itemsize}")
    return np.frombuffer(body, layout)[0]
