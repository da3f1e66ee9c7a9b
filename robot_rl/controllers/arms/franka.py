"""A Franka arm (FR3, system 5.9 or later) through Franka's own pylibfranka: joint torques in,
measurements out, 1 kHz.

The law is this project's; the robot adds gravity, its own limits and its reflexes below. Pose,
Jacobian and Coriolis torque come from the robot and from the model that it hands out over the wire,
wrenches from its own estimate. pylibfranka holds the GIL in every call, so this runs in the loop's
process, with nothing else in it.

Traps. `readOnce` and `writeOnce` limit and smooth nothing: a torque further than 1 Nm from the last
is a reflex, so torques are limited here, against what the robot says was last in force. Opening a
robot puts the calling thread at the highest real-time priority, which is taken back. The robot
takes frames and load only when it is idle: in every other mode its pose is of whatever tool was set
last, so the tool's pose is computed from the frames that each state names.
"""

import math
import os
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pylibfranka

from robot_rl import interfaces
from robot_rl.controllers.arms._franka_address import require_somebody
from robot_rl.controllers.arms._franka_frames import (
    IDENTITY,
    TICK_S,
    distance,
    matrix_of,
    measure_into,
    pose_of,
    share_per_tick,
    smooth_into,
)
from robot_rl.controllers.arms._franka_words import (
    entry,
    error_names,
    explain,
    explain_connection,
    fault_of,
    findings,
    not_idle,
)
from robot_rl.geometry import pose_inverse, pose_multiply
from robot_rl.interfaces import ArmReading, Given
from robot_rl.sim.franka_facts import FR3
from robot_rl.types import ArmDriverError, Array, ConfigError, Fault, Load

Six = tuple[float, float, float, float, float, float]
Seven = tuple[float, float, float, float, float, float, float]
JOINTS = 7
CONTACT_SHARE = 0.5
"""From this share of a collision threshold on the robot's states say "contact", which stops
nothing: the journal of a collision shows how it began."""

JOURNAL_STATES = 50
"""So many states, a millisecond each, go into the journal."""


@dataclass(frozen=True)
class Options:
    """The driver's part of a hardware file."""

    ip: str
    """Network address of the robot's control unit."""
    collision_torque: Seven = (60.0, 60.0, 60.0, 60.0, 10.0, 10.0, 10.0)
    """Beyond these torques of the joints [Nm] the robot stops with a reflex of its own: the last
    resort. Each must be below what the motor has, or the robot would never stop for it: at 10 of
    the wrist's 12 Nm 2 are left to brake."""
    collision_force: Six = (120.0, 120.0, 120.0, 40.0, 40.0, 40.0)
    """The same of forces and moments [N, Nm], above the loop's own limits."""
    torque_filter_hz: float = 100.0
    """Where torques are low-passed on their way to the robot; 0: not at all (see `smooth_into`)."""
    end_effector_kg: float = 0.73
    """What Desk is to know of the hand, whose weight the robot compensates. The Franka Hand: 0.73
    kg (its manual).
    """

    def __post_init__(self) -> None:
        """Raise ConfigError for values that a robot would refuse, or that would keep it from ever
        stopping.
        """
        for joint, (asked, most) in enumerate(
            zip(self.collision_torque, FR3.max_torque, strict=True)
        ):
            if not 0.0 < asked < most:
                raise ConfigError(
                    f"collision_torque[{joint}] = {asked:g}: wanted more than 0 and less than"
                    f" {most:g} Nm, all that the joint's motor has: the robot would never stop"
                    " for it"
                )
        for axis, asked in enumerate(self.collision_force):
            if not 0.0 < asked < math.inf:
                raise ConfigError(f"collision_force[{axis}] = {asked:g}: wanted more than 0")
        for name, most, what in (
            ("torque_filter_hz", 0.5 / TICK_S, "half the loop's rate"),
            ("end_effector_kg", FR3.max_load_kg, "what the arm carries"),
        ):
            if not 0.0 <= getattr(self, name) <= most:
                raise ConfigError(f"{name} = {getattr(self, name):g}: wanted 0 to {most:g}, {what}")


class Arm(interfaces.Arm):
    """The robot's own cycle paces `read`; torque control begins with the first `write`."""

    joints = JOINTS
    paced = True
    facts = FR3
    success_rate: float | None = math.nan
    """Share of its last 100 commands that the robot says it got in time; NaN outside torque
    control.
    """

    def __init__(self, options: Options, given: Given):
        config, self._options = given.arm, options
        assert config is not None, "an arm is given its entry of the hardware file"
        if len(config.home) != JOINTS:
            raise ConfigError(
                f"arm '{config.name}': home needs {JOINTS} joint angles [rad]; it has"
                f" {len(config.home)}"
            )
        self._name, self._tcp = config.name, np.array(config.pose_flange_tcp, float)
        self.lost_cycles = 0
        self._reading = ArmReading(JOINTS)
        self._O_T_EE, self._K_F_ext = np.zeros(16), np.zeros(6)
        self._ee_tool, self._ee_k = pose_of(np.array(IDENTITY)), pose_of(np.array(IDENTITY))
        self._jacobian_ee = np.zeros((JOINTS, 6))
        self._mass = self._reading.mass = np.zeros((JOINTS, JOINTS))
        self._last, self._tau = np.zeros(JOINTS), np.zeros(JOINTS)
        self._share = share_per_tick(self._options.torque_filter_hz)
        self._tool = self._tcp.copy()
        self._load: Load | None = None
        self._robot: Any = None
        self._control: Any = None
        self._stopped: tuple[Fault, str] | None = None
        self._measured = False
        self._states: deque[Any] = deque(maxlen=JOURNAL_STATES)
        self._last_motion: list[Any] = []
        self._compile()
        self._connect()

    def _compile(self) -> None:
        """Compile, or load, whatever is called once the robot is there: it waits for nobody, least
        of all a minute.
        """
        self._O_T_EE[:] = IDENTITY
        self._take_matrices()
        smooth_into(self._tau, self._last, self._last, self._share)
        self._learn_frames(IDENTITY, IDENTITY)
        matrix_of(self._wanted_ee(IDENTITY))
        distance(self._tool, self._tool)

    def read(self) -> ArmReading:
        """Measure: wait for the robot's next cycle, unless the last one was not answered yet.

        Raises ArmDriverError once when torque control ends by itself, and always while the robot
        cannot be reached; while it is merely stopped, measuring goes on and `write` raises.
        """
        if not self._measured:
            self._take(self._next_state())
            self._measured = True
        return self._reading

    def write(self, tau: Array) -> None:
        """Send torques `(7,)` [Nm]. Raises ArmDriverError, each time, until `recover`, once the
        robot has stopped.
        """
        self._measured = False
        if self._stopped is not None:
            raise ArmDriverError(*self._stopped)
        try:
            if self._control is None:
                self._start()
            smooth_into(self._tau, tau, self._last, self._share)
            self._control.writeOnce(pylibfranka.Torques(self._tau.tolist()))
        except RuntimeError as error:
            raise self._stop(error) from error

    def set_tool(self, pose_flange_tool: Array) -> None:
        """Move the robot's end effector frame to the tool: not possible in torque control, which is
        begun anew.
        """
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
            self._stopped, self._last_motion = None, []
            self._set_up()
        except RuntimeError as error:
            raise self._stop(error) from error

    def rest(self) -> None:
        """End torque control until the next `write`; the robot's own controller holds the arm
        meanwhile.
        """
        self._control = None  # its destructor ends the motion
        self._measured = False
        self.success_rate = math.nan

    def close(self) -> None:
        """Let go of the robot, whose own controller holds the arm."""
        self.rest()
        self._robot = None

    def journal(self) -> dict[str, Any]:
        """The robot's own account of its last 50 ms, for a black box: plain data, one entry per
        state, oldest first.

        After it has stopped: those before the stop, and the state after it, which names the errors.
        What pylibfranka keeps of libfranka's `ControlException.log` is nothing, hence a record of
        our own.
        """
        states = self._last_motion or list(self._states)
        newest = states[-1] if states else None
        return {
            "mode": newest.robot_mode.name if newest else "unknown",
            "current_errors": error_names(newest.current_errors) if newest else [],
            "last_motion_errors": error_names(newest.last_motion_errors) if newest else [],
            "stopped": self._stopped[1] if self._stopped else "",
            "states": [entry(state) for state in states],
        }

    def examine(self) -> list[tuple[str, bool, str, str]]:
        """For `robot-rl check`: what the robot's own settings say, against the hardware file.

        Each is (what, whether it is right, what was found, what to do). Torque control ends. Raises
        ArmDriverError if the robot is gone.
        """
        self.rest()
        try:
            state = self._fresh_state()
        except RuntimeError as error:
            raise self._stop(error) from error
        return findings(state, self._options.ip, self._options.end_effector_kg, self._tcp)

    def _connect(self) -> None:
        ip, self._robot = self._options.ip, None
        policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
        try:
            require_somebody(ip)
            self._robot = pylibfranka.Robot(ip, pylibfranka.RealtimeConfig.kIgnore)
            self._model = self._robot.load_model()
        except (OSError, RuntimeError, pylibfranka.FrankaException) as error:
            self._robot = None
            raise ArmDriverError(*self._lost(error)) from error
        finally:
            os.sched_setscheduler(0, policy, priority)
        self._set_up()

    def _set_up(self) -> None:
        """Send frames, load and thresholds, which the robot takes only at rest: in a fault they
        wait for `recover`.
        """
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
        # the form of four: (lower, upper) of torque and force. Beyond the lower a state says
        # "contact", no more
        robot.set_collision_behavior(_contact(torque), torque, _contact(force), force)
        robot.set_K(IDENTITY)
        robot.set_EE(matrix_of(self._wanted_ee(state.F_T_NE)))
        if load is not None:
            xx, yy, zz, xy, xz, yz = load.inertia
            robot.set_load(load.mass_kg, load.centre_m, (xx, xy, xz, xy, yy, yz, xz, yz, zz))

    def _wanted_ee(self, F_T_NE: Sequence[float]) -> Array:
        """Where the tool is, seen from the nominal end effector that Desk has set."""
        pose: Array = pose_multiply(pose_inverse(pose_of(np.array(F_T_NE))), self._tool)
        return pose

    def _learn_frames(self, F_T_EE: Sequence[float], EE_T_K: Sequence[float]) -> None:
        """Where tool and stiffness frame are, seen from the end effector that a state is about."""
        self._ee_tool[:] = pose_multiply(pose_inverse(pose_of(np.array(F_T_EE))), self._tool)
        self._ee_k[:] = pose_of(np.array(EE_T_K))

    def _start(self) -> None:
        """Begin torque control, at zero torque."""
        if self._settings_due:
            self._set_up()
        self._require_idle()
        self._control = self._robot.start_torque_control()
        state, _ = self._control.readOnce()
        self._learn_frames(state.F_T_EE, state.EE_T_K)  # nobody can set others before it ends
        self._last[:] = state.tau_J_d

    def _next_state(self) -> Any:
        if self._robot is None:
            # the robot keeps time for the loop; while it is gone, somebody has to
            time.sleep(TICK_S)
            raise ArmDriverError(
                *(self._stopped or (Fault.COMMUNICATION, "the robot is not connected"))
            )
        try:
            if self._control is None:
                state = self._robot.read_once()
                self._learn_frames(state.F_T_EE, state.EE_T_K)
            else:
                state, since_last = self._control.readOnce()
                self.lost_cycles += max(0, round(since_last.to_sec() / TICK_S) - 1)
                self.success_rate = state.control_command_success_rate
            self._states.append(state)
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
        self._jacobian_ee.ravel()[:] = self._model.zero_jacobian(state)
        self._take_matrices()
        reading.coriolis[:] = self._model.coriolis(state)
        self._mass.ravel()[:] = self._model.mass(state)

    def _take_matrices(self) -> None:
        reading = self._reading
        measure_into(
            reading.pose, reading.wrench, reading.jacobian, self._O_T_EE, self._K_F_ext, self._jacobian_ee,
            self._ee_tool, self._ee_k,
        )  # fmt: skip

    def _stop(self, error: RuntimeError) -> ArmDriverError:
        """Torque control has ended by itself: remember why, and let go of what is lost."""
        was_moving, self._control = self._control is not None, None
        self.success_rate = math.nan
        if was_moving:
            self._last_motion = list(self._states)
        if isinstance(error, pylibfranka.NetworkException):
            self._robot = None
            self._stopped = self._lost(error)
        else:
            after = self._state_after()
            if was_moving and after is not None:
                self._last_motion.append(after)
            fault = fault_of(str(error), after.robot_mode.name if after is not None else "unknown")
            self._stopped = fault, explain(str(error))
        return ArmDriverError(*self._stopped)

    def _state_after(self) -> Any:
        try:
            return self._robot.read_once()
        except RuntimeError:
            return None

    def _fresh_state(self) -> Any:
        """A state that was sent after this was called: the first to come may have been on its way
        before.
        """
        self._robot.read_once()
        return self._robot.read_once()

    def _require_idle(self) -> None:
        """Raise ArmDriverError unless the robot would let itself be commanded."""
        state = self._fresh_state()
        if state.robot_mode != pylibfranka.RobotMode.Idle:
            fault, advice = not_idle(state.robot_mode.name)
            errors = ", ".join(error_names(state.current_errors))
            self._stopped = (
                fault,
                f"the robot at {self._options.ip} cannot be commanded: {advice}"
                + (f" (it says: {errors})" if errors else ""),
            )
            raise ArmDriverError(*self._stopped)

    def _lost(self, error: Exception) -> tuple[Fault, str]:
        return Fault.COMMUNICATION, explain_connection(self._name, self._options.ip, str(error))


def _contact(thresholds: Sequence[float]) -> list[float]:
    return [CONTACT_SHARE * threshold for threshold in thresholds]
