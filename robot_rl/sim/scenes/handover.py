"""A bar that one arm picks up and hands over to another one, who lays it down on its own side.

Lengths in metres, angles in radians; the scene's frame is the base of the left arm, the table's top
is z = 0. The right arm stands a metre away and looks back, so that they meet halfway.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from robot_rl import interfaces
from robot_rl.config.ranges import Range
from robot_rl.interfaces import Given
from robot_rl.sim.grasping import add_loose, slippery, tool_at, touching
from robot_rl.sim.looks import Looks, add_textures
from robot_rl.sim.phases import Phase
from robot_rl.sim.scenes._bar import APART_M, BAR, LEFT, MARK, RIGHT, is_on_mark, is_open
from robot_rl.sim.scenes._handover_places import MEETING_LEFT
from robot_rl.sim.scenes._handover_way import phases
from robot_rl.sim.scenes.pick_cube import BEECH, WOOD_ON_WOOD
from robot_rl.sim.stage import add_camera, add_stage
from robot_rl.types import Array, ConfigError

MARK_HALF_Z = 0.0004
STILL_M_S, STILL_RAD_S = 0.005, 0.05
"""What lies at rest moves less than that."""
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
    mark_nominal: tuple[float, float] = (0.60, -0.13)
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
            at=(x + 0.04, -0.70, 0.62),
            look_at=(x + 0.04, 0.0, 0.055),
            up=(0.0, 0.0, 1.0),
            fovy=34.0,
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
        return tool_at(MEETING_LEFT, pose_flange_tool)

    def success(self, data: mujoco.MjData) -> bool:
        """Whether the bar lies on the mark, all of it and at rest, both hands open and off it."""
        is_free = touching(data.model, data, "bar") == {"world"}
        are_open = all(is_open(data, arm) for arm in (LEFT, RIGHT))
        return is_free and are_open and is_on_mark(data) and _is_at_rest(data)

    def phases(self, data: mujoco.MjData) -> Sequence[Phase]:
        """The way of the bar from hand to hand and onto the mark (`_handover_way.py`)."""
        return phases(data)


def _is_at_rest(data: mujoco.MjData) -> bool:
    velocity = data.joint("bar").qvel
    slow = np.linalg.norm(velocity[:3]) < STILL_M_S
    return bool(slow and np.linalg.norm(velocity[3:]) < STILL_RAD_S)
