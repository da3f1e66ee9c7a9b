"""Which parts of a compiled model are the arm's, found by name, and what else of a scene moves."""

import math
from typing import Any

import mujoco
import numpy as np

from robot_rl.sim.panda import FINGERS
from robot_rl.types import Array, ConfigError, WorldState

JOINTS = tuple(f"joint{i}" for i in range(1, 8))
MOTORS = tuple(f"motor{i}" for i in range(1, 8))


class Parts:
    """The arm's `angles` in `qpos`, its `dofs` in `qvel`, its `motors` in `ctrl`, as slices, and of
    fingers that move the places in `qpos`; all else is the scene's.

    `positions` are the places in `qpos` of the scene's own joints, `bodies` those bodies that are
    moved by them or placed by a reset (mocap). Raises ConfigError if a scene puts joints or motors
    of its own between the arm's.
    """

    def __init__(self, model: mujoco.MjModel):
        joints = [model.joint(name) for name in JOINTS]
        self.angles = _in_a_row([int(joint.qposadr[0]) for joint in joints], "joints")
        self.dofs = _in_a_row([int(joint.dofadr[0]) for joint in joints], "joints")
        self.motors = _in_a_row([int(model.actuator(name).id) for name in MOTORS], "motors")
        has_fingers = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, FINGERS[0]) >= 0
        fingers = [model.joint(name) for name in FINGERS] if has_fingers else []
        self.fingers = np.array([int(joint.qposadr[0]) for joint in fingers], int)
        self.positions = np.delete(
            np.arange(model.nq), [*range(model.nq)[self.angles], *self.fingers]
        )
        arms = {int(model.jnt_bodyid[joint.id]) for joint in joints + fingers}
        moved = (
            i for i in range(model.nbody) if model.body_jntnum[i] > 0 or model.body_mocapid[i] >= 0
        )
        self.bodies = np.array([i for i in moved if i not in arms], int)
        placed = model.body_mocapid[self.bodies]
        self._rows, self._mocap = np.flatnonzero(placed >= 0), placed[placed >= 0]

    def poses(self, data: mujoco.MjData) -> Array:
        """The pose `(n, 7)` in the base of each of the scene's `bodies`."""
        poses = np.empty((len(self.bodies), 7))
        quats = data.xquat[self.bodies]
        poses[:, :3], poses[:, 3:6], poses[:, 6] = data.xpos[self.bodies], quats[:, 1:], quats[:, 0]
        return poses

    def width(self, data: mujoco.MjData) -> float:
        """Between the fingers [m]; NaN where none move."""
        return float(data.qpos[self.fingers].sum()) if len(self.fingers) else math.nan

    def take_over(self, data: mujoco.MjData, world: WorldState) -> None:
        """Put arm and scene as they are in `world`; kinematics are the caller's."""
        data.qpos[self.angles] = world.q
        data.qpos[self.fingers] = world.width_m / 2
        self.place_scene(data, world)

    def place_scene(self, data: mujoco.MjData, world: WorldState) -> None:
        """The scene alone."""
        data.qpos[self.positions] = world.scene_q
        data.mocap_pos[self._mocap] = world.objects[self._rows, :3]
        data.mocap_quat[self._mocap] = world.objects[self._rows][:, [6, 3, 4, 5]]


def pose_of(part: Any) -> Array:
    """The pose `(7,)` in the base of a body or site, `data.body(NAME)` or `data.site(NAME)`."""
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, part.xmat)
    return np.array([*part.xpos, *quat[1:], quat[0]])


def _in_a_row(places: list[int], what: str) -> slice:
    """The places as a slice: views into MuJoCo's buffers cost a millisecond's loop nothing."""
    first, last = places[0], places[-1] + 1
    if places != list(range(first, last)):
        raise ConfigError(
            f"the scene has {what} of its own between the arm's: add them to bodies of its own"
        )
    return slice(first, last)
