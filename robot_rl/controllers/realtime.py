"""The real-time clock of the arm: the 1 kHz loop in a process of its own, and the network side's view of it.

The loop's process does nothing else: no sockets, no logging, no garbage collection. Everything it is told and
everything it reports goes through latest slots in shared memory (`slots.py`), each tick into the black box's ring
(`recorder.py`). Orders that must not be lost (set-up, acknowledgement, reset) carry a counter in the orders slot; the
loop reports the last one it has carried out, and whether the arm refused it, and the network side waits for that.
"""

import ctypes
import gc
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
from robot_rl.types import (
    DRIVER_FAULTS,
    ArmState,
    ArmTarget,
    Array,
    Command,
    Compliance,
    DeviceError,
    JointTarget,
    Use,
    WorldState,
    WrenchTarget,
)

log = logging.getLogger(__name__)

START_TIMEOUT_S = 120.0
"""The first start on a machine compiles the control law."""

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
        ("setups", "<i8"), ("tunings", "<i8"), ("acknowledgements", "<i8"), ("tares", "<i8"), ("resets", "<i8"),
        ("refusal", f"S{messages.REASON_BYTES}"),
        ("late_ticks", "<i8"), ("worst_s", "<f8"), ("lost_ticks", "<i8"), ("without", "u1"),
    ])  # fmt: skip


@dataclass(frozen=True)
class Job:
    """What the loop's process is started with: the arm, its scene, and the memory of slots and ring."""

    config: ArmConfig
    scene: Use | None
    setup: ArmSetup
    orders: SharedBlock
    report: SharedBlock
    world: SharedBlock
    ring: SharedBlock
    joints: int
    objects: int


class RealTimeArm:
    """The network side's handle on the loop's process. Same calls as `lockstep.LockstepArm`."""

    clock: ClockKind = "real"

    def __init__(self, config: ArmConfig, scene: Use | None, setup: ArmSetup, joints: int, objects: int):
        self.joints, self.objects = joints, objects
        self._orders = LatestSlot(orders_layout(joints))
        self._report = LatestSlot(report_layout(joints))
        self._world = LatestSlot(messages.world_layout(joints, objects))
        self.ring = Ring(joints)
        self._order = np.zeros((), orders_layout(joints))
        blocks = (self._orders.block, self._report.block, self._world.block, self.ring.block)
        job = Job(config, scene, setup, *blocks, joints, objects)
        # spawned, not forked: a fork would inherit sockets, threads and the parent's scheduling
        self._process = multiprocessing.get_context("spawn").Process(target=run_loop, args=(job,), daemon=True)
        with one_thread_for_blas():
            self._process.start()
        try:
            report = self._wait(lambda report: report["state"]["sequence"] > 0, START_TIMEOUT_S, "start")
        except DeviceError:
            self.close()
            raise
        for bit, what in WITHOUT.items():
            if report["without"] & bit:
                log.warning("the loop of arm '%s' runs, but %s", config.name, what)

    def _wait(self, done: Any, timeout_s: float, what: str) -> Array:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            report = self._report.read()
            if done(report):
                return report
            if report["state"]["sequence"] == 0 and report["refusal"]:
                raise DeviceError(_text(report["refusal"]))
            self.require_alive()
            time.sleep(0.0005)
        raise DeviceError(f"the arm's loop did not {what} within {timeout_s:.0f} s")

    def require_alive(self) -> None:
        """Raise DeviceError if the loop's process is dead."""
        if not self._process.is_alive():
            raise DeviceError(f"the arm's loop has died (exit code {self._process.exitcode}); restart the arm process")

    def _send(self, counter: str) -> None:
        self._order[counter] += 1
        self._orders.write(self._order)
        report = self._wait(
            lambda report: report[counter] == self._order[counter], ORDER_TIMEOUT_S, f"carry out {counter}"
        )
        if report["refusal"]:
            raise DeviceError(_text(report["refusal"]))

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

    def acknowledge(self) -> ArmState:
        self._send("acknowledgements")
        return self.state()

    def reset(self, seed: int) -> WorldState:
        self._order["seed"] = seed
        self._send("resets")
        return self.world()

    def state(self) -> ArmState:
        self.require_alive()
        return messages.to_state(self._report.read()["state"])

    def world(self) -> WorldState:
        self.require_alive()
        return messages.to_world(self._world.read())

    def timing(self) -> tuple[int, int, float]:
        """(ticks so far, ticks that began late, the worst lateness [s])."""
        report = self._report.read()
        return int(report["state"]["sequence"]), int(report["late_ticks"]), float(report["worst_s"])

    def stats(self) -> LoopStats:
        report = self._report.read()
        return loop_stats(self.ring, int(report["late_ticks"]), float(report["worst_s"]), int(report["lost_ticks"]))

    def close(self) -> None:
        """The loop holds the arm, then leaves."""
        self._order["stop"] = True
        self._orders.write(self._order)
        self._process.join(2.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _text(value: Any) -> str:
    return bytes(value).decode(errors="ignore")


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
    is paced keeps time by itself: `read` waits for it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the network side, which then asks this process
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent = os.getppid()
    warm_up(job.joints)  # before the arm is opened, which may not wait afterwards
    try:
        ears = _Ears(job)
    except DeviceError as error:
        refuse_to_start(job, str(error))
        return
    loop, paced = ears.loop, ears.paced
    ears.without = be_undisturbed(job.config.loop_cpu)
    late_ticks, worst_s = 0, 0.0
    deadline = time.monotonic() + TICK_S
    while not ears.stop:
        remaining = deadline - time.monotonic()
        if remaining > 0.0 and (not paced or loop.fault in DRIVER_FAULTS):
            time.sleep(remaining)
        now = time.monotonic()
        late_s = now - deadline
        if late_s > SLIP_S:
            late_ticks, worst_s = late_ticks + 1, max(worst_s, late_s)
        deadline = max(deadline, now - SLIP_S) + TICK_S
        loop.late_s = late_s
        loop.tick(now)
        ears.listen()
        ears.report(late_ticks, worst_s)
        if loop.ticks % 100 == 0 and os.getppid() != parent:
            break  # nobody is left to command: the lease has run out long ago
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


def refuse_to_start(job: Job, reason: str) -> None:
    """Report why the arm could not be opened."""
    report = LatestSlot(report_layout(job.joints), job.report)
    value = np.zeros((), report_layout(job.joints))
    value["refusal"] = reason.encode()[: messages.REASON_BYTES]
    report.write(value)


class _Ears:
    """The loop's side of the slots: takes up new orders between two ticks, reports after each."""

    def __init__(self, job: Job):
        self._arm: Any = open_driver(job.config, job.scene, "real")
        self.paced = bool(getattr(self._arm, "paced", False))
        self._ring = Ring(job.joints, job.ring)
        self.loop = ArmLoop(self._arm, job.setup, self._ring)
        self.stop = False
        self.without = 0
        self._orders = LatestSlot(orders_layout(job.joints), job.orders)
        self._report = LatestSlot(report_layout(job.joints), job.report)
        self._world = LatestSlot(messages.world_layout(job.joints, job.objects), job.world)
        self._done = np.zeros((), report_layout(job.joints))
        self._targets = 0
        self._version = -1
        self._simulated = hasattr(self._arm, "world")

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
        except DeviceError as error:
            self._done["refusal"] = str(error).encode()[: messages.REASON_BYTES]

    def _reset(self, seed: int) -> None:
        self.loop.reset(seed)
        self._publish_world()

    def report(self, late_ticks: int, worst_s: float) -> None:
        """Publish the state of this tick; of a simulated world every tenth."""
        done = self._done
        done["late_ticks"], done["worst_s"] = late_ticks, worst_s
        done["lost_ticks"], done["without"] = self.loop.lost_ticks, self.without
        done["state"] = messages.record(done.dtype["state"], self.loop.state())
        self._report.write(done)
        if self._simulated and self.loop.ticks % WORLD_EVERY_TICKS == 0:
            self._publish_world()

    def _publish_world(self) -> None:
        world = self._arm.world()
        self._world.write(messages.record(messages.world_layout(len(world.q), len(world.objects)), world))

    def close(self) -> None:
        self._arm.close()
