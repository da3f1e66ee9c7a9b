"""The arm loop: one function, a thousand times a second, the same on a real arm and in the
simulation.

`ArmLoop` owns the arm. It is used by one thread: by the real-time process (`realtime.py`) once per
millisecond, or in lockstep by the server itself, as often as a control period has milliseconds.
Whatever has to be slow (a new set-up, an acknowledgement, a reset) happens between two ticks.
"""

import math
import time
from collections.abc import Sequence

import numpy as np

from robot_rl.config import Guard
from robot_rl.controllers import safety
from robot_rl.controllers.excursion import CRAWL, Excursion
from robot_rl.controllers.faults import check_tare, explain, fault_of
from robot_rl.controllers.joint_move import begin_into, way_leaves
from robot_rl.controllers.law import BRAKE_TIME_S, joint_gains_of, new_law
from robot_rl.controllers.neighbours import are_known
from robot_rl.controllers.outline import bodies_of, outline_at, outline_of
from robot_rl.controllers.recorder import LAW, Ring, T
from robot_rl.controllers.setup import ArmSetup
from robot_rl.controllers.tick import control_into, record_into
from robot_rl.controllers.tick_values import (
    HOLD,
    JOINTS,
    LOCKED,
    MODE,
    POSE,
    VERDICT,
    Measured,
    begin_hold_into,
    bounds_of,
    measured_of,
    new_control,
)
from robot_rl.interfaces import Arm
from robot_rl.types import (
    DRIVER_FAULTS,
    ArmState,
    ArmTarget,
    Array,
    Command,
    Compliance,
    DeviceError,
    Fault,
    LimitFlags,
)


class ArmLoop:
    """The control of one arm: its target, lease, fault and torques from tick to tick.

    ```
    loop.command(pose_base_tcp, expires)     # whenever a target arrives; or move_joints
    # read -> lease -> reference -> impedance -> safety -> write
    loop.tick(t)
    ```
    `t` and `expires` are seconds of one clock, which is the caller's. After a fault, once the lease
    has run out, or when it is told to, the arm holds: it stops, and stays in the posture that was
    measured then, with gains of its own. A command ends a hold; only `acknowledge` ends a fault.
    """

    def __init__(
        self, arm: Arm, setup: ArmSetup, ring: Ring | None = None, guards: Sequence[Guard] = ()
    ):
        n = arm.joints
        self._arm = arm
        self._read = arm.read
        self._follows_poses = arm.mode == "pose"
        self._write = arm.follow if self._follows_poses else arm.write
        self.tick_s = float(arm.tick_s)
        self._facts = arm.facts
        self._guards, self._bodies = guards, bodies_of(self._facts, guards, n)
        self.neighbours = np.zeros((0, 7))
        self._neighbour_names: tuple[str, ...] = ()
        self._ring = ring or Ring(n)
        self.control = new_control(n)
        self._command = self.control.reference if self._follows_poses else self.control.tau
        self._times = np.zeros(4)
        self._expires = self._seen_t = -math.inf
        self.ticks = 0
        self.t = 0.0
        self.late_s = 0.0  # how late the caller was with this tick, for the record
        self.fault = Fault.NONE
        self.reason = ""
        self.law = new_law(n, self.tick_s, self._follows_poses)
        self.configure(setup)
        self.control.reference[:] = self._reading.pose
        self.control.tau[:] = self._reading.tau

    def configure(self, setup: ArmSetup) -> None:
        """Take over a task's set-up (checked before, `setup.check_setup`) and hold where the arm
        is.
        """
        before = self._read().pose.copy()
        self._arm.set_tool(np.array(setup.pose_flange_tool, float))
        self._tool = np.array(setup.pose_flange_tool, float)
        self._leash = np.array([setup.leash_translation, setup.leash_rotation], float)
        self._limits = setup.limits
        self._outline = outline_of(self._facts, self._guards, self._arm.joints, self._tool[:3])
        self._bounds = bounds_of(
            setup.limits, self._facts, self._bodies, self._outline, self.neighbours, self.tick_s
        )
        self.excursion = Excursion(self._bounds)
        self._set_reference_speed()
        self.law.joint_gains[:] = joint_gains_of(setup.limits, self._facts)
        # of an arm that does not say: damping brakes it
        self._mass = np.diag(BRAKE_TIME_S * self.law.joint_gains[1])
        self.tune(setup.compliance)
        self.law.settle()
        self.control.tare[:] = 0.0
        self._reading = self._read()
        # it is another point's now
        if self._follows_poses and not np.array_equal(before, self._reading.pose):
            self.control.reference[:] = self._reading.pose
        self.hold()

    def expect_neighbours(self, names: Sequence[str]) -> Array:
        """Keep out of other arms: of `m` capsules, with names for people (`outline_names`).

        Returns `neighbours (m, 7)`, in this arm's base (`outline.capsules_from`): the caller writes
        it in place between two ticks. As it begins it is NaN, which says that it is not known where
        they are: the arm then holds, and refuses commands; so it does if it is not known itself.
        """
        self.neighbours, self._neighbour_names = np.full((len(names), 7), np.nan), tuple(names)
        self._bounds = self._bounds._replace(neighbours=self.neighbours)
        self.excursion.bounds = self._bounds
        return self.neighbours

    @property
    def outline_names(self) -> tuple[str, ...]:
        """What the rows of `outline()` are; the last is the tool."""
        return tuple(body.name for body in self._outline) or ("arm",)

    def outline(self) -> Array:
        """Arm, hand and tool as last measured: capsules `(k, 7)` in its base; NaN, if not known."""
        return outline_at(self._reading.q, self._bounds.chain, self._bounds.outline)

    def _set_reference_speed(self) -> None:
        """As fast as the limits allow; at a crawl on the way back in."""
        speed, turn = self._limits.max_reference_speed, self._limits.max_reference_rotation_speed
        if self.excursion.under_way:
            speed, turn = min(CRAWL[0], speed), min(CRAWL[1], turn)
        self.law = self.law.at_speed(speed, turn)

    def tune(self, compliance: Compliance) -> None:
        """Another compliance (checked before, `setup.check_compliance`), while the arm goes on:
        nothing jumps.
        """
        self.law = self.law.tuned(compliance)
        self._wanted_posture = compliance.posture
        self._arm.set_compliance(compliance)

    def hold(self) -> None:
        """Stop, and stay where that is, until the next command: whatever was asked for before is
        forgotten.
        """
        if safety.pose_is_valid(self._reading.pose):
            self.control.target[:] = self._reading.pose
            # its own controller is where the reference is, which does not jump
            if not self._follows_poses:
                self.control.reference[:] = self._reading.pose
        begin_hold_into(self.control)
        self._expires = math.inf

    @property
    def holding(self) -> bool:
        """Whether the arm holds, because nothing has been commanded or the lease ran out or for a
        fault.
        """
        return bool(self.control.flags[MODE] == HOLD)

    @property
    def at_rest(self) -> bool:
        """Whether a hold has stopped the arm, and keeps it there."""
        return self.holding and bool(self.control.flags[LOCKED])

    def obey(self, target: Command, expires: float) -> None:
        """Follow a target of any kind until `expires`, or until its lease and one period after what
        it was made from.

        So a command that was long on its way moves the arm no longer than one that arrived at once.
        """
        if target.seen_t is not None:
            expires = min(expires, target.seen_t + target.lease_s + target.period_s)
        if isinstance(target, ArmTarget):
            self.command(target.pose_base_tcp, expires, target.seen_t, target.period_s)
        else:
            self.move_joints(target.q, target.speed, expires, target.seen_t)

    def command(
        self,
        pose_base_tcp: Array,
        expires: float,
        seen_t: float | None = None,
        period_s: float = math.inf,
    ) -> None:
        """Follow a target `(7,)` until `expires`, within all limits; the next one comes after
        `period_s`. The verdict is in the next state.

        A target that is not a pose latches a fault. While a fault is latched, targets are refused;
        so are those made from a state too old, or older than the last target's.
        """
        numbers = safety.pose_is_valid(pose_base_tcp) and math.isfinite(expires)
        if not self._accepts(numbers, seen_t, expires):
            return
        self._set_out(POSE)
        pose = pose_base_tcp.copy()
        pose[3:] /= np.linalg.norm(pose[3:])
        bounds = self._bounds
        self.control.target[:], bits = safety.limit_target(
            pose, self._reading.pose, self.control.reference, self.law.reach(period_s), self._leash,
            bounds.workspace, bounds.keep_out, bounds.middle_quat, bounds.cone,
        )  # fmt: skip
        self._take(bits, expires)

    def move_joints(
        self, q: Array, speed: float, expires: float, seen_t: float | None = None
    ) -> None:
        """Move to the joint angles `(n,)` (checked before, `setup.check_joint_target`) while this
        is repeated.

        Where the arm's kinematics are known, a way that leaves the workspace or the bodies' room,
        or leads through a keep-out box, is refused before it begins; where they are not, the arm
        stops in front of that.
        """
        numbers = safety.all_finite(q) and math.isfinite(speed + expires) and speed > 0.0
        if not self._accepts(numbers, seen_t, expires):
            return
        if self._follows_poses:
            raise DeviceError("this arm follows poses: it has no joint-space moves")
        flags, move, q_now = self.control.flags, self.control.move, self._reading.q
        if flags[MODE] != JOINTS or not np.array_equal(q, move.goal):
            if way_leaves(q_now, np.asarray(q, float), self._tool[:3], self._bounds):
                flags[VERDICT] = LimitFlags.REFUSED_PATH
                return
            begin_into(move, q_now, np.asarray(q, float), speed)
        self._set_out(JOINTS)
        self._take(0, expires)

    def _accepts(self, numbers: bool, seen_t: float | None, expires: float) -> bool:
        """Whether a command may be taken up; if not, its verdict says why."""
        refusal = LimitFlags.PASSED
        if self.fault != Fault.NONE:
            refusal = LimitFlags.REFUSED_FAULT
        elif not numbers or (seen_t is not None and not math.isfinite(seen_t)):
            refusal = LimitFlags.REFUSED_NOT_A_POSE
            self._latch(
                Fault.TARGET_NOT_FINITE,
                "the target has numbers that are not finite or far too large, or is no pose",
            )
        elif not are_known(self._bounds):
            refusal = LimitFlags.REFUSED_NEIGHBOUR
        elif seen_t is not None:
            if seen_t < self._seen_t or seen_t > self.t + 0.5 * self.tick_s:
                refusal = LimitFlags.REFUSED_OUT_OF_ORDER
            elif self.t - seen_t > self._limits.max_lease_s or expires <= self.t:
                refusal = LimitFlags.REFUSED_OLD
            else:
                self._seen_t = seen_t
        if refusal:
            self.control.flags[VERDICT] = refusal
        return not refusal

    def _set_out(self, mode: int) -> None:
        """From one mode into another: nothing is pulled to where it was before."""
        before = self.control.flags[MODE]
        if mode == before:
            return
        self.control.integral[:] = 0.0
        self.control.spare[:] = 0.0
        if before in (HOLD, JOINTS):
            self.law.posture[:] = self._wanted_posture or self._reading.q
            if not self._follows_poses:
                self.control.reference[:] = self._reading.pose
        self.control.flags[MODE] = mode

    def _take(self, bits: int, expires: float) -> None:
        self.control.flags[VERDICT] = bits
        self._expires = expires

    def acknowledge(self) -> None:
        """Clear the fault; the arm holds where it is now, wherever somebody has guided it, until
        the next command.

        An arm that stopped by itself is asked to recover, and the fault stays if it cannot. An arm
        that was found outside its workspace, in a keep-out box or beyond a joint's limit may then
        be driven back in, at a crawl: only if it gets further out is that a fault again.
        """
        if self.fault in DRIVER_FAULTS:
            try:
                self._arm.recover()
                self._reading = self._read()
            except DeviceError as error:
                self._latch(fault_of(error), str(error))
                return
            self.control.tau[:] = self._reading.tau
        self.fault, self.reason = Fault.NONE, ""
        self.law.settle()
        self.excursion.begin(self._reading)
        self._set_reference_speed()
        self.hold()

    def tare(self) -> None:
        """What the tool feels now is zero from now on: for an arm that stands still and touches
        nothing.

        Raises DeviceError if it feels more than a wrong load explains: it touches something.
        """
        check_tare(self.control.slow)
        self.control.tare[:] = self.control.slow

    def reset(self, seed: int) -> None:
        """Simulation only: a new scene, the arm at home and at rest. A latched fault stays latched."""
        if not self._arm.simulated:
            raise DeviceError("this arm is not simulated: it has no world to reset")
        self._arm.reset(seed)
        self.begin_anew()

    def begin_anew(self) -> None:
        """The world was reset: hold where the arm stands now."""
        control = self.control
        for buffer in (control.tau, control.felt, control.slow, control.tare):
            buffer[:] = 0.0
        self._reading = self._read()
        if self._follows_poses:
            control.reference[:] = self._reading.pose
        self.hold()

    def _latch(self, fault: Fault, reason: str) -> None:
        self.fault, self.reason = fault, reason
        self.hold()

    def tick(self, t: float) -> None:
        """One period: read -> lease -> reference -> impedance -> safety -> write."""
        try:
            self._reading = reading = self._read()
            begun = time.perf_counter()
            self._times[T], self._times[T + 1] = t, self.late_s
            if t >= self._expires and not self.holding:
                self.hold()
            if self.excursion.under_way:
                self.excursion.watch(reading)
                self._set_reference_speed()
            code = control_into(
                self.control, self.law, self._bounds, self._measured(), int(self.fault),
                self._times, self._ring.row,
            )  # fmt: skip
            law_s = time.perf_counter() - begun
            if code != self.fault:
                self.fault = Fault(code)
                self.reason = self.explain()
                self._expires = math.inf
            self._write(self._command)
            self._times[LAW], self._times[LAW + 1] = law_s, time.perf_counter() - begun
        except DeviceError as error:
            self._latch(fault_of(error), str(error))
            # a row with what was known last
            record_into(
                self._ring.row, self._times, int(self.fault), self.control, self._measured()
            )
        self._ring.count[0] += 1
        self.ticks += 1
        self.t = t

    def _measured(self) -> Measured:
        return measured_of(self._reading, self._mass)

    def explain(self) -> str:
        """The latched fault in words."""
        return explain(
            self.fault,
            self._measured(),
            self.control.felt,
            self._limits,
            self._bounds,
            self._bodies,
            self._outline,
            self._neighbour_names,
        )

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
            twist_base_tcp=self._measured().twist.copy(),
            wrench_base_tcp=r.wrench - self.control.tare,
            target_base_tcp=self.control.target.copy(),
            holding=self.holding,
            fault=self.fault,
            verdict=LimitFlags(int(self.control.flags[VERDICT])),
            reason=self.reason,
            command_success=self.command_success,
        )

    @property
    def command_success(self) -> float:
        """The share of commands that the robot itself says it has got lately, 1 if it says nothing
        of it.
        """
        share = self._arm.success_rate
        return 1.0 if share is None or math.isnan(share) else share
