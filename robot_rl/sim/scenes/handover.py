"""A bar that one arm picks up and hands over to another one, who lays it down on its own side.

Lengths in metres, angles in radians; the scene's frame is the base of the left arm, the table's top
is z = 0. The right arm stands a metre away and looks back, so that they meet halfway.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import mujoco
import numpy as np

from robot_rl import interfaces
from robot_rl.config.ranges import Range
from robot_rl.geometry import pose_inverse, pose_multiply
from robot_rl.interfaces import Given
from robot_rl.sim.fixture import upright
from robot_rl.sim.grasping import (
    add_loose,
    approach,
    opening,
    slippery,
    tcp_pose,
    tool_at,
    touching,
)
from robot_rl.sim.looks import Looks, add_textures
from robot_rl.sim.parts import pose_of
from robot_rl.sim.phases import Phase
from robot_rl.sim.scenes.pick_cube import BEECH, WOOD_ON_WOOD
from robot_rl.sim.stage import add_camera, add_stage
from robot_rl.types import Array, ConfigError

LEFT, RIGHT = 0, 1
APART_M = 1.0
"""Between the feet of the arms: our own."""
BAR = (0.20, 0.024, 0.024)
"""Length, width and height of a square bar of beech: 81 g. So long that two hands hold it whose
flanges, 96 mm thick, are 54 mm apart."""
GRIP_M = 0.075
"""From the bar's middle to where a hand takes hold: 25 mm from the end."""
HOLD_M, HOLD_RADIUS_M = (0.063, 0.090), 0.015
"""Where a hand may hold its half: so far from the bar's middle, which leaves the other one its room and
the bar on the mark, and so near to its axis [m]."""
MARK = (0.24, 0.07)
"""Length and width of where the bar is to lie: 20 mm of room at either end, 23 mm beside it."""
MARK_HALF_Z = 0.0004
STILL_M_S, STILL_RAD_S = 0.005, 0.05
"""What lies at rest moves less than that."""
ROOM_M = 0.02
"""An open hand is so much wider than the bar."""
MEETING, MEETING_RANGE_M = (APART_M / 2, 0.0, 0.12), (0.010, 0.025, 0.020)
"""Where the bar's middle is when it is handed over, about the middle of both workspaces, and how far
from there at most, along x, y and z: the operator's, who meets here or there, as people do. One who
always met in one place would show the right hand nothing but to go there, wherever the bar is."""
OVER_M, CLEAR_M, GRASPED_M = 0.01, 0.06, 0.004
"""The operator's: fingertips above the bar when they come in line with it, how far beyond its end an
empty hand is out of the way, how much wider than the bar shut fingers are at most [m]."""
REACHED_X = 0.445
"""So far ahead of its foot the task lets an arm go, less what it may be off [m]."""
WAITS_X, WAITS_NEAR_M = MEETING[0] + BAR[0] / 2 + MEETING_RANGE_M[0] + 0.005, 0.02
"""The operator's: the right hand waits beyond that, and so far beyond it is sent [m]."""
AHEAD_M, AHEAD_NEAR_M = BAR[0] / 2 - GRIP_M + 0.025, 0.01
"""The operator's: from where the right hand takes hold to where its fingers are ahead of the bar, and so
near to there they come on [m]."""
MET_M = (0.015, 0.04, 0.04)
"""The operator's: so far beside where it might be, along x, y and z, the bar is handed over, too: a hand
that drifts while it waits is not sent back, as long as the other one reaches it."""
NEAR_M, NEAR_RAD = 0.02, 0.12
"""So near to its goal the bar is let go of [m, rad]."""
YELLOW, GREEN = (0.90, 0.72, 0.16), (0.16, 0.52, 0.34)
NO_LOOKS = Looks()
BOX = mujoco.mjtGeom.mjGEOM_BOX
RANGES = {
    "range_rad": Range(0.0, math.pi / 2, "rad"),
    "mark_range_m": Range(0.0, 0.3, "m"),
}


@dataclass(frozen=True)
class Options:
    """The options of a task. Raises ConfigError for what cannot be."""

    nominal: tuple[float, float] = (0.41, 0.08)
    """The middle of the places where the bar's middle may lie, x and y [m]."""
    range_m: tuple[float, float] = (0.03, 0.08)
    """Half-widths of the uniform range of its place about that, along x and y [m]."""
    range_rad: float = math.pi / 4
    """Half-width of the uniform range of its yaw [rad]; at 0 it points from arm to arm."""
    mark_nominal: tuple[float, float] = (0.62, -0.13)
    """The middle of the places of the mark, x and y [m]."""
    mark_range_m: float = 0.02
    """Half-width of the uniform range of the mark's place, along x and y [m]."""
    bar_rgb: tuple[float, float, float] = YELLOW
    """Colour of the bar: red, green, blue, 0 to 1."""
    looks: Looks = NO_LOOKS
    """How light, cameras and colours differ between episodes: fields of `sim/looks.py: Looks`."""

    def __post_init__(self) -> None:
        for name, allowed in RANGES.items():
            if (value := getattr(self, name)) not in allowed:
                raise ConfigError(f"{name} {allowed.complaint(value)}")
        across = Range(0.0, 0.3, "m")
        for value in self.range_m:
            if value not in across:
                raise ConfigError(f"range_m {across.complaint(value)}")
        if not all(0.0 <= share <= 1.0 for share in self.bar_rgb):
            raise ConfigError(f"bar_rgb is {self.bar_rgb}; it must be red, green and blue, 0 to 1")


class Scene(interfaces.Scene):
    """A table between two arms, a bar on the side of the left one and a mark on the other, a camera
    at each hand and one beside the table. A bar that is dropped lies where it falls.
    """

    fingers = True
    stands = ((0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0), (APART_M, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0))

    def __init__(self, options: Options, given: Given):
        self.options, self.looks = options, options.looks

    def add_to(self, spec: mujoco.MjSpec, hand: Sequence[mujoco.MjsBody]) -> None:
        """Add table, light, bar, mark and cameras to a model that holds the two arms."""
        add_stage(spec)
        table = spec.geom("table")
        table.pos, table.size = [APART_M / 2, 0.0, -0.02], [APART_M / 2 + 0.12, 0.55, 0.02]
        table.friction = [WOOD_ON_WOOD, 0.005, 0.0001]
        bar = add_loose(spec, "bar", (*self.options.nominal, BAR[2] / 2))
        bar.add_geom(
            name="object",
            type=BOX,
            size=[size / 2 for size in BAR],
            density=BEECH,
            rgba=[*self.options.bar_rgb, 1.0],
            **slippery(WOOD_ON_WOOD),
        )
        at = [*self.options.mark_nominal, MARK_HALF_Z]
        mark = spec.worldbody.add_body(name="mark", mocap=True, pos=at)
        size = [MARK[0] / 2, MARK[1] / 2, MARK_HALF_Z]
        paint = {"contype": 0, "conaffinity": 0, "rgba": [*GREEN, 1.0]}
        mark.add_geom(name="mark", type=BOX, size=size, **paint)
        self._add_cameras(spec, hand)
        add_textures(spec, self.looks)

    def _add_cameras(self, spec: mujoco.MjSpec, hands: Sequence[mujoco.MjsBody]) -> None:
        """At each hand on the side of its own arm, away from the other hand; and in front of the
        table, both hands and the mark in one view.
        """
        for hand, name in zip(hands, ("wrist_left", "wrist_right"), strict=True):
            add_camera(
                hand,
                name,
                at=(-0.075, 0.0, 0.068),
                look_at=(0.03, 0.0, 0.115),
                up=(0.0, 0.0, -1.0),
                fovy=75.0,
            )
        x = APART_M / 2
        add_camera(
            spec.worldbody,
            "front",
            at=(x + 0.03, -0.80, 0.50),
            look_at=(x + 0.03, -0.01, 0.085),
            up=(0.0, 0.0, 1.0),
            fovy=46.0,
        )

    def place(self, model: mujoco.MjModel, data: mujoco.MjData, seed: int) -> None:
        """Lay the bar and the mark where the seed says: uniform in place, the bar in yaw too."""
        rng, options = np.random.default_rng(seed), self.options
        place = rng.uniform(-1.0, 1.0, 2) * options.range_m + options.nominal
        yaw = rng.uniform(-options.range_rad, options.range_rad)
        turn = [math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)]
        data.joint("bar").qpos = [*place, BAR[2] / 2, *turn]
        away = rng.uniform(-options.mark_range_m, options.mark_range_m, 2)
        data.mocap_pos[0, :2] = away + options.mark_nominal

    def goal_base_tool(self, data: mujoco.MjData, pose_flange_tool: Array) -> Array:
        """Pose `(7,)` of the left arm's tool where it hands the bar over."""
        return tool_at(_meeting_left(data), pose_flange_tool)

    def success(self, data: mujoco.MjData) -> bool:
        """Whether the bar lies on the mark, all of it and at rest, both hands open and off it."""
        is_free = touching(data.model, data, "bar") == {"world"}
        is_open = all(_is_open(data, arm) for arm in (LEFT, RIGHT))
        return is_free and is_open and self._is_on_mark(data) and _is_at_rest(data)

    def _is_on_mark(self, data: mujoco.MjData) -> bool:
        """Whether each corner of the bar is above the mark."""
        seen = pose_multiply(pose_inverse(pose_of(data.body("mark"))), pose_of(data.body("bar")))
        corners = [
            pose_multiply(seen, _at(x * BAR[0] / 2, y * BAR[1] / 2))
            for x, y in ((1, 1), (1, -1), (-1, 1), (-1, -1))
        ]
        return bool((np.abs(np.array(corners)[:, :2]) <= np.array(MARK) / 2).all())

    def phases(self, data: mujoco.MjData) -> Sequence[Phase]:
        """The left hand takes hold of its end of the bar and brings it to the middle, the right one
        takes the other end, the left one lets go and withdraws, the right one lays the bar down.
        """
        return (*self._picking_up(data), *self._handing_over(data), *self._laying_down(data))

    def _picking_up(self, data: mujoco.MjData) -> Sequence[Phase]:
        near, _ = _ends(data)
        between, taken = _is_between(data, LEFT), _is_shut(data, RIGHT)
        has = taken or (between and near[2] > MEETING[2] / 2)
        meeting, here = _meeting_left(data), tcp_pose(data, LEFT)
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

    def _handing_over(self, data: mujoco.MjData) -> Sequence[Phase]:
        _, far = _ends(data)
        left, right = _is_shut(data, LEFT), _is_shut(data, RIGHT)
        meeting, here = _meeting_left(data), tcp_pose(data, LEFT)
        met = left and _is_meeting(here)
        there, taken = _is_between(data, RIGHT), right and _is_open(data, LEFT)
        back = meeting.copy()
        back[0] -= CLEAR_M + BAR[0] / 2 - GRIP_M
        of_right, of_left = partial(Phase, arm=RIGHT), partial(Phase, arm=LEFT, gripper=1)
        comes = partial(of_right, gripper=1, ready=met, done=right)
        stays = partial(replace, near_m=0.02, near_rad=0.2, steps=8, unsteady=0.2)
        at = here if right or _is_meeting(here) else meeting
        let_go = of_left("let go", at, ready=right, done=_is_open(data, LEFT))
        # The fingers come from ahead of the bar, with its end between them; from beside they would
        # push it, and withdraw first
        x, y = pose_multiply(pose_inverse(far), tcp_pose(data, RIGHT))[:2]
        is_beside = -x < AHEAD_M - AHEAD_NEAR_M and abs(y) > BAR[1] / 2
        ahead = pose_multiply(far, _at(-AHEAD_M, y if is_beside else 0.0))
        return (
            comes("ahead", ahead, near_m=AHEAD_NEAR_M, near_rad=0.1),
            comes("reach", far, near_m=0.004, near_rad=0.05),
            stays(of_right("take", far, gripper=-1, ready=there, done=taken)),
            stays(let_go),
            of_left("withdraw", back, near_m=0.01, near_rad=0.1, ready=taken, done=_is_off(data)),
        )

    def _laying_down(self, data: mujoco.MjData) -> Sequence[Phase]:
        held = _is_shut(data, RIGHT) and _is_off(data)
        # if need be with one end, where it hangs askew: let go of, it lies
        bar = data.body("bar")
        lies = bar.xpos[2] - np.abs(bar.xmat.reshape(3, 3)[2]) @ BAR / 2 < 0.003
        x, y, yaw = _right_over_mark(data, lies)
        over, down = (upright(x, y, z, yaw) for z in (MEETING[2], BAR[2] / 2))
        low = lies and self._is_on_mark(data) and _is_near(tcp_pose(data, RIGHT), down)
        return (
            Phase("over", over, gripper=-1, near_m=0.012, near_rad=0.12, ready=held, arm=RIGHT),
            Phase("lay down", down, gripper=-1, pace=0.8, ready=held, done=low, arm=RIGHT),
            Phase(
                "open", down, gripper=1, near_m=0.008, steps=6, ready=low, unsteady=0.2, arm=RIGHT
            ),
        )


def _wait(data: mujoco.MjData) -> Phase:
    """The right hand, where it has come before the left one is where it hands the bar over, draws back:
    it would have the bar pressed against it.
    """
    here = tcp_pose(data, RIGHT)
    met = _is_shut(data, RIGHT) or _is_meeting(tcp_pose(data, LEFT))
    early = _is_shut(data, LEFT) and not met and here[0] < WAITS_X
    if early:
        here[0] = WAITS_X + WAITS_NEAR_M
    return Phase("wait", here, gripper=1, ready=early, done=not early, arm=RIGHT)


def _at(x: float, y: float) -> Array:
    """A pose `(7,)` so far along x and y [m], not turned."""
    return np.array([x, y, 0.0, 0.0, 0.0, 0.0, 1.0])


def _along(data: mujoco.MjData) -> Array:
    """The bar's axis `(3,)`, away from the left arm."""
    axis: Array = data.body("bar").xmat.reshape(3, 3)[:, 0].copy()
    return axis if axis[0] >= 0.0 else -axis


def _ends(data: mujoco.MjData) -> tuple[Array, Array]:
    """The poses `(7,)` of fingertips that point down around the bar: the left arm's at the end that
    is nearer to it, the right arm's at the other.
    """
    bar, along = data.body("bar").xpos, _along(data)
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
    ahead = pose_multiply(tip, _at(1.0, 0.0))[:2] - tip[:2]
    yaw = math.atan2(ahead[1], ahead[0])
    if _is_shut(data, RIGHT):
        along, away = _along(data), tip[:3] - bar
        bar_yaw = math.atan2(along[1], along[0])
        aside = away[1] * math.cos(bar_yaw) - away[0] * math.sin(bar_yaw)
        return x + float(away @ along), y + aside, yaw - bar_yaw
    if lies and _is_between(data, RIGHT):
        return tip[0], tip[1], yaw
    return x + GRIP_M, y, math.pi


def _is_open(data: mujoco.MjData, arm: int) -> bool:
    """Whether there is room for the bar in a hand."""
    return opening(data, arm) > BAR[1] + ROOM_M


def _is_between(data: mujoco.MjData, arm: int) -> bool:
    """Whether an arm's half of the bar is between its fingertips."""
    place, half = tcp_pose(data, arm)[:3] - data.body("bar").xpos, _along(data)
    half *= 1.0 if arm == RIGHT else -1.0
    far = float(place @ half)
    aside = float(np.linalg.norm(place - far * half))
    return HOLD_M[0] <= far <= HOLD_M[1] and aside <= HOLD_RADIUS_M


def _is_shut(data: mujoco.MjData, arm: int) -> bool:
    """Whether its half is between fingers that are as wide as it is."""
    return _is_between(data, arm) and abs(opening(data, arm) - BAR[1]) < GRASPED_M


def _meeting_left(data: mujoco.MjData) -> Array:
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
    return _is_open(data, LEFT) and float(np.linalg.norm(np.maximum(beyond, 0.0))) > 0.7 * CLEAR_M


def _is_at_rest(data: mujoco.MjData) -> bool:
    velocity = data.joint("bar").qvel
    slow = np.linalg.norm(velocity[:3]) < STILL_M_S
    return bool(slow and np.linalg.norm(velocity[3:]) < STILL_RAD_S)
