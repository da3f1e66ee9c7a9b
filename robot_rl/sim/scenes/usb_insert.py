"""A USB-A plug that lies on the table and is to be picked up and pushed into a receptacle, whose
opening faces away from the arm.

Lengths in metres, angles in radians; the base frame is the arm's, the table's top is z = 0. The
plug's shell points along its own -x, the receptacle's opening along its own +x. Sizes: Universal
Serial Bus Specification 2.0, figures 6-7 (opening of the receptacle, 12.5 by 5.12 mm) and 6-9 (plug:
shell 12 by 4.5 mm, 11.75 mm deep; overmold at most 16 by 8 mm), so that there are 0.31 mm of air
above and below the shell and 0.25 mm on each side. Force: at most 35 N to insert (chapter 6); it is 11
to 19 N here, at 5 to 50 mm/s. MuJoCo's friction creeps, so that it comes out more easily than a real
one. The tongue, and with it which way up, is left out: either way goes in.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
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
    hold_on,
    is_between,
    slippery,
    tcp_pose,
    tool_at,
)
from robot_rl.sim.looks import Looks, add_textures
from robot_rl.sim.panda import GREY, WORLD_CONTACT
from robot_rl.sim.parts import pose_of
from robot_rl.sim.phases import Phase
from robot_rl.sim.stage import add_camera, add_stage
from robot_rl.types import Array, ConfigError

SHELL = (0.01175, 0.012, 0.0045)
GRIP = (0.030, 0.016, 0.008)
OPENING = (0.0125, 0.00512)
"""Depth, width and height of shell and overmold, width and height of the opening [m]; how long the
overmold is the specification leaves open."""
TIP_X = -(GRIP[0] / 2 + SHELL[0])
PLUG_KG = 0.02
"""With what hangs on it: our own."""
AXIS_Z, HOUSING = 0.020, (0.020, 0.040, 0.032)
"""How high the opening's middle is above the table [m]; depth, width and height of what it is in."""
STEEL_ON_STEEL, ON_TABLE = 0.3, 0.4
"""Coulomb's coefficients: nickel on steel, sliding; plastic on wood."""
SPRING_RADIUS, SPRING_X, SPRING_Y, SPRING_OVERLAP = 0.002, -0.004, 0.003, 0.00025
SPRING = {"priority": 1, "solref": [0.009, 1.0], "solimp": [0.9, 0.9, 0.001, 0.5, 2.0]}
"""The springs of the receptacle that press on the shell, two above and two below: balls that stand in
its way a little, as soft as lets the plug in with that force (`tests/sim/test_usb_insert.py`)."""
ORANGE, SILVER, BLUE = (0.86, 0.36, 0.14), (0.78, 0.79, 0.80, 1.0), (0.20, 0.45, 0.75)
GRASP_Z, CLEAR_M, BEFORE_M, PRESS_M = 0.006, 0.025, 0.008, 0.004
"""The operator's: fingertips above the plug's axis, how much higher they come in line with it, tip
before the opening while lining up, target beyond the end [m]."""
TURNED = 0.25
"""So far [rad] the plug is turned, with an edge of its tip ahead, until that is in."""
# [m]
EDGE_IN = 0.002  # that edge from the wall beside it: an error of sight is less
HIGH = 0.0012  # from so far above the opening's middle to as far below it slides the edge
INTO = 0.002  # its target behind the face: 4 N at 2000 N/m
PUSHED = 0.002  # the target beyond the middle, towards that wall
SUNK = 0.002  # the tip's target behind the face while the plug is turned into line
ENTERED = 0.0005  # behind the face, where it is no touch of that
SLACK = 0.001  # beyond the play between walls: soft contacts, and eyes that err
HOLDS = ((-0.005, 0.015), (-0.008, 0.008), (-0.002, 0.013))
"""Where the fingertips may be, seen from the plug's middle [m], to hold it so that it can be inserted:
8 mm before it they meet the housing first, and 14 mm above it they miss it (`tests/sim/test_usb_insert.py`).
"""
NO_LOOKS = Looks()
BOX = mujoco.mjtGeom.mjGEOM_BOX
RANGES = {
    "range_m": Range(0.0, 0.3, "m"),
    "range_rad": Range(0.0, math.pi, "rad"),
    "receptacle_range_m": Range(0.0, 0.3, "m"),
    "receptacle_range_rad": Range(0.0, math.pi, "rad"),
    "success_depth_m": Range(0.0, SHELL[0], "m", above=True),
}


@dataclass(frozen=True)
class Options:
    """The options of a task. Raises ConfigError for what cannot be."""

    nominal: tuple[float, float] = (0.53, 0.0)
    """The middle of the places where the plug may lie, x and y [m]."""
    range_m: float = 0.08
    """Half-width of the uniform range of its place about that, along x and y [m]."""
    range_rad: float = math.pi / 2
    """Half-width of the uniform range of its yaw [rad]; at 0 its shell points to the arm."""
    receptacle_nominal: tuple[float, float] = (0.37, 0.0)
    """The middle of the places of the opening, x and y [m]."""
    receptacle_range_m: float = 0.02
    """Half-width of the uniform range of the opening's place, along x and y [m]."""
    receptacle_range_rad: float = math.radians(10.0)
    """Half-width of the uniform range of its yaw [rad]."""
    success_depth_m: float = 0.010
    """So much of the shell is in [m]."""
    plug_rgb: tuple[float, float, float] = ORANGE
    """Colour of the overmold: red, green, blue, 0 to 1."""
    receptacle_rgb: tuple[float, float, float] = BLUE
    """Colour of what the receptacle is in."""
    looks: Looks = NO_LOOKS
    """How light, cameras and colours differ between episodes: fields of `sim/looks.py: Looks`."""

    def __post_init__(self) -> None:
        for name, allowed in RANGES.items():
            if (value := getattr(self, name)) not in allowed:
                raise ConfigError(f"{name} {allowed.complaint(value)}")
        for name in ("plug_rgb", "receptacle_rgb"):
            if not all(0.0 <= share <= 1.0 for share in getattr(self, name)):
                raise ConfigError(
                    f"{name} is {getattr(self, name)}; it must be red, green and blue, 0 to 1"
                )


class Scene(interfaces.Scene):
    """A table with a plug and a receptacle, and three cameras. A plug that is dropped lies there again."""

    fingers = True

    def __init__(self, options: Options, given: Given):
        self.options, self.looks = options, options.looks

    def add_to(self, spec: mujoco.MjSpec, hand: mujoco.MjsBody) -> None:
        """Add table, light, plug, receptacle and cameras to a model that holds the arm."""
        add_stage(spec)
        spec.geom("table").friction = [ON_TABLE, 0.005, 0.0001]
        self._add_plug(spec)
        self._add_receptacle(spec)
        # before the hand, looking down: the plug between the fingers and what is before it
        add_camera(
            hand,
            "wrist",
            at=(-0.07, 0.0, 0.03),
            look_at=(-0.034, 0.0, 0.12),
            up=(1.0, 0.0, 0.0),
            fovy=60.0,
        )
        # from the side, under the hand: plug and opening in profile
        x, y = (np.array(self.options.nominal) + self.options.receptacle_nominal) / 2
        add_camera(
            spec.worldbody,
            "front",
            at=(x + 0.06, y + 0.50, 0.20),
            look_at=(x + 0.01, y, 0.02),
            up=(0.0, 0.0, 1.0),
            fovy=34.0,
        )
        # and near by: the opening, and what comes to it
        x, y = self.options.receptacle_nominal
        add_camera(
            spec.worldbody,
            "side",
            at=(x + 0.012, y + 0.20, 0.045),
            look_at=(x + 0.012, y, 0.024),
            up=(0.0, 0.0, 1.0),
            fovy=24.0,
        )
        add_textures(spec, self.looks)

    def _add_plug(self, spec: mujoco.MjSpec) -> None:
        """The overmold, by which it is grasped, and the shell in front of it."""
        plug = add_loose(spec, "plug", (*self.options.nominal, GRIP[2] / 2))
        contact = slippery(STEEL_ON_STEEL)
        share = 0.8 * PLUG_KG
        plug.add_geom(
            name="plug",
            type=BOX,
            size=[size / 2 for size in GRIP],
            mass=share,
            rgba=[*self.options.plug_rgb, 1.0],
            **contact,
        )
        plug.add_geom(
            name="shell",
            type=BOX,
            size=[size / 2 for size in SHELL],
            pos=[TIP_X + SHELL[0] / 2, 0.0, 0.0],
            mass=PLUG_KG - share,
            rgba=SILVER,
            **contact,
        )

    def _add_receptacle(self, spec: mujoco.MjSpec) -> None:
        """Four walls around the opening, a bottom behind it, and the springs above and below."""
        at = [*self.options.receptacle_nominal, AXIS_Z]
        body = spec.worldbody.add_body(name="receptacle", mocap=True, pos=at)
        look = {"type": BOX, "rgba": [*self.options.receptacle_rgb, 1.0], **WORLD_CONTACT}
        look["friction"] = [STEEL_ON_STEEL, 0.005, 0.0001]
        depth, wide, high = HOUSING[0] / 2, HOUSING[1] / 2, HOUSING[2] - AXIS_Z
        side, room = OPENING[0] / 2, OPENING[1] / 2
        flank = (wide - side) / 2
        walls = (
            ((depth, wide, (high - room) / 2), (0.0, (high + room) / 2)),
            ((depth, wide, (AXIS_Z - room) / 2), (0.0, -(AXIS_Z + room) / 2)),
            ((depth, flank, room), (side + flank, 0.0)),
            ((depth, flank, room), (-side - flank, 0.0)),
        )
        for i, (size, (y, z)) in enumerate(walls):
            body.add_geom(name=f"receptacle-{i}", size=list(size), pos=[-depth, y, z], **look)
        bottom = (HOUSING[0] - SHELL[0] - 0.001) / 2
        dark = look | {"rgba": GREY}
        body.add_geom(size=[bottom, side, room], pos=[bottom - HOUSING[0], 0.0, 0.0], **dark)
        away = SHELL[2] / 2 - SPRING_OVERLAP + SPRING_RADIUS
        spring = look | SPRING | {"type": mujoco.mjtGeom.mjGEOM_SPHERE, "group": 3}
        for y, z in itertools.product((-SPRING_Y, SPRING_Y), (-away, away)):
            body.add_geom(pos=[SPRING_X, y, z], size=[SPRING_RADIUS, 0.0, 0.0], **spring)

    def place(self, model: mujoco.MjModel, data: mujoco.MjData, seed: int) -> None:
        """Lay the plug and put the receptacle where the seed says: uniform in place and yaw."""
        rng, options = np.random.default_rng(seed), self.options
        place = rng.uniform(-options.range_m, options.range_m, 2) + options.nominal
        yaw = rng.uniform(-options.range_rad, options.range_rad)
        data.joint("plug").qpos = [
            *place,
            GRIP[2] / 2,
            math.cos(yaw / 2),
            0.0,
            0.0,
            math.sin(yaw / 2),
        ]
        away = rng.uniform(-options.receptacle_range_m, options.receptacle_range_m, 2)
        yaw = rng.uniform(-options.receptacle_range_rad, options.receptacle_range_rad)
        data.mocap_pos[0, :2] = away + options.receptacle_nominal
        data.mocap_quat[0] = math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)

    def goal_base_tool(self, data: mujoco.MjData, pose_flange_tool: Array) -> Array:
        """Pose `(7,)` of the tool around the plug, while it is not held as it can be inserted; then where
        the plug is in, all of it, as it is held now. The pose of the end alone would not say where
        the plug lies.
        """
        goal = _around_plug(data)
        if is_between(data, "plug", HOLDS):
            goal = self._tcp_with_tip_at(data, -SHELL[0])
        return tool_at(goal, pose_flange_tool)

    def _tcp_with_tip_at(
        self, data: mujoco.MjData, x: float, y: float = 0.0, z: float = 0.0, yaw: float = 0.0
    ) -> Array:
        """Where the fingertips are when the middle of the plug's tip is there, seen from the opening
        [m], and the plug turned about that by `yaw` [rad].
        """
        tip = np.array([x, y, z, 0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2)])
        wanted = pose_multiply(pose_of(data.body("receptacle")), pose_multiply(tip, _at(-TIP_X)))
        held = upright(0.0, 0.0, GRASP_Z)
        if is_between(data, "plug", HOLDS):
            held = hold_on(data, "plug")
        pose: Array = pose_multiply(wanted, held)
        return pose

    def depth(self, data: mujoco.MjData) -> float:
        """How much of the shell is inside the opening [m]; 0 if it is not between its walls."""
        seen = pose_multiply(
            pose_inverse(pose_of(data.body("receptacle"))), pose_of(data.body("plug"))
        )
        tip, collar = (pose_multiply(seen, _at(x))[:3] for x in (TIP_X, TIP_X + SHELL[0]))
        # half a millimetre of give for soft contacts; outside the walls it would be 4 mm
        room = np.array([OPENING[0] - SHELL[1], OPENING[1] - SHELL[2]]) / 2 + 0.0005
        inside = all((np.abs(point[1:]) <= room).all() for point in (tip, collar))
        # the overmold is too wide to follow
        inside = inside and collar[0] > -0.0005
        return float(max(-tip[0], 0.0)) if inside else 0.0

    def success(self, data: mujoco.MjData) -> bool:
        """Whether `success_depth_m` of the shell is in."""
        return self.depth(data) >= self.options.success_depth_m

    def phases(self, data: mujoco.MjData) -> Sequence[Phase]:
        """Over the plug, in line with it, down around it, fingers shut, up, in front of the opening
        and turned; an edge slides down the face until it is in, against the wall, the plug is turned
        into line there, and in.

        An edge that slides finds the opening where it was seen a little too high or aside, and the
        wall puts the plug in line: `peg_tilted.py`'s way, without an axis to tilt about.
        """
        plug, here = pose_of(data.body("plug")), tcp_pose(data)
        between = is_between(data, "plug", HOLDS)
        lying = _around_plug(data)
        up = here.copy()
        up[2] = AXIS_Z + 2.0 * GRASP_Z
        lifted = between and plug[2] > 0.75 * AXIS_Z
        seen = pose_multiply(pose_inverse(pose_of(data.body("receptacle"))), plug)
        edge_in, other_in = (
            between and _is_in(pose_multiply(seen, _at(TIP_X, y))[:3])
            for y in (SHELL[1] / 2, -SHELL[1] / 2)
        )
        ahead = math.sin(TURNED) * SHELL[1] / 2  # of the tip's middle
        at = partial(self._tcp_with_tip_at, data)
        turned = partial(at, y=-EDGE_IN, yaw=TURNED)
        stopped = PUSHED - (OPENING[0] - SHELL[1]) / 2  # so far from the target the wall stops it
        held = partial(Phase, gripper=-1, ready=between, unsteady=0.05)
        inside = partial(Phase, gripper=-1, ready=edge_in, unsteady=0.05)
        return (
            *approach(lying, CLEAR_M, data, done=lifted),
            Phase("down", lying, gripper=1, near_m=0.002, near_rad=0.04, pace=0.8, done=lifted),
            held("close", lying, near_m=0.02, near_rad=0.2, steps=8, unsteady=0.1),
            held("lift", up, near_m=0.004, near_rad=0.1, done=lifted, unsteady=1.0),
            held("carry", turned(BEFORE_M, z=HIGH), near_m=0.003, near_rad=0.05, unsteady=1.0),
            held("line up", turned(ahead + 0.001, z=HIGH), near_m=0.0006, done=edge_in),
            held("touch", turned(ahead - INTO, z=HIGH), near_m=INTO + 0.0006, near_rad=0.1,
                 pace=0.3, done=edge_in),
            held("slide", turned(ahead - INTO, z=-HIGH), near_m=0.0002, near_rad=0.1,
                 pace=0.1, done=edge_in, tries=25),
            inside("against the wall", at(ahead - INTO, PUSHED, yaw=TURNED),
                   near_m=stopped + 0.0015, near_rad=0.1, steps=2, pace=0.5),
            inside("into line", at(-SUNK, PUSHED), near_m=stopped + 0.0025, near_rad=0.05, pace=0.8),
            inside("press", at(-SHELL[0] - PRESS_M), ready=edge_in and other_in,
                   pace=0.5, unsteady=0.1, tries=25),
        )  # fmt: skip


def _is_in(point: Array) -> bool:
    """Whether the middle `(3,)` of an edge of the tip, seen from the opening, is in it."""
    beside = np.abs(point[1:]) - [OPENING[0] / 2, (OPENING[1] - SHELL[2]) / 2]
    return bool(point[0] < -ENTERED and (beside < SLACK).all())


def _around_plug(data: mujoco.MjData) -> Array:
    """The fingertips at both sides of the plug, wherever it lies."""
    x, y, z, *_, qz, qw = pose_of(data.body("plug"))
    yaw = math.remainder(2.0 * math.atan2(qz, qw), 2.0 * math.pi)
    return upright(x, y, z + GRASP_Z, yaw)


def _at(x: float, y: float = 0.0) -> Array:
    """A pose `(7,)` so far along x and y [m], not turned."""
    return np.array([x, y, 0.0, 0.0, 0.0, 0.0, 1.0])
