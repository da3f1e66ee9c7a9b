"""A cube somewhere on the table, at any yaw, which a hand with moving fingers picks up.

Lengths in metres, angles in radians; the base frame is the arm's, the table's top is z = 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import mujoco
import numpy as np

from robot_rl import interfaces
from robot_rl.config.ranges import Range
from robot_rl.interfaces import Given
from robot_rl.sim.fixture import upright
from robot_rl.sim.grasping import (
    add_loose,
    approach,
    hand_yaw,
    is_between,
    is_held,
    nearest_yaw,
    opening,
    slippery,
    tcp_pose,
    tool_at,
    yaw_of,
)
from robot_rl.sim.looks import Looks, add_textures
from robot_rl.sim.phases import Phase
from robot_rl.sim.stage import add_camera, add_stage
from robot_rl.types import Array, ConfigError

BEECH = 700.0
"""[kg/m^3] of dry beech, 45 g for a cube of 40 mm (Wood Handbook, USDA FPL-GTR-190, table 5-5:
0.64 of water's density at 12 per cent of moisture)."""
WOOD_ON_WOOD = 0.4
"""Coulomb's coefficient, dry: 0.25 to 0.5 (Bowden and Tabor)."""
RED = (0.78, 0.16, 0.14)
QUARTER = math.pi / 2
OVER_M = 0.012
"""The operator's: fingertips above the cube when they come in line with it, and how much further than
it has to it lifts it [m]."""
ABOVE_M, CLEAR_M, LYING_M, ROOM_M = 0.06, 0.05, 0.003, 0.02
"""Put back: the fingertips so far above the cube's middle when the operator leaves it, and at least,
the cube no more than this above the table, the fingers so much wider than it [m]."""
NO_LOOKS = Looks()
RANGES = {
    "cube_m": Range(0.01, 0.07, "m"),
    "range_m": Range(0.0, 0.5, "m"),
    "lift_m": Range(0.02, 0.5, "m"),
}


@dataclass(frozen=True)
class Options:
    """The options of a task. Raises ConfigError for what cannot be."""

    cube_m: float = 0.04
    """Edge of the cube [m]; the hand opens 80 mm, and a cube is 1.41 times as wide over its corners."""
    nominal: tuple[float, float] = (0.5, 0.0)
    """The middle of the places where it may lie, x and y [m]."""
    range_m: float = 0.2
    """Half-width of the uniform range of its place about that, along x and y [m]."""
    lift_m: float = 0.1
    """So far above the table it is picked up [m]."""
    cube_rgb: tuple[float, float, float] = RED
    """Colour of the cube: red, green, blue, 0 to 1."""
    looks: Looks = NO_LOOKS
    """How light, cameras and colours differ between episodes: fields of `sim/looks.py: Looks`."""

    def __post_init__(self) -> None:
        for name, allowed in RANGES.items():
            if (value := getattr(self, name)) not in allowed:
                raise ConfigError(f"{name} {allowed.complaint(value)}")
        if not all(0.0 <= share <= 1.0 for share in self.cube_rgb):
            raise ConfigError(
                f"cube_rgb is {self.cube_rgb}; it must be red, green and blue, 0 to 1"
            )


class Scene(interfaces.Scene):
    """A table with a cube, and two cameras. The hand may push the cube about, and drop it; a cube
    that has left the arm's reach is the reset's to bring back.
    """

    fingers = True

    def __init__(self, options: Options, given: Given):
        self.options, self.looks, self._half = options, options.looks, options.cube_m / 2
        self._holds = ((-self._half, self._half),) * 3

    def add_to(self, spec: mujoco.MjSpec, hand: mujoco.MjsBody) -> None:
        """Add table, light, cube and cameras to a model that holds the arm."""
        add_stage(spec)
        spec.geom("table").friction = [WOOD_ON_WOOD, 0.005, 0.0001]
        x, y = self.options.nominal
        cube = add_loose(spec, "cube", (x, y, self._half))
        look = {"rgba": [*self.options.cube_rgb, 1.0], "group": 0, **slippery(WOOD_ON_WOOD)}
        box = mujoco.mjtGeom.mjGEOM_BOX
        cube.add_geom(name="cube", type=box, size=[self._half] * 3, density=BEECH, **look)
        # below the hand's edge, wide: what lies on the arm's side of the fingers, and between them
        add_camera(
            hand,
            "wrist",
            at=(0.075, 0.0, 0.062),
            look_at=(0.0, 0.0, 0.135),
            up=(0.0, 0.0, -1.0),
            fovy=75.0,
        )
        front = (x + 0.50, y + 0.25, 0.50)
        add_camera(
            spec.worldbody, "front", at=front, look_at=(x, y, 0.04), up=(0.0, 0.0, 1.0), fovy=42.0
        )
        add_textures(spec, self.looks)

    def place(self, model: mujoco.MjModel, data: mujoco.MjData, seed: int) -> None:
        """Lay the cube where the seed says: uniform in place and yaw."""
        rng = np.random.default_rng(seed)
        place = rng.uniform(-self.options.range_m, self.options.range_m, 2) + self.options.nominal
        yaw = rng.uniform(-math.pi, math.pi)
        turn = [math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)]
        data.joint("cube").qpos = [*place, self._half, *turn]

    def goal_base_tool(self, data: mujoco.MjData, pose_flange_tool: Array) -> Array:
        """Pose `(7,)` of the tool around the cube, as high above the table as it is to be."""
        return tool_at(self._around(data, self._half + self.options.lift_m), pose_flange_tool)

    def _around(self, data: mujoco.MjData, height: float) -> Array:
        """The fingertips over the cube's middle at a height [m], beside two of its sides."""
        x, y, _ = data.body("cube").xpos
        yaw = nearest_yaw(yaw_of(data, "cube"), QUARTER, hand_yaw(data))
        return upright(x, y, height, yaw)

    def success(self, data: mujoco.MjData) -> bool:
        """Whether the cube is `lift_m` above the table, and held between the fingers."""
        height = data.body("cube").xpos[2] - self._half
        return bool(height >= self.options.lift_m) and is_held(data.model, data, "cube")

    @cached_property
    def way_back(self) -> "PuttingBack":
        """To put it down on the table, wherever the hand is."""
        return PuttingBack(self.options, Given())

    def phases(self, data: mujoco.MjData) -> Sequence[Phase]:
        """Over the cube, in line with it, down around it, fingers shut, and up."""
        between = is_between(data, "cube", self._holds)
        here, lying = tcp_pose(data), self._around(data, data.body("cube").xpos[2])
        top = self._half + self.options.lift_m + OVER_M
        up = lying.copy()
        up[2] = top
        lifted = between and here[2] > 2.0 * self._half
        return (
            *approach(lying, self._half + OVER_M, data, done=lifted),
            Phase("down", lying, gripper=1, near_m=0.004, near_rad=0.05, pace=0.8, done=lifted),
            Phase(
                "close",
                lying,
                gripper=-1,
                near_m=0.02,
                near_rad=0.2,
                steps=8,
                ready=between,
                unsteady=0.2,
            ),
            Phase("lift", up, gripper=-1, ready=between),
        )


class PuttingBack(Scene):
    """The same cube in the hand, to be put down: where the episode happens to start, so that it lies
    elsewhere each time.
    """

    def goal_base_tool(self, data: mujoco.MjData, pose_flange_tool: Array) -> Array:
        """Pose `(7,)` of the tool above the cube that lies on the table."""
        return tool_at(self._around(data, self._half + ABOVE_M), pose_flange_tool)

    def success(self, data: mujoco.MjData) -> bool:
        """Whether the cube lies on the table and the open hand is above it."""
        lies = data.body("cube").xpos[2] < self._half + LYING_M
        away = tcp_pose(data)[2] > self._half + CLEAR_M
        return bool(lies and away and self._is_open(data))

    def _is_open(self, data: mujoco.MjData) -> bool:
        """Whether there is room on both sides of the cube."""
        return opening(data) > self.options.cube_m + ROOM_M

    def phases(self, data: mujoco.MjData) -> Sequence[Phase]:
        """Down until the cube stands on the table, fingers open, and up."""
        cube, here = data.body("cube").xpos, tcp_pose(data)
        held = is_between(data, "cube", self._holds) and not self._is_open(data)
        low, up = here.copy(), here.copy()
        if held:
            low[2] -= cube[2] - self._half
        up[2] = max(here[2], self._half + ABOVE_M)
        return (
            Phase("down", low, gripper=-1, pace=0.8, unsteady=0.2, done=not held),
            Phase("open", low, gripper=1, steps=8, unsteady=0.2, done=self._is_open(data)),
            Phase("up", up, gripper=1, ready=self._is_open(data)),
        )
