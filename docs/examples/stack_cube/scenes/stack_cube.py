"""A cube that lies anywhere on the table, and a block on which it is to be put down."""

import math

import mujoco
import numpy as np

from robot_rl.interfaces import Scene as SceneBase
from robot_rl.sim import grasping
from robot_rl.sim.fixture import upright
from robot_rl.sim.panda import WORLD_CONTACT
from robot_rl.sim.phases import Phase
from robot_rl.sim.stage import add_camera, add_stage

CUBE, BLOCK, TOP = 0.04, np.array([0.5, 0.12]), 0.04  # [m]
BOX = mujoco.mjtGeom.mjGEOM_BOX
HOLDS = ((-CUBE / 2, CUBE / 2),) * 3  # where the fingertips can hold the cube, seen from its middle


class Scene(SceneBase):
    fingers = True

    def add_to(self, spec, hand):
        add_stage(spec)
        block = spec.worldbody.add_body(name="block", pos=[*BLOCK, TOP / 2])
        block.add_geom(type=BOX, size=[0.025, 0.025, TOP / 2], **WORLD_CONTACT)
        cube = grasping.add_loose(spec, "cube", (0.5, -0.08, CUBE / 2))
        cube.add_geom(type=BOX, size=[CUBE / 2] * 3, density=700.0, **grasping.slippery(0.4))
        before = {"at": (0.075, 0.0, 0.062), "look_at": (0.0, 0.0, 0.135), "up": (0.0, 0.0, -1.0)}
        add_camera(hand, "wrist", **before, fovy=75.0)
        beside = {"at": (1.0, 0.1, 0.4), "look_at": (0.5, 0.0, 0.04), "up": (0.0, 0.0, 1.0)}
        add_camera(spec.worldbody, "front", **beside, fovy=45.0)

    def place(self, model, data, seed):
        rng = np.random.default_rng(seed)
        data.joint("cube").qpos[:2] += rng.uniform(-0.06, 0.06, 2)
        yaw = rng.uniform(-math.pi, math.pi)
        data.joint("cube").qpos[3:] = [math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)]

    def goal_base_tool(self, data, pose_flange_tool):
        """Around the cube until it is held, then where it is put down."""
        place = upright(*BLOCK, TOP + CUBE / 2) if self._is_held(data) else self._around(data)
        return grasping.tool_at(place, pose_flange_tool)

    def success(self, data):
        x, y, z = data.body("cube").xpos - [*BLOCK, TOP + CUBE / 2]
        stands = math.hypot(x, y) < 0.015 and abs(z) < 0.003
        return stands and grasping.touching(data.model, data, "cube") == {"block"}

    def _around(self, data):
        x, y, z = data.body("cube").xpos
        hand = grasping.hand_yaw(data)
        return upright(
            x, y, z, grasping.nearest_yaw(grasping.yaw_of(data, "cube"), math.pi / 2, hand)
        )

    def _is_held(self, data):
        return grasping.is_between(data, "cube", HOLDS) and grasping.opening(data) < CUBE + 0.01

    def phases(self, data):
        cube, around, held = data.body("cube").xpos, self._around(data), self._is_held(data)
        above, over, on = around.copy(), around.copy(), around.copy()
        above[2] = cube[2] + 0.06
        over[:3], on[:3] = [*BLOCK, TOP + 0.09], [*BLOCK, TOP + CUBE / 2 + 0.001]
        lifted = held and cube[2] > TOP + CUBE
        there = np.hypot(*(cube[:2] - BLOCK)) < 0.015
        low = there and abs(cube[2] - TOP - CUBE / 2) < 0.003
        return (
            *grasping.approach(around, 0.03, data, done=held or low),
            Phase("down", around, gripper=1, near_m=0.004, near_rad=0.05, done=held or low),
            Phase("close", around, gripper=-1, near_m=0.02, near_rad=0.2, steps=8, done=lifted or low,
                  ready=grasping.is_between(data, "cube", HOLDS), unsteady=0.2),
            Phase("lift", above, gripper=-1, near_m=0.02, ready=held, done=lifted),
            Phase("carry", over, gripper=-1, near_m=0.005, ready=held),
            Phase("lower", on, gripper=-1, near_m=0.004, pace=0.6, ready=held and there, unsteady=0.2),
            Phase("open", on, gripper=1, near_m=0.02, near_rad=0.2, steps=8, ready=low, unsteady=0.2),
        )  # fmt: skip
