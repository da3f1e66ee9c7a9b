"""The bar of `handover`, its mark, and which hand has it: what the bench and the way over it share.

Lengths in metres; the frame is the base of the left arm, the table's top is z = 0.
"""

import mujoco
import numpy as np

from robot_rl.geometry import pose_inverse, pose_multiply
from robot_rl.sim.grasping import opening, tcp_pose
from robot_rl.sim.parts import pose_of
from robot_rl.types import Array

LEFT, RIGHT = 0, 1
APART_M = 1.0
"""Between the feet of the arms: our own."""
BAR = (0.20, 0.024, 0.024)
"""Length, width and height of a square bar of beech: 81 g. So long that two hands hold it whose
flanges, 96 mm thick, are 54 mm apart."""
HOLD_M, HOLD_RADIUS_M = (0.050, 0.097), 0.012
"""Where a hand holds its half well: so far from the bar's middle, which leaves the other one its room,
and so near to its axis [m]: with the fingertips alone, 13 to 18 mm from there, it tips."""
DEEP_M = 0.024
"""So much nearer to the palm it is between the fingers as well [m]."""
CLINGS_M = 0.03, 0.008
"""So far from its axis, and so far beyond its end, fingers that are as wide as the bar may still have
it [m]: their pads are 17 mm wide."""
LEVEL = 0.3
"""A bar that hangs by more than this, the sine of its pitch, has tipped in the hand."""
MARK = (0.24, 0.07)
"""Length and width of where the bar is to lie: 20 mm of room at either end, 23 mm beside it."""
ROOM_M = 0.02
"""An open hand is so much wider than the bar."""
GRASPED_M = 0.004
"""Fingers that are shut around it are at most so much wider than the bar."""
BEHIND_PADS_M = 0.006
"""Nor are they so much narrower, where it lies between the plates behind their pads, 2 mm from those."""

AHEAD = np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0])
"""The pose `(7,)` a metre ahead of fingertips, not turned."""


def shift(x: float, y: float) -> Array:
    """A pose `(7,)` so far along x and y [m], not turned."""
    return np.array([x, y, 0.0, 0.0, 0.0, 0.0, 1.0])


def axis(data: mujoco.MjData) -> Array:
    """The bar's axis `(3,)`, away from the left arm."""
    long: Array = data.body("bar").xmat.reshape(3, 3)[:, 0].copy()
    return long if long[0] >= 0.0 else -long


def is_level(data: mujoco.MjData) -> bool:
    """Whether the bar has not tipped in the hand that has it."""
    return abs(float(axis(data)[2])) < LEVEL


def is_on_mark(data: mujoco.MjData) -> bool:
    """Whether each corner of the bar is above the mark."""
    seen = pose_multiply(pose_inverse(pose_of(data.body("mark"))), pose_of(data.body("bar")))
    corners = [
        pose_multiply(seen, shift(x * BAR[0] / 2, y * BAR[1] / 2))
        for x, y in ((1, 1), (1, -1), (-1, 1), (-1, -1))
    ]
    return bool((np.abs(np.array(corners)[:, :2]) <= np.array(MARK) / 2).all())


def is_open(data: mujoco.MjData, arm: int) -> bool:
    """Whether there is room for the bar in a hand."""
    return opening(data, arm) > BAR[1] + ROOM_M


def place_on(data: mujoco.MjData, arm: int) -> tuple[float, float]:
    """Where an arm's fingertips are on its half of the bar: how far from the middle, and from the axis
    [m]; a bar that lies deeper in the hand is no farther from them.
    """
    tip, half = tcp_pose(data, arm), axis(data)
    place, ahead = tip[:3] - data.body("bar").xpos, pose_multiply(tip, AHEAD)[:3] - tip[:3]
    half *= 1.0 if arm == RIGHT else -1.0
    far = float(place @ half)
    aside = place - far * half
    aside -= min(max(float(aside @ ahead), 0.0), DEEP_M) * ahead
    return far, float(np.linalg.norm(aside))


def is_between(data: mujoco.MjData, arm: int) -> bool:
    """Whether an arm's half of the bar is between its fingertips."""
    far, aside = place_on(data, arm)
    return HOLD_M[0] <= far <= HOLD_M[1] and aside <= HOLD_RADIUS_M


def is_shut(data: mujoco.MjData, arm: int) -> bool:
    """Whether its half is between fingers that are as wide as it is."""
    return is_between(data, arm) and _are_closed(data, arm)


def is_around(data: mujoco.MjData, arm: int) -> bool:
    """Whether an arm's half of the bar is between closed fingers in any way."""
    far, aside = place_on(data, arm)
    between = aside < CLINGS_M[0] and 0.0 < far < BAR[0] / 2 + CLINGS_M[1]
    return between and _are_closed(data, arm)


def clings(data: mujoco.MjData, arm: int) -> bool:
    """Whether a bar in the air is between an arm's closed fingers in any way."""
    return bool(data.body("bar").xpos[2] > BAR[2]) and is_around(data, arm)


def _are_closed(data: mujoco.MjData, arm: int) -> bool:
    return -BEHIND_PADS_M < opening(data, arm) - BAR[1] < GRASPED_M
