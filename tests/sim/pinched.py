"""A scene whose fingers move, with a loose block between them, or on the table under them."""

from dataclasses import dataclass

import mujoco
import numpy as np

from robot_rl import interfaces
from robot_rl.geometry import pose_multiply
from robot_rl.interfaces import Given
from robot_rl.sim.panda import FINGERS, LOOSE_CONTACT
from robot_rl.sim.stage import add_stage
from robot_rl.types import Array


@dataclass(frozen=True)
class Options:
    """A block [m], [kg]; its middle is `below_m` under the fingertips."""

    width_m: float = 0.04
    height_m: float = 0.04
    mass_kg: float = 0.1
    below_m: float = 0.0
    held: bool = True


class Scene(interfaces.Scene):
    """The block is `objects[0]`; success: it is not on the table."""

    fingers = True

    def __init__(self, options: Options, given: Given):
        self._options = options

    def add_to(self, spec: mujoco.MjSpec, hand: mujoco.MjsBody) -> None:
        add_stage(spec)
        o = self._options
        block = spec.worldbody.add_body(name="block")
        block.add_freejoint(name="block")
        half = [o.width_m / 2, o.width_m / 2, o.height_m / 2]
        box = mujoco.mjtGeom.mjGEOM_BOX
        block.add_geom(type=box, size=half, mass=o.mass_kg, **LOOSE_CONTACT)

    def place(self, model: mujoco.MjModel, data: mujoco.MjData, seed: int) -> None:
        o = self._options
        mujoco.mj_kinematics(model, data)
        hand = data.body("hand")
        w, *xyz = hand.xquat
        pose = pose_multiply(
            np.array([*hand.xpos, *xyz, w]), np.array([0, 0, 0.1034 + o.below_m, 0, 0, 0, 1.0])
        )
        if o.held:
            for finger in FINGERS:
                data.joint(finger).qpos[0] = o.width_m / 2
        else:
            pose[2] = o.height_m / 2
        data.joint("block").qpos[:] = [*pose[:3], pose[6], *pose[3:6]]

    def goal_base_tool(self, data: mujoco.MjData, pose_flange_tool: Array) -> Array:
        return np.array([*data.body("block").xpos, 1.0, 0.0, 0.0, 0.0])

    def success(self, data: mujoco.MjData) -> bool:
        return bool(data.body("block").xpos[2] > self._options.height_m)
