"""The real-time clock of the arm: the 1 kHz loop in a process of its own, and the network side's view of it.

The loop's process does nothing else: no sockets, no logging, no garbage collection. Everything it is told and
everything it reports goes through latest slots in shared memory (`slots.py`). Orders that must not be lost (set-up,
acknowledgement, reset) carry a counter in the orders slot; the loop reports the last one it has carried out, and the
network side waits for that.
"""

import contextlib
import ctypes
import gc
import multiprocessing
import os
import signal
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_rl.clock import ClockKind
from robot_rl.config import ArmConfig, find
from robot_rl.controllers import messages
from robot_rl.controllers.loop import TICK_S, ArmLoop
from robot_rl.controllers.setup import ArmSetup
from robot_rl.controllers.slots import LatestSlot
from robot_rl.types import ArmState, ArmTarget, Array, DeviceError, Use, WorldState

START_TIMEOUT_S = 120.0
"""The first start on a machine compiles the control law."""

ORDER_TIMEOUT_S = 2.0
WORLD_EVERY_TICKS = 10
SLIP_S = 0.5 * TICK_S
"""A tick that begins later than this is counted as late."""


def orders_layout(joints: int) -> np.dtype:
    """Everything the network side may want from the loop, with a counter for each."""
    return np.dtype([
        ("stop", "?"),
        ("targets", "<i8"), ("pose_base_tcp", "<f8", 7), ("expires", "<f8"),
        ("setups", "<i8"), ("setup", messages.setup_layout(joints)),
        ("acknowledgements", "<i8"),
        ("resets", "<i8"), ("seed", "<i8"),
    ])  # fmt: skip


def report_layout(joints: int) -> np.dtype:
    """The arm's state, the counters of the orders carried out, and how the loop keeps time."""
    return np.dtype([
        ("state", messages.state_layout(joints)),
        ("setups", "<i8"), ("acknowledgements", "<i8"), ("resets", "<i8"),
        ("late_ticks", "<i8"), ("worst_s", "<f8"),
    ])  # fmt: skip


@dataclass(frozen=True)
class Job:
    """What the loop's process is started with: the arm, its scene, and the names of the slots."""

    config: ArmConfig
    scene: Use | None
    setup: ArmSetup
    orders: str
    report: str
    world: str
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
        self._order = np.zeros((), orders_layout(joints))
        names = (self._orders.name, self._report.name, self._world.name)
        job = Job(config, scene, setup, *names, joints, objects)
        # spawned, not forked: a fork would inherit sockets, threads and the parent's scheduling
        self._process = multiprocessing.get_context("spawn").Process(target=run_loop, args=(job,), daemon=True)
        self._process.start()
        self._wait(lambda report: report["state"]["sequence"] > 0, START_TIMEOUT_S, "start")

    def _wait(self, done: Any, timeout_s: float, what: str) -> Array:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            report = self._report.read()
            if done(report):
                return report
            self._require_alive()
            time.sleep(0.0005)
        raise DeviceError(f"the arm's loop did not {what} within {timeout_s:.0f} s")

    def _require_alive(self) -> None:
        if not self._process.is_alive():
            raise DeviceError(f"the arm's loop has died (exit code {self._process.exitcode}); restart the arm process")

    def _send(self, counter: str) -> None:
        self._order[counter] += 1
        self._orders.write(self._order)
        self._wait(lambda report: report[counter] == self._order[counter], ORDER_TIMEOUT_S, f"carry out {counter}")

    def configure(self, setup: ArmSetup) -> ArmState:
        self._order["setup"] = messages.setup_record(messages.setup_layout(self.joints), setup)
        self._send("setups")
        return self.state()

    def command(self, target: ArmTarget) -> ArmState:
        """Hand the target over; the loop takes it up at its next tick. The lease begins now."""
        self._order["pose_base_tcp"] = target.pose_base_tcp
        self._order["expires"] = time.monotonic() + target.lease_periods * target.period_s
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
        self._require_alive()
        return messages.to_state(self._report.read()["state"])

    def world(self) -> WorldState:
        self._require_alive()
        return messages.to_world(self._world.read())

    def timing(self) -> tuple[int, int, float]:
        """(ticks so far, ticks that began late, the worst lateness [s])."""
        report = self._report.read()
        return int(report["state"]["sequence"]), int(report["late_ticks"]), float(report["worst_s"])

    def close(self) -> None:
        """The loop holds the arm, then leaves."""
        self._order["stop"] = True
        self._orders.write(self._order)
        self._process.join(2.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        for slot in (self._orders, self._report, self._world):
            slot.close()


def run_loop(job: Job) -> None:
    """The loop's process: tick to absolute deadlines until told to stop, or until the network side is gone.

    A late tick moves all later deadlines: the loop slips, it never hurries through the ticks it has missed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the network side, which then asks this process
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent = os.getppid()
    ears = _Ears(job)
    loop = ears.loop
    loop.tick(time.monotonic())  # compiles or loads the law before the first deadline
    _be_undisturbed()
    late_ticks, worst_s = 0, 0.0
    deadline = time.monotonic() + TICK_S
    while not ears.stop:
        remaining = deadline - time.monotonic()
        if remaining > 0.0:
            time.sleep(remaining)
        now = time.monotonic()
        late_s = now - deadline
        if late_s > SLIP_S:
            late_ticks, worst_s = late_ticks + 1, max(worst_s, late_s)
        deadline = max(deadline, now - SLIP_S) + TICK_S
        loop.tick(now)
        ears.listen()
        ears.report(late_ticks, worst_s)
        if loop.ticks % 100 == 0 and os.getppid() != parent:
            break  # nobody is left to command: the lease has run out long ago
    ears.close()


def _be_undisturbed() -> None:
    """Nothing may pause the loop: no collection, no page faults; a real-time priority where that is allowed."""
    gc.collect()
    gc.freeze()
    gc.disable()
    lock_all = 3  # MCL_CURRENT | MCL_FUTURE; refused without the right to, which costs some jitter only
    ctypes.CDLL(None, use_errno=True).mlockall(lock_all)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(80))


class _Ears:
    """The loop's side of the slots: takes up new orders between two ticks, reports after each."""

    def __init__(self, job: Job):
        self._arm: Any = find("controllers/arms", job.config.driver).Arm(job.config, job.scene)
        self.loop = ArmLoop(self._arm, job.setup)
        self.stop = False
        self._orders = LatestSlot(orders_layout(job.joints), name=job.orders)
        self._report = LatestSlot(report_layout(job.joints), name=job.report)
        self._world = LatestSlot(messages.world_layout(job.joints, job.objects), name=job.world)
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
        loop, done = self.loop, self._done
        # a target that is still here came first: whoever sends another order waits until it is carried out
        if order["targets"] != self._targets:
            loop.command(order["pose_base_tcp"].copy(), float(order["expires"]))
            self._targets = int(order["targets"])
        if order["setups"] != done["setups"]:
            loop.configure(messages.to_setup(order["setup"]))
            done["setups"] = order["setups"]
        if order["acknowledgements"] != done["acknowledgements"]:
            loop.acknowledge()
            done["acknowledgements"] = order["acknowledgements"]
        if order["resets"] != done["resets"]:
            loop.reset(int(order["seed"]))
            self._publish_world()
            done["resets"] = order["resets"]
        self.stop = bool(order["stop"])

    def report(self, late_ticks: int, worst_s: float) -> None:
        """Publish the state of this tick; of a simulated world every tenth."""
        done = self._done
        done["late_ticks"], done["worst_s"] = late_ticks, worst_s
        done["state"] = messages.record(done.dtype["state"], self.loop.state())
        self._report.write(done)
        if self._simulated and self.loop.ticks % WORLD_EVERY_TICKS == 0:
            self._publish_world()

    def _publish_world(self) -> None:
        world = self._arm.world()
        self._world.write(messages.record(messages.world_layout(len(world.q), len(world.objects)), world))

    def close(self) -> None:
        self._arm.close()
        for slot in (self._orders, self._report, self._world):
            slot.close()
