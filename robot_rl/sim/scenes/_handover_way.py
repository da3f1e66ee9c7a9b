"""The way of a bar from hand to hand, as a scripted operator goes it: the phases of `handover`.

Lengths in metres, angles in radians; the frame is the base of the left arm.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import mujoco
import numpy as np

from robot_rl.geometry import pose_inverse, pose_multiply
from robot_rl.sim.fixture import upright
from robot_rl.sim.grasping import approach, tcp_pose
from robot_rl.sim.parts import pose_of
from robot_rl.sim.phases import Phase
from robot_rl.sim.scenes._bar import (
    APART_M,
    BAR,
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
HEIGHT_M = 0.12
"""So high above the table the bar is handed over."""
OVER_M, CLEAR_M = 0.01, 0.06
"""Fingertips above the bar when they come in line with it, and how far beyond its end an empty hand is
out of the way [m]."""
REACHED_X, BROUGHT_X = 0.445, 0.430
"""So far ahead of its foot the task lets an arm go, less what it may be off, and so far at most it brings
the bar, since it comes slowly to what is beyond [m]."""
HANDS_M = 0.145
"""So far from each other the hands stay, which are kept apart at 141 mm [m]."""
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
BEHIND_M = 0.07
"""So far before it is handed over the bar is in line with the fingers that it is to come between [m]."""
CLEAR_OF_END_M, LIFTED_M = 0.025, 0.02
"""Fingers so far beyond the bar's end are ahead of it, and so near below the height where it is handed
over it is lifted [m]."""
REACHED_AGAIN_X = 0.705
"""So near to its own foot the right hand gets [m]: it takes up by itself what lies between there and what
the left one reaches."""
IN_LINE_M, SLIDES_M = 0.008, 0.06
"""So little beside it fingers come down to a bar that lies, and one so near to its place is slid there,
and not lifted [m]."""
LIES_M = 0.003
"""So little above the table it lies there [m]."""
NEAR_M, NEAR_RAD, FALLS_M = 0.02, 0.12, 0.02
"""So near to its goal the bar is let go of [m, rad], and from so far above the mark it falls there [m]."""


def phases(data: mujoco.MjData) -> Sequence[Phase]:
    """The left hand picks its end of the bar up, the right one opens where bars are handed over, the
    left one brings the other end between those fingers, they close, the left hand lets go and
    withdraws, the right one lays the bar down.

    The bar comes to one place ahead of the left arm, and across that to where the right hand waits, which
    is here or there along it: whose turn it is, and how far, both see at each moment. What lies on the
    right arm's side, beside the mark, say, that takes up again by itself.
    """
    return (*_picking_up(data), *_handing_over(data), *_laying_down(data))


def _picking_up(data: mujoco.MjData) -> Sequence[Phase]:
    here, between = tcp_pose(data, LEFT), is_between(data, LEFT)
    taken = _has(data) or _lies_beyond(data)
    has = taken or (_brings(data) and data.body("bar").xpos[2] > HEIGHT_M / 2)
    near, says, badly = _near_end(data), 1, _has_badly(data)
    if badly:  # down with it, as it is held
        near, says = upright(here[0], here[1], BAR[2] / 2, _yaw(here)), -1
    up = np.concatenate([here[:2], [HEIGHT_M], here[3:]])
    high = here[2] > HEIGHT_M - LIFTED_M
    held = partial(Phase, gripper=-1, ready=between and is_level(data))
    return (
        *approach(near, BAR[2] / 2 + OVER_M, data, done=has or badly),
        Phase("down", near, gripper=says, near_m=0.004, near_rad=0.05, pace=0.8, done=has),
        held("close", near, near_m=0.02, near_rad=0.2, steps=8, unsteady=0.2, done=has),
        held("lift", up, near_m=LIFTED_M, near_rad=0.1, done=taken or high),
    )


def _handing_over(data: mujoco.MjData) -> Sequence[Phase]:
    left, right, waits = _brings(data), _has(data), _waits(data)
    lies, here = _lies_beyond(data), tcp_pose(data, LEFT)
    fingers = tcp_pose(data, RIGHT) if waits else _meeting(data)
    hold_m = _taken_there_m(data, fingers)
    far = data.body("bar").xpos + hold_m * axis(data)

    def brought(before_m: float) -> Array:
        """The left hand, where the bar's end is so far before the right fingers, and straight."""
        x, y, yaw = _holding(data, LEFT, fingers[0] - hold_m - before_m, fingers[1])
        x = min(x, BROUGHT_X, fingers[0] - HANDS_M)
        return upright(x, y, fingers[2] + here[2] - far[2], yaw)

    lets_go = here if right or lies else brought(0.0)
    back = MEETING_LEFT.copy()
    back[0] -= CLEAR_M + BAR[0] / 2 - GRIP_M
    of_left = partial(Phase, arm=LEFT, gripper=1)
    taken = right and is_open(data, LEFT)
    wait, take = _taking_up(data) if lies else _taking_over(data, fingers, done=taken)
    brings = partial(Phase, gripper=-1, near_rad=0.08, ready=left and waits, done=right or lies)
    stands = partial(replace, near_m=0.02, near_rad=0.2, steps=8, unsteady=0.2)
    return (
        wait,
        brings("bring", brought(BEHIND_M), near_m=0.012),
        brings("between", brought(0.0), near_m=0.004),
        stands(take),
        stands(of_left("let go", lets_go, ready=right, done=is_open(data, LEFT))),
        of_left("withdraw", back, near_m=0.01, near_rad=0.1, ready=taken, done=_is_off(data)),
    )


def _taking_over(data: mujoco.MjData, fingers: Array, done: bool) -> tuple[Phase, Phase]:
    """The right hand waits, and closes around what is brought between its fingers."""
    lifted = _brings(data) and tcp_pose(data, LEFT)[2] > HEIGHT_M - 2 * LIFTED_M
    wait = Phase("wait", _waiting_place(data), gripper=1, near_m=0.015, near_rad=0.06, arm=RIGHT)
    take = Phase("take", fingers, gripper=-1, ready=is_between(data, RIGHT), done=done, arm=RIGHT)
    return replace(wait, ready=lifted, done=_has(data), stays=True), take


def _taking_up(data: mujoco.MjData) -> tuple[Phase, Phase]:
    """It comes down around what lies on its side, and closes; around what it has just let go of it stays."""
    tip, around = tcp_pose(data, RIGHT), is_between(data, RIGHT)
    place = tip if around else _far_end(data)
    come = Phase("wait", _down_to(place, tip), gripper=1, near_m=0.005, near_rad=0.06, arm=RIGHT)
    take = Phase("take", place, gripper=-1, ready=around, arm=RIGHT)
    return replace(come, pace=0.8, done=around), take


def _laying_down(data: mujoco.MjData) -> Sequence[Phase]:
    bar, tip = data.body("bar"), tcp_pose(data, RIGHT)
    # if need be with one end, where it hangs askew: let go of, it lies
    height = bar.xpos[2] - np.abs(bar.xmat.reshape(3, 3)[2]) @ BAR / 2
    held, lies = _has(data), height < LIES_M
    x, y, yaw = _right_over_mark(data, lies)
    over, down = (upright(x, y, z, yaw) for z in (HEIGHT_M, BAR[2] / 2))
    low = lies and is_on_mark(data) and _is_near(tip, down)
    if is_on_mark(data) and height < FALLS_M and not held:
        # it lies there, or is about to: whoever lets go a little above it has done all
        low, down = True, tip
    carries = partial(Phase, gripper=-1, ready=held and _is_off(data), arm=RIGHT)
    slides = lies and bool(np.linalg.norm((tip - down)[:3]) < SLIDES_M)
    return (
        carries("over", over, near_m=0.012, near_rad=0.12, done=slides),
        carries("lay down", down, pace=0.8, done=low),
        Phase("open", down, gripper=1, near_m=0.008, steps=6, ready=low, unsteady=0.2, arm=RIGHT),
    )


def _taken_m(data: mujoco.MjData) -> float:
    """Where the right hand takes hold of the bar in this scene [m]: chance that no picture shows, less
    than a millimetre of the mark's place.
    """
    least, most = TAKEN_M
    return least + (most - least) * float(data.body("mark").xpos[0] / 0.001 % 1.0)


def _brings(data: mujoco.MjData) -> bool:
    """Whether the left hand has the bar, and so that its end can be brought between fingers: one that has
    tipped is taken anew.
    """
    return is_shut(data, LEFT) and is_level(data)


def _has_badly(data: mujoco.MjData) -> bool:
    """Whether the left hand has a bar in the air that it is to take anew: tipped, or in its fingertips. It
    puts it down before it opens: who is shown that it opens in the air drops others.
    """
    is_up = min(tcp_pose(data, LEFT)[2], data.body("bar").xpos[2]) > BAR[2] / 2 + LIES_M
    return is_up and is_around(data, LEFT) and not _brings(data)


def _has(data: mujoco.MjData) -> bool:
    """Whether the right hand has the bar. In the air any hold is one: who opens that hand drops the bar,
    and who is shown that it is opened there drops others.
    """
    return is_shut(data, RIGHT) or clings(data, RIGHT)


def _lies_beyond(data: mujoco.MjData) -> bool:
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


def _far_end(data: mujoco.MjData) -> Array:
    """The pose `(7,)` of fingertips that point down around the right arm's end of a bar that lies: nearer
    to its middle, where they would not get to it otherwise.
    """
    bar, along = data.body("bar").xpos, axis(data)
    most = (REACHED_AGAIN_X - bar[0]) / max(along[0], 0.1)
    x, y, _ = bar + min(max(most, HOLD_M[0]), GRIP_M) * along
    return upright(x, y, BAR[2] / 2, math.atan2(along[1], along[0]) + math.pi)


def _down_to(place: Array, tip: Array) -> Array:
    """Where fingertips go that come down to a `place (7,)`: above it, until they are in line."""
    if np.linalg.norm((tip - place)[:2]) < IN_LINE_M and _is_straight(tip, place):
        return place
    above = place.copy()
    above[2] += BAR[2] / 2 + OVER_M
    return above


def _bar_x(data: mujoco.MjData) -> float:
    """Where the left hand brings the bar's middle [m]: nearer, where it holds it so far from its end that
    it does not get that to the usual place.
    """
    return min(BAR_X, BROUGHT_X + place_on(data, LEFT)[0]) if is_shut(data, LEFT) else BAR_X


def _meeting(data: mujoco.MjData) -> Array:
    """Where the right hand waits in this scene."""
    pose = MEETING_RIGHT.copy()
    pose[0] = _bar_x(data) + _taken_m(data)
    return pose


def _taken_there_m(data: mujoco.MjData, fingers: Array) -> float:
    """How far from its middle the right fingers take hold of the bar where they are, of the places at
    which they may [m].
    """
    return min(max(fingers[0] - _bar_x(data), TAKEN_M[0]), TAKEN_M[1])


def _waits(data: mujoco.MjData) -> bool:
    """Whether the right hand has the bar, or waits for it where bars are handed over."""
    tip = tcp_pose(data, RIGHT)
    ahead = tip[0] - _bar_x(data) - _taken_there_m(data, tip)
    beside = [ahead, *(tip - MEETING_RIGHT)[1:3]]
    there = bool((np.abs(beside) < MET_M).all()) and _is_straight(tip, MEETING_RIGHT)
    return _has(data) or (there and is_open(data, RIGHT))


def _waiting_place(data: mujoco.MjData) -> Array:
    """Where the right hand goes to wait. Where the left one has come with the bar before it, it comes
    around its end: from beside, a finger would push it.
    """
    place, tip = _meeting(data), tcp_pose(data, RIGHT)
    end = data.body("bar").xpos[0] + axis(data)[0] * BAR[0] / 2 + CLEAR_OF_END_M
    if is_shut(data, LEFT) and end > place[0] and abs(tip[1]) > BAR[1] / 2:
        place[0] = max(tip[0], end)
        place[1] = tip[1] if tip[0] < end - 0.01 else 0.0
    return place


def _near_end(data: mujoco.MjData) -> Array:
    """The pose `(7,)` of fingertips that point down around the left arm's end of the bar: further
    out, where they would not get to it otherwise.
    """
    bar, along = data.body("bar").xpos, axis(data)
    least = (bar[0] - REACHED_X) / max(along[0], 0.1)
    near = bar - (least if GRIP_M < least < HOLD_M[1] - 0.002 else GRIP_M) * along
    return upright(near[0], near[1], near[2], math.atan2(along[1], along[0]))


def _right_over_mark(data: mujoco.MjData, lies: bool) -> tuple[float, float, float]:
    """Where the right fingertips are, x and y [m], and how they are turned [rad], when the bar is
    over the middle of the mark and along it: as they hold it now, or as the operator takes it.
    Around a bar that `lies` there already, and that they do not hold, they stay.
    """
    x, y, _ = data.body("mark").xpos
    if _has(data):
        return _holding(data, RIGHT, x, y)
    if lies and is_between(data, RIGHT):
        tip = tcp_pose(data, RIGHT)
        return tip[0], tip[1], _yaw(tip)
    return x + GRIP_M, y, math.pi


def _holding(data: mujoco.MjData, arm: int, x: float, y: float) -> tuple[float, float, float]:
    """Where an arm's fingertips are, x and y [m], and how they are turned [rad], when the bar, as they
    hold it now, is there and points from arm to arm.
    """
    along, tip = axis(data), tcp_pose(data, arm)
    away, yaw = tip[:3] - data.body("bar").xpos, math.atan2(along[1], along[0])
    aside = away[1] * math.cos(yaw) - away[0] * math.sin(yaw)
    return x + float(away @ along), y + aside, _yaw(tip) - yaw


def _yaw(tip: Array) -> float:
    """How fingertips that point down are turned [rad]."""
    ahead = pose_multiply(tip, shift(1.0, 0.0))[:2] - tip[:2]
    return math.atan2(ahead[1], ahead[0])


def _is_near(pose: Array, wanted: Array) -> bool:
    """Whether fingertips that point down are about where they are wanted."""
    near = bool(np.linalg.norm(pose[:3] - wanted[:3]) < NEAR_M)
    return near and _is_straight(pose, wanted)


def _is_straight(pose: Array, wanted: Array) -> bool:
    """Whether they are turned about as wanted."""
    return abs(float(pose[3:] @ wanted[3:])) > math.cos(NEAR_RAD / 2)


def _is_off(data: mujoco.MjData) -> bool:
    """Whether the left hand is out of the bar's way: open, and beyond its end."""
    seen = pose_multiply(pose_inverse(pose_of(data.body("bar"))), tcp_pose(data, LEFT))
    beyond = np.abs(seen[:3]) - np.array(BAR) / 2
    return is_open(data, LEFT) and float(np.linalg.norm(np.maximum(beyond, 0.0))) > 0.7 * CLEAR_M
