"""The primitive shapes of an arm's model, and where they are for given joint angles: to be drawn,
not simulated.
"""

from dataclasses import dataclass

import mujoco
import numpy as np

from robot_rl.sim.parts import Parts
from robot_rl.sim.stage import build_model, find_scene
from robot_rl.types import Array, Use, WorldState

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
    """The Panda (an FR3 has its kinematics) in a task's scene, and what moves there, if it is known
    where.

    Without `scenery` the arm and what it holds alone, as when several stand at one table.
    """

    joints = 7

    def __init__(self, scene: Use | None, *, scenery: bool = True):
        model = self._model = build_model(find_scene(scene))
        self._data, self._parts = mujoco.MjData(model), Parts(model)
        self._drawn = [
            i
            for i in range(model.ngeom)
            if int(model.geom_type[i]) in KINDS
            and model.geom_group[i] < 2
            and (scenery or not self._is_scenery(i))
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
        """The pose `(n, 7)` of each shape in the base, for joint angles `q (7,)` [rad].

        Where nothing is known of the `world`, those of what moves in the scene are NaN.
        """
        if world is not None:
            self._parts.take_over(self._data, world)
        self._data.qpos[self._parts.angles] = q
        mujoco.mj_kinematics(self._model, self._data)
        poses = np.empty((len(self._drawn), 7))
        quat = np.empty(4)
        for row, i in enumerate(self._drawn):
            mujoco.mju_mat2Quat(quat, self._data.geom_xmat[i])
            poses[row] = [*self._data.geom_xpos[i], *quat[1:], quat[0]]
            if world is None and self._is_moved(i):
                poses[row] = np.nan
        return poses

    def _is_moved(self, geom: int) -> bool:
        """Whether neither the arm's angles nor the model say where it is: a reset or joints of its
        own do.
        """
        model, body = self._model, int(self._model.geom_bodyid[geom])
        root = model.body_rootid[body]
        if root == model.body("link0").id:
            return False
        return bool(model.body_weldid[body] != 0 or model.body_mocapid[root] >= 0)

    def _is_scenery(self, geom: int) -> bool:
        return self._model.geom_bodyid[geom] == 0 or self._is_moved(geom)
