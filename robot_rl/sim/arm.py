"""A Panda in a simulated world: the same torque interface as a real arm.

`read` is the first half of a MuJoCo step, `write` the second: what is measured, the Jacobian and
the Coriolis torque all belong to the same joint angles, and time goes on with `write`. Used by one
thread, the arm loop's.
"""

import math

import mujoco
import numpy as np

from robot_rl import interfaces
from robot_rl.geometry import (
    quat_conjugate,
    quat_from_matrix,
    quat_multiply,
    quat_rotate,
    solve_damped,
    twist_of,
)
from robot_rl.interfaces import ArmReading
from robot_rl.machine.compiled import njit
from robot_rl.sim.fingers import Fingers
from robot_rl.sim.panda import UNKNOWN_LOAD, prefix_of
from robot_rl.sim.parts import Parts
from robot_rl.sim.stage import TICK_S
from robot_rl.sim.world import SimulatedWorld
from robot_rl.types import Array, WorldState

WRENCH_FILTER_S = 0.01
"""Time constant of the external wrench's low-pass [s]."""

WRENCH_DAMPING = 1e-3
"""Damping of the pseudo-inverse of J^T: biases the wrench by about one part in a hundred, away from
singularities.
"""

JOINTS = 7


@njit
def measure_into(
    pose: Array, coriolis: Array, xpos: Array, xmat: Array, bias: Array, gravcomp: Array
) -> None:
    """Fill pose `(7,)` and Coriolis torque `(n,)` from MuJoCo's buffers."""
    pose[:3] = xpos
    pose[3:] = quat_from_matrix(xmat.reshape(3, 3))
    for j in range(coriolis.shape[0]):
        coriolis[j] = bias[j] - gravcomp[j]


@njit
def filter_wrench_into(wrench: Array, jacobian: Array, tau_external: Array, gain: float) -> None:
    """Low-pass the wrench `(6,)` that explains the external joint torques: `(J J^T + d I)^-1 J
    tau`.
    """
    now = solve_damped(jacobian, twist_of(jacobian, tau_external), WRENCH_DAMPING)
    for i in range(6):
        wrench[i] += gain * (now[i] - wrench[i])


@njit
def see_from_base(pose: Array, jacobian: Array, base: Array) -> None:
    """Turn a pose `(7,)` and a Jacobian `(6, n)` of the world into those of a base at a pose `(7,)`
    of it, in place.
    """
    back = quat_conjugate(base[3:])
    pose[:3] = quat_rotate(back, pose[:3] - base[:3])
    pose[3:] = quat_multiply(back, pose[3:])
    for j in range(jacobian.shape[1]):
        jacobian[:3, j] = quat_rotate(back, jacobian[:3, j])
        jacobian[3:, j] = quat_rotate(back, jacobian[3:, j])


class SimulatedPanda(interfaces.Arm):
    """A Panda on a stand of a world, whose `facts` say its joint ranges and torques.

    What it measures as a wrench is all that the commanded torques, gravity compensation and Coriolis
    torques do not explain, as a robot's own estimate is: contacts, friction in the joints, and the
    weight of a load that it was not told of (`unmodelled`).
    """

    joints = JOINTS
    simulated = True

    def __init__(
        self,
        home: Array,
        pose_flange_tcp: Array,
        world: SimulatedWorld,
        unknown_load_kg: float = 0.0,
    ):
        """At the posture `home (7,)` [rad], with the tool at `pose_flange_tcp (7,)`, on the next
        stand of a world; that `begin`s once all its arms are there.
        """
        self._home, self._world = np.array(home), world
        self._model, self._data = world.model, world.data
        self._number = world.join(self)
        self._parts = Parts(self._model, self._number)
        self._base = np.array(world.scene.stands[self._number], float)
        self._reading = ArmReading(JOINTS)
        if len(self._parts.fingers):
            places, prefix = self._parts.fingers, prefix_of(self._number)
            self.fingers = Fingers(self._model, self._data, places, prefix)
        self._gain = 1.0 - math.exp(-TICK_S / WRENCH_FILTER_S)
        self._bind()
        self._bind_jacobian()
        self._bind_load(unknown_load_kg)
        self.set_tool(np.array(pose_flange_tcp))

    def _bind(self) -> None:
        """Look up once what 1,000 ticks a second need: functions, and views into MuJoCo's buffers."""
        self._dofs = self._parts.dofs
        self._reading.q = self._data.qpos[self._parts.angles]
        self._reading.dq = self._data.qvel[self._dofs]
        data, self._tool = self._data, self._model.site(prefix_of(self._number) + "tool").id
        self._jac, self._full_mass = mujoco.mj_jacSite, mujoco.mj_fullM
        self._xpos, self._xmat = data.site_xpos[self._tool], data.site_xmat[self._tool]
        self._bias, self._gravcomp = data.qfrc_bias[self._dofs], data.qfrc_gravcomp[self._dofs]
        self._ctrl = data.ctrl[self._parts.motors]
        self._constraint = data.qfrc_constraint[self._dofs]
        # (7,) [Nm]: what nobody commanded did to the joints in the last tick
        self.tau_external = self._constraint
        self.tau_gravity = self._gravcomp  # (7,) [Nm]: what holds the arm up
        # the site may be moved: without this flag MuJoCo takes the pose of a site at its body's
        # origin from the body
        self._model.site_sameframe[self._tool] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE

    def _bind_jacobian(self) -> None:
        """The Jacobian and mass matrix of everything that moves; where that is the arm alone, they
        are its own.
        """
        moving, reading = self._model.nv, self._reading
        self._alone = moving == JOINTS
        self._whole = reading.jacobian if self._alone else np.zeros((6, moving))
        self._jacp, self._jacr = self._whole[:3], self._whole[3:]
        self._mass, reading.mass = np.zeros((moving, moving)), np.zeros((JOINTS, JOINTS))

    def _bind_load(self, mass_kg: float) -> None:
        """A load that nobody knows of pulls with its weight, which is no part of the torques that
        are compensated.
        """
        self._weight = np.array([0.0, 0.0, mass_kg * self._model.opt.gravity[2]])
        if mass_kg:
            self._load = self._model.body(prefix_of(self._number) + UNKNOWN_LOAD).id
            self._load_jacp = np.zeros((3, self._model.nv))
            self.tau_external = np.zeros(JOINTS)

    def set_tool(self, pose_flange_tool: Array) -> None:
        """Move the controlled point: pose, Jacobian and wrench belong to it from the next `read`
        on.
        """
        self.pose_flange_tool = np.array(pose_flange_tool, float)
        self._model.site_pos[self._tool] = self.pose_flange_tool[:3]
        self._model.site_quat[self._tool] = self.pose_flange_tool[[6, 3, 4, 5]]
        self._reading.wrench[:] = 0.0

    def read(self) -> ArmReading:
        """Measure, in place. Calling it twice without a `write` measures the same again."""
        reading = self._reading
        self._world.measure()
        self._jac(self._model, self._data, self._jacp, self._jacr, self._tool)
        self._full_mass(self._model, self._data, self._mass)
        reading.mass[:] = self._mass[self._dofs, self._dofs]  # type: ignore[index]
        if not self._alone:
            reading.jacobian[:] = self._whole[:, self._dofs]
        measure_into(
            reading.pose, reading.coriolis, self._xpos, self._xmat, self._bias, self._gravcomp
        )
        if self._number:
            see_from_base(reading.pose, reading.jacobian, self._base)
        return reading

    def write(self, tau: Array) -> None:
        """Apply torques `(7,)` [Nm] for one millisecond of simulated time."""
        self._ctrl[:] = tau
        loaded = self._weight[2] != 0.0
        if loaded:
            mujoco.mj_jacBodyCom(self._model, self._data, self._load_jacp, None, self._load)
            self._data.qfrc_applied[self._dofs] = (self._weight @ self._load_jacp)[self._dofs]
        if self.fingers is not None:
            self.fingers.step(TICK_S)
        self._world.advance()

    def feel(self) -> None:
        """After a step of the world: what its torques do not explain, with the Jacobian at which
        they were computed.
        """
        if self._weight[2] != 0.0:
            self.tau_external[:] = self._constraint + self._data.qfrc_applied[self._dofs]
        filter_wrench_into(
            self._reading.wrench, self._reading.jacobian, self.tau_external, self._gain
        )

    def world(self) -> WorldState:
        """The truth at the last `read`."""
        return self._world.state()

    def reset(self, seed: int) -> None:
        """Put the world and all its arms where they begin, with a seed."""
        self._world.reset(seed)

    def go_home(self) -> None:
        """Of a reset: the arm's part."""
        self._data.qpos[self._parts.angles] = self._home

    def begin(self) -> None:
        """Of a reset, once everything is in its place."""
        if self.fingers is not None:
            self.fingers.begin()
        self._reading.wrench[:] = 0.0
        self.read()

    def close(self) -> None:
        """Nothing to let go of."""
