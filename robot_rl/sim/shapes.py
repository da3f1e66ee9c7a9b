"""The primitive shapes of an arm's model, and where they are for given joint angles: to be drawn,
not simulated.
"""

from dataclasses import dataclass

import mujoco
import numpy as np

from robot_rl.geometry import pose_inverse, pose_multiply
from robot_rl.sim.panda import prefix_of
from robot_rl.sim.parts import Parts, arms_in, pose_of
from robot_rl.sim.stage import build_model, find_scene
from robot_rl.types import Array, Use, WorldState

FOOT = "link0"
KINDS = {
    int(mujoco.mjtGeom.mjGEOM_BOX): "box",
    int(mujoco.mjtGeom.mjGEOM_CAPSULE): "capsule",
    int(mujoco.mjtGeom.mjGEOM_CYLINDER): "cylinder",
    int(mujoco.mjtGeom.mjGEOM_SPHERE): "sphere",
}


@dataclass(frozen=True)
class Shape:
    """A box (`size`: half lengths [m]), or a capsule, cylinder or sphere (radius, half length)
    along its own z.
    """

    kind: str
    size: tuple[float, float, float]
    colour: tuple[int, int, int]


class ArmShapes:
    """One Panda (an FR3 has its kinematics) of a task's scene, seen from its own foot.

    With the first comes all that is no arm's, and what moves there, if it is known where; with
    another what it holds alone. Arms for which the scene has no stand are drawn as its first one.
    """

    joints = 7

    def __init__(self, scene: Use | None, arm: int = 0):
        """`arm` is its number in the hardware file."""
        model = self._model = build_model(find_scene(scene))
        stand = arm if arm < arms_in(model) else 0
        self._data, self._parts = mujoco.MjData(model), Parts(model)
        self._angles = Parts(model, stand).angles
        feet = [int(model.body(prefix_of(it) + FOOT).id) for it in range(arms_in(model))]
        self._foot, others = feet[stand], {*feet} - {feet[stand]}
        self._drawn = [
            i
            for i in range(model.ngeom)
            if int(model.geom_type[i]) in KINDS
            and model.geom_group[i] < 2
            and (self._is_own(i) or (arm == 0 and self._root(i) not in others))
        ]
        self.shapes = [
            Shape(
                KINDS[int(model.geom_type[i])],
                tuple(float(x) for x in model.geom_size[i]),  # type: ignore[arg-type]
                tuple(int(255 * x) for x in model.geom_rgba[i, :3]),  # type: ignore[arg-type]
            )
            for i in self._drawn
        ]

    def poses(self, q: Array, world: WorldState | None = None) -> Array:
        """The pose `(n, 7)` of each shape in the arm's base, for joint angles `q (7,)` [rad].

        Where nothing is known of the `world`, those of what moves in the scene are NaN.
        """
        if world is not None:
            self._parts.take_over(self._data, world)
        self._data.qpos[self._angles] = q
        mujoco.mj_kinematics(self._model, self._data)
        from_foot = pose_inverse(pose_of(self._data.body(self._foot)))
        poses = np.empty((len(self._drawn), 7))
        quat = np.empty(4)
        for row, i in enumerate(self._drawn):
            mujoco.mju_mat2Quat(quat, self._data.geom_xmat[i])
            there = np.array([*self._data.geom_xpos[i], *quat[1:], quat[0]])
            poses[row] = pose_multiply(from_foot, there)
            if world is None and self._is_moved(i):
                poses[row] = np.nan
        return poses

    def _root(self, geom: int) -> int:
        return int(self._model.body_rootid[self._model.geom_bodyid[geom]])

    def _is_own(self, geom: int) -> bool:
        """Whether it is the arm's, or what it holds."""
        return self._root(geom) == self._foot

    def _is_moved(self, geom: int) -> bool:
        """Whether neither the arm's angles nor the model say where it is: a reset or joints of its
        own do.
        """
        model, body = self._model, int(self._model.geom_bodyid[geom])
        if self._is_own(geom):
            return False
        return bool(model.body_weldid[body] != 0 or model.body_mocapid[self._root(geom)] >= 0)
