"""An arm over an empty table: to try devices, limits and controllers without a task."""

import mujoco
import numpy as np

from robot_rl import interfaces
from robot_rl.sim.stage import add_camera, add_stage
from robot_rl.types import Array


class Scene(interfaces.Scene):
    """A table and two cameras. Nothing moves but the arm, and nothing counts as a success."""

    def add_to(self, spec: mujoco.MjSpec, hand: mujoco.MjsBody) -> None:
        """Add table, light and cameras to a model that holds the arm."""
        add_stage(spec)
        add_camera(
            hand,
            "wrist",
            at=(0.07, 0.0, 0.045),
            look_at=(0.0, 0.0, 0.14),
            up=(0.0, 0.0, -1.0),
            fovy=62.0,
        )
        add_camera(
            spec.worldbody,
            "front",
            at=(1.2, 0.3, 0.6),
            look_at=(0.4, 0.0, 0.2),
            up=(0.0, 0.0, 1.0),
            fovy=45.0,
        )

    def goal_base_tool(self, data: mujoco.MjData, pose_flange_tool: Array) -> Array:
        """Nowhere: the tool as it is."""
        site = data.site("tool")
        quat = np.empty(4)
        mujoco.mju_mat2Quat(quat, site.xmat)
        return np.array([*site.xpos, *quat[1:], quat[0]])

    def success(self, data: mujoco.MjData) -> bool:
        return False
