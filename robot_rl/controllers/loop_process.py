"""The process of an arm's loop on the real clock, or of the loops of all arms in one world: it ticks,
takes orders and reports, and does nothing else.

No sockets, no logging, no garbage collection: orders and reports go through latest slots in shared
memory (`shared_memory.py`), each tick into the black box's ring (`recorder.py`). `realtime.py` is
the other side.
"""

import ctypes
import gc
import json
import math
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from robot_rl.config import ArmConfig
from robot_rl.controllers import messages
from robot_rl.controllers.arm_loops import ArmLoops, stand_of
from robot_rl.controllers.fingers import obey, report_into
from robot_rl.controllers.loop import ArmLoop
from robot_rl.controllers.recorder import Ring
from robot_rl.controllers.setup import ArmSetup, open_drivers
from robot_rl.controllers.shared_memory import LatestSlot, SharedBlock
from robot_rl.controllers.tick_values import TICK_S
from robot_rl.controllers.warm_up import warm_up
from robot_rl.interfaces import Arm
from robot_rl.types import (
    DRIVER_FAULTS,
    ArmTarget,
    Array,
    Command,
    ConfigError,
    DeviceError,
    Fault,
    JointTarget,
    RobotRLError,
    Use,
)

COMPILING, OPENING, RUNNING = range(3)
"""Phases of the loop's process."""

LEAVE_S, STANDS_S = 1.0, 0.1
"""The loop stops the arm before it leaves, and sees it stand for so long, but tries no longer than
this.
"""

JOURNAL_BYTES = 1 << 16

WORLD_EVERY_TICKS = 10
SLIP_S = 0.5 * TICK_S
"""A tick that begins later than this is counted as late."""

PRIORITY = 80
"""Of SCHED_FIFO: above everything of the user's, below the kernel's own threads."""

MISSING_PRIVILEGES = {
    1: "memory is not locked (a page fault may cost a tick): raise `ulimit -l`, or run as root",
    2: (
        f"no real-time priority (any busy process delays it): allow rtprio {PRIORITY} in"
        " /etc/security/limits.conf, or run as root"
    ),
    4: (
        "it could not be bound to the core `loop_cpu` of the hardware file: does this machine"
        " have it?"
    ),
}
"""What the loop's process may have to do without, by bit, and what to do about it."""


def orders_layout(joints: int) -> np.dtype:
    """Everything the network side may want from the loop, with a counter for each."""
    return np.dtype([
        ("stop", "?"),
        ("targets", "<i8"), ("kind", "u1"), ("expires", "<f8"),
        ("pose", messages.TARGET), ("joints", messages.joint_target_layout(joints)),
        ("setups", "<i8"), ("setup", messages.setup_layout(joints)),
        ("tunings", "<i8"), ("compliance", messages.compliance_layout(joints)),
        ("holds", "<i8"),
        ("acknowledgements", "<i8"),
        ("tares", "<i8"),
        ("resets", "<i8"), ("seed", "<i8"),
        ("finger_orders", "<i8"), ("finger_order", messages.FINGER_ORDER),
    ])  # fmt: skip


TARGETS: tuple[tuple[type, str, Callable[[Array], Command]], ...] = (
    (ArmTarget, "pose", messages.to_target),
    (JointTarget, "joints", messages.to_joint_target),
)
"""By `kind` in the orders: the type of a target, the field that it lies in, and how to get it out
again.
"""


def report_layout(joints: int) -> np.dtype:
    """The arm's state, the counters of the orders carried out, and how the loop keeps time."""
    return np.dtype([
        ("state", messages.state_layout(joints)),
        ("phase", "u1"),
        ("setups", "<i8"), ("tunings", "<i8"), ("holds", "<i8"), ("acknowledgements", "<i8"), ("tares", "<i8"),
        ("resets", "<i8"), ("finger_orders", "<i8"), ("has_fingers", "?"), ("fingers", messages.FINGERS),
        ("refusal", f"S{messages.REASON_BYTES}"), ("is_wrong", "?"),
        ("late_ticks", "<i8"), ("worst_s", "<f8"), ("lost_ticks", "<i8"), ("missing", "u1"),
        ("tick_s", "<f8"),
    ])  # fmt: skip


JOURNAL = np.dtype([("length", "<i8"), ("text", f"S{JOURNAL_BYTES}")])
"""What the robot itself said of its last fault, as JSON."""


@dataclass(frozen=True)
class LoopArgs:
    """What the loop's process is started with for each arm: the arm, its scene, and the memory of
    slots and ring; the slot of the world is the same for all.
    """

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


def run_loop(arms: Sequence[LoopArgs]) -> None:
    """The loop's process: tick to absolute deadlines until told to stop, or until the network side
    is gone.

    A late tick moves all later deadlines: the loop slips, it never hurries through the ticks it has
    missed. An arm that is paced keeps time by itself: `read` waits for it. Before it leaves the
    loop stops every arm.
    """
    # Ctrl-C is for the network side, which then asks this process
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent = os.getppid()
    for joints in {each.joints for each in arms}:
        warm_up(joints)  # before the arm is opened, which may not wait afterwards
    tell_start(arms)
    try:
        endpoints, loops = _open_endpoints(arms)
    except (DeviceError, ConfigError) as error:
        tell_start(arms, error)
        return
    loop, paced, tick_s = loops.first, endpoints[0].paced, loops.tick_s
    missing = set_realtime(arms[0].config.loop_cpu)
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
        for each in loops.loops:
            each.late_s = late_s
        loops.tick(now)
        if leaves_by == math.inf:
            for endpoint in endpoints:
                endpoint.listen()
            # nobody is left to command
            if any(endpoint.stop for endpoint in endpoints) or (
                loop.ticks % 10 == 0 and os.getppid() != parent
            ):
                leaves_by = now + LEAVE_S
                for each in loops.loops:
                    each.hold()
        else:
            stand = all(each.at_rest for each in loops.loops)
            stands_since = min(stands_since, now) if stand else math.inf
            if now > min(leaves_by, stands_since + STANDS_S):
                break
        for endpoint in endpoints:
            endpoint.report(late_ticks, worst_s, missing)
        if endpoints[0].simulated and loop.ticks % WORLD_EVERY_TICKS == 0:
            endpoints[0].publish_world()
    for endpoint in endpoints:
        endpoint.close()


def set_realtime(cpu: int | None) -> int:
    """Nothing may pause the loop: no collection, no page faults; priority and a core of its own
    where that is allowed.

    Returns what had to be done without, as bits of `MISSING_PRIVILEGES`.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    missing = 0
    lock_all = 3  # MCL_CURRENT | MCL_FUTURE
    if ctypes.CDLL(None, use_errno=True).mlockall(lock_all) != 0:
        missing |= 1
    try:
        # our own, whatever a driver may have set: libfranka takes 99, above the kernel's threads
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(PRIORITY))
    except OSError:
        missing |= 2
    try:
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})
    except OSError:
        missing |= 4
    return missing


def tell_start(arms: Sequence[LoopArgs], error: RobotRLError | None = None) -> None:
    """Report that the arms are being opened, or why they could not be."""
    for args in arms:
        report = LatestSlot(report_layout(args.joints), args.report)
        value = np.zeros((), report_layout(args.joints))
        value["phase"] = OPENING
        if error is not None:
            value["refusal"] = str(error).encode()[: messages.REASON_BYTES]
            value["is_wrong"] = isinstance(error, ConfigError)
        report.write(value)


def _open_endpoints(arms: Sequence[LoopArgs]) -> "tuple[list[_LoopEndpoint], ArmLoops]":
    """Open the arms, each with its loop, its ring and its slots. Raises what their drivers do."""
    drivers = open_drivers([args.config for args in arms], arms[0].scene, "real")
    rings = [Ring(args.joints, args.ring) for args in arms]
    each = [
        ArmLoop(arm, args.setup, ring, args.config.guards)
        for arm, args, ring in zip(drivers, arms, rings, strict=True)
    ]
    loops = ArmLoops(each, [stand_of(args.config) for args in arms])
    endpoints = [
        _LoopEndpoint(args, arm, loop, loops)
        for args, arm, loop in zip(arms, drivers, loops.loops, strict=True)
    ]
    return endpoints, loops


class _LoopEndpoint:
    """The loop's side of an arm's slots: takes up new orders between two ticks, reports after each."""

    def __init__(self, args: LoopArgs, arm: Arm, loop: ArmLoop, loops: ArmLoops):
        self._arm, self._loop, self._loops = arm, loop, loops
        self.paced, self.simulated = arm.paced, arm.simulated
        self.stop = False
        self._orders = LatestSlot(orders_layout(args.joints), args.orders)
        self._report = LatestSlot(report_layout(args.joints), args.report)
        self._world_layout = messages.world_layout(args.joints, args.objects, args.scene_joints)
        self._world = LatestSlot(self._world_layout, args.world)
        self._journal = LatestSlot(JOURNAL, args.journal)
        self._done = np.zeros((), report_layout(args.joints))
        self._done["phase"], self._done["tick_s"] = RUNNING, loop.tick_s
        self._done["has_fingers"] = arm.fingers is not None
        self._targets = 0
        self._fault = Fault.NONE
        self._version = -1

    def listen(self) -> None:
        """Carry out what is new in the orders."""
        version = self._orders.version
        if version == self._version:
            return
        order = self._orders.try_read()
        if order is None:
            return
        self._version = version
        loop = self._loop
        # a target that is still here came first: the sender of another order waits until it is
        # carried out
        if order["targets"] != self._targets:
            _, field, unpack = TARGETS[order["kind"]]
            self._targets = int(order["targets"])
            self._try(lambda: loop.obey(unpack(order[field]), float(order["expires"])))
        self._carry_out(order, "setups", lambda: loop.configure(messages.to_setup(order["setup"])))
        self._carry_out(
            order, "tunings", lambda: loop.tune(messages.to_compliance(order["compliance"]))
        )
        self._carry_out(order, "holds", loop.hold)
        self._carry_out(order, "acknowledgements", loop.acknowledge)
        self._carry_out(order, "tares", loop.tare)
        self._carry_out(order, "resets", lambda: self._reset(int(order["seed"])))
        self._carry_out(
            order, "finger_orders", lambda: obey(self._arm.fingers, order["finger_order"])
        )
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
        self._loops.reset(self._loop, seed)
        self.publish_world()

    def report(self, late_ticks: int, worst_s: float, missing: int) -> None:
        """Publish the state of this tick."""
        done, loop = self._done, self._loop
        done["late_ticks"], done["worst_s"] = late_ticks, worst_s
        done["lost_ticks"], done["missing"] = self._arm.lost_cycles, missing
        if loop.fault != self._fault:
            self._fault = loop.fault
            self._keep_journal()
        done["state"] = messages.record(done.dtype["state"], loop.state())
        if self._arm.fingers is not None:
            report_into(done["fingers"], self._arm.fingers)
        self._report.write(done)

    def _keep_journal(self) -> None:
        """Before anybody sees the fault: what the robot itself says of it."""
        text = json.dumps(self._arm.journal()).encode() if self._fault in DRIVER_FAULTS else b""
        whole = text if len(text) <= JOURNAL_BYTES else json.dumps({"too long": len(text)}).encode()
        value = np.zeros((), JOURNAL)
        value["length"], value["text"] = len(whole), whole
        self._journal.write(value)

    def publish_world(self) -> None:
        """Of a simulation: the truth, now."""
        self._world.write(messages.record(self._world_layout, self._arm.world()))

    def close(self) -> None:
        self._arm.close()
