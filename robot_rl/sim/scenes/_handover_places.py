"""Where the hands go on the way of a bar from one to the other, and whose turn it is: what the scripted
operator of `handover` reads off the world at each moment.

Lengths in metres, angles in radians; the frame is the base of the left arm. Poses `(7,)` are of
fingertips that point down.
"""

import math

import mujoco
import numpy as np

from robot_rl.geometry import pose_inverse, pose_multiply
from robot_rl.sim.fixture import upright
from robot_rl.sim.grasping import tcp_pose
from robot_rl.sim.parts import pose_of
from robot_rl.sim.scenes._bar import (
    APART_M,
    BAR,
    CLINGS_M,
    HOLD_M,
    LEFT,
    RIGHT,
    axis,
    clings,
    is_around,
    is_between,
    is_level,
    is_on_mark,
    is_open,
    is_shut,
    place_on,
    shift,
)
from robot_rl.types import Array

GRIP_M = 0.075
"""From the bar's middle to where the left hand takes hold, 25 mm from the end, and about where the right
one does."""
TAKEN_M = (0.070, 0.092)
"""Where the right one does, in each scene elsewhere [m], since it waits here or there: an encoder that is
only shown bars which are held alike does not look at where the hand has them, and lays the others
down beside the mark."""
ALONG_M, ALONG_WITHIN_M = 0.03, (0.045, 0.105)
"""So far along the bar the left one comes down at most from where it takes hold, in each scene elsewhere, and
so far from the bar's middle [m]; there it slides. An encoder that is only shown low hands which are
where they close sees the goal where the hand is."""
HEIGHT_M = 0.12
"""So high above the table the bar is handed over."""
OVER_M, CLEAR_M = 0.025, 0.06
"""The point between the fingertips above the bar when they come in line with it, 16 mm of air below them,
and how far beyond its end an empty hand is out of the way [m]. Shown 1 mm of air, a policy came down
before it was in line, stood on the bar with one finger, and pressed."""
REACHED_X, BROUGHT_X = 0.445, 0.430
"""So far ahead of its foot the task lets an arm go, less what it may be off, and so far at most it brings
the bar, since it comes slowly to what is beyond [m]."""
BAR_X = APART_M / 2 - 0.005
"""There the bar's middle is when it is handed over [m]."""
MEETING_RIGHT = upright(BAR_X + GRIP_M, 0.0, HEIGHT_M, math.pi)
MEETING_LEFT = upright(BAR_X - GRIP_M, 0.0, HEIGHT_M, 0.0)
"""The poses `(7,)` of the fingertips where, or about where, the right hand waits for the bar, with its
fingers open around where that is to come, and where the left one brings it: about the middle of both
workspaces."""
MET_M = (0.010, 0.03, 0.025)
"""So far beside where it may wait, along x, y and z, a right hand waits well, too: the bar comes to where
it is, while it gets to its place."""
CLEAR_OF_END_M = 0.025
"""Fingers so far beyond the bar's end are ahead of it [m]."""
REACHED_AGAIN_X = 0.705
"""So near to its own foot the right hand gets [m]: it takes up by itself what lies between there and what
the left one reaches."""
IN_LINE_M = 0.008
"""So little beside it fingers come down to a bar that lies [m]."""
LIES_M = 0.003
"""So little above the table it lies there [m]."""
NEAR_M, NEAR_RAD = 0.02, 0.12
"""So near to its goal the bar is let go of [m, rad]."""


def right_has(data: mujoco.MjData) -> bool:
    """Whether the right hand has the bar. In the air any hold is one: who opens that hand drops the bar,
    and who is shown that it is opened there drops others.
    """
    return is_shut(data, RIGHT) or clings(data, RIGHT)


def left_brings(data: mujoco.MjData) -> bool:
    """Whether the left hand has the bar, and so that its end can be brought between fingers: one that has
    tipped is taken anew.
    """
    return is_shut(data, LEFT) and is_level(data)


def left_has_badly(data: mujoco.MjData) -> bool:
    """Whether the left hand has a bar in the air that it is to take anew: tipped, or in its fingertips. It
    puts it down before it opens: who is shown that it opens in the air drops others.
    """
    is_up = min(tcp_pose(data, LEFT)[2], data.body("bar").xpos[2]) > BAR[2] / 2 + LIES_M
    return is_up and is_around(data, LEFT) and not left_brings(data)


def lies_beyond(data: mujoco.MjData) -> bool:
    """Whether the bar lies where the left hand does not get to its end, and the right one does: in no
    hand, and not on the mark, where it may lie.
    """
    bar, along = data.body("bar").xpos, axis(data)
    lies = bar[2] < BAR[2] and is_level(data) and not is_on_mark(data)
    beyond = (
        bar[0] - HOLD_M[1] * along[0] > REACHED_X
        and bar[0] + HOLD_M[0] * along[0] < REACHED_AGAIN_X
    )
    return lies and bool(beyond) and not is_shut(data, LEFT) and not is_shut(data, RIGHT)


def right_waits(data: mujoco.MjData) -> bool:
    """Whether the right hand has the bar, or waits for it where bars are handed over."""
    tip = tcp_pose(data, RIGHT)
    ahead = tip[0] - _bar_x(data) - taken_there_m(data, tip)
    beside = [ahead, *(tip - MEETING_RIGHT)[1:3]]
    there = bool((np.abs(beside) < MET_M).all()) and _is_straight(tip, MEETING_RIGHT)
    return right_has(data) or (there and is_open(data, RIGHT))


def left_is_off(data: mujoco.MjData) -> bool:
    """Whether the left hand is out of the bar's way: open, and beyond its end."""
    seen = pose_multiply(pose_inverse(pose_of(data.body("bar"))), tcp_pose(data, LEFT))
    beyond = np.abs(seen[:3]) - np.array(BAR) / 2
    return is_open(data, LEFT) and float(np.linalg.norm(np.maximum(beyond, 0.0))) > 0.7 * CLEAR_M


def near_end(data: mujoco.MjData) -> Array:
    """The pose `(7,)` of fingertips that point down around the left arm's end of the bar: further
    out, where they would not get to it otherwise.
    """
    bar, along, least = data.body("bar").xpos, axis(data), _reached_m(data)
    near = bar - (least if GRIP_M < least < HOLD_M[1] - 0.002 else GRIP_M) * along
    return upright(near[0], near[1], near[2], math.atan2(along[1], along[0]))


def comes_down(data: mujoco.MjData) -> Array:
    """Where the left hand comes down, to slide from there along the bar to its end `near_end`: here or
    there in each scene; where it is, once that is above the bar and in line with it.
    """
    place, tip, along = near_end(data), tcp_pose(data, LEFT), axis(data)
    end, here = ((data.body("bar").xpos - pose[:3])[:2] @ along[:2] for pose in (place, tip))
    beside = np.linalg.norm((tip - place)[:2] - (end - here) * along[:2])
    in_line = beside < IN_LINE_M and abs(end - here) < ALONG_M and _is_straight(tip, place)
    far = here if in_line else end + ALONG_M * (2.0 * _chance(data, 1) - 1.0)
    far = max(np.clip(far, *ALONG_WITHIN_M), _reached_m(data))
    place[:2] += (end - far) * along[:2]
    return place


def is_down(data: mujoco.MjData) -> bool:
    """Whether the left hand is open and low around the bar, in line with it, so that it slides to its end."""
    far, aside = place_on(data, LEFT)
    around = 0.0 < far < BAR[0] / 2 + CLINGS_M[1] and aside < IN_LINE_M
    straight = _is_straight(tcp_pose(data, LEFT), near_end(data))
    return around and straight and is_open(data, LEFT)


def far_end(data: mujoco.MjData) -> Array:
    """The pose `(7,)` of fingertips that point down around the right arm's end of a bar that lies: nearer
    to its middle, where they would not get to it otherwise.
    """
    bar, along = data.body("bar").xpos, axis(data)
    most = (REACHED_AGAIN_X - bar[0]) / max(along[0], 0.1)
    x, y, _ = bar + min(max(most, HOLD_M[0]), GRIP_M) * along
    return upright(x, y, BAR[2] / 2, math.atan2(along[1], along[0]) + math.pi)


def down_to(place: Array, tip: Array) -> Array:
    """Where fingertips go that come down to a `place (7,)`: above it, until they are in line."""
    if np.linalg.norm((tip - place)[:2]) < IN_LINE_M and _is_straight(tip, place):
        return place
    above = place.copy()
    above[2] += BAR[2] / 2 + OVER_M
    return above


def meeting(data: mujoco.MjData) -> Array:
    """Where the right hand waits in this scene."""
    pose = MEETING_RIGHT.copy()
    pose[0] = _bar_x(data) + taken_m(data)
    return pose


def waiting_place(data: mujoco.MjData) -> Array:
    """Where the right hand goes to wait. Where the left one has come with the bar before it, it comes
    around its end: from beside, a finger would push it.
    """
    place, tip = meeting(data), tcp_pose(data, RIGHT)
    end = data.body("bar").xpos[0] + axis(data)[0] * BAR[0] / 2 + CLEAR_OF_END_M
    if is_shut(data, LEFT) and end > place[0] and abs(tip[1]) > BAR[1] / 2:
        place[0] = max(tip[0], end)
        place[1] = tip[1] if tip[0] < end - 0.01 else 0.0
    return place


def right_over_mark(data: mujoco.MjData, rests: bool) -> tuple[float, float, float]:
    """Where the right fingertips are, x and y [m], and how they are turned [rad], when the bar is
    over the middle of the mark and along it: as they hold it now, or as the operator takes it.
    Around a bar that `rests` there already, and that they do not hold, they stay.
    """
    x, y, _ = data.body("mark").xpos
    if right_has(data):
        return holding(data, RIGHT, x, y)
    if rests and is_between(data, RIGHT):
        tip = tcp_pose(data, RIGHT)
        return tip[0], tip[1], yaw_of(tip)
    return x + GRIP_M, y, math.pi


def holding(data: mujoco.MjData, arm: int, x: float, y: float) -> tuple[float, float, float]:
    """Where an arm's fingertips are, x and y [m], and how they are turned [rad], when the bar, as they
    hold it now, is there and points from arm to arm.
    """
    along, tip = axis(data), tcp_pose(data, arm)
    away, yaw = tip[:3] - data.body("bar").xpos, math.atan2(along[1], along[0])
    aside = away[1] * math.cos(yaw) - away[0] * math.sin(yaw)
    return x + float(away @ along), y + aside, yaw_of(tip) - yaw


def taken_m(data: mujoco.MjData) -> float:
    """Where the right hand takes hold of the bar in this scene [m]."""
    least, most = TAKEN_M
    return least + (most - least) * _chance(data, 0)


def _chance(data: mujoco.MjData, number: int) -> float:
    """From 0 to 1, in each scene another, that no picture shows: less than a millimetre of the mark's
    place, along x or y.
    """
    return float(data.body("mark").xpos[number] / 0.001 % 1.0)


def _reached_m(data: mujoco.MjData) -> float:
    """How far from its middle the left hand gets to the bar at least [m]."""
    return float((data.body("bar").xpos[0] - REACHED_X) / max(axis(data)[0], 0.1))


def taken_there_m(data: mujoco.MjData, fingers: Array) -> float:
    """How far from its middle the right fingers take hold of the bar where they are, of the places at
    which they may [m].
    """
    return min(max(fingers[0] - _bar_x(data), TAKEN_M[0]), TAKEN_M[1])


def _bar_x(data: mujoco.MjData) -> float:
    """Where the left hand brings the bar's middle [m]: nearer, where it holds it so far from its end that
    it does not get that to the usual place.
    """
    return min(BAR_X, BROUGHT_X + place_on(data, LEFT)[0]) if is_shut(data, LEFT) else BAR_X


def yaw_of(tip: Array) -> float:
    """How fingertips that point down are turned [rad]."""
    ahead = pose_multiply(tip, shift(1.0, 0.0))[:2] - tip[:2]
    return math.atan2(ahead[1], ahead[0])


def is_near(pose: Array, wanted: Array) -> bool:
    """Whether fingertips that point down are about where they are wanted."""
    near = bool(np.linalg.norm(pose[:3] - wanted[:3]) < NEAR_M)
    return near and _is_straight(pose, wanted)


def _is_straight(pose: Array, wanted: Array) -> bool:
    """Whether they are turned about as wanted."""
    return abs(float(pose[3:] @ wanted[3:])) > math.cos(NEAR_RAD / 2)
