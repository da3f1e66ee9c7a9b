"""A Franka Emika Panda of primitive shapes: published kinematics, identified inertias, datasheet
limits.

Sources. Kinematics: modified (Craig) Denavit-Hartenberg table of the Franka Control Interface
documentation, "Robot and interface specifications". Limits: the same page, Panda (FER). Inertias:
C. Gaz et al., "Dynamic Identification of the Franka Emika Panda Robot With Retrieval of Feasible
Parameters Using Penalty-Based Optimization", IEEE RA-L 4(4),
2019. Hand: 0.73 kg, two fingers of 40 mm each, Franka Hand product manual; where its fingers slide,
and their 15 g, `franka_description`. Shapes: our own, to be looked at and to touch the table.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import mujoco
import numpy as np

from robot_rl.geometry import pose_multiply
from robot_rl.sim.franka_facts import DH, FLANGE_M, PANDA
from robot_rl.types import ArmFacts, Array, ConfigError

POSE_FLANGE_HAND = (0.0, 0.0, 0.0, 0.0, 0.0, math.sin(-math.pi / 8), math.cos(math.pi / 8))
"""The hand is mounted at -45 degrees about the flange's z."""

JOINT_RANGE = tuple(zip(PANDA.joint_low, PANDA.joint_high, strict=True))
MAX_JOINT_SPEED, MAX_TORQUE = PANDA.max_joint_speed, PANDA.max_torque
UNKNOWN_LOAD = "unknown_load"
HAND_TO_FINGERTIPS_M = 0.1034
BOX = mujoco.mjtGeom.mjGEOM_BOX
READY = (0.0, -math.pi / 4, 0.0, -3 * math.pi / 4, 0.0, math.pi / 2, math.pi / 4)

ARMATURE = 0.1
JOINT_DAMPING = 1.0
"""Rotor inertia [kg m^2] and viscous friction [Nms/rad] per joint: usual in models of this arm, not
identified.
"""

MOST_FRICTION_NM, MOST_LOAD_KG = 10.0, 3.0

FINGERS = ("finger_left", "finger_right")
"""The fingers' joints [m], and bodies; their actuator is `fingers`."""
FINGER_RANGE_M, FINGER_KG, HAND_KG = 0.04, 0.015, 0.73
HAND_TO_FINGERS_M = 0.0584
DRIVE_KG, DRIVE_STIFFNESS, DRIVE_DAMPING = 0.1, 20_000.0, 70.0
"""What a finger's drive adds to its inertia, and the drive's gains in the width [N/m, Ns/m]: our
own.
"""

PAD = {
    "priority": 1,
    "condim": 3,
    "friction": [1.0, 0.005, 0.0001],
    "solref": [0.004, 10.0],
    "solimp": [0.9999, 0.9999, 0.001, 0.5, 2.0],
}
"""A rubber pad's own contact, chosen by measurement. What is held creeps out with
(1 - impedance) / impedance, and the pads chatter unless it sinks in a little: hence an impedance of
nearly 1, and ten times the critical damping. With a scene's contacts a peg slips 8 mm a second
under 20 N.
"""

WHITE, GREY = (0.92, 0.92, 0.94, 1.0), (0.25, 0.26, 0.28, 1.0)

ARM_CONTACT = {"contype": 2, "conaffinity": 4}
TOOL_CONTACT = {"contype": 1, "conaffinity": 4}
WORLD_CONTACT = {"contype": 4, "conaffinity": 3}
LOOSE_CONTACT = {"contype": 4, "conaffinity": 7}
"""Arm and tool touch the world, never each other: a welded tool must not fight its own hand. What
stands still does not touch what stands still. A loose thing (a cube, a lid) touches everything."""


@dataclass(frozen=True)
class Unmodelled:
    """What a simulated arm has and nobody has told its controller of: options of the drivers
    `mujoco` and `fci_sim`.
    """

    friction_nm: tuple[float, float, float, float, float, float, float] = (0.0,) * 7
    """Coulomb friction of the joints [Nm]. On one Panda 0.15 to 0.64 was identified (half the swing
    phi_1 of the sigmoid in the supplementary material of Gaz et al.); models of the FR3 for MuJoCo
    state 1.137."""
    unknown_load_kg: float = 0.0
    """A mass between the fingertips, which neither gravity compensation nor `load` of the hardware
    file knows of.
    """

    def __post_init__(self) -> None:
        if not all(0.0 <= friction <= MOST_FRICTION_NM for friction in self.friction_nm):
            raise ConfigError(
                f"friction_nm = {list(self.friction_nm)}; allowed: 0 to {MOST_FRICTION_NM:g} Nm"
                " each"
            )
        if not 0.0 <= self.unknown_load_kg <= MOST_LOAD_KG:
            raise ConfigError(
                f"unknown_load_kg = {self.unknown_load_kg:g}; allowed: 0 to {MOST_LOAD_KG:g} kg"
            )

    @classmethod
    def among(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Those of a driver's options that are meant for here, if others are not."""
        return {
            name: value
            for name, value in options.items()
            if name in {field.name for field in fields(cls)}
        }


@dataclass(frozen=True)
class Link:
    """Mass [kg], centre of mass [m], inertia (xx yy zz xy xz yz) [kg m^2], and shapes as (from, to,
    radius, rgba).
    """

    mass: float
    com: tuple[float, float, float]
    inertia: tuple[float, float, float, float, float, float]
    shapes: tuple[tuple[tuple[float, ...], tuple[float, ...], float, tuple[float, ...]], ...]


LINKS = (
    Link(4.970684, (0.003875, 0.002081, -0.04762), (0.70337, 0.70661, 0.0091170, -0.00013900, 0.0067720, 0.019169),
         (((0, 0, -0.19), (0, 0, 0), 0.06, WHITE),
          ((0, -0.06, 0), (0, 0.06, 0), 0.062, GREY))),
    Link(0.646926, (-0.003141, -0.02872, 0.003495), (0.0079620, 0.028110, 0.025995, -0.003925, 0.010254, 0.000704),
         (((0, 0, 0), (0, -0.16, 0), 0.058, WHITE),)),
    Link(3.228604, (0.027518, 0.039252, -0.066502), (0.037242, 0.036155, 0.01083, -0.004761, -0.011396, -0.012805),
         (((0, 0, -0.14), (0, 0, -0.05), 0.056, WHITE),
          ((0.0825, 0, -0.05), (0.0825, 0, 0.05), 0.056, GREY))),
    Link(3.587895, (-0.05317, 0.104419, 0.027454), (0.025853, 0.019552, 0.028323, 0.007796, -0.001332, 0.008641),
         (((-0.0825, 0.06, 0), (-0.0825, 0.1, 0), 0.055, WHITE),)),
    Link(1.225946, (-0.011953, 0.041065, -0.038437), (0.035549, 0.029474, 0.008627, -0.002117, -0.004037, 0.000229),
         (((0, 0, -0.24), (0, 0.02, -0.2), 0.058, WHITE),
          ((0, 0.07, -0.18), (0, 0.06, -0.02), 0.035, WHITE))),
    Link(1.666555, (0.060149, -0.014117, -0.010517), (0.001964, 0.004354, 0.005433, 0.000109, -0.001158, 0.000341),
         (((0, 0, -0.05), (0, 0, 0.05), 0.05, GREY),
          ((0.088, 0, -0.03), (0.088, 0, 0.03), 0.048, WHITE))),
    Link(0.735522, (0.010517, -0.004252, 0.061597), (0.012516, 0.010027, 0.004815, -0.000428, -0.001196, -0.000741),
         (((0, 0, 0.06), (0, 0, 0.095), 0.044, GREY),)),
)  # fmt: skip


def prefix_of(arm: int) -> str:
    """What stands before the names of an arm's bodies, joints and motors: nothing before the first
    one's, `arm1/` before the second one's.
    """
    return f"arm{arm}/" if arm else ""


def flange_pose(q: Sequence[float] | Array) -> Array:
    """Pose `(7,)` of the flange in the base for joint angles `q (7,)` [rad], by the published table
    alone.
    """
    pose = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    for (a, d, alpha), theta in zip(DH, q, strict=True):
        turn = np.array([0.0, 0.0, 0.0, 0.0, 0.0, math.sin(theta / 2), math.cos(theta / 2)])
        pose = pose_multiply(pose_multiply(pose, _pose_of_dh(a, d, alpha)), turn)
    result: Array = pose_multiply(pose, np.array([0.0, 0.0, FLANGE_M, 0.0, 0.0, 0.0, 1.0]))
    return result


def _pose_of_dh(a: float, d: float, alpha: float) -> Array:
    """Where a joint's frame sits in its parent's at angle zero: Rot_x(alpha) Trans_x(a) Trans_z(d)."""
    return np.array([
        a, -math.sin(alpha) * d, math.cos(alpha) * d, math.sin(alpha / 2), 0.0, 0.0, math.cos(alpha / 2)
    ])  # fmt: skip


def add_panda(
    spec: mujoco.MjSpec,
    facts: ArmFacts = PANDA,
    unmodelled: Unmodelled | None = None,
    *,
    fingers: bool = False,
) -> mujoco.MjsBody:
    """Add the arm with its torque motors and a hand to a model; the hand's body is returned.

    The hand is closed on something 20 mm wide, and what it holds has to be welded to it; with
    `fingers` it opens, closes and grips by friction (`sim/fingers.py` moves it).

    Joint ranges and torques are those of `facts`; kinematics and masses are the Panda's in any
    case.

    Every moving body carries gravity compensation, as the robot compensates itself, so that
    `qfrc_bias - qfrc_gravcomp` is the Coriolis torque. The `flange` body holds the site `tool`,
    which the driver may move. An unknown load is the body `unknown_load`, whose weight the driver
    applies.
    """
    unmodelled = unmodelled or Unmodelled()
    body = spec.worldbody.add_body(
        name="link0", mass=0.629769, ipos=[-0.041018, -0.00014, 0.049974]
    )
    body.fullinertia = [0.00315, 0.00388, 0.004285, 8.2904e-7, 0.00015, 8.2299e-6]
    body.explicitinertial = True
    _add_shape(body, mujoco.mjtGeom.mjGEOM_CYLINDER, (0, 0, 0), (0, 0, 0.14), 0.075, WHITE)
    for index, (link, dh) in enumerate(zip(LINKS, DH, strict=True)):
        body = _add_link(spec, body, index, link, _pose_of_dh(*dh), facts)
        _add_friction(body.joints[0], unmodelled.friction_nm[index])
    flange = body.add_body(name="flange", pos=[0.0, 0.0, FLANGE_M], gravcomp=1.0)
    flange.add_site(name="tool", pos=[0.0, 0.0, 0.1], group=4, size=[0.002] * 3)
    hand = _add_hand(flange)
    if fingers:
        hand.mass = HAND_KG - 2 * FINGER_KG
        _add_fingers(spec, hand)
    else:
        _add_closed_fingers(hand)
    if unmodelled.unknown_load_kg:
        _add_load(hand, unmodelled.unknown_load_kg)
    return hand


def _add_link(
    spec: mujoco.MjSpec,
    parent: mujoco.MjsBody,
    index: int,
    link: Link,
    pose: Array,
    facts: ArmFacts,
) -> mujoco.MjsBody:
    name = f"link{index + 1}"
    body = parent.add_body(
        name=name, pos=pose[:3], quat=wxyz(pose[3:]), gravcomp=1.0, mass=link.mass, ipos=link.com
    )
    body.fullinertia = link.inertia
    body.explicitinertial = True
    joint = body.add_joint(name=f"joint{index + 1}", axis=[0, 0, 1])
    joint.range = [facts.joint_low[index], facts.joint_high[index]]
    joint.limited = mujoco.mjtLimited.mjLIMITED_TRUE
    joint.armature, joint.damping = ARMATURE, [JOINT_DAMPING, 0.0, 0.0]
    motor = spec.add_actuator(
        name=f"motor{index + 1}", target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT
    )
    motor.set_to_motor()
    motor.ctrllimited = mujoco.mjtLimited.mjLIMITED_TRUE
    motor.ctrlrange = [-facts.max_torque[index], facts.max_torque[index]]
    for start, end, radius, rgba in link.shapes:
        kind = mujoco.mjtGeom.mjGEOM_CYLINDER if index == 6 else mujoco.mjtGeom.mjGEOM_CAPSULE
        _add_shape(body, kind, start, end, radius, rgba)
    return body


def _add_hand(flange: mujoco.MjsBody) -> mujoco.MjsBody:
    """The Franka Hand without its fingers."""
    hand = flange.add_body(name="hand", quat=wxyz(POSE_FLANGE_HAND[3:]), gravcomp=1.0)
    hand.mass, hand.ipos, hand.inertia = HAND_KG, [-0.01, 0.0, 0.03], [0.001, 0.0025, 0.0017]
    hand.explicitinertial = True
    look = {"type": BOX, "density": 0.0, "group": 1, **TOOL_CONTACT}
    hand.add_geom(size=[0.0316, 0.102, 0.026], pos=[0, 0, 0.040], rgba=WHITE, **look)
    hand.add_geom(size=[0.022, 0.05, 0.008], pos=[0, 0, 0.008], rgba=GREY, **look)
    return hand


def _add_closed_fingers(hand: mujoco.MjsBody) -> None:
    """Fingers that do not move, closed on something 20 mm wide."""
    look = {"type": BOX, "density": 0.0, "group": 1, "rgba": GREY, **TOOL_CONTACT}
    for side in (-1.0, 1.0):
        hand.add_geom(size=[0.0105, 0.0075, 0.022], pos=[0, side * 0.0175, 0.0845], **look)
        hand.add_geom(size=[0.0085, 0.0035, 0.010], pos=[0, side * 0.0136, 0.102], **look)


def _add_fingers(spec: mujoco.MjSpec, hand: mujoco.MjsBody) -> None:
    """Two fingers that slide together, wide open in the model's first posture, and their drive.

    Each pad has two rods in front of a plate, so that something flat is held at four points, and
    something thin or round by whatever it meets.
    """
    look = {"density": 0.0, "group": 1, "rgba": GREY, **TOOL_CONTACT}
    for name, side in zip(FINGERS, (1.0, -1.0), strict=True):
        at = [0.0, side * FINGER_RANGE_M, HAND_TO_FINGERS_M]
        finger = hand.add_body(name=name, pos=at, gravcomp=1.0, mass=FINGER_KG)
        finger.inertia, finger.explicitinertial = [4e-6, 4e-6, 1e-6], True
        joint = finger.add_joint(name=name, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0, side, 0])
        joint.range, joint.ref, joint.armature = [0.0, FINGER_RANGE_M], FINGER_RANGE_M, DRIVE_KG
        joint.limited = mujoco.mjtLimited.mjLIMITED_TRUE
        plate, pads = {"type": BOX, **look}, HAND_TO_FINGERTIPS_M - HAND_TO_FINGERS_M
        finger.add_geom(size=[0.0105, 0.0065, 0.018], pos=[0, side * 0.0085, 0.022], **plate)
        tip = [0, side * 0.0040, pads - 0.001]
        finger.add_geom(size=[0.0085, 0.0035, 0.010], pos=tip, **plate, **PAD)
        for x in (-0.005, 0.005):
            rod = {"type": mujoco.mjtGeom.mjGEOM_CAPSULE, "size": [0.002, 0.007, 0.0]}
            finger.add_geom(pos=[x, side * 0.002, pads], **rod, **look, **PAD)
    _add_drive(spec)


def _add_drive(spec: mujoco.MjSpec) -> None:
    """The actuator `fingers`, whose control is the width [m], and the gear that couples them."""
    kind = {"type": mujoco.mjtEq.mjEQ_JOINT, "objtype": mujoco.mjtObj.mjOBJ_JOINT}
    gear = spec.add_equality(name="gear", name1=FINGERS[0], name2=FINGERS[1], **kind)
    gear.data[:5] = [0.0, 1.0, 0.0, 0.0, 0.0]
    gear.solref, gear.solimp = [0.004, 1.0], [0.99, 0.999, 0.001, 0.5, 2.0]
    width = spec.add_tendon(name="width")
    for name in FINGERS:
        width.wrap_joint(name, 1.0)
    drive = spec.add_actuator(name="fingers", target=width.name, trntype=mujoco.mjtTrn.mjTRN_TENDON)
    drive.set_to_position(kp=DRIVE_STIFFNESS, kv=DRIVE_DAMPING)
    drive.forcelimited = mujoco.mjtLimited.mjLIMITED_TRUE
    drive.forcerange = [-20.0, 20.0]


def _add_friction(joint: mujoco.MjsJoint, torque_nm: float) -> None:
    """Coulomb friction that holds what it can hold: with MuJoCo's own softness a joint creeps by 5
    mrad/s.
    """
    joint.frictionloss = torque_nm
    joint.solref_friction = [0.004, 1.0]
    joint.solimp_friction = [0.99, 0.999, 0.001, 0.5, 2.0]


def _add_load(hand: mujoco.MjsBody, mass_kg: float) -> None:
    """A ball of steel between the fingertips, without a shape: its inertia moves with the arm."""
    load = hand.add_body(
        name=UNKNOWN_LOAD, pos=[0.0, 0.0, HAND_TO_FINGERTIPS_M], gravcomp=1.0, mass=mass_kg
    )
    radius = (3.0 * mass_kg / (4.0 * math.pi * 7850.0)) ** (1.0 / 3.0)
    load.inertia = [0.4 * mass_kg * radius**2] * 3
    load.explicitinertial = True


def _add_shape(
    body: mujoco.MjsBody,
    kind: mujoco.mjtGeom,
    start: Sequence[float],
    end: Sequence[float],
    radius: float,
    rgba: Sequence[float],
) -> None:
    ends = [float(x) for x in (*start, *end)]
    body.add_geom(
        type=kind, fromto=ends, size=[radius, 0, 0], rgba=rgba, density=0.0, group=1, **ARM_CONTACT
    )


def wxyz(quat: Sequence[float] | Array) -> list[float]:
    """A quaternion of this project (xyzw) in MuJoCo's order."""
    return [float(quat[3]), float(quat[0]), float(quat[1]), float(quat[2])]
