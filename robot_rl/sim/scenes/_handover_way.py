"""The way of a bar from hand to hand, as a scripted operator goes it: the phases of `handover`.

Lengths in metres, angles in radians; the frame is the base of the left arm.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import mujoco
import numpy as np

from robot_rl.sim.fixture import upright
from robot_rl.sim.grasping import approach, tcp_pose
from robot_rl.sim.phases import Phase
from robot_rl.sim.scenes._bar import (
    BAR,
    LEFT,
    RIGHT,
    axis,
    is_between,
    is_level,
    is_on_mark,
    is_open,
)
from robot_rl.sim.scenes._handover_places import (
    BROUGHT_X,
    CLEAR_M,
    GRIP_M,
    HEIGHT_M,
    LIES_M,
    MEETING_LEFT,
    OVER_M,
    comes_down,
    down_to,
    far_end,
    holding,
    is_down,
    is_near,
    left_brings,
    left_has_badly,
    left_is_off,
    lies_beyond,
    meeting,
    near_end,
    right_has,
    right_over_mark,
    right_waits,
    taken_there_m,
    waiting_place,
    yaw_of,
)
from robot_rl.types import Array

HANDS_M = 0.145
"""So far from each other the hands stay, which are kept apart at 141 mm [m]."""
BEHIND_M = 0.07
"""So far before it is handed over the bar is in line with the fingers that it is to come between [m]."""
LIFTED_M = 0.02
"""So near below the height where it is handed over the bar is lifted [m]."""
SLIDES_M, FALLS_M = 0.06, 0.02
"""A bar so near to its place is slid there, and not lifted, and from so far above the mark it falls there
[m]."""


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
    taken = right_has(data) or lies_beyond(data)
    lifted = taken or (left_brings(data) and data.body("bar").xpos[2] > HEIGHT_M / 2)
    near, down, says, badly = near_end(data), comes_down(data), 1, left_has_badly(data)
    if badly:  # down with it, as it is held
        near = down = upright(here[0], here[1], BAR[2] / 2, yaw_of(here))
        says = -1
    is_low = lifted or (is_down(data) and not badly)
    up = np.concatenate([here[:2], [HEIGHT_M], here[3:]])
    high = here[2] > HEIGHT_M - LIFTED_M
    lowers = partial(Phase, gripper=says, near_m=0.004, near_rad=0.05, pace=0.8)
    held = partial(Phase, gripper=-1, ready=between and is_level(data))
    return (
        *approach(down, BAR[2] / 2 + OVER_M, data, done=is_low or badly),
        lowers("down", down, done=is_low),
        lowers("along", near, done=lifted or badly),
        held("close", near, near_m=0.02, near_rad=0.2, steps=8, unsteady=0.2, done=lifted),
        held("lift", up, near_m=LIFTED_M, near_rad=0.1, done=taken or high),
    )


def _handing_over(data: mujoco.MjData) -> Sequence[Phase]:
    left, right, waits = left_brings(data), right_has(data), right_waits(data)
    beyond, here = lies_beyond(data), tcp_pose(data, LEFT)
    fingers = tcp_pose(data, RIGHT) if waits else meeting(data)
    hold_m = taken_there_m(data, fingers)
    far = data.body("bar").xpos + hold_m * axis(data)

    def brought(before_m: float) -> Array:
        """The left hand, where the bar's end is so far before the right fingers, and straight."""
        x, y, yaw = holding(data, LEFT, fingers[0] - hold_m - before_m, fingers[1])
        x = min(x, BROUGHT_X, fingers[0] - HANDS_M)
        return upright(x, y, fingers[2] + here[2] - far[2], yaw)

    lets_go = here if right or beyond else brought(0.0)
    back = MEETING_LEFT.copy()
    back[0] -= CLEAR_M + BAR[0] / 2 - GRIP_M
    of_left = partial(Phase, arm=LEFT, gripper=1)
    taken = right and is_open(data, LEFT)
    wait, take = _taking_up(data) if beyond else _taking_over(data, fingers, done=taken)
    brings = partial(Phase, gripper=-1, near_rad=0.08, ready=left and waits, done=right or beyond)
    stands = partial(replace, near_m=0.02, near_rad=0.2, steps=8, unsteady=0.2)
    return (
        wait,
        brings("bring", brought(BEHIND_M), near_m=0.012),
        brings("between", brought(0.0), near_m=0.004),
        stands(take),
        stands(of_left("let go", lets_go, ready=right, done=is_open(data, LEFT))),
        of_left("withdraw", back, near_m=0.01, near_rad=0.1, ready=taken, done=left_is_off(data)),
    )


def _taking_over(data: mujoco.MjData, fingers: Array, done: bool) -> tuple[Phase, Phase]:
    """The right hand waits, and closes around what is brought between its fingers."""
    lifted = left_brings(data) and tcp_pose(data, LEFT)[2] > HEIGHT_M - 2 * LIFTED_M
    wait = Phase("wait", waiting_place(data), gripper=1, near_m=0.015, near_rad=0.06, arm=RIGHT)
    take = Phase("take", fingers, gripper=-1, ready=is_between(data, RIGHT), done=done, arm=RIGHT)
    return replace(wait, ready=lifted, done=right_has(data), stays=True), take


def _taking_up(data: mujoco.MjData) -> tuple[Phase, Phase]:
    """It comes down around what lies on its side, and closes; around what it has just let go of it stays."""
    tip, around = tcp_pose(data, RIGHT), is_between(data, RIGHT)
    place = tip if around else far_end(data)
    come = Phase("wait", down_to(place, tip), gripper=1, near_m=0.005, near_rad=0.06, arm=RIGHT)
    take = Phase("take", place, gripper=-1, ready=around, arm=RIGHT)
    return replace(come, pace=0.8, done=around), take


def _laying_down(data: mujoco.MjData) -> Sequence[Phase]:
    bar, tip = data.body("bar"), tcp_pose(data, RIGHT)
    # if need be with one end, where it hangs askew: let go of, it lies
    height = bar.xpos[2] - np.abs(bar.xmat.reshape(3, 3)[2]) @ BAR / 2
    held, rests = right_has(data), height < LIES_M
    x, y, yaw = right_over_mark(data, rests)
    over, down = (upright(x, y, z, yaw) for z in (HEIGHT_M, BAR[2] / 2))
    low = rests and is_on_mark(data) and is_near(tip, down)
    if is_on_mark(data) and height < FALLS_M and not held:
        # it lies there, or is about to: whoever lets go a little above it has done all
        low, down = True, tip
    carries = partial(Phase, gripper=-1, ready=held and left_is_off(data), arm=RIGHT)
    slides = rests and bool(np.linalg.norm((tip - down)[:3]) < SLIDES_M)
    return (
        carries("over", over, near_m=0.012, near_rad=0.12, done=slides),
        carries("lay down", down, pace=0.8, done=low),
        Phase("open", down, gripper=1, near_m=0.008, steps=6, ready=low, unsteady=0.2, arm=RIGHT),
    )
