"""The arm loop: one function, a thousand times a second, the same on a real arm and in the simulation.

`ArmLoop` owns the arm. It is used by one thread: by the real-time process (`realtime.py`) once per millisecond, or in
lockstep by the server itself, as often as a control period has milliseconds. Whatever has to be slow (a new set-up,
an acknowledgement, a reset) happens between two ticks.
"""

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from robot_rl.config import Guard
from robot_rl.controllers import safety
from robot_rl.controllers.impedance import (
    CLIP_MINUS,
    CLIP_PLUS,
    PEAK_OF_MINIMUM_JERK,
    STIFFNESS,
    twist_of,
)
from robot_rl.controllers.kinematics import body_clearance, capsules_of, chain_of, path_leaves
from robot_rl.controllers.recorder import LAW, TICKS, Ring, T
from robot_rl.controllers.setup import ArmSetup
from robot_rl.controllers.tick import (
    ANGLE,
    BLEND,
    BODY_SLACK,
    BOX_SLACK,
    BRAKE_TIME_S,
    BRAKING,
    CONE,
    DT,
    FELT,
    FILTER,
    FIRST_KEEP_OUT,
    FORCE,
    GOAL,
    HOLD,
    JOINT_MARGIN,
    JOINTS,
    LOCKED,
    MARGIN,
    MODE,
    MOMENT,
    NOW,
    NULLSPACE,
    NULLSPACE_GOAL,
    POSE,
    RETREAT_FORCE,
    RETREAT_M,
    RETREAT_MOMENT,
    RETREATED,
    SLOW,
    SPEED,
    SPEED_MARGIN,
    START,
    STEP,
    TARE,
    TARE_GAIN,
    TCP_ROTATION_SPEED,
    TCP_SPEED,
    TICK_S,
    TORQUE_STEP,
    VERDICT,
    WORKSPACE_BOX,
    WORKSPACE_SLACK,
    WRENCH,
    control_into,
    record_into,
)
from robot_rl.interfaces import Arm, ArmReading
from robot_rl.types import (
    DRIVER_FAULTS,
    ArmDriverError,
    ArmFacts,
    ArmLimits,
    ArmState,
    ArmTarget,
    Array,
    Capsule,
    Command,
    Compliance,
    DeviceError,
    Fault,
    JointTarget,
    Verdict,
    WrenchTarget,
)

TARE_FILTER_S = 0.05
LARGEST_TARE = (20.0, 5.0)
"""[N], [Nm]: what a wrongly stated load explains. More than that is something that the tool touches."""

STIFFNESS_PER_TORQUE, DAMPING_PER_TORQUE = 7.0, 0.6
"""[1/rad], [s/rad]: what a joint is held with, by its largest torque, for an arm that says nothing of it."""

CRAWL = (0.02, 0.1)
"""[m/s], [rad/s]: an arm that was found outside its limits comes back in no faster."""

EXCURSION_M, EXCURSION_RAD = 0.005, 0.02
"""How much further out it may be measured on its way in than it was: it swings, and a sensor has noise."""

LOOK_EVERY_RAD = 0.03
"""A joint move is looked through before it begins, a posture every so many radians: in a third of a tick."""


class ArmLoop:
    """The control of one arm: its target, lease, fault and torques from tick to tick.

    ```
    loop.command(pose_base_tcp, expires)     # whenever a target arrives; or move_joints, push
    loop.tick(t)                             # read -> lease -> reference -> impedance -> safety -> write
    ```
    `t` and `expires` are seconds of one clock, which is the caller's. After a fault, once the lease has run out, or
    when it is told to, the arm holds: it stops, and stays in the posture that was measured then, with gains of its own.
    A command ends a hold; only `acknowledge` ends a fault.
    """

    def __init__(
        self,
        arm: Arm,
        setup: ArmSetup,
        ring: Ring | None = None,
        guards: Sequence[Guard] = (),
    ):
        n = arm.joints
        self._arm = arm
        self._read = arm.read
        self._follows_poses = arm.mode == "pose"
        self._write = arm.follow if self._follows_poses else arm.write
        self.tick_s = float(arm.tick_s)
        facts = arm.facts
        self._facts, self._chain = facts, chain_of(facts, n)
        mounted = tuple(Capsule(guard.name, n + 1, guard.start, guard.end, guard.radius_m) for guard in guards)
        self._bodies = ((facts.bodies if facts else ()) + mounted) if len(self._chain) else ()
        self._capsules = capsules_of(self._bodies)
        self._ring = ring or Ring(n)
        self._tau = np.zeros(n)
        self._target, self._reference = np.zeros(7), np.zeros(7)
        self._command = self._reference if self._follows_poses else self._tau
        self._integral, self._push = np.zeros(6), np.zeros(6)
        self._wrenches = np.zeros((3, 6))
        self._flags = np.zeros(BRAKING + 1, np.int64)
        self._move, self._move_clock = np.zeros((4, n)), np.array([1.0, 1.0])
        self._posture = np.zeros(n)
        self._gains, self._gains_goal = np.zeros((5, 6)), np.zeros((5, 6))
        self._joint_slack = np.zeros(n)
        self._scalars = np.zeros(CONE + 1)
        self._times = np.zeros(4)
        self._expires = self._seen_t = -math.inf
        self._is_excursion = False
        self.ticks = 0
        self.t = 0.0
        self.late_s = 0.0  # how late the caller was with this tick, for the record
        self.fault = Fault.NONE
        self.reason = ""
        self.configure(setup)
        self._reference[:] = self._reading.pose
        self._tau[:] = self._reading.tau

    # ------------------------------------------------------------------------------------------ setting up

    def configure(self, setup: ArmSetup) -> None:
        """Take over a task's set-up (checked before, `setup.check_setup`) and hold where the arm is."""
        limits = setup.limits
        before = self._read().pose.copy()
        self._arm.set_tool(np.array(setup.pose_flange_tool, float))
        self._leash = np.array([setup.leash_translation, setup.leash_rotation], float)
        self._limits = limits
        self._tool = np.array(setup.pose_flange_tool, float)
        self._joint_limits = joint_limits_of(limits, self._facts)
        self._joint_gains = joint_gains_of(limits, self._facts)
        self._mass = np.diag(BRAKE_TIME_S * self._joint_gains[1])  # of an arm that does not say: its damping brakes it
        corners = [(limits.workspace_low, limits.workspace_high), *((box.low, box.high) for box in limits.keep_out)]
        self._boxes = np.array(corners, float)
        self._room = np.array([limits.body_low or (-np.inf,) * 3, limits.body_high or (np.inf,) * 3], float)
        self._middle_quat = np.array(limits.workspace_quat, float)
        self._set_limits(limits)
        self.tune(setup.compliance)
        self._set_gains()
        self._wrenches[TARE] = 0.0
        self._reading = self._read()
        if self._follows_poses and not np.array_equal(before, self._reading.pose):  # it is another point's now
            self._reference[:] = self._reading.pose
        self.hold()

    def _set_limits(self, limits: ArmLimits) -> None:
        s = self._scalars
        s[DT] = self.tick_s
        s[TARE_GAIN] = self._share_per_tick(TARE_FILTER_S)
        s[MARGIN] = limits.workspace_margin_m
        s[TCP_SPEED], s[TCP_ROTATION_SPEED] = limits.max_tcp_speed, limits.max_tcp_rotation_speed
        s[FORCE], s[MOMENT] = limits.max_force, limits.max_moment
        s[RETREAT_FORCE], s[RETREAT_MOMENT] = limits.retreat_force, limits.retreat_moment
        s[RETREAT_M] = limits.retreat_m
        s[TORQUE_STEP] = limits.max_torque_rate * self.tick_s
        s[JOINT_MARGIN], s[SPEED_MARGIN] = limits.joint_margin, limits.joint_speed_margin
        s[CONE] = limits.workspace_angle
        self._end_excursion()

    def _set_reference_speed(self, speed: float, rotation_speed: float) -> None:
        self._scalars[STEP] = min(speed, self._limits.max_reference_speed) * self.tick_s
        self._scalars[ANGLE] = min(rotation_speed, self._limits.max_reference_rotation_speed) * self.tick_s

    def tune(self, compliance: Compliance) -> None:
        """Another compliance (checked before, `setup.check_compliance`), while the arm goes on.

        The gains get there within a few `gain_time_s`, so that nothing jumps. A hold has gains of its own.
        """
        c, s = compliance, self._scalars
        self._gains_goal[:] = (c.stiffness, c.damping, c.error_clip, c.error_clip_minus or c.error_clip, c.integral)
        s[NULLSPACE_GOAL] = c.nullspace_stiffness
        s[FILTER], s[BLEND] = self._share_per_tick(c.filter_time_s), self._share_per_tick(c.gain_time_s)
        self._wanted_posture = c.posture
        if c.posture:
            self._posture[:] = c.posture
        self._arm.set_compliance(compliance)

    def _set_gains(self) -> None:
        """The compliance in force is the one that was asked for, at once: for a hold, which has gains of its own."""
        self._gains[:] = self._gains_goal
        self._scalars[NULLSPACE] = self._scalars[NULLSPACE_GOAL]

    def _share_per_tick(self, time_constant_s: float) -> float:
        """What a first-order filter takes over per tick."""
        return 1.0 - math.exp(-self.tick_s / time_constant_s) if time_constant_s > 0.0 else 1.0

    def hold(self) -> None:
        """Stop, and stay where that is, until the next command: whatever was asked for before is forgotten."""
        if safety.pose_is_valid(self._reading.pose):
            self._target[:] = self._reading.pose
            if not self._follows_poses:  # its own controller is where the reference is, which does not jump
                self._reference[:] = self._reading.pose
        self._integral[:] = 0.0
        self._push[:] = 0.0
        flags = self._flags
        flags[MODE], flags[LOCKED], flags[BRAKING], flags[RETREATED] = HOLD, 0, 0, 0
        self._expires = math.inf

    @property
    def holding(self) -> bool:
        """Whether the arm holds, because nothing has been commanded or the lease ran out or for a fault."""
        return bool(self._flags[MODE] == HOLD)

    @property
    def at_rest(self) -> bool:
        """Whether a hold has stopped the arm, and keeps it there."""
        return self.holding and bool(self._flags[LOCKED])

    # ------------------------------------------------------------------------------------------ commands

    def obey(self, target: Command, expires: float) -> None:
        """Follow a target of any kind until `expires`, or until its lease and one period after what it was made from.

        So a command that was long on its way moves the arm no longer than one that arrived at once.
        """
        if target.seen_t is not None:
            expires = min(expires, target.seen_t + target.lease_s + target.period_s)
        if isinstance(target, ArmTarget):
            self.command(target.pose_base_tcp, expires, target.seen_t)
        elif isinstance(target, JointTarget):
            self.move_joints(target.q, target.speed, expires, target.seen_t)
        else:
            self.push(target.wrench_base_tcp, expires, target.seen_t)

    def command(self, pose_base_tcp: Array, expires: float, seen_t: float | None = None) -> None:
        """Follow a target `(7,)` until `expires`, within all limits. The verdict is in the next state.

        A target that is not a pose latches a fault. While a fault is latched, targets are refused; so are those made
        from a state too old, or older than the last target's.
        """
        numbers = safety.pose_is_valid(pose_base_tcp) and math.isfinite(expires)
        if not self._accepts(numbers, seen_t, expires):
            return
        self._set_out(POSE)
        pose = pose_base_tcp.copy()
        pose[3:] /= np.linalg.norm(pose[3:])
        self._target[:], bits = safety.limit_target(
            pose, self._reading.pose, self._reference, self._leash,
            self._boxes[WORKSPACE_BOX], self._boxes[FIRST_KEEP_OUT:], self._middle_quat, self._scalars[CONE],
        )  # fmt: skip
        self._take(bits, expires)

    def move_joints(self, q: Array, speed: float, expires: float, seen_t: float | None = None) -> None:
        """Move to the joint angles `(n,)` (checked before, `setup.check_joint_target`) while this is repeated.

        Where the arm's kinematics are known, a way that leaves the workspace or the bodies' room, or leads through a
        keep-out box, is refused before it begins; where they are not, the arm stops in front of that.
        """
        numbers = safety.all_finite(q) and math.isfinite(speed + expires) and speed > 0.0
        if not self._accepts(numbers, seen_t, expires):
            return
        if self._follows_poses:
            raise DeviceError("this arm follows poses: it has no joint-space moves")
        if self._flags[MODE] != JOINTS or not np.array_equal(q, self._move[GOAL]):
            if self._leaves(q):
                self._flags[VERDICT] = Verdict.REFUSED_PATH
                return
            move = self._move
            move[START], move[GOAL], move[NOW], move[SPEED] = self._reading.q, q, self._reading.q, 0.0
            way = float(np.abs(q - self._reading.q).max())
            self._move_clock[:] = 0.0, max(PEAK_OF_MINIMUM_JERK * way / speed, 0.1)
        self._set_out(JOINTS)
        self._take(0, expires)

    def push(self, wrench_base_tcp: Array, expires: float, seen_t: float | None = None) -> None:
        """Push with a wrench `(6,)`, in base axes, for `WrenchTarget.lease_s` at most."""
        numbers = safety.all_finite(wrench_base_tcp) and math.isfinite(expires)
        if not self._accepts(numbers, seen_t, expires):
            return
        if self._follows_poses:
            raise DeviceError("this arm follows poses: it cannot push with a wrench")
        self._set_out(WRENCH)
        K, low, high = self._gains_goal[STIFFNESS], self._gains_goal[CLIP_MINUS], self._gains_goal[CLIP_PLUS]
        wrench, bits = safety.limit_wrench(wrench_base_tcp, -K * low, K * high)
        self._take(bits, min(expires, self.t + WrenchTarget.lease_s + 0.5 * self.tick_s))
        self._push[:] = wrench

    def _leaves(self, q: Array) -> bool:
        """Whether the straight way to a posture leads out of workspace or room, or into a keep-out box."""
        if not len(self._chain):
            return False
        begun = self._reading.q
        looks = 2 + int(np.abs(q - begun).max() / LOOK_EVERY_RAD)
        return bool(path_leaves(
            begun, np.asarray(q, float), looks, self._chain, self._tool[:3], self._capsules, self._room,
            self._boxes[WORKSPACE_BOX], self._boxes[FIRST_KEEP_OUT:],
        ))  # fmt: skip

    def _accepts(self, numbers: bool, seen_t: float | None, expires: float) -> bool:
        """Whether a command may be taken up; if not, its verdict says why."""
        refusal = Verdict.PASSED
        if self.fault != Fault.NONE:
            refusal = Verdict.REFUSED_FAULT
        elif not numbers or (seen_t is not None and not math.isfinite(seen_t)):
            refusal = Verdict.REFUSED_NOT_A_POSE
            self._latch(
                Fault.TARGET_NOT_FINITE, "the target has numbers that are not finite or far too large, or is no pose"
            )
        elif seen_t is not None:
            if seen_t < self._seen_t or seen_t > self.t + 0.5 * self.tick_s:
                refusal = Verdict.REFUSED_OUT_OF_ORDER
            elif self.t - seen_t > self._limits.max_lease_s or expires <= self.t:
                refusal = Verdict.REFUSED_OLD
            else:
                self._seen_t = seen_t
        if refusal:
            self._flags[VERDICT] = refusal
        return not refusal

    def _set_out(self, mode: int) -> None:
        """From one mode into another: nothing is pulled to where it was before."""
        before = self._flags[MODE]
        if mode == before:
            return
        self._integral[:] = 0.0
        if before in (HOLD, JOINTS):
            self._posture[:] = self._wanted_posture or self._reading.q
            if not self._follows_poses:
                self._reference[:] = self._reading.pose
        self._flags[MODE] = mode

    def _take(self, bits: int, expires: float) -> None:
        self._push[:] = 0.0
        self._flags[VERDICT] = bits
        self._expires = expires

    # ------------------------------------------------------------------------------------------ faults, tare, reset

    def acknowledge(self) -> None:
        """Clear the fault; the arm holds where it is now, wherever somebody has guided it, until the next command.

        An arm that stopped by itself is asked to recover, and the fault stays if it cannot. An arm that was found
        outside its workspace, in a keep-out box or beyond a joint's limit may then be driven back in, at a crawl: only
        if it gets further out is that a fault again.
        """
        if self.fault in DRIVER_FAULTS:
            try:
                self._arm.recover()
                self._reading = self._read()
            except DeviceError as error:
                self._latch(fault_of(error), str(error))
                return
            self._tau[:] = self._reading.tau
        self.fault, self.reason = Fault.NONE, ""
        self._set_gains()
        self._begin_excursion()
        self.hold()

    def tare(self) -> None:
        """What the tool feels now is zero from now on: for an arm that stands still and touches nothing.

        Raises DeviceError if it feels more than a wrong load explains: it touches something.
        """
        force, moment = safety.norm(self._wrenches[SLOW], 0), safety.norm(self._wrenches[SLOW], 3)
        if force > LARGEST_TARE[0] or moment > LARGEST_TARE[1]:
            raise DeviceError(
                f"the wrench cannot be tared: the tool feels {force:.1f} N, {moment:.1f} Nm; allowed: "
                f"{LARGEST_TARE[0]:g} N, {LARGEST_TARE[1]:g} Nm. Does it touch something? Is `load` of the hardware "
                "file right?"
            )
        self._wrenches[TARE] = self._wrenches[SLOW]

    def reset(self, seed: int) -> None:
        """Simulation only: a new scene, the arm at home and at rest. A latched fault stays latched."""
        if not self._arm.simulated:
            raise DeviceError("this arm is not simulated: it has no world to reset")
        self._arm.reset(seed)
        self._tau[:] = 0.0
        self._wrenches[:] = 0.0
        self._reading = self._read()
        if self._follows_poses:
            self._reference[:] = self._reading.pose
        self.hold()

    def _latch(self, fault: Fault, reason: str) -> None:
        self.fault, self.reason = fault, reason
        self.hold()

    # ------------------------------------------------------------------------------------------ excursions

    def _outside(self) -> tuple[float, float, float, Array]:
        """How far beyond its limits the arm was found: tool and workspace, tool and boxes, bodies [m], joints [rad]."""
        r, limits, margin = self._reading, self._limits, self._scalars[MARGIN]
        keep_out = self._boxes[FIRST_KEEP_OUT:]
        workspace = safety.outside_workspace(r.pose, self._boxes[WORKSPACE_BOX]) - margin
        clearance, _ = body_clearance(r.q, self._chain, self._capsules, self._room, keep_out)
        joints = np.maximum(np.array(limits.joint_low) - r.q, r.q - np.array(limits.joint_high))
        return workspace, safety.too_deep(r.pose, keep_out, margin), -clearance, joints

    def _begin_excursion(self) -> None:
        """What is outside now may be, and no further: it is fetched back at a crawl."""
        workspace, boxes, bodies, joints = self._outside()
        s = self._scalars
        self._is_excursion = max(workspace, boxes, bodies, float(joints.max())) > 0.0
        s[WORKSPACE_SLACK] = workspace + EXCURSION_M if workspace > 0.0 else 0.0
        s[BOX_SLACK] = boxes + EXCURSION_M if boxes > 0.0 else 0.0
        s[BODY_SLACK] = bodies + EXCURSION_M if bodies > 0.0 else 0.0
        self._joint_slack[:] = np.where(joints > 0.0, joints + EXCURSION_RAD, 0.0)
        if self._is_excursion:
            self._set_reference_speed(*CRAWL)

    def _end_excursion(self) -> None:
        self._is_excursion = False
        self._scalars[WORKSPACE_SLACK] = self._scalars[BOX_SLACK] = self._scalars[BODY_SLACK] = 0.0
        self._joint_slack[:] = 0.0
        self._set_reference_speed(math.inf, math.inf)

    def _watch_excursion(self) -> None:
        """On its way in: what it has come nearer is not given back."""
        workspace, boxes, bodies, joints = self._outside()
        s, slack = self._scalars, self._joint_slack
        for entry, out in ((WORKSPACE_SLACK, workspace), (BOX_SLACK, boxes), (BODY_SLACK, bodies)):
            s[entry] = min(s[entry], max(out, 0.0) + EXCURSION_M)
        slack[:] = np.minimum(slack, np.maximum(joints, 0.0) + EXCURSION_RAD)
        # by what it may swing, else it is a fault again at once
        if max(workspace, boxes, bodies) < -EXCURSION_M and joints.max() < -EXCURSION_RAD:
            self._end_excursion()

    # ------------------------------------------------------------------------------------------ the tick

    def tick(self, t: float) -> None:
        """One period: read -> lease -> reference -> impedance -> safety -> write."""
        try:
            self._reading = reading = self._read()
            begun = time.perf_counter()
            self._times[T], self._times[T + 1] = t, self.late_s
            if t >= self._expires and self._flags[MODE] != HOLD:
                self.hold()
            if self._is_excursion:
                self._watch_excursion()
            code = self._control(self._tau, reading.twist)
            law_s = time.perf_counter() - begun
            if code != self.fault:
                self.fault = Fault(code)
                self.reason = self._explain()
                self._expires = math.inf
            self._write(self._command)
            self._times[LAW], self._times[LAW + 1] = law_s, time.perf_counter() - begun
        except DeviceError as error:
            self._latch(fault_of(error), str(error))
            self._record()
        self._ring.count[0] += 1
        self.ticks += 1
        self.t = t

    def _control(self, tau: Array, twist: Array | None) -> int:
        r = self._reading
        code: int = control_into(
            tau, self._target, self._reference, self._integral, self._push, self._wrenches, self._flags,
            self._move, self._move_clock, r.q, r.dq, r.coriolis, r.pose, r.jacobian,
            self._mass if r.mass is None else r.mass, twist_of(r.jacobian, r.dq) if twist is None else twist, r.wrench,
            self._posture, self._gains, self._gains_goal, self._joint_gains, self._joint_limits, self._joint_slack,
            self._boxes, self._chain, self._capsules, self._room, self._middle_quat, self._scalars,
            self._follows_poses, int(self.fault), self._times, self._ring.rows[self._ring.count[0] % TICKS],
        )  # fmt: skip
        return code

    def _record(self) -> None:
        """A row for a tick that the arm did not answer, with what was known last."""
        r, row = self._reading, self._ring.rows[self._ring.count[0] % TICKS]
        record_into(
            row, self._times, int(self.fault), self._flags, r.q, r.dq, self._tau, r.pose, self._target,
            self._reference, self._wrenches[FELT], self._twist(),
        )  # fmt: skip

    def _twist(self) -> Array:
        twist = self._reading.twist
        return twist_of(self._reading.jacobian, self._reading.dq) if twist is None else twist.copy()

    def _explain(self) -> str:
        """The latched fault in words: what was measured, and what is allowed."""
        r, limits, felt, twist = self._reading, self._limits, self._wrenches[FELT], self._twist()
        if self.fault == Fault.BODY:
            _, which = body_clearance(r.q, self._chain, self._capsules, self._room, self._boxes[FIRST_KEEP_OUT:])
            return f"its {self._bodies[which].name} was found in a keep-out box, or outside body_low to body_high"
        own = [safety.own_speed(r.q, i, math.copysign(1.0, r.dq[i]), self._joint_limits) for i in range(len(r.q))]
        fastest = np.maximum(np.minimum(own, limits.max_joint_speed), 1e-3)
        j = int(np.argmax(np.abs(r.dq) / fastest))
        k = int(np.argmax(np.maximum(np.array(limits.joint_low) - r.q, r.q - np.array(limits.joint_high))))
        at = ", ".join(f"{x:.3f}" for x in r.pose[:3])
        words = {
            Fault.STATE_NOT_FINITE: "the arm measured something that is not a finite number",
            Fault.TORQUE_NOT_FINITE: "its law came to torques that are not finite: see the task's compliance and tool",
            Fault.JOINT_SPEED: f"joint {j + 1} moved at {abs(r.dq[j]):.2f} rad/s; limit {fastest[j]:.3g}",
            Fault.JOINT_POSITION: f"joint {k + 1} is at {r.q[k]:.3f} rad; its range is {limits.joint_low[k]:g} to "
            f"{limits.joint_high[k]:g}",
            Fault.TCP_SPEED: f"the tool moved at {safety.norm(twist, 0):.2f} m/s; limit {limits.max_tcp_speed:g}",
            Fault.TCP_ROTATION_SPEED: f"the tool turned at {safety.norm(twist, 3):.2f} rad/s; limit "
            f"{limits.max_tcp_rotation_speed:g}",
            Fault.WORKSPACE: f"the tool was found at ({at}) m, outside the workspace and its margin",
            Fault.KEEP_OUT: f"the tool was found at ({at}) m, inside a keep-out box",
            Fault.FORCE: f"{safety.norm(felt, 0):.1f} N on the tool; limit {limits.max_force:g}",
            Fault.MOMENT: f"{safety.norm(felt, 3):.1f} Nm on the tool; limit {limits.max_moment:g}",
        }
        return words.get(self.fault, "")

    # ------------------------------------------------------------------------------------------ reports

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
            twist_base_tcp=self._twist(),
            wrench_base_tcp=r.wrench - self._wrenches[TARE],
            target_base_tcp=self._target.copy(),
            holding=self.holding,
            fault=self.fault,
            verdict=Verdict(int(self._flags[VERDICT])),
            reason=self.reason,
            command_success=self.command_success,
        )

    def journal(self) -> dict[str, Any]:
        """What the arm itself has to say of its last moments, if its driver keeps a log."""
        return self._arm.journal()

    @property
    def command_success(self) -> float:
        """The share of commands that the robot itself says it has got lately, 1 if it says nothing of it."""
        share = self._arm.success_rate
        return 1.0 if share is None or math.isnan(share) else share

    @property
    def lost_ticks(self) -> int:
        """The arm's own cycles that went by without a command, as far as its driver counts them."""
        return self._arm.lost_cycles


class _Still(Arm):
    """An arm that stands still and does nothing, to compile the law with."""

    def __init__(self, joints: int):
        self.joints = joints
        one = (1.0,) * joints
        rod = Capsule("rod", joints, (0.0, 0.0, 0.0), (0.0, 0.0, 0.1), 0.01)
        low = tuple(-x for x in one)
        self.facts = ArmFacts(low, one, one, one, 1.0, 1.0, 1.0, one, one, ((0.1, 0.1, 0.1),) * joints, 0.1, (rod,))
        self._reading = ArmReading(joints)
        self._reading.pose[6] = 1.0

    def set_tool(self, pose_flange_tool: Array) -> None: ...

    def read(self) -> ArmReading:
        return self._reading

    def write(self, tau: Array) -> None: ...

    def close(self) -> None: ...


def warm_up(joints: int) -> None:
    """Compile, or load, all that a tick needs: seconds on a new machine, which no arm would wait for."""
    far, much = (1.0,) * joints, 100.0
    limits = ArmLimits(
        (-1.0,) * 3, (1.0,) * 3, (0.0, 0.0, 0.0, 1.0), 1.0, 1.0, 1.0, 1.0, much, (much,) * joints, (much,) * joints,
        much, much, much, much, much, 0.1, much, tuple(-x for x in far), far, 0.1, 0.1, 1.0,
    )  # fmt: skip
    compliance = Compliance()
    pose = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    loop = ArmLoop(_Still(joints), ArmSetup(pose, compliance, limits, 0.1, 0.1))
    loop.command(pose, 1.0)
    loop.tick(0.0)
    loop.push(np.zeros(6), 1.0)
    loop.move_joints(np.zeros(joints), 0.1, 1.0)
    loop.tick(TICK_S)
    loop.tare()
    loop.command(np.full(7, np.nan), 1.0)  # a fault
    loop._explain()
    loop.acknowledge()
    loop._watch_excursion()
    loop.state()


def joint_limits_of(limits: ArmLimits, facts: ArmFacts | None) -> Array:
    """`joint_limits (8, n)` as `safety` wants them."""
    n = len(limits.max_torque)
    file = [limits.max_joint_speed, limits.max_torque, limits.joint_low, limits.joint_high]
    if facts is None or not facts.deceleration:
        return np.array([*file, limits.joint_low, limits.joint_high, (0.0,) * n, (0.0,) * n])
    return np.array([*file, facts.joint_low, facts.joint_high, facts.speed_offset, facts.deceleration])


def joint_gains_of(limits: ArmLimits, facts: ArmFacts | None) -> Array:
    """`joint_gains (2, n)`: what holds this arm, whatever a task asks for."""
    stiffness = (facts and facts.joint_stiffness) or STIFFNESS_PER_TORQUE * np.array(limits.max_torque)
    damping = np.array((facts and facts.joint_damping) or DAMPING_PER_TORQUE * np.array(limits.max_torque))
    return np.array([stiffness, damping])


def fault_of(error: DeviceError) -> Fault:
    """Which fault an error of the driver is."""
    return error.fault if isinstance(error, ArmDriverError) else Fault.DRIVER
