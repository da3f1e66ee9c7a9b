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
    is_between,
    is_on_mark,
    is_open,
    is_shut,
    shift,
)
from robot_rl.types import Array

GRIP_M = 0.075
"""From the bar's middle to where a hand takes hold: 25 mm from the end."""
MEETING, MEETING_RANGE_M = (APART_M / 2, 0.0, 0.12), (0.010, 0.025, 0.020)
"""Where the bar's middle is when it is handed over, about the middle of both workspaces, and how far
from there at most, along x, y and z: here or there, as people meet. One who always met in one place
would show the right hand nothing but to go there, wherever the bar is."""
OVER_M, CLEAR_M = 0.01, 0.06
"""Fingertips above the bar when they come in line with it, and how far beyond its end an empty hand is
out of the way [m]."""
REACHED_X = 0.445
"""So far ahead of its foot the task lets an arm go, less what it may be off [m]."""
WAITS_X, WAITS_NEAR_M = MEETING[0] + BAR[0] / 2 + MEETING_RANGE_M[0] + 0.005, 0.02
"""The right hand waits beyond that, and so far beyond it is sent [m]."""
AHEAD_M, AHEAD_NEAR_M = BAR[0] / 2 - GRIP_M + 0.025, 0.01
"""From where the right hand takes hold to where its fingers are ahead of the bar, and so near to there
they come on [m]."""
MET_M = (0.015, 0.04, 0.04)
"""So far beside where it might be, along x, y and z, the bar is handed over, too: a hand that drifts
while it waits is not sent back, as long as the other one reaches it."""
NEAR_M, NEAR_RAD = 0.02, 0.12
"""So near to its goal the bar is let go of [m, rad]."""


def phases(data: mujoco.MjData) -> Sequence[Phase]:
    """The left hand takes hold of its end of the bar and brings it to the middle, the right one
    takes the other end, the left one lets go and withdraws, the right one lays the bar down.
    """
    return (*_picking_up(data), *_handing_over(data), *_laying_down(data))


def _picking_up(data: mujoco.MjData) -> Sequence[Phase]:
    near, _ = _ends(data)
    between, taken = is_between(data, LEFT), is_shut(data, RIGHT)
    has = taken or (between and near[2] > MEETING[2] / 2)
    meeting, here = meeting_left(data), tcp_pose(data, LEFT)
    up = here.copy()
    up[2] = meeting[2]
    # It stops as soon as it is where bars are handed over: what it does, and with it what the
    # right one does, follows from where it stands and not from what nobody sees
    met = taken or _is_meeting(here, (0.0, 0.0, 0.0))
    wait, held = _wait(data), partial(Phase, gripper=-1, ready=between)
    free = between and wait.done
    return (
        *approach(near, BAR[2] / 2 + OVER_M, data, done=has),
        Phase("down", near, gripper=1, near_m=0.004, near_rad=0.05, pace=0.8, done=has),
        held("close", near, near_m=0.02, near_rad=0.2, steps=8, unsteady=0.2, done=has),
        held("lift", up, near_m=0.008, near_rad=0.1, done=met),
        wait,
        Phase("carry", meeting, gripper=-1, near_m=0.005, near_rad=0.04, ready=free, done=met),
    )


def _handing_over(data: mujoco.MjData) -> Sequence[Phase]:
    _, far = _ends(data)
    left, right = is_shut(data, LEFT), is_shut(data, RIGHT)
    meeting, here = meeting_left(data), tcp_pose(data, LEFT)
    met = left and _is_meeting(here)
    there, taken = is_between(data, RIGHT), right and is_open(data, LEFT)
    back = meeting.copy()
    back[0] -= CLEAR_M + BAR[0] / 2 - GRIP_M
    of_right, of_left = partial(Phase, arm=RIGHT), partial(Phase, arm=LEFT, gripper=1)
    comes = partial(of_right, gripper=1, ready=met, done=right)
    stays = partial(replace, near_m=0.02, near_rad=0.2, steps=8, unsteady=0.2)
    at = here if right or _is_meeting(here) else meeting
    let_go = of_left("let go", at, ready=right, done=is_open(data, LEFT))
    # The fingers come from ahead of the bar, with its end between them; from beside they would
    # push it, and withdraw first
    x, y = pose_multiply(pose_inverse(far), tcp_pose(data, RIGHT))[:2]
    is_beside = -x < AHEAD_M - AHEAD_NEAR_M and abs(y) > BAR[1] / 2
    ahead = pose_multiply(far, shift(-AHEAD_M, y if is_beside else 0.0))
    return (
        comes("ahead", ahead, near_m=AHEAD_NEAR_M, near_rad=0.1),
        comes("reach", far, near_m=0.004, near_rad=0.05),
        stays(of_right("take", far, gripper=-1, ready=there, done=taken)),
        stays(let_go),
        of_left("withdraw", back, near_m=0.01, near_rad=0.1, ready=taken, done=_is_off(data)),
    )


def _laying_down(data: mujoco.MjData) -> Sequence[Phase]:
    held = is_shut(data, RIGHT) and _is_off(data)
    # if need be with one end, where it hangs askew: let go of, it lies
    bar = data.body("bar")
    lies = bar.xpos[2] - np.abs(bar.xmat.reshape(3, 3)[2]) @ BAR / 2 < 0.003
    x, y, yaw = _right_over_mark(data, lies)
    over, down = (upright(x, y, z, yaw) for z in (MEETING[2], BAR[2] / 2))
    low = lies and is_on_mark(data) and _is_near(tcp_pose(data, RIGHT), down)
    return (
        Phase("over", over, gripper=-1, near_m=0.012, near_rad=0.12, ready=held, arm=RIGHT),
        Phase("lay down", down, gripper=-1, pace=0.8, ready=held, done=low, arm=RIGHT),
        Phase("open", down, gripper=1, near_m=0.008, steps=6, ready=low, unsteady=0.2, arm=RIGHT),
    )


def _wait(data: mujoco.MjData) -> Phase:
    """The right hand, where it has come before the left one is where it hands the bar over, draws back:
    it would have the bar pressed against it.
    """
    here = tcp_pose(data, RIGHT)
    met = is_shut(data, RIGHT) or _is_meeting(tcp_pose(data, LEFT))
    early = is_shut(data, LEFT) and not met and here[0] < WAITS_X
    if early:
        here[0] = WAITS_X + WAITS_NEAR_M
    return Phase("wait", here, gripper=1, ready=early, done=not early, arm=RIGHT)


def _ends(data: mujoco.MjData) -> tuple[Array, Array]:
    """The poses `(7,)` of fingertips that point down around the bar: the left arm's at the end that
    is nearer to it, the right arm's at the other.
    """
    bar, along = data.body("bar").xpos, axis(data)
    yaw = math.atan2(along[1], along[0])
    near = bar - _grip(bar[0] - REACHED_X, along[0]) * along
    far = bar + _grip(APART_M - REACHED_X - bar[0], along[0]) * along
    return (
        upright(near[0], near[1], near[2], yaw),
        upright(far[0], far[1], far[2], yaw + math.pi),
    )


def _grip(least_x: float, along_x: float) -> float:
    """How far from the bar's middle a hand takes hold [m]: further out, where it would not get to the
    bar otherwise.
    """
    least = least_x / max(along_x, 0.1)
    return least if GRIP_M < least < HOLD_M[1] - 0.002 else GRIP_M


def _right_over_mark(data: mujoco.MjData, lies: bool) -> tuple[float, float, float]:
    """Where the right fingertips are, x and y [m], and how they are turned [rad], when the bar is
    over the middle of the mark and along it: as they hold it now, or as the operator takes it.
    Around a bar that `lies` there already, and that they do not hold, they stay.
    """
    x, y, _ = data.body("mark").xpos
    bar, tip = data.body("bar").xpos, tcp_pose(data, RIGHT)
    ahead = pose_multiply(tip, shift(1.0, 0.0))[:2] - tip[:2]
    yaw = math.atan2(ahead[1], ahead[0])
    if is_shut(data, RIGHT):
        along, away = axis(data), tip[:3] - bar
        bar_yaw = math.atan2(along[1], along[0])
        aside = away[1] * math.cos(bar_yaw) - away[0] * math.sin(bar_yaw)
        return x + float(away @ along), y + aside, yaw - bar_yaw
    if lies and is_between(data, RIGHT):
        return tip[0], tip[1], yaw
    return x + GRIP_M, y, math.pi


def meeting_left(data: mujoco.MjData) -> Array:
    """The pose `(7,)` of the left fingertips where the bar is handed over in this scene: in each one
    elsewhere, drawn by where its mark lies.
    """
    drawn = np.random.default_rng((1e9 * np.abs(data.body("mark").xpos[:2])).astype(int))
    away = drawn.uniform(-1.0, 1.0, 3) * MEETING_RANGE_M
    return upright(*(away + MEETING - (GRIP_M, 0.0, 0.0)))


def _is_meeting(pose: Array, more_m: Sequence[float] = MET_M) -> bool:
    """Whether the left fingertips are where bars are handed over, or so far beside that [m]."""
    away = np.abs(pose[:3] - MEETING + (GRIP_M, 0.0, 0.0))
    return bool((away < np.add(MEETING_RANGE_M, more_m)).all()) and _is_straight(
        pose, upright(0, 0, 0)
    )


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
