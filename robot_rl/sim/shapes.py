"""The primitive shapes of an arm's model, and where they are for given joint angles: to be drawn, not simulated."""

from dataclasses import dataclass

import mujoco
import numpy as np

from robot_rl.sim.parts import Parts
from robot_rl.sim.stage import build_model, find_scene
from robot_rl.types import Array, Use

KINDS = {
    int(mujoco.mjtGeom.mjGEOM_BOX): "box",
    int(mujoco.mjtGeom.mjGEOM_CAPSULE): "capsule",
    int(mujoco.mjtGeom.mjGEOM_CYLINDER): "cylinder",
    int(mujoco.mjtGeom.mjGEOM_SPHERE): "sphere",
}


@dataclass(frozen=True)
class Shape:
    """A box (`size`: half lengths [m]), or a capsule, cylinder or sphere (radius, half length) along its own z."""

    kind: str
    size: tuple[float, float, float]
    colour: tuple[int, int, int]


class ArmShapes:
    """The Panda (an FR3 has its kinematics) in a task's scene, without what a reset moves: that is not published.

    Without `scenery` the arm and what it holds alone, as when several stand at one table.
    """

    joints = 7

    def __init__(self, scene: Use | None, *, scenery: bool = True):
        self._model = build_model(find_scene(scene))
        self._data = mujoco.MjData(self._model)
        model, self._angles = self._model, Parts(self._model).angles
        self._drawn = [
            i
            for i in range(model.ngeom)
            if int(model.geom_type[i]) in KINDS
            and model.geom_group[i] < 2
            and self._stays(int(model.geom_bodyid[i]))
            and (scenery or model.geom_bodyid[i] > 0)
        ]
        self.shapes = [
            Shape(
                KINDS[int(model.geom_type[i])],
                tuple(float(x) for x in model.geom_size[i]),  # type: ignore[arg-type]
                tuple(int(255 * x) for x in model.geom_rgba[i, :3]),  # type: ignore[arg-type]
            )
            for i in self._drawn
        ]

    def _stays(self, body: int) -> bool:
        """Whether a body is the arm's, or fixed: then the joint angles say where it is."""
        model = self._model
        is_arms = model.body_rootid[body] == model.body("link0").id
        return is_arms or (model.body_weldid[body] == 0 and model.body_mocapid[model.body_rootid[body]] < 0)

    def poses(self, q: Array) -> Array:
        """The pose `(n, 7)` of each shape in the base, for joint angles `q (7,)` [rad]."""
        self._data.qpos[self._angles] = q
        mujoco.mj_kinematics(self._model, self._data)
        poses = np.empty((len(self._drawn), 7))
        quat = np.empty(4)
        for row, i in enumerate(self._drawn):
            mujoco.mju_mat2Quat(quat, self._data.geom_xmat[i])
            poses[row] = [*self._data.geom_xpos[i], *quat[1:], quat[0]]
        return poses
