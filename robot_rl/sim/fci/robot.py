"""How an FR3 behaves behind its interface: modes, motions, reflexes, recovery, on top of the
simulated Panda's links.

No sockets here and no clock: `server.py` calls `step` once per millisecond (or per command, in
lockstep) and sends what `state_into` fills. Sources: Franka Control Interface documentation ("Robot
and interface specifications": limits, 1000 Nm/s, 20 lost packets) and libfranka's `RobotState`
(meaning and signs of the fields). A motion is torque control; the robot's own joint and Cartesian
motion generators are refused as not possible.
"""

import math
from typing import Any

import numpy as np

from robot_rl.config import ArmConfig
from robot_rl.geometry import (
    pose_inverse,
    pose_multiply,
    quat_from_matrix,
    quat_rotate,
    quat_to_matrix,
    rotate_spatial,
)
from robot_rl.machine.validation import from_json
from robot_rl.sim.arm import SimulatedPanda
from robot_rl.sim.fci import layout
from robot_rl.sim.fci.layout import Error, Mode, MoveStatus
from robot_rl.sim.franka_facts import FR3
from robot_rl.sim.panda import POSE_FLANGE_HAND, Unmodelled
from robot_rl.sim.world import SimulatedWorld
from robot_rl.types import Array, Use, WorldState

TORQUE_STEP = 1.0 + 1e-3
"""Largest change of a commanded torque in a millisecond [Nm]: 1000 Nm/s, and the rounding of a
float32 state.
"""

LOST_IN_A_ROW = 20
"""So many cycles without a command end a motion."""

DEFAULT_TORQUE_THRESHOLD, DEFAULT_FORCE_THRESHOLD = 20.0, 20.0
"""[Nm], [N, Nm] until a client sets others: those of franka_ros' example configuration."""

HOLD_STIFFNESS = np.array([600.0, 600.0, 600.0, 600.0, 250.0, 150.0, 50.0])
HOLD_DAMPING = np.array([50.0, 50.0, 50.0, 50.0, 30.0, 25.0, 15.0])
"""The internal controller that holds a posture [Nm/rad, Nms/rad]: libfranka's example of joint
impedance.
"""

AT_REST = 0.01
"""[rad/s]: an arm that is slower stands."""

TORQUE_FILTER_S = 0.01
"""Time constant of `tau_ext_hat_filtered` [s]."""

HAND_MASS, HAND_COM, HAND_INERTIA = 0.73, (-0.01, 0.0, 0.03), (0.001, 0.0025, 0.0017)
"""[kg], [m], [kg m^2] in the hand's frame: Franka Hand product manual."""

POSE_FLANGE_NE = np.array([0.0, 0.0, 0.1034, *POSE_FLANGE_HAND[3:]])
"""The nominal end effector of an arm with a Franka Hand: between the fingertips."""

LOW, HIGH = np.array(FR3.joint_low), np.array(FR3.joint_high)
SPEED, TORQUE = np.array(FR3.max_joint_speed), np.array(FR3.max_torque)
OFFSET, DECELERATION = np.array(FR3.speed_offset), np.array(FR3.deceleration)
IDENTITY = np.eye(4).T.ravel()


class FciRobot:
    """The simulated arm as its interface shows it. Used by one thread.

    `world`, `reset` and `user_stop` are for the simulation's owner; everything else is what a
    client may do.
    """

    def __init__(self, config: ArmConfig, scene: Use | None = None):
        # the other options are a client's
        unmodelled = from_json(Unmodelled, Unmodelled.among(config.options))
        world, load_kg = SimulatedWorld(scene, FR3, [unmodelled]), unmodelled.unknown_load_kg
        self._arm = SimulatedPanda(
            np.array(config.home), np.array(config.pose_flange_tcp), world, load_kg
        )
        world.begin()
        self.fingers = self._arm.fingers  # those of the hand, where they move in the scene
        self._reading = self._arm.read()
        self.mode = Mode.IDLE
        self.message_id = 0
        self.lost_ticks = 0
        self.commanded = False
        self._finished: MoveStatus | None = None
        self._errors, self._reasons = np.zeros(layout.ERRORS, bool), np.zeros(layout.ERRORS, bool)
        self._lost_in_a_row, self._success = 0, 1.0
        self.touch = np.zeros(6)  # wrench [N, Nm] of somebody who pushes the tool, base axes
        # how a recovery ends, and how long it takes
        self.recovery_status, self.recovery_s = layout.OK, 0.0
        self.hand_mass = HAND_MASS  # [kg] of the end effector that Desk knows of
        # [Nm] by which the next command is off on joint 1, as from a client without limits
        self.torque_jump = 0.0
        self._tau = np.zeros(7)
        self._tau_external = np.zeros(7)
        self._gain = 1.0 - math.exp(-layout.TICK_S / TORQUE_FILTER_S)
        self._torque = np.full((2, 7), DEFAULT_TORQUE_THRESHOLD)
        self._force = np.full((2, 6), DEFAULT_FORCE_THRESHOLD)
        self._load = (0.0, np.zeros(3), np.zeros(9))
        self._pose_ne_ee, self._pose_ee_k = np.array([0.0] * 6 + [1.0]), np.array([0.0] * 6 + [1.0])
        self._set_frames()
        self._brake()
        self._compile()

    def _compile(self) -> None:
        """Compile, or load, whatever a tick needs, before anybody waits for one."""
        state = np.zeros((), layout.STATE)
        self.step(None)
        self.state_into(state)
        self.settings_into(state)
        self.message_id = 0
        self._arm.reset(0)
        self._brake()

    # --------------------------------------------------------------------------- what a client asks

    def start_motion(self, controller: int, generator: int) -> MoveStatus:
        """Begin torque control; anything but an idle arm, and any other kind of motion, is refused."""
        if (
            self.mode != Mode.IDLE
            or controller != layout.EXTERNAL_CONTROLLER
            or generator != layout.NO_GENERATOR
        ):
            return MoveStatus.NOT_POSSIBLE
        self.mode = Mode.MOVE
        self._reasons[:] = False
        self._tau[:] = 0.0
        self._lost_in_a_row, self._success, self.commanded = 0, 1.0, False
        return MoveStatus.STARTED

    @property
    def braking(self) -> bool:
        """Whether the arm still moves although no motion is under way."""
        return self.mode != Mode.MOVE and bool((np.abs(self._reading.dq) > AT_REST).any())

    def stop_motion(self) -> None:
        """End a motion, if there is one, as preempted."""
        if self.mode == Mode.MOVE:
            self._end(Mode.IDLE, MoveStatus.PREEMPTED)

    def finished_motion(self) -> MoveStatus | None:
        """How a motion has ended, once."""
        finished, self._finished = self._finished, None
        return finished

    def recover(self) -> int:
        """Clear a reflex, unless it is not to be. A pressed user stop has to be released by hand
        first.
        """
        if self.mode not in (Mode.REFLEX, Mode.IDLE):
            return layout.NOT_POSSIBLE
        if self.recovery_status != layout.OK:
            return self.recovery_status
        self._errors[:] = False
        self.mode = Mode.IDLE
        return layout.OK

    def set(self, command: layout.Command, value: Array) -> int:
        """Carry out a setter; none is possible during a motion, and none takes numbers that are
        not.
        """
        if self.mode == Mode.MOVE:
            return layout.NOT_POSSIBLE
        if not all(np.isfinite(value[name]).all() for name in value.dtype.names or ()):
            return layout.INVALID
        match command:
            case layout.Command.SET_COLLISION_BEHAVIOR:
                if (value["torque"] <= 0.0).any() or (value["force"] <= 0.0).any():
                    return layout.INVALID
                self._torque, self._force = value["torque"].copy(), value["force"].copy()
            case layout.Command.SET_LOAD:
                if value["mass"] < 0.0:
                    return layout.INVALID
                self._load = (float(value["mass"]), value["com"].copy(), value["inertia"].copy())
            case layout.Command.SET_NE_TO_EE | layout.Command.SET_EE_TO_K:
                matrix = value["pose"].reshape(4, 4).T
                rotation = matrix[:3, :3]
                if np.abs(rotation @ rotation.T - np.eye(3)).max() > 1e-5 or matrix[3].tolist() != [
                    0,
                    0,
                    0,
                    1,
                ]:
                    return layout.INVALID
                pose = np.concatenate([
                    matrix[:3, 3],
                    quat_from_matrix(np.ascontiguousarray(rotation)),
                ])
                if command == layout.Command.SET_NE_TO_EE:
                    self._pose_ne_ee = pose
                else:
                    self._pose_ee_k = pose
                self._set_frames()
        return layout.OK

    # ----------------------------------------------------------------------------------------- time

    def step(self, command: Array | None) -> None:
        """One millisecond: judge the client's command, or that none came, then let physics go on."""
        if self.mode == Mode.MOVE:
            self._take(command)
        tau = self._tau if self.mode == Mode.MOVE else self._holding_torque()
        push = self._reading.jacobian.T @ self.touch
        self._arm.write(tau + push)
        self._reading = self._arm.read()
        self._tau_external += self._gain * (self._arm.tau_external + push - self._tau_external)
        self.message_id += 1
        if self.mode == Mode.MOVE:
            self._watch()

    def _take(self, command: Array | None) -> None:
        """A command's torques for this millisecond; without one the last torques go on."""
        self._success += 0.01 * ((command is not None) - self._success)
        if command is None:
            self.lost_ticks += self.commanded
            self._lost_in_a_row += 1
            if self._lost_in_a_row >= LOST_IN_A_ROW:
                self._reflex(Error.COMMUNICATION_CONSTRAINTS)
            return
        self._lost_in_a_row, self.commanded = 0, True
        wanted = command["tau_J_d"].copy()
        wanted[0] += self.torque_jump
        self.torque_jump = 0.0
        if not np.isfinite(wanted).all() or (np.abs(wanted) > TORQUE).any():
            self._reflex(Error.TORQUE_RANGE)
        elif (np.abs(wanted - self._tau) > TORQUE_STEP).any():
            self._reflex(Error.TORQUE_DISCONTINUITY)
        elif command["finished"]:
            self._end(Mode.IDLE, MoveStatus.SUCCESS)
        else:
            self._tau[:] = wanted

    def _watch(self) -> None:
        """The reflexes that follow from what is measured."""
        q, dq = self._reading.q, self._reading.dq
        if (q < LOW).any() or (q > HIGH).any():
            self._reflex(Error.JOINT_POSITION_LIMITS)
        elif (dq > speed_allowed(HIGH - q)).any() or (-dq > speed_allowed(q - LOW)).any():
            self._reflex(Error.JOINT_VELOCITY)
        elif (np.abs(self._tau_external) > self._torque[1]).any():
            self._reflex(Error.JOINT_REFLEX)
        elif (np.abs(self._reading.wrench + self.touch) > self._force[1]).any():
            self._reflex(Error.CARTESIAN_REFLEX)

    def _reflex(self, error: Error) -> None:
        self._errors[error] = self._reasons[error] = True
        self._end(Mode.REFLEX, MoveStatus.REFLEX)

    def _end(self, mode: Mode, status: MoveStatus) -> None:
        self.mode, self._finished = mode, status
        self._tau[:] = 0.0
        self._brake()

    def _brake(self) -> None:
        self._reading = self._arm.read()
        self._held = self._reading.q.copy()

    def _holding_torque(self) -> Array:
        """A damped spring to the posture in which the last motion ended."""
        r = self._reading
        tau = HOLD_STIFFNESS * (self._held - r.q) - HOLD_DAMPING * r.dq + r.coriolis
        return np.clip(tau, -TORQUE, TORQUE)

    # ------------------------------------------------------------------------- the simulation's own

    def lose_client(self) -> None:
        """The client's connection is gone: whatever was moving has nobody left to send it commands."""
        if self.mode == Mode.MOVE:
            self._reflex(Error.COMMUNICATION_CONSTRAINTS)
            self._finished = None

    def user_stop(self, pressed: bool) -> None:
        """Press or release the external stop: it ends a motion, and nothing moves until it is
        released.
        """
        if pressed and self.mode != Mode.USER_STOPPED:
            moving = self.mode == Mode.MOVE
            self._end(Mode.USER_STOPPED, MoveStatus.EMERGENCY)
            self._finished = MoveStatus.EMERGENCY if moving else None
        elif not pressed and self.mode == Mode.USER_STOPPED:
            self.mode = Mode.IDLE

    def enter(self, mode: Mode) -> None:
        """What somebody does in Desk or with their hands: lock the joints (OTHER), guide the arm,
        make it idle.
        """
        if mode != self.mode:
            moving = self.mode == Mode.MOVE
            self._end(mode, MoveStatus.PREEMPTED)
            self._finished = MoveStatus.PREEMPTED if moving else None
            self._errors[:] = False

    def status(self) -> dict[str, Any]:
        """How it stands with the robot, as plain data."""
        return {
            "mode": self.mode.name,
            "errors": [error.name for error in Error if self._errors[error]],
            "ticks": self.message_id,
            "lost_ticks": self.lost_ticks,
            "largest_speed": float(np.abs(self._reading.dq).max()),
            "q": self._reading.q.tolist(),
        }

    def world(self) -> WorldState:
        """The truth about the scene."""
        return self._arm.world()

    def reset(self, seed: int) -> None:
        """Put the arm at home and at rest, the objects where the seed says. During a motion too:
        its torques go on.
        """
        self._arm.reset(seed)
        self._tau_external[:] = 0.0
        self._brake()

    # --------------------------------------------------------------------------- what a client sees

    def state_into(self, state: Array) -> None:
        """Fill a `layout.STATE` with what changes from tick to tick."""
        r = self._reading
        moving = self.mode == Mode.MOVE
        state["message_id"] = self.message_id
        O_T_EE = _matrix(r.pose)
        state["O_T_EE"] = state["O_T_EE_d"] = state["O_T_EE_c"] = O_T_EE
        state["q"] = state["theta"] = r.q
        state["dq"] = state["dtheta"] = r.dq
        state["q_d"] = r.q if moving else self._held
        state["tau_J_d"] = self._tau
        state["tau_J"] = self._tau + self._arm.tau_gravity
        # the robot's sign: what the arm does to its surroundings is positive
        state["tau_ext_hat_filtered"] = -self._tau_external
        wrench_base, wrench_k = self._wrench_at_k()
        state["O_F_ext_hat_K"], state["K_F_ext_hat_K"] = -wrench_base, -wrench_k
        torque, force = np.abs(self._tau_external), np.abs(wrench_base)
        state["joint_contact"] = torque > self._torque[0]
        state["cartesian_contact"] = force > self._force[0]
        state["joint_collision"] = torque > self._torque[1]
        state["cartesian_collision"] = force > self._force[1]
        state["generator_mode"] = layout.GENERATOR_NONE if moving else layout.GENERATOR_IDLE
        state["controller_mode"] = layout.CONTROLLER_EXTERNAL if moving else layout.CONTROLLER_OTHER
        state["errors"], state["reflex_reason"] = self._errors, self._reasons
        state["robot_mode"] = self.mode
        state["control_command_success_rate"] = self._success if moving else 0.0

    def settings_into(self, state: Array) -> None:
        """Fill a `layout.STATE` with what only a setter changes: frames, masses, and gravity's
        direction.
        """
        state["F_T_NE"], state["NE_T_EE"] = _matrix(POSE_FLANGE_NE), _matrix(self._pose_ne_ee)
        state["F_T_EE"], state["EE_T_K"] = _matrix(self._pose_flange_ee), _matrix(self._pose_ee_k)
        R_flange_hand = quat_to_matrix(np.array(POSE_FLANGE_HAND[3:]))
        state["m_ee"], state["F_x_Cee"] = self.hand_mass, R_flange_hand @ HAND_COM
        state["I_ee"] = (R_flange_hand @ np.diag(HAND_INERTIA) @ R_flange_hand.T).ravel()
        state["m_load"], state["F_x_Cload"], state["I_load"] = self._load
        state["O_ddP_O"] = (0.0, 0.0, -9.81)

    def _set_frames(self) -> None:
        self._pose_flange_ee = pose_multiply(POSE_FLANGE_NE, self._pose_ne_ee)
        self._arm.set_tool(self._pose_flange_ee)
        self._reading = self._arm.read()

    def _wrench_at_k(self) -> tuple[Array, Array]:
        """The wrench from the world at the stiffness frame, in base axes and in the frame's own."""
        r = self._reading
        pose_base_k = pose_multiply(r.pose, self._pose_ee_k)
        wrench = r.wrench + self.touch
        wrench[3:] -= np.cross(quat_rotate(r.pose[3:], self._pose_ee_k[:3]), wrench[:3])
        return wrench, rotate_spatial(pose_inverse(pose_base_k)[3:], wrench)


def speed_allowed(room: Array) -> Array:
    """How fast a joint may move [rad/s] towards an end of its range that is `room (7,)` [rad] away.

    What stands still may stand anywhere: `AT_REST` is always allowed.
    """
    falling = np.sqrt(2.0 * DECELERATION * np.maximum(room, 0.0)) - OFFSET
    allowed: Array = np.clip(falling, AT_REST, SPEED)
    return allowed


def _matrix(pose: Array) -> Array:
    """A pose `(7,)` as 16 numbers of a homogeneous matrix, column by column."""
    out = IDENTITY.copy()
    out.reshape(4, 4)[:3, :3] = quat_to_matrix(pose[3:]).T
    out[12:15] = pose[:3]
    return out
