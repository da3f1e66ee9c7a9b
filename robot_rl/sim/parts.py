"""Which parts of a compiled model are an arm's, found by name, and what else of a scene moves."""

import itertools
import math
from typing import Any

import mujoco
import numpy as np

from robot_rl.sim.panda import FINGERS, prefix_of
from robot_rl.types import Array, ConfigError, WorldState

JOINTS = tuple(f"joint{i}" for i in range(1, 8))
MOTORS = tuple(f"motor{i}" for i in range(1, 8))


class Parts:
    """The arm's `angles` in `qpos`, its `dofs` in `qvel`, its `motors` in `ctrl`, as slices, and of
    fingers that move the places in `qpos`; all else is the scene's, another arm as well.

    `positions` are the places in `qpos` of all joints that are not this arm's, `bodies` those bodies
    of the scene that are moved by joints or placed by a reset (mocap). Raises ConfigError if a scene
    puts joints or motors of its own between the arm's.
    """

    def __init__(self, model: mujoco.MjModel, arm: int = 0):
        """`arm` is its number among those of the scene."""
        prefix = prefix_of(arm)
        joints = [model.joint(prefix + name) for name in JOINTS]
        motors = [int(model.actuator(prefix + name).id) for name in MOTORS]
        self.angles = _in_a_row([int(joint.qposadr[0]) for joint in joints], "joints")
        self.dofs = _in_a_row([int(joint.dofadr[0]) for joint in joints], "joints")
        self.motors = _in_a_row(motors, "motors")
        fingers = [
            model.joint(prefix + name) for name in FINGERS if has_joint(model, prefix + name)
        ]
        self.fingers = np.array([int(joint.qposadr[0]) for joint in fingers], int)
        self.positions = np.delete(
            np.arange(model.nq), [*range(model.nq)[self.angles], *self.fingers]
        )
        moved = (
            i for i in range(model.nbody) if model.body_jntnum[i] > 0 or model.body_mocapid[i] >= 0
        )
        arms = arm_bodies(model)
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


def has_joint(model: mujoco.MjModel, name: str) -> bool:
    """Whether there is a joint of this name."""
    return bool(mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name) >= 0)


def arms_in(model: mujoco.MjModel) -> int:
    """How many arms stand in a scene."""
    return next(
        arm for arm in itertools.count() if not has_joint(model, prefix_of(arm) + JOINTS[0])
    )


def arm_bodies(model: mujoco.MjModel) -> set[int]:
    """The bodies that arms' joints and fingers move."""
    names = (prefix_of(arm) + name for arm in range(arms_in(model)) for name in JOINTS + FINGERS)
    return {int(model.joint(name).bodyid[0]) for name in names if has_joint(model, name)}


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
