"""Things of a scene put where they cannot get by themselves: what the tests of what is picked up
share.
"""

from typing import Any

import mujoco
import numpy as np

from robot_rl import config
from robot_rl.sim.stage import build_model, find_scene
from robot_rl.types import Array
from tests.sim.player import HAND


class Still:
    """A task's scene, in which time stands still."""

    def __init__(self, name: str):
        self.scene: Any = find_scene(config.load_task(name).scene)
        self.model = build_model(self.scene)
        self.data = mujoco.MjData(self.model)
        self.data.qpos[self.model.joint("joint1").qposadr[0] :][:7] = HAND.home
        mujoco.mj_forward(self.model, self.data)

    def success_with(self, body: str, pose: Array, *, velocity: Array | None = None, width=0.08):
        """Whether it is a success with a body at a pose `(7,)`, the fingers `width` apart [m]."""
        for finger in ("finger_left", "finger_right"):
            self.data.joint(finger).qpos[0] = width / 2
        self.data.joint(body).qpos = pose[[0, 1, 2, 6, 3, 4, 5]]
        self.data.joint(body).qvel = np.zeros(6) if velocity is None else velocity
        mujoco.mj_forward(self.model, self.data)
        return self.scene.success(self.data)
