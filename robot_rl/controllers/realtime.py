"""The real-time clock of the arm: the 1 kHz loop in a process of its own, and the network side's view of it.

The loop's process does nothing else: no sockets, no logging, no garbage collection. Everything it is told and
everything it reports goes through latest slots in shared memory (`slots.py`), each tick into the black box's ring
(`recorder.py`). Orders that must not be lost (set-up, acknowledgement, reset) carry a counter in the orders slot; the
loop reports the last one it has carried out, and whether the arm refused it, and the network side waits for that.
"""

import ctypes
import gc
import json
import logging
import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from robot_rl.clock import ClockKind
from robot_rl.config import ArmConfig
from robot_rl.controllers import messages
from robot_rl.controllers.loop import TICK_S, ArmLoop, warm_up
from robot_rl.controllers.recorder import LoopStats, Ring, loop_stats
from robot_rl.controllers.setup import ArmSetup, open_driver
from robot_rl.controllers.shared import SharedBlock
from robot_rl.controllers.slots import LatestSlot
from robot_rl.interfaces import Arm
from robot_rl.types import (
    DRIVER_FAULTS,
    ArmState,
    ArmTarget,
    Array,
    Command,
    Compliance,
    ConfigError,
    DeviceError,
    Fault,
    JointTarget,
    RobotRLError,
    Use,
    WorldState,
    WrenchTarget,
)

log = logging.getLogger(__name__)

COMPILING, OPENING, RUNNING = range(3)
"""Phases of the loop's process."""

COMPILE_TIMEOUT_S, OPEN_TIMEOUT_S = 600.0, 120.0
"""The first start on a machine compiles the control law, before the arm is opened: that may itself start a robot that
is simulated."""

HUNG_S = 5.0
"""A loop that has measured nothing for so long, and carries out no order, hangs: its process is ended."""

LEAVE_S, STANDS_S = 1.0, 0.1
"""The loop stops the arm before it leaves, and sees it stand for so long, but tries no longer than this."""

JOURNAL_BYTES = 1 << 16

ORDER_TIMEOUT_S = 15.0
"""A real arm needs seconds for its error recovery, or to end and begin torque control for another tool."""

WORLD_EVERY_TICKS = 10
SLIP_S = 0.5 * TICK_S
"""A tick that begins later than this is counted as late."""

PRIORITY = 80
"""Of SCHED_FIFO: above everything of the user's, below the kernel's own threads."""

WITHOUT = {
    1: "memory is not locked (a page fault may cost a tick): raise `ulimit -l`, or run as root",
    2: f"no real-time priority (any busy process delays it): allow rtprio {PRIORITY} in /etc/security/limits.conf, or "
    "run as root",
    4: "it could not be bound to the core `loop_cpu` of the hardware file: does this machine have it?",
}
"""What the loop's process may have to do without, by bit, and what to do about it."""


def orders_layout(joints: int) -> np.dtype:
    """Everything the network side may want from the loop, with a counter for each."""
    return np.dtype([
        ("stop", "?"),
        ("targets", "<i8"), ("kind", "u1"), ("expires", "<f8"),
        ("pose", messages.TARGET), ("joints", messages.joint_target_layout(joints)), ("push", messages.PUSH),
        ("setups", "<i8"), ("setup", messages.setup_layout(joints)),
        ("tunings", "<i8"), ("compliance", messages.compliance_layout(joints)),
        ("holds", "<i8"),
        ("acknowledgements", "<i8"),
        ("tares", "<i8"),
        ("resets", "<i8"), ("seed", "<i8"),
    ])  # fmt: skip


TARGETS: tuple[tuple[type, str, Callable[[Array], Command]], ...] = (
    (ArmTarget, "pose", messages.to_target),
    (JointTarget, "joints", messages.to_joint_target),
    (WrenchTarget, "push", messages.to_push),
)
"""By `kind` in the orders: the type of a target, the field that it lies in, and how to get it out again."""


def report_layout(joints: int) -> np.dtype:
    """The arm's state, the counters of the orders carried out, and how the loop keeps time."""
    return np.dtype([
        ("state", messages.state_layout(joints)),
        ("phase", "u1"),
        ("setups", "<i8"), ("tunings", "<i8"), ("holds", "<i8"), ("acknowledgements", "<i8"), ("tares", "<i8"),
        ("resets", "<i8"),
        ("refusal", f"S{messages.REASON_BYTES}"), ("is_wrong", "?"),
        ("late_ticks", "<i8"), ("worst_s", "<f8"), ("lost_ticks", "<i8"), ("without", "u1"),
        ("tick_s", "<f8"),
    ])  # fmt: skip


JOURNAL = np.dtype([("length", "<i8"), ("text", f"S{JOURNAL_BYTES}")])
"""What the robot itself said of its last fault, as JSON."""


@dataclass(frozen=True)
class Job:
    """What the loop's process is started with: the arm, its scene, and the memory of slots and ring."""

    config: ArmConfig
    scene: Use | None
    setup: ArmSetup
    orders: SharedBlock
    report: SharedBlock
    world: SharedBlock
    journal: SharedBlock
    ring: SharedBlock
    joints: int
    objects: int
    scene_joints: int


class RealTimeArm:
    """The network side's handle on the loop's process. Same calls as `lockstep.LockstepArm`."""

    clock: ClockKind = "real"

    def __init__(
        self,
        config: ArmConfig,
        scene: Use | None,
        setup: ArmSetup,
        joints: int,
        objects: int = 0,
        scene_joints: int = 0,
    ):
        self.joints, self.objects, self.scene_joints = joints, objects, scene_joints
        self._orders = LatestSlot(orders_layout(joints))
        self._report = LatestSlot(report_layout(joints))
        self._world = LatestSlot(messages.world_layout(joints, objects, scene_joints))
        self._journal = LatestSlot(JOURNAL)
        self.ring = Ring(joints)
        self._order = np.zeros((), orders_layout(joints))
        blocks = (self._orders.block, self._report.block, self._world.block, self._journal.block, self.ring.block)
        job = Job(config, scene, setup, *blocks, joints, objects, scene_joints)
        # spawned, not forked: a fork would inherit sockets, threads and the parent's scheduling
        self._process = multiprocessing.get_context("spawn").Process(target=run_loop, args=(job,), daemon=True)
        with one_thread_for_blas():
            self._process.start()
        try:
            self._wait(lambda report: report["phase"] > COMPILING, COMPILE_TIMEOUT_S, "compile the control law")
            options = "".join(f", {key} {value}" for key, value in config.options.items())
            report = self._wait(
                lambda report: report["state"]["sequence"] > 0,
                OPEN_TIMEOUT_S,
                f"open arm '{config.name}' (driver {config.driver}{options})",
                "; is the address right, is the robot on, does another program have it?",
            )
        except BaseException:  # a signal, too
            self.close()
            raise
        for bit, what in WITHOUT.items():
            if report["without"] & bit:
                log.warning("the loop of arm '%s' runs, but %s", config.name, what)

    def _wait(self, done: Callable[[Array], Any], timeout_s: float, what: str, advice: str = "") -> Array:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            report = self._report.read()
            if done(report):
                return report
            if report["state"]["sequence"] == 0 and report["refusal"]:
                raise _refusal(report)
            self._require_process()
            time.sleep(0.0005)
        raise DeviceError(f"the arm's loop did not {what} within {timeout_s:.0f} s{advice}")

    def _require_process(self) -> None:
        if not self._process.is_alive():
            raise DeviceError(f"the arm's loop has died (exit code {self._process.exitcode}); restart the arm process")

    def require_alive(self) -> None:
        """Raise DeviceError if the loop's process is dead, or hangs: then it is ended first."""
        self._require_process()
        age_s = self.state().age_s
        if age_s > HUNG_S:
            self._process.kill()
            raise DeviceError(
                f"the arm's loop has measured nothing for {age_s:.1f} s and was ended; restart the arm process"
            )

    def _send(self, counter: str) -> None:
        self._order[counter] += 1
        self._orders.write(self._order)
        report = self._wait(
            lambda report: report[counter] == self._order[counter], ORDER_TIMEOUT_S, f"carry out {counter}"
        )
        if report["refusal"]:
            raise _refusal(report)

    def configure(self, setup: ArmSetup) -> ArmState:
        self._order["setup"] = messages.record(messages.setup_layout(self.joints), setup)
        self._send("setups")
        return self.state()

    def tune(self, compliance: Compliance) -> ArmState:
        self._order["compliance"] = messages.record(messages.compliance_layout(self.joints), compliance)
        self._send("tunings")
        return self.state()

    def tare(self) -> ArmState:
        self._send("tares")
        return self.state()

    def command(self, target: Command) -> ArmState:
        """Hand the target over; the loop takes it up at its next tick. The lease begins now."""
        kind = next(i for i, (type_, *_) in enumerate(TARGETS) if isinstance(target, type_))
        field = TARGETS[kind][1]
        self._order["kind"] = kind
        self._order[field] = messages.record(self._order.dtype[field], target)
        self._order["expires"] = time.monotonic() + target.lease_s
        self._order["targets"] += 1
        self._orders.write(self._order)
        return self.state()

    def hold(self) -> ArmState:
        self._send("holds")
        return self.state()

    def acknowledge(self) -> ArmState:
        self._send("acknowledgements")
        return self.state()

    def reset(self, seed: int) -> WorldState:
        self._order["seed"] = seed
        self._send("resets")
        return self.world()

    def state(self) -> ArmState:
        self._require_process()
        state = messages.to_state(self._report.read()["state"])
        return replace(state, age_s=max(time.monotonic() - state.t, 0.0))

    def world(self) -> WorldState:
        self._require_process()
        return messages.to_world(self._world.read())

    def timing(self) -> tuple[int, int, float]:
        """(ticks so far, ticks that began late, the worst lateness [s])."""
        report = self._report.read()
        return int(report["state"]["sequence"]), int(report["late_ticks"]), float(report["worst_s"])

    def stats(self) -> LoopStats:
        report = self._report.read()
        return loop_stats(
            self.ring, int(report["late_ticks"]), float(report["worst_s"]), int(report["lost_ticks"]),
            float(report["state"]["command_success"]), 1.0 / float(report["tick_s"]),
        )  # fmt: skip

    def journal(self) -> dict[str, Any]:
        """What the robot itself had to say of its last fault; nothing, if its driver keeps no log."""
        journal = self._journal.read()
        text = bytes(journal["text"])[: int(journal["length"])]
        return json.loads(text) if text else {}

    def close(self) -> None:
        """The loop holds the arm, and leaves when it stands."""
        self._order["stop"] = True
        self._orders.write(self._order)
        self._process.join(LEAVE_S + 1.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _refusal(report: Array) -> ConfigError | DeviceError:
    """Why the arm refused an order; ConfigError for what may not be asked for."""
    error = ConfigError if report["is_wrong"] else DeviceError
    return error(bytes(report["refusal"]).decode(errors="ignore"))


@contextmanager
def one_thread_for_blas() -> Iterator[None]:
    """For a process that is started meanwhile: BLAS starts no threads in it, which would take the loop's core."""
    before = {name: os.environ.get(name) for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")}
    os.environ.update(dict.fromkeys(before, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def run_loop(job: Job) -> None:
    """The loop's process: tick to absolute deadlines until told to stop, or until the network side is gone.

    A late tick moves all later deadlines: the loop slips, it never hurries through the ticks it has missed. An arm that
    is paced keeps time by itself: `read` waits for it. Before it leaves the loop stops the arm.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the network side, which then asks this process
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent = os.getppid()
    warm_up(job.joints)  # before the arm is opened, which may not wait afterwards
    tell_start(job)
    try:
        ears = _Ears(job)
    except (DeviceError, ConfigError) as error:
        tell_start(job, error)
        return
    loop, paced, tick_s = ears.loop, ears.paced, ears.loop.tick_s
    ears.without = be_undisturbed(job.config.loop_cpu)
    late_ticks, worst_s = 0, 0.0
    deadline, leaves_by, stands_since = time.monotonic() + tick_s, math.inf, math.inf
    while True:
        remaining = deadline - time.monotonic()
        if remaining > 0.0 and (not paced or loop.fault in DRIVER_FAULTS):
            time.sleep(remaining)
        now = time.monotonic()
        late_s = now - deadline
        if late_s > SLIP_S:
            late_ticks, worst_s = late_ticks + 1, max(worst_s, late_s)
        deadline = max(deadline, now - SLIP_S) + tick_s
        loop.late_s = late_s
        loop.tick(now)
        if leaves_by == math.inf:
            ears.listen()
            if ears.stop or (loop.ticks % 10 == 0 and os.getppid() != parent):  # nobody is left to command
                leaves_by = now + LEAVE_S
                loop.hold()
        else:
            stands_since = min(stands_since, now) if loop.at_rest else math.inf
            if now > min(leaves_by, stands_since + STANDS_S):
                break
        ears.report(late_ticks, worst_s)
    ears.close()


def be_undisturbed(cpu: int | None) -> int:
    """Nothing may pause the loop: no collection, no page faults; priority and a core of its own where that is allowed.

    Returns what had to be done without, as bits of `WITHOUT`.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    without = 0
    lock_all = 3  # MCL_CURRENT | MCL_FUTURE
    if ctypes.CDLL(None, use_errno=True).mlockall(lock_all) != 0:
        without |= 1
    try:
        # our own, whatever a driver may have set: libfranka takes 99, above the kernel's threads
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(PRIORITY))
    except OSError:
        without |= 2
    try:
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})
    except OSError:
        without |= 4
    return without


def tell_start(job: Job, error: RobotRLError | None = None) -> None:
    """Report that the arm is being opened, or why it could not be."""
    report = LatestSlot(report_layout(job.joints), job.report)
    value = np.zeros((), report_layout(job.joints))
    value["phase"] = OPENING
    if error is not None:
        value["refusal"] = str(error).encode()[: messages.REASON_BYTES]
        value["is_wrong"] = isinstance(error, ConfigError)
    report.write(value)


class _Ears:
    """The loop's side of the slots: takes up new orders between two ticks, reports after each."""

    def __init__(self, job: Job):
        self._arm: Arm = open_driver(job.config, job.scene, "real")
        self.paced = self._arm.paced
        self._ring = Ring(job.joints, job.ring)
        self.loop = ArmLoop(self._arm, job.setup, self._ring, job.config.guards)
        self.stop = False
        self.without = 0
        self._orders = LatestSlot(orders_layout(job.joints), job.orders)
        self._report = LatestSlot(report_layout(job.joints), job.report)
        self._world_layout = messages.world_layout(job.joints, job.objects, job.scene_joints)
        self._world = LatestSlot(self._world_layout, job.world)
        self._journal = LatestSlot(JOURNAL, job.journal)
        self._done = np.zeros((), report_layout(job.joints))
        self._done["phase"], self._done["tick_s"] = RUNNING, self.loop.tick_s
        self._targets = 0
        self._fault = Fault.NONE
        self._version = -1
        self._simulated = self._arm.simulated

    def listen(self) -> None:
        """Carry out what is new in the orders."""
        version = self._orders.version
        if version == self._version:
            return
        order = self._orders.try_read()
        if order is None:
            return
        self._version = version
        loop = self.loop
        # a target that is still here came first: whoever sends another order waits until it is carried out
        if order["targets"] != self._targets:
            _, field, unpack = TARGETS[order["kind"]]
            self._targets = int(order["targets"])
            self._try(lambda: loop.obey(unpack(order[field]), float(order["expires"])))
        self._carry_out(order, "setups", lambda: loop.configure(messages.to_setup(order["setup"])))
        self._carry_out(order, "tunings", lambda: loop.tune(messages.to_compliance(order["compliance"])))
        self._carry_out(order, "holds", loop.hold)
        self._carry_out(order, "acknowledgements", loop.acknowledge)
        self._carry_out(order, "tares", loop.tare)
        self._carry_out(order, "resets", lambda: self._reset(int(order["seed"])))
        self.stop = bool(order["stop"])

    def _carry_out(self, order: Array, counter: str, action: Callable[[], None]) -> None:
        if order[counter] != self._done[counter]:
            self._try(action)
            self._done[counter] = order[counter]

    def _try(self, action: Callable[[], None]) -> None:
        self._done["refusal"] = b""
        try:
            action()
        except (DeviceError, ConfigError) as error:
            self._done["refusal"] = str(error).encode()[: messages.REASON_BYTES]
            self._done["is_wrong"] = isinstance(error, ConfigError)

    def _reset(self, seed: int) -> None:
        self.loop.reset(seed)
        self._publish_world()

    def report(self, late_ticks: int, worst_s: float) -> None:
        """Publish the state of this tick; of a simulated world every tenth."""
        done = self._done
        done["late_ticks"], done["worst_s"] = late_ticks, worst_s
        done["lost_ticks"], done["without"] = self.loop.lost_ticks, self.without
        if self.loop.fault != self._fault:
            self._fault = self.loop.fault
            self._keep_journal()
        done["state"] = messages.record(done.dtype["state"], self.loop.state())
        self._report.write(done)
        if self._simulated and self.loop.ticks % WORLD_EVERY_TICKS == 0:
            self._publish_world()

    def _keep_journal(self) -> None:
        """Before anybody sees the fault: what the robot itself says of it."""
        text = json.dumps(self.loop.journal()).encode() if self._fault in DRIVER_FAULTS else b""
        whole = text if len(text) <= JOURNAL_BYTES else json.dumps({"too long": len(text)}).encode()
        value = np.zeros((), JOURNAL)
        value["length"], value["text"] = len(whole), whole
        self._journal.write(value)

    def _publish_world(self) -> None:
        self._world.write(messages.record(self._world_layout, self._arm.world()))

    def close(self) -> None:
        self._arm.close()
