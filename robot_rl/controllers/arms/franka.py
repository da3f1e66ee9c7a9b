"""A Franka arm (FR3, system 5.9 or later) through Franka's own pylibfranka: joint torques in, measurements out, 1 kHz.

The law is this project's; the robot adds gravity, its own limits and its reflexes below. Pose, Jacobian and Coriolis
torque come from the robot and from the model that it hands out over the wire, wrenches from its own estimate.
pylibfranka holds the GIL in every call, so this runs in the loop's process, with nothing else in it.

Traps. `readOnce` and `writeOnce` limit nothing: a torque further than 1 Nm from the last is a reflex, so torques are
limited here, against what the robot says was last in force. Opening a robot puts the calling thread at the highest
real-time priority, which is taken back.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pylibfranka

from robot_rl.compiled import njit
from robot_rl.config import ArmConfig
from robot_rl.controllers.arms._panda import FR3
from robot_rl.geometry import pose_inverse, pose_multiply, quat_from_matrix, quat_rotate, quat_to_matrix
from robot_rl.interfaces import ArmReading
from robot_rl.types import ArmDriverError, Array, ConfigError, Fault, Load, Use
from robot_rl.validation import from_json

Six = tuple[float, float, float, float, float, float]
Seven = tuple[float, float, float, float, float, float, float]
JOINTS = 7
TICK_S = 0.001
TORQUE_STEP = 0.999
"""Largest change of a torque per tick [Nm]: the robot's 1000 Nm/s, less the rounding of its float32 states."""

IDENTITY = tuple(np.eye(4).ravel())


@dataclass(frozen=True)
class Options:
    """The driver's part of a hardware file.

    `ip` of the robot's control unit. Beyond `collision_torque (7,)` [Nm] or `collision_force (6,)` [N, Nm] the robot
    stops with a reflex of its own: they stand above the loop's limits on force, as the last resort.
    """

    ip: str
    collision_torque: Seven = (60.0, 60.0, 60.0, 60.0, 12.0, 12.0, 12.0)
    collision_force: Six = (120.0, 120.0, 120.0, 40.0, 40.0, 40.0)


@njit
def measure_into(pose: Array, wrench: Array, O_T_EE: Array, K_F_ext: Array) -> None:
    """Pose `(7,)` of the TCP and the wrench `(6,)` on it, in base axes, from the robot's matrix and its estimate.

    The robot's sign is that of what the arm does to its surroundings; ours that of what they do to the tool.
    """
    pose[:3] = O_T_EE[12:15]
    pose[3:] = quat_from_matrix(np.ascontiguousarray(O_T_EE.reshape(4, 4)[:3, :3].T))
    wrench[:3] = -quat_rotate(pose[3:], K_F_ext[:3])
    wrench[3:] = -quat_rotate(pose[3:], K_F_ext[3:])


@njit
def limit_step_into(out: Array, tau: Array, last: Array) -> None:
    """Torques within `TORQUE_STEP` of those that the robot took last."""
    for j in range(tau.shape[0]):
        out[j] = last[j] + min(max(tau[j] - last[j], -TORQUE_STEP), TORQUE_STEP)


class Arm:
    """Implements `interfaces.Arm`. The robot's own cycle paces `read`; torque control begins with the first `write`."""

    joints = JOINTS
    paced = True
    facts = FR3

    def __init__(self, config: ArmConfig, scene: Use | None = None):
        self._options = from_json(Options, config.options, source=f"arm '{config.name}': options")
        if len(config.home) != JOINTS:
            raise ConfigError(f"arm '{config.name}': home needs {JOINTS} joint angles [rad]; it has {len(config.home)}")
        self.lost_cycles = 0
        self._reading = ArmReading(JOINTS)
        self._O_T_EE, self._K_F_ext = np.zeros(16), np.zeros(6)
        self._jacobian_T = np.zeros((JOINTS, 6))
        self._last, self._tau = np.zeros(JOINTS), np.zeros(JOINTS)
        self._tool = np.array(config.pose_flange_tcp, float)
        self._load: Load | None = None
        self._robot: Any = None
        self._control: Any = None
        self._stopped: tuple[Fault, str] | None = None
        self._measured = False
        self._compile()
        self._connect()

    def _compile(self) -> None:
        """Compile, or load, before the first deadline."""
        self._O_T_EE[:] = IDENTITY
        measure_into(self._reading.pose, self._reading.wrench, self._O_T_EE, self._K_F_ext)
        limit_step_into(self._tau, self._last, self._last)

    # ------------------------------------------------------------------------------------------ the loop's calls

    def read(self) -> ArmReading:
        """Measure: wait for the robot's next cycle, unless the last one was not answered yet.

        Raises ArmDriverError once when torque control ends by itself, and always while the robot cannot be reached;
        while it is merely stopped, measuring goes on and `write` raises.
        """
        if not self._measured:
            self._take(self._next_state())
            self._measured = True
        return self._reading

    def write(self, tau: Array) -> None:
        """Send torques `(7,)` [Nm]. Raises ArmDriverError, each time, until `recover`, once the robot has stopped."""
        self._measured = False
        if self._stopped is not None:
            raise ArmDriverError(*self._stopped)
        try:
            if self._control is None:
                self._start()
            limit_step_into(self._tau, tau, self._last)
            self._control.writeOnce(pylibfranka.Torques(self._tau.tolist()))
        except RuntimeError as error:
            raise self._stop(error) from error

    def set_tool(self, pose_flange_tool: Array) -> None:
        """Move the robot's end effector frame to the tool: not possible in torque control, which is begun anew."""
        self._tool = np.array(pose_flange_tool, float)
        self._set_up()

    def set_load(self, load: Load) -> None:
        """Tell the robot what hangs on its flange beside the hand that Desk knows of."""
        self._load = load
        self._set_up()

    def recover(self) -> None:
        """Connect again if need be, clear a reflex, and be ready for the next `write`.

        Raises ArmDriverError with what has to be done by hand first; the arm stays stopped then.
        """
        try:
            if self._robot is None:
                self._connect()
            if self._fresh_state().robot_mode == pylibfranka.RobotMode.Reflex:
                self._robot.automatic_error_recovery()
            self._require_idle()
            self._stopped = None
            self._set_up()
        except RuntimeError as error:
            raise self._stop(error) from error

    def rest(self) -> None:
        """End torque control until the next `write`; the robot's own controller holds the arm meanwhile."""
        self._control = None  # its destructor ends the motion
        self._measured = False

    def close(self) -> None:
        """Let go of the robot, whose own controller holds the arm."""
        self.rest()
        self._robot = None

    # ------------------------------------------------------------------------------------------ inside

    def _connect(self) -> None:
        ip, self._robot = self._options.ip, None
        policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
        try:
            self._robot = pylibfranka.Robot(ip, pylibfranka.RealtimeConfig.kIgnore)
            self._model = self._robot.load_model()
        except (RuntimeError, pylibfranka.FrankaException) as error:
            raise ArmDriverError(Fault.COMMUNICATION, _connection_advice(ip, str(error))) from error
        finally:
            os.sched_setscheduler(0, policy, priority)
        self._set_up()

    def _set_up(self) -> None:
        """Send frames, load and thresholds, which the robot takes only at rest: in a fault they wait for `recover`."""
        self.rest()
        self._settings_due = True
        if self._robot is None:
            return
        try:
            state = self._fresh_state()
            if state.robot_mode == pylibfranka.RobotMode.Idle:
                self._send_settings(state)
                self._settings_due = False
                self._robot.read_once()  # the next one is of the new tool
        except RuntimeError as error:
            raise self._stop(error) from error

    def _send_settings(self, state: Any) -> None:
        robot, options, load = self._robot, self._options, self._load
        torque, force = options.collision_torque, options.collision_force
        robot.set_collision_behavior(torque, torque, force, force)
        robot.set_K(IDENTITY)
        robot.set_EE(_matrix(pose_multiply(pose_inverse(_pose(state.F_T_NE)), self._tool)))
        if load is not None:
            xx, yy, zz, xy, xz, yz = load.inertia
            robot.set_load(load.mass_kg, load.centre_m, (xx, xy, xz, xy, yy, yz, xz, yz, zz))

    def _start(self) -> None:
        """Begin torque control, at zero torque."""
        if self._settings_due:
            self._set_up()
        self._require_idle()
        self._control = self._robot.start_torque_control()
        state, _ = self._control.readOnce()
        self._last[:] = state.tau_J_d

    def _next_state(self) -> Any:
        if self._robot is None:
            time.sleep(TICK_S)  # the robot keeps time for the loop; while it is gone, somebody has to
            raise ArmDriverError(*(self._stopped or (Fault.COMMUNICATION, "the robot is not connected")))
        try:
            if self._control is None:
                return self._robot.read_once()
            state, since_last = self._control.readOnce()
            self.lost_cycles += max(0, round(since_last.to_sec() / TICK_S) - 1)
            return state
        except RuntimeError as error:
            raise self._stop(error) from error

    def _take(self, state: Any) -> None:
        reading = self._reading
        reading.q[:] = state.q
        reading.dq[:] = state.dq
        self._last[:] = state.tau_J_d
        self._O_T_EE[:] = state.O_T_EE
        self._K_F_ext[:] = state.K_F_ext_hat_K
        measure_into(reading.pose, reading.wrench, self._O_T_EE, self._K_F_ext)
        self._jacobian_T.ravel()[:] = self._model.zero_jacobian(state)
        reading.jacobian[:] = self._jacobian_T.T
        reading.coriolis[:] = self._model.coriolis(state)

    def _stop(self, error: RuntimeError) -> ArmDriverError:
        """Torque control has ended by itself: remember why, and let go of what is lost."""
        if isinstance(error, pylibfranka.NetworkException):
            self._control = self._robot = None
            self._stopped = Fault.COMMUNICATION, _connection_advice(self._options.ip, str(error))
        else:
            self._control = None
            self._stopped = fault_of(str(error), self._mode()), str(error)
        return ArmDriverError(*self._stopped)

    def _mode(self) -> Any:
        try:
            return self._robot.read_once().robot_mode
        except RuntimeError:
            return None

    def _fresh_state(self) -> Any:
        """A state that was sent after this was called: the first to come may have been on its way before."""
        self._robot.read_once()
        return self._robot.read_once()

    def _require_idle(self) -> None:
        """Raise ArmDriverError unless the robot would let itself be commanded."""
        state = self._fresh_state()
        if state.robot_mode != pylibfranka.RobotMode.Idle:
            fault, advice = NOT_IDLE.get(state.robot_mode, (Fault.DRIVER, "its mode is unknown"))
            self._stopped = fault, f"the robot at {self._options.ip} cannot be commanded: {advice}"
            raise ArmDriverError(*self._stopped)


NOT_IDLE = {
    pylibfranka.RobotMode.Other: (Fault.DRIVER, "unlock its joints and activate FCI in Desk"),
    pylibfranka.RobotMode.Move: (Fault.DRIVER, "another program moves it"),
    pylibfranka.RobotMode.Guiding: (Fault.USER_STOP, "somebody guides it by hand"),
    pylibfranka.RobotMode.Reflex: (Fault.REFLEX, "it stopped with a reflex; look at it, then acknowledge"),
    pylibfranka.RobotMode.UserStopped: (Fault.USER_STOP, "release its external stop, then acknowledge"),
    pylibfranka.RobotMode.AutomaticErrorRecovery: (Fault.REFLEX, "it is recovering; wait, then acknowledge"),
}
"""What keeps a robot from being commanded, and what to do."""


def fault_of(message: str, mode: Any) -> Fault:
    """Our name for the end of a motion: from the robot's mode, and its own names of errors in libfranka's words."""
    if "communication_constraints_violation" in message:
        return Fault.COMMUNICATION
    return NOT_IDLE[mode][0] if mode in NOT_IDLE else Fault.DRIVER


def _connection_advice(ip: str, reason: str) -> str:
    return (
        f"no connection to a Franka arm at {ip}: {reason}. Is the address right and the cable in, is the robot on, and "
        f"is FCI activated in Desk (https://{ip})? It talks to one program at a time, of its own protocol version: "
        "pylibfranka 0.21 wants an FR3 with system 5.9 or later"
    )


def _matrix(pose: Array) -> list[float]:
    """A pose `(7,)` as a homogeneous matrix, column by column."""
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = quat_to_matrix(pose[3:]), pose[:3]
    return list(matrix.T.ravel())


def _pose(matrix: Sequence[float]) -> Array:
    """A pose `(7,)` of a homogeneous matrix, column by column."""
    columns = np.array(matrix).reshape(4, 4)
    return np.concatenate([columns[3, :3], quat_from_matrix(np.ascontiguousarray(columns[:3, :3].T))])
