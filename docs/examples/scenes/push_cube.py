"""Push the cube through the swing door, onto the mark."""

import mujoco
import numpy as np

from robot_rl.sim.panda import LOOSE_CONTACT
from robot_rl.sim.stage import add_camera, add_stage

MARK, LOOSE = np.array([0.5, 0.1]), {"type": mujoco.mjtGeom.mjGEOM_BOX, **LOOSE_CONTACT}


class Scene:
    def add_to(self, spec, hand):
        add_stage(spec)  # table (its top is z = 0), floor, light
        add_camera(hand, "wrist", at=(0.07, 0, 0.045), look_at=(0, 0, 0.14), up=(0, 0, -1), fovy=62)
        world = spec.worldbody
        add_camera(world, "front", at=(0.9, 0, 0.3), look_at=(0.5, 0, 0), up=(0, 0, 1), fovy=45)
        cube = world.add_body(name="cube", pos=[0.5, 0.0, 0.02])
        cube.add_freejoint(name="cube")
        cube.add_geom(size=[0.02] * 3, density=600.0, rgba=[0.8, 0.3, 0.1, 1.0], **LOOSE)
        door = world.add_body(name="door", pos=[0.42, 0.06, 0.0])
        door.add_joint(name="door", axis=[0.0, 0.0, 1.0], damping=[0.001, 0.0, 0.0])
        door.add_geom(size=[0.07, 0.003, 0.03], pos=[0.07, 0.0, 0.04], density=300.0, **LOOSE)

    def place(self, model, data, seed):
        data.joint("cube").qpos[:2] += np.random.default_rng(seed).uniform(-0.01, 0.01, 2)

    def goal_base_tool(self, data, pose_flange_tool):  # for `--obs state` and the scripted operator
        return np.array([*MARK, 0.02, 1.0, 0.0, 0.0, 0.0])

    def success(self, data):  # what reward `simulator` goes by
        return bool(np.linalg.norm(data.body("cube").xpos[:2] - MARK) < 0.015)
