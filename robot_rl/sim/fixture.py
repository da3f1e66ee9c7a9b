"""What scenes share in which a tool welded to the hand works at one fixture on the table.

The fixture is a mocap body: its pose is state, so that a reset moves it and a camera's model can be
told where it is. Bodies with joints of their own hang on it. Lengths in metres, angles in radians;
the base frame is the arm's, the table's top is z = 0.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from robot_rl import interfaces
from robot_rl.config.ranges import Range
from robot_rl.geometry import pose_inverse, pose_multiply, quat_multiply
from robot_rl.interfaces import Given
from robot_rl.sim.looks import Looks, add_textures
from robot_rl.sim.panda import HAND_TO_FINGERTIPS_M, POSE_FLANGE_HAND
from robot_rl.sim.parts import pose_of
from robot_rl.sim.stage import add_camera, add_stage
from robot_rl.types import Array, ConfigError

POINTING_DOWN = np.array([1.0, 0.0, 0.0, 0.0])
NO_LOOKS = Looks()
FIXTURE = "fixture"
BOX, CAPSULE = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CAPSULE
MOST = {
    "range_m": Range(0.0, 0.5, "m"),
    "range_rad": Range(0.0, math.pi, "rad"),
    "friction": Range(0.0, 5.0),
}
MOST_AWAY_M = 1.0


@dataclass(frozen=True)
class FixtureOptions:
    """Where a fixture may stand, and how pictures change. Raises ConfigError for what cannot be."""

    nominal: tuple[float, float] = (0.5, 0.0)
    """The middle of the places where it may stand, x and y [m]."""
    range_m: float = 0.02
    """Half-width of the uniform range of its place about that, along x and y [m]."""
    range_rad: float = math.radians(10.0)
    """Half-width of the uniform range of its yaw [rad]."""
    looks: Looks = NO_LOOKS
    """How light, cameras and colours differ between episodes: fields of `sim/looks.py: Looks`."""

    def __post_init__(self) -> None:
        for name, allowed in MOST.items():
            value = getattr(self, name, 0.0)
            if not allowed.low <= value <= allowed.high:
                raise ConfigError(f"{name} {allowed.complaint(value)}")
        if max(map(abs, self.nominal)) > MOST_AWAY_M:
            raise ConfigError(
                f"nominal is {self.nominal}; it must be within {MOST_AWAY_M:g} m of the arm"
            )


class FixtureScene(interfaces.Scene):
    """A stage with a fixture, a wrist camera that looks at the tool's tip, and a front camera.

    `tool_m` is the length of the tool beyond the fingertips [m]. The site `tip` is its end; tool
    poses of phases and goals stand upright where they are unturned against the fixture.
    """

    tool_m: float
    front: tuple[tuple[float, float, float], tuple[float, float, float], float]
    """Where the front camera stands and what it looks at, as seen from the nominal place [m], and
    its field of view [degrees]."""

    def __init__(self, options: Any, given: Given):
        self.options, self.looks = options, options.looks
        self.hand_to_tip = HAND_TO_FINGERTIPS_M + self.tool_m
        pose_hand_tip = np.array([0.0, 0.0, self.hand_to_tip, 0.0, 0.0, 0.0, 1.0])
        self.pose_flange_tip: Array = pose_multiply(np.array(POSE_FLANGE_HAND), pose_hand_tip)

    @abstractmethod
    def add_tool(self, hand: mujoco.MjsBody) -> None:
        """Weld the tool to the hand."""

    @abstractmethod
    def add_fixture(self, spec: mujoco.MjSpec, fixture: mujoco.MjsBody) -> None:
        """Give the fixture its shapes and what moves on it."""

    @abstractmethod
    def goal_fixture_tip(self) -> Array:
        """Pose `(7,)` of the tip when the task is done, seen from the fixture."""

    def add_to(self, spec: mujoco.MjSpec, hand: mujoco.MjsBody) -> None:
        """Add table, light, tool, fixture and cameras to a model that holds the arm."""
        add_stage(spec)
        self.add_tool(hand)
        tip = (0.0, 0.0, self.hand_to_tip)
        hand.add_site(name="tip", pos=tip, group=4, size=[0.002] * 3)
        place = np.array([*self.options.nominal, 0.0])
        self.add_fixture(spec, spec.worldbody.add_body(name=FIXTURE, mocap=True, pos=place))
        self.add_wrist_camera(hand)
        at, look_at, fovy = self.front
        eye, seen = (place + at).tolist(), (place + look_at).tolist()
        add_camera(spec.worldbody, "front", at=eye, look_at=seen, up=(0.0, 0.0, 1.0), fovy=fovy)
        add_textures(spec, self.looks)

    def add_wrist_camera(self, hand: mujoco.MjsBody) -> None:
        """Between the open sides of the fingers: tip and fixture in one view."""
        add_camera(
            hand,
            "wrist",
            at=(0.07, 0.0, 0.045),
            look_at=(0.0, 0.0, self.hand_to_tip),
            up=(0.0, 0.0, -1.0),
            fovy=62.0,
        )

    def place(self, model: mujoco.MjModel, data: mujoco.MjData, seed: int) -> None:
        """Put the fixture where the seed says: uniform in position and yaw about its nominal place."""
        rng = np.random.default_rng(seed)
        x, y = self.options.nominal + rng.uniform(-self.options.range_m, self.options.range_m, 2)
        yaw = rng.uniform(-self.options.range_rad, self.options.range_rad)
        data.mocap_pos[0] = x, y, 0.0
        data.mocap_quat[0] = math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)

    def goal_base_tool(self, data: mujoco.MjData, pose_flange_tool: Array) -> Array:
        """Pose `(7,)` of the tool when the task is done."""
        pose_tip_tool = pose_multiply(pose_inverse(self.pose_flange_tip), pose_flange_tool)
        goal_base_tip = pose_multiply(pose_of(data.body(FIXTURE)), self.goal_fixture_tip())
        goal: Array = pose_multiply(goal_base_tip, pose_tip_tool)
        return goal


def upright(x: float, y: float, z: float, yaw: float = 0.0) -> Array:
    """A pose `(7,)` of a tool that points down, at a point of a body that stands on the table."""
    turn = np.array([0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2)])
    return np.array([x, y, z, *quat_multiply(turn, POINTING_DOWN)])
