"""The arm loop: one function, a thousand times a second, the same on a real arm and in the simulation.

`ArmLoop` owns the arm. It is used by one thread: by the real-time process (`realtime.py`) once per millisecond, or in
lockstep by the server itself, as often as a control period has milliseconds. Whatever has to be slow (a new set-up,
an acknowledgement, a reset) happens between two ticks.
"""

import math

import numpy as np

from robot_rl.compiled import njit
from robot_rl.controllers import safety
from robot_rl.controllers.impedance import filter_reference, impedance_torque, twist_of
from robot_rl.controllers.setup import ArmSetup
from robot_rl.interfaces import Arm, SimulatedArm
from robot_rl.types import ArmState, Array, DeviceError, Fault

TICK_S = 0.001

FILTER, STEP, ANGLE, NULLSPACE, MARGIN, TCP_SPEED, FORCE, TORQUE_STEP = range(8)
"""Entries of `scalars (8,)`: filter gain per tick, largest reference step [m] and turn [rad] per tick, nullspace
stiffness, workspace margin [m], largest TCP speed [m/s], force [N], and torque step [Nm] per tick."""


@njit
def control_into(
    tau: Array,
    target: Array,
    reference: Array,
    q: Array,
    dq: Array,
    coriolis: Array,
    pose: Array,
    jacobian: Array,
    wrench: Array,
    posture: Array,
    gains: Array,
    joint_limits: Array,
    box: Array,
    scalars: Array,
    latched: int,
) -> int:
    """One tick of control: check the state, move the reference, write the next torques into `tau (n,)`.

    Returns the fault code. A new fault puts `target` and `reference` at the measured pose, so that the arm holds
    there; while one is latched nothing else is checked but that the numbers are numbers. Without those the torques
    fade to zero, and the arm's own gravity compensation is all that is left.
    """
    finite = safety.pose_is_valid(pose) and safety.all_finite(q) and safety.all_finite(dq)
    if not (finite and safety.all_finite(wrench) and safety.all_finite(coriolis)):
        tau[:] = safety.limit_torque(np.zeros(tau.shape[0]), tau, joint_limits, scalars[TORQUE_STEP])
        return safety.STATE_NOT_FINITE
    code = latched
    if latched == safety.NONE:
        twist = twist_of(jacobian, dq)
        code = safety.check_state(
            dq, twist, pose, wrench, joint_limits, box, scalars[MARGIN], scalars[TCP_SPEED], scalars[FORCE]
        )
        if code != safety.NONE:
            target[:] = pose
            reference[:] = pose
    reference[:] = filter_reference(reference, target, scalars[FILTER], scalars[STEP], scalars[ANGLE])
    wanted = impedance_torque(q, dq, coriolis, pose, jacobian, reference, posture, gains, scalars[NULLSPACE])
    tau[:] = safety.limit_torque(wanted, tau, joint_limits, scalars[TORQUE_STEP])
    return code


class ArmLoop:
    """The control of one arm: its target, lease, fault and torques from tick to tick.

    ```
    loop.command(pose_base_tcp, expires)     # whenever a target arrives
    loop.tick(t)                             # read -> lease -> reference -> impedance -> safety -> write
    ```
    `t` and `expires` are seconds of one clock, which is the caller's. After a fault, or once the lease has run out,
    the arm holds the pose that was measured then. A command ends a hold; only `acknowledge` ends a fault.
    """

    def __init__(self, arm: Arm | SimulatedArm, setup: ArmSetup):
        self._arm = arm
        self._read, self._write = arm.read, arm.write
        self._tau = np.zeros(arm.joints)
        self._target = np.zeros(7)
        self._reference = np.zeros(7)
        self._posture = np.zeros(arm.joints)
        self._expires = -math.inf
        self._excursion_allowed = False
        self.ticks = 0
        self.t = 0.0
        self.holding = True
        self.fault = Fault.NONE
        self.configure(setup)
        self._compile()

    def _compile(self) -> None:
        """Compile, or load, every function of a tick before the first deadline."""
        self.command(self._reading.pose, 0.0)
        self._control(self._tau.copy())
        twist_of(self._reading.jacobian, self._reading.dq)
        self._hold()

    def configure(self, setup: ArmSetup) -> None:
        """Take over a task's set-up (checked before, `setup.check_setup`) and hold where the arm is."""
        compliance, limits = setup.compliance, setup.limits
        self._arm.set_tool(np.array(setup.pose_flange_tool, float))
        self._leash = (float(setup.leash_translation), float(setup.leash_rotation))
        self._gains = np.array([compliance.stiffness, compliance.damping, compliance.error_clip], float)
        self._joint_limits = np.array([limits.max_joint_speed, limits.max_torque], float)
        self._box = np.array([limits.workspace_low, limits.workspace_high], float)
        self._middle_quat = np.array(limits.workspace_quat, float)
        self._angle = float(limits.workspace_angle)
        self._margin = float(limits.workspace_margin_m)
        time_constant = compliance.filter_time_s
        self._scalars = np.zeros(8)
        self._scalars[FILTER] = 1.0 - math.exp(-TICK_S / time_constant) if time_constant > 0.0 else 1.0
        self._scalars[STEP] = limits.max_reference_speed * TICK_S
        self._scalars[ANGLE] = limits.max_reference_rotation_speed * TICK_S
        self._scalars[NULLSPACE] = compliance.nullspace_stiffness
        self._scalars[MARGIN] = self._margin
        self._scalars[TCP_SPEED], self._scalars[FORCE] = limits.max_tcp_speed, limits.max_force
        self._scalars[TORQUE_STEP] = limits.max_torque_rate * TICK_S
        self._settle()

    def _settle(self) -> None:
        """Hold at the measured pose and posture, and wait for a command."""
        self._reading = self._read()
        self._posture[:] = self._reading.q
        self._hold()

    def _hold(self) -> None:
        self._target[:] = self._reading.pose
        self._reference[:] = self._reading.pose
        self.holding = True
        self._expires = math.inf

    def command(self, pose_base_tcp: Array, expires: float) -> None:
        """Follow a target `(7,)` until `expires`, kept on the leash of the measured pose and in the workspace.

        A target that is not a pose latches a fault. While a fault is latched, targets are ignored.
        """
        if self.fault != Fault.NONE:
            return
        if not (safety.pose_is_valid(pose_base_tcp) and math.isfinite(expires)):
            self._latch(Fault.TARGET_NOT_FINITE)
            return
        pose = pose_base_tcp.copy()
        pose[3:] /= np.linalg.norm(pose[3:])
        pose = safety.clip_to_leash(pose, self._reading.pose, *self._leash)
        self._target[:] = safety.clip_to_workspace(pose, self._box, self._middle_quat, self._angle)
        self._expires = expires
        self.holding = False

    def acknowledge(self) -> None:
        """Clear the fault; the arm goes on holding where it is, until the next command.

        An arm that was found outside its workspace may then be driven back in: the excursion is not a fault again
        before it has ended, and targets are inside in any case.
        """
        self._excursion_allowed = self.fault == Fault.WORKSPACE
        self.fault = Fault.NONE
        self._hold()

    def reset(self, seed: int) -> None:
        """Simulation only: a new scene, the arm at home and at rest. A latched fault stays latched."""
        if not hasattr(self._arm, "reset"):
            raise DeviceError("this arm is not simulated: it has no world to reset")
        self._arm.reset(seed)
        self._tau[:] = 0.0
        self._settle()

    def _latch(self, fault: Fault) -> None:
        self.fault = fault
        self._hold()

    def tick(self, t: float) -> None:
        """One millisecond: read -> lease -> reference -> impedance -> safety -> write."""
        try:
            self._reading = self._read()
            if t >= self._expires and not self.holding:
                self._hold()
            if self._excursion_allowed:
                self._watch_excursion()
            code = self._control(self._tau)
            if code != self.fault:
                self.fault = Fault(code)
                self.holding = True
            self._write(self._tau)
        except DeviceError:
            self._latch(Fault.DRIVER)
        self.ticks += 1
        self.t = t

    def _control(self, tau: Array) -> int:
        r = self._reading
        code: int = control_into(
            tau, self._target, self._reference, r.q, r.dq, r.coriolis, r.pose, r.jacobian, r.wrench,
            self._posture, self._gains, self._joint_limits, self._box, self._scalars, int(self.fault),
        )  # fmt: skip
        return code

    def _watch_excursion(self) -> None:
        self._excursion_allowed = bool(safety.outside_workspace(self._reading.pose, self._box) > 0.0)
        self._scalars[MARGIN] = math.inf if self._excursion_allowed else self._margin

    def observe(self) -> ArmState:
        """Measure anew and report: lockstep only, where the world stands still between two ticks."""
        self._reading = self._read()
        return self.state()

    def state(self) -> ArmState:
        """What the arm reports, of the last reading."""
        r = self._reading
        return ArmState(
            sequence=self.ticks,
            t=self.t,
            q=r.q.copy(),
            dq=r.dq.copy(),
            pose_base_tcp=r.pose.copy(),
            twist_base_tcp=twist_of(r.jacobian, r.dq),
            wrench_base_tcp=r.wrench.copy(),
            target_base_tcp=self._target.copy(),
            holding=self.holding,
            fault=self.fault,
        )
