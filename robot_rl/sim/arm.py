"""A Panda in a scene: the same torque interface as a real arm, with a world around it.

`read` is the first half of a MuJoCo step, `write` the second: what is measured, the Jacobian and
the Coriolis torque all belong to the same joint angles, and time goes on with `write`. Used by one
thread, the arm loop's.
"""

import math
from typing import Any

import mujoco
import numpy as np

from robot_rl import interfaces
from robot_rl.geometry import quat_from_matrix, solve_damped, twist_of
from robot_rl.interfaces import ArmReading
from robot_rl.machine.compiled import njit
from robot_rl.sim.fingers import Fingers
from robot_rl.sim.franka_facts import PANDA
from robot_rl.sim.panda import UNKNOWN_LOAD, Unmodelled
from robot_rl.sim.parts import Parts
from robot_rl.sim.stage import TICK_S, blamed_on, build_model, find_scene
from robot_rl.types import ArmFacts, Array, Use, WorldState

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


class SimulatedPanda(interfaces.Arm):
    """A Panda in a scene of `sim/scenes` (an empty table if there is none).

    With other `facts` it has that arm's joint ranges and torques, on the Panda's links. What it
    measures as a wrench is all that the commanded torques, gravity compensation and Coriolis
    torques do not explain, as a robot's own estimate is: contacts, friction in the joints, and the
    weight of a load that it was not told of (`unmodelled`).
    """

    joints = JOINTS
    simulated = True

    def __init__(
        self,
        home: Array,
        pose_flange_tcp: Array,
        scene: Use | None,
        unmodelled: Unmodelled,
        facts: ArmFacts = PANDA,
    ):
        """At the posture `home (7,)` [rad], with the tool at `pose_flange_tcp (7,)`."""
        self._home = np.array(home)
        self._scene = find_scene(scene)
        self._model = build_model(self._scene, facts, unmodelled)
        self._data, self._parts = mujoco.MjData(self._model), Parts(self._model)
        self._reading = ArmReading(JOINTS)
        if len(self._parts.fingers):
            self.fingers = Fingers(self._model, self._data, self._parts.fingers)
        self._gain = 1.0 - math.exp(-TICK_S / WRENCH_FILTER_S)
        self._sequence = 0
        self._bind()
        self._bind_jacobian()
        self._bind_load(unmodelled.unknown_load_kg)
        self.set_tool(np.array(pose_flange_tcp))
        with blamed_on(self._scene):  # what is wrong with a scene is said here, not by the loop
            self.reset(0)
            self.world()

    def _bind(self) -> None:
        """Look up once what 1,000 ticks a second need: functions, and views into MuJoCo's buffers."""
        self._dofs = self._parts.dofs
        self._reading.q = self._data.qpos[self._parts.angles]
        self._reading.dq = self._data.qvel[self._dofs]
        data, self._tool = self._data, self._model.site("tool").id
        self._step1, self._step2 = mujoco.mj_step1, mujoco.mj_step2
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
            self._load = self._model.body(UNKNOWN_LOAD).id
            self._load_jacp = np.zeros((3, self._model.nv))
            self.tau_external = np.zeros(JOINTS)

    def set_tool(self, pose_flange_tool: Array) -> None:
        """Move the controlled point: pose, Jacobian and wrench belong to it from the next `read`
        on.
        """
        self._pose_flange_tool = np.array(pose_flange_tool, float)
        self._model.site_pos[self._tool] = self._pose_flange_tool[:3]
        self._model.site_quat[self._tool] = self._pose_flange_tool[[6, 3, 4, 5]]
        self._reading.wrench[:] = 0.0

    def read(self) -> ArmReading:
        """Measure, in place. Calling it twice without a `write` measures the same again."""
        reading = self._reading
        self._step1(self._model, self._data)
        self._jac(self._model, self._data, self._jacp, self._jacr, self._tool)
        self._full_mass(self._model, self._data, self._mass)
        reading.mass[:] = self._mass[self._dofs, self._dofs]  # type: ignore[index]
        if not self._alone:
            reading.jacobian[:] = self._whole[:, self._dofs]
        measure_into(
            reading.pose, reading.coriolis, self._xpos, self._xmat, self._bias, self._gravcomp
        )
        return reading

    def write(self, tau: Array) -> None:
        """Apply torques `(7,)` [Nm] for one millisecond of simulated time."""
        self._ctrl[:] = tau
        loaded = self._weight[2] != 0.0
        if loaded:
            mujoco.mj_jacBodyCom(self._model, self._data, self._load_jacp, None, self._load)
            self._data.qfrc_applied[:] = self._weight @ self._load_jacp
        if self.fingers is not None:
            self.fingers.step(TICK_S)
        self._step2(self._model, self._data)
        if loaded:
            self.tau_external[:] = self._constraint + self._data.qfrc_applied[self._dofs]
        # the torques of this step, with the Jacobian at which they were computed
        filter_wrench_into(
            self._reading.wrench, self._reading.jacobian, self.tau_external, self._gain
        )

    def world(self) -> WorldState:
        """The truth at the last `read`."""
        scene, data, back = self._scene, self._data, self._scene.way_back
        self._sequence += 1
        goals: dict[str, Any] = {}
        if back is not None:
            goals["goal_back"] = back.goal_base_tool(data, self._pose_flange_tool)
            goals["success_back"] = back.success(data)
        return WorldState(
            sequence=self._sequence,
            t=data.time,
            q=data.qpos[self._parts.angles].copy(),
            objects=self._parts.poses(data),
            goal_base_tcp=scene.goal_base_tool(data, self._pose_flange_tool),
            success=scene.success(data),
            seed=self._seed,
            scene_q=data.qpos[self._parts.positions],
            width_m=self._parts.width(data),
            **goals,
        )

    def reset(self, seed: int) -> None:
        """Put the arm at its home posture, and all else where the model has it and the seed says;
        all of it at rest.
        """
        mujoco.mj_resetData(self._model, self._data)
        self._data.qpos[self._parts.angles] = self._home
        self._seed = seed
        self._scene.place(self._model, self._data, seed)
        mujoco.mj_forward(self._model, self._data)
        if self.fingers is not None:
            self.fingers.begin()
        self._reading.wrench[:] = 0.0
        self.read()

    def close(self) -> None:
        """Nothing to let go of."""
