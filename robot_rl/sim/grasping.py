"""What scenes share whose hand picks something up: loose things lying anywhere, how to take hold of
them from above, and whether the fingers hold them.
"""

import math
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from robot_rl.geometry import pose_inverse, pose_multiply
from robot_rl.sim.panda import (
    FINGERS,
    HAND_TO_FINGERTIPS_M,
    LOOSE_CONTACT,
    POSE_FLANGE_HAND,
    prefix_of,
)
from robot_rl.sim.parts import pose_of
from robot_rl.sim.phases import Phase
from robot_rl.types import Array

POSE_HAND_TCP = np.array([0.0, 0.0, HAND_TO_FINGERTIPS_M, 0.0, 0.0, 0.0, 1.0])
Box = Sequence[tuple[float, float]]
"""The least and the largest x, y and z [m]."""
TURNS_M = 0.008
"""The operator's: so far above where it comes in line [m] its hand is still turned as it was."""
STILL_M_S = 0.01
"""What is held moves with the hand: this much slip [m/s] at most."""


def add_loose(spec: mujoco.MjSpec, name: str, at: Sequence[float]) -> mujoco.MjsBody:
    """A body that lies about and can be picked up; its shapes are the caller's."""
    body = spec.worldbody.add_body(name=name, pos=list(at))
    body.add_freejoint(name=name)
    return body


def slippery(friction: float) -> dict[str, object]:
    """Contact of a loose thing: of two friction coefficients MuJoCo takes the larger one, and the
    table's is 1 unless it is said otherwise; rubber pads bring their own.
    """
    return {**LOOSE_CONTACT, "friction": [friction, 0.005, 0.0001]}


def yaw_of(data: mujoco.MjData, body: str) -> float:
    """How a body's most level axis is turned about the base's z [rad]; x if that lies level."""
    matrix = data.body(body).xmat.reshape(3, 3)
    axis = 0 if abs(matrix[2, 0]) < 0.5 else int(np.abs(matrix[2]).argmin())
    return math.atan2(matrix[1, axis], matrix[0, axis])


def hand_yaw(data: mujoco.MjData, arm: int = 0) -> float:
    """How an arm's hand is turned about the scene's z, seen against pointing down with its x along
    the scene's [rad].
    """
    x = _hand(data, arm).xmat.reshape(3, 3)[:, 0]
    return math.atan2(x[1], x[0])


def nearest_yaw(yaw: float, alike: float, hand: float) -> float:
    """Of the yaws that are `alike` [rad] apart (a quarter turn for a cube) the one to take hold at:
    near the hand's, and rather near 0, where a wrist has room to both sides.
    """
    return yaw - alike * round((yaw - 0.5 * hand) / alike)


def tcp_pose(data: mujoco.MjData, arm: int = 0) -> Array:
    """The pose `(7,)` in the scene of the point between an arm's fingertips."""
    pose: Array = pose_multiply(pose_of(_hand(data, arm)), POSE_HAND_TCP)
    return pose


def tool_at(pose_base_tcp: Array, pose_flange_tool: Array) -> Array:
    """Where a tool on the flange is when the point between the fingertips is at a pose."""
    pose_flange_tcp = pose_multiply(np.array(POSE_FLANGE_HAND), POSE_HAND_TCP)
    pose_tcp_tool = pose_multiply(pose_inverse(pose_flange_tcp), pose_flange_tool)
    pose: Array = pose_multiply(pose_base_tcp, pose_tcp_tool)
    return pose


def approach(grasp: Array, clear_m: float, data: mujoco.MjData, done: bool) -> tuple[Phase, Phase]:
    """Just over what is to be grasped, with the arm's hand turned as it is, and in line there, fingertips
    still clear of it, so far above the `grasp`. Whoever turns the hand on the way down shows, near by,
    only what lies in line with it.
    """
    above, low = np.concatenate([grasp[:3], tcp_pose(data)[3:]]), grasp.copy()
    above[2] += clear_m + TURNS_M
    low[2] += clear_m
    return (
        Phase("over", above, gripper=1, near_m=0.008, near_rad=math.pi, done=done),
        Phase("in line", low, gripper=1, near_m=0.008, near_rad=0.08, done=done),
    )


def opening(data: mujoco.MjData, arm: int = 0) -> float:
    """How far an arm's fingers are apart [m]."""
    return sum(float(data.joint(prefix_of(arm) + name).qpos[0]) for name in FINGERS)


def hold_on(data: mujoco.MjData, body: str, arm: int = 0) -> Array:
    """The pose `(7,)` of an arm's fingertips, seen from a body's middle."""
    pose: Array = pose_multiply(pose_inverse(pose_of(data.body(body))), tcp_pose(data, arm))
    return pose


def is_between(data: mujoco.MjData, body: str, holds: Box, arm: int = 0) -> bool:
    """Whether a body is between an arm's fingertips: seen from its middle, they are within `holds`,
    all places at which they can hold it, and not those alone at which an operator would.
    """
    places = zip(hold_on(data, body, arm)[:3], holds, strict=True)
    return all(low <= place <= high for place, (low, high) in places)


def touching(model: mujoco.MjModel, data: mujoco.MjData, body: str) -> set[str]:
    """The names of the bodies that a body touches."""
    held, others = model.body(body).id, set()
    for first, second in model.geom_bodyid[data.contact.geom]:
        if held in (first, second):
            others.add(int(second if first == held else first))
    return {model.body(other).name for other in others}


def is_held(model: mujoco.MjModel, data: mujoco.MjData, body: str, arm: int = 0) -> bool:
    """Whether a loose body is held: both fingers of an arm touch it, it touches nothing else, and it
    moves with the hand.
    """
    if touching(model, data, body) != {prefix_of(arm) + name for name in FINGERS}:
        return False
    return slip(model, data, body, arm) < STILL_M_S


def slip(model: mujoco.MjModel, data: mujoco.MjData, body: str, arm: int = 0) -> float:
    """How fast a body moves against an arm's hand [m/s], seen where the body is."""
    hand, velocity = np.empty(6), np.empty(6)
    kind, own = mujoco.mjtObj.mjOBJ_XBODY, model.body(prefix_of(arm) + "hand").id
    mujoco.mj_objectVelocity(model, data, kind, own, hand, 0)
    mujoco.mj_objectVelocity(model, data, kind, model.body(body).id, velocity, 0)
    lever = data.body(body).xpos - data.xpos[own]
    return float(np.linalg.norm(velocity[3:] - hand[3:] - np.cross(hand[:3], lever)))


def _hand(data: mujoco.MjData, arm: int) -> Any:
    return data.body(prefix_of(arm) + "hand")
