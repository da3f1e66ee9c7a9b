"""Peg insertion: a square peg welded to the hand, and a socket without chamfer somewhere on the
table.

Lengths in metres, angles in radians; the base frame is the arm's, the table's top is z = 0. The
socket is a mocap body: its pose is state, so that a reset moves it and a camera's model can be told
where it is.
"""

import math
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from robot_rl import interfaces
from robot_rl.geometry import pose_inverse, pose_multiply, quat_multiply
from robot_rl.interfaces import Given
from robot_rl.sim.looks import Looks, add_textures
from robot_rl.sim.panda import GREY, POSE_FLANGE_HAND, TOOL_CONTACT, WORLD_CONTACT
from robot_rl.sim.socket import Socket
from robot_rl.sim.stage import add_camera, add_stage
from robot_rl.types import Array, ConfigError

PEG_HALF_WIDTH = 0.010
PEG_LENGTH = 0.060
HAND_TO_TIP = 0.1034 + 0.042
"""The TCP is 103.4 mm below the hand's mount (Franka Hand manual), the tip of the grasped peg 42 mm
below that.
"""

WALL = 0.020
ORANGE, BLUE = (0.86, 0.36, 0.14), (0.20, 0.45, 0.75)
POINTING_DOWN = np.array([1.0, 0.0, 0.0, 0.0])
NO_LOOKS = Looks()
BOX = mujoco.mjtGeom.mjGEOM_BOX


@dataclass(frozen=True)
class Options(Socket):
    """The options of a task: socket, colours, and how pictures change. Raises ConfigError for what
    cannot be.
    """

    peg_rgb: tuple[float, float, float] = ORANGE
    """Colour of the peg: red, green, blue, 0 to 1."""
    socket_rgb: tuple[float, float, float] = BLUE
    """Colour of the socket."""
    looks: Looks = NO_LOOKS
    """How light, cameras and colours differ between episodes: fields of `sim/looks.py: Looks`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, colour in (("peg_rgb", self.peg_rgb), ("socket_rgb", self.socket_rgb)):
            if not all(0.0 <= share <= 1.0 for share in colour):
                raise ConfigError(
                    f"{name} is {tuple(colour)}; it must be red, green and blue from 0 to 1"
                )


class Scene(interfaces.Scene):
    """What `controllers/arms/mujoco.py` simulates and `cameras/mujoco.py` draws."""

    def __init__(self, options: Options, given: Given):
        self.socket, self.looks = options, options.looks
        self.peg_rgba, self.socket_rgba = [*options.peg_rgb, 1.0], [*options.socket_rgb, 1.0]
        pose_hand_tip = np.array([0.0, 0.0, HAND_TO_TIP, 0.0, 0.0, 0.0, 1.0])
        self.pose_flange_tip: Array = pose_multiply(np.array(POSE_FLANGE_HAND), pose_hand_tip)

    def add_to(self, spec: mujoco.MjSpec, hand: mujoco.MjsBody) -> None:
        """Add table, light, peg, socket and cameras to a model that holds the arm."""
        add_stage(spec)
        middle = HAND_TO_TIP - PEG_LENGTH / 2
        half = [PEG_HALF_WIDTH, PEG_HALF_WIDTH, PEG_LENGTH / 2]
        peg = {"density": 2700.0, "rgba": self.peg_rgba, "group": 1, **self._contact(TOOL_CONTACT)}
        hand.add_geom(name="peg", type=BOX, size=half, pos=[0.0, 0.0, middle], **peg)
        hand.add_site(name="tip", pos=[0.0, 0.0, HAND_TO_TIP], group=4, size=[0.002] * 3)
        self._add_socket(spec)
        # 35 degrees off the peg's axis, seen between the open sides of the fingers: tip and hole in
        # one view
        add_camera(
            hand,
            "wrist",
            at=(0.07, 0.0, 0.045),
            look_at=(0.0, 0.0, HAND_TO_TIP),
            up=(0.0, 0.0, -1.0),
            fovy=62.0,
        )
        x, y = self.socket.socket_nominal
        front = (x + 0.30, y + 0.10, 0.20)
        add_camera(
            spec.worldbody, "front", at=front, look_at=(x, y, 0.055), up=(0.0, 0.0, 1.0), fovy=32.0
        )
        add_textures(spec, self.looks)

    def _add_socket(self, spec: mujoco.MjSpec) -> None:
        """Four walls around a square hole; the table is its bottom, under a dark sheet that is only
        seen.
        """
        socket = spec.worldbody.add_body(
            name="socket", mocap=True, pos=[*self.socket.socket_nominal, 0.0]
        )
        inner, half_depth = PEG_HALF_WIDTH + self.socket.clearance_m, self.socket.depth_m / 2
        middle, outer = inner + WALL / 2, inner + WALL
        look = {"type": BOX, "rgba": self.socket_rgba, "group": 0, **self._contact(WORLD_CONTACT)}
        for i, side in enumerate((-1.0, 1.0)):
            end = {"name": f"socket-{2 * i}", **look}
            flank = {"name": f"socket-{2 * i + 1}", **look}
            socket.add_geom(
                size=[WALL / 2, outer, half_depth], pos=[side * middle, 0.0, half_depth], **end
            )
            socket.add_geom(
                size=[inner, WALL / 2, half_depth], pos=[0.0, side * middle, half_depth], **flank
            )
        sheet = {"rgba": GREY, "contype": 0, "conaffinity": 0}
        socket.add_geom(type=BOX, size=[inner, inner, 0.0002], pos=[0.0, 0.0, 0.0003], **sheet)

    def _contact(self, kind: dict[str, int]) -> dict[str, Any]:
        """A surface of the pair: of two friction coefficients MuJoCo takes the larger one."""
        return {**kind, "friction": [self.socket.friction, 0.005, 0.0001]}

    def place(self, model: mujoco.MjModel, data: mujoco.MjData, seed: int) -> None:
        """Put the socket where the seed says: uniform in position and yaw about the nominal place."""
        rng = np.random.default_rng(seed)
        offset = rng.uniform(-self.socket.socket_range_m, self.socket.socket_range_m, 2)
        yaw = rng.uniform(-self.socket.socket_range_rad, self.socket.socket_range_rad)
        x, y = self.socket.socket_nominal
        quat = np.array([0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2)])
        data.mocap_pos[0] = x + offset[0], y + offset[1], 0.0
        data.mocap_quat[0] = quat[[3, 0, 1, 2]]

    def _socket(self, data: mujoco.MjData) -> Array:
        """The socket's pose `(7,)`."""
        w, x, y, z = data.mocap_quat[0]
        return np.array([*data.mocap_pos[0], x, y, z, w])

    def goal_base_tool(self, data: mujoco.MjData, pose_flange_tool: Array) -> Array:
        """Pose `(7,)` of the tool when the tip stands upright in the middle of the hole's bottom."""
        pose_tip_tool = pose_multiply(pose_inverse(self.pose_flange_tip), pose_flange_tool)
        goal: Array = pose_multiply(self._goal_base_tip(data), pose_tip_tool)
        return goal

    def _goal_base_tip(self, data: mujoco.MjData) -> Array:
        """The same pose of the tip itself."""
        goal = self._socket(data)
        goal[3:] = quat_multiply(goal[3:], POINTING_DOWN)
        return goal

    def success(self, data: mujoco.MjData) -> bool:
        """Whether the tip is `success_depth_m` below the rim and between the walls."""
        tip = np.array([*data.site("tip").xpos, 0.0, 0.0, 0.0, 1.0])
        x, y, z = pose_multiply(pose_inverse(self._socket(data)), tip)[:3]
        # half a millimetre of give for soft contacts; outside the walls it would be 20 mm
        room = self.socket.clearance_m + 0.0005
        deep = self.socket.depth_m - z >= self.socket.success_depth_m
        return bool(deep and abs(x) <= room and abs(y) <= room)
