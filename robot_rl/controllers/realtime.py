"""The real-time clock of the arm: the network side's view of the 1 kHz loop, which has a process of
its own; arms that stand in one world have one together.

Everything that `loop_process.py` is told and reports goes through latest slots in shared memory
(`shared_memory.py`). Orders that must not be lost (set-up, acknowledgement, reset) carry a counter
in the orders slot; the loop reports the last one it has carried out, and whether the arm refused
it, and the network side waits for that.
"""

import json
import logging
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from robot_rl.config import ArmConfig
from robot_rl.controllers import messages
from robot_rl.controllers.loop_process import (
    COMPILING,
    JOURNAL,
    LEAVE_S,
    MISSING_PRIVILEGES,
    TARGETS,
    LoopArgs,
    orders_layout,
    report_layout,
    run_loop,
)
from robot_rl.controllers.recorder import LoopStats, Ring, loop_stats
from robot_rl.controllers.setup import ArmSetup
from robot_rl.controllers.shared_memory import LatestSlot
from robot_rl.machine.clock import ClockKind
from robot_rl.types import (
    ArmState,
    Array,
    Command,
    Compliance,
    ConfigError,
    DeviceError,
    Use,
    WorldState,
)

log = logging.getLogger(__name__)

COMPILE_TIMEOUT_S, OPEN_TIMEOUT_S = 600.0, 120.0
"""The first start on a machine compiles the control law, before the arm is opened: that may itself
start a robot that is simulated."""

HUNG_S = 5.0
"""A loop that has measured nothing for so long, and carries out no order, hangs: its process is
ended.
"""

LOOKED_AWAY_S = 1.0
"""Who has not looked for so long stood still itself, as on a machine that slept: the loop has to be
watched anew.
"""

ORDER_TIMEOUT_S = 15.0
"""A real arm needs seconds for its error recovery, or to end and begin torque control for another
tool.
"""


class LoopProcess:
    """The process of the loops of one world's arms, or of one arm that is real."""

    def __init__(self, arms: Sequence[LoopArgs]):
        # spawned, not forked: a fork would inherit sockets, threads and the parent's scheduling
        self._process = multiprocessing.get_context("spawn").Process(
            target=run_loop, args=(arms,), daemon=True
        )
        self.shared, self.resets = len(arms) > 1, 0
        with one_thread_for_blas():
            self._process.start()

    def require(self) -> None:
        """Raise DeviceError if it is dead."""
        if not self._process.is_alive():
            raise DeviceError(
                f"the arm's loop has died (exit code {self._process.exitcode}); restart the arm"
                " process"
            )

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def leave(self) -> None:
        """It was told to stop: wait until it has left, and end it if it does not."""
        self._process.join(LEAVE_S + 1.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


class RealTimeArm:
    """The network side's handle on one arm of the loop's process. Same calls as
    `lockstep.LockstepArm`.
    """

    clock: ClockKind = "real"

    def __init__(
        self, config: ArmConfig, scene: Use | None, setup: ArmSetup, joints: int, world: LatestSlot,
        objects: int, scene_joints: int,
    ):  # fmt: skip
        """The slots; its process is `together`'s to start."""
        self.joints, self.objects, self.scene_joints = joints, objects, scene_joints
        self._config = config
        self._orders = LatestSlot(orders_layout(joints))
        self._report = LatestSlot(report_layout(joints))
        self._world = world
        self._journal = LatestSlot(JOURNAL)
        self.ring = Ring(joints)
        self._order = np.zeros((), orders_layout(joints))
        blocks = (
            self._orders.block,
            self._report.block,
            self._world.block,
            self._journal.block,
            self.ring.block,
        )
        self.args = LoopArgs(config, scene, setup, *blocks, joints, objects, scene_joints)
        self._process: LoopProcess
        self._looked = self._watched_since = time.monotonic()
        self.fingers = False

    @classmethod
    def together(
        cls,
        configs: Sequence[ArmConfig],
        scene: Use | None,
        setups: Sequence[ArmSetup],
        objects: int = 0,
        scene_joints: int = 0,
    ) -> "list[RealTimeArm]":
        """Start the process of one arm, or of all that stand in one world. Raises DeviceError or
        ConfigError if one cannot be opened.
        """
        joints = len(configs[0].home)
        world = LatestSlot(messages.world_layout(joints, objects, scene_joints))
        arms = [
            cls(config, scene, setup, len(config.home), world, objects, scene_joints)
            for config, setup in zip(configs, setups, strict=True)
        ]
        process = LoopProcess([arm.args for arm in arms])
        for arm in arms:
            arm._process = process
        try:
            for arm in arms:
                arm._wait_until_open()
        except BaseException:  # a signal, too
            arms[0].close()
            raise
        return arms

    def _wait_until_open(self) -> None:
        config = self._config
        self._wait(
            lambda report: report["phase"] > COMPILING,
            COMPILE_TIMEOUT_S,
            "compile the control law",
        )
        options = "".join(f", {key} {value}" for key, value in config.options.items())
        report = self._wait(
            lambda report: report["state"]["sequence"] > 0,
            OPEN_TIMEOUT_S,
            f"open arm '{config.name}' (driver {config.driver}{options})",
            "; is the address right, is the robot on, does another program have it?",
        )
        self.fingers = bool(report["has_fingers"])
        for bit, what in MISSING_PRIVILEGES.items():
            if report["missing"] & bit:
                log.warning("the loop of arm '%s' runs, but %s", config.name, what)

    @property
    def shared(self) -> bool:
        """Whether other arms stand in its world."""
        return self._process.shared

    @property
    def resets(self) -> int:
        """How often the world was reset, whichever of its arms was asked to."""
        return self._process.resets

    def _wait(
        self, done: Callable[[Array], Any], timeout_s: float, what: str, advice: str = ""
    ) -> Array:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            report = self._report.read()
            if done(report):
                return report
            if report["state"]["sequence"] == 0 and report["refusal"]:
                raise _refusal(report)
            self._look()
            time.sleep(0.0005)
        raise DeviceError(f"the arm's loop did not {what} within {timeout_s:.0f} s{advice}")

    def require_alive(self) -> None:
        """Raise DeviceError if the loop's process is dead, or hangs: then it is ended first."""
        self._look()
        age_s = self.state().age_s
        if min(age_s, self._looked - self._watched_since) > HUNG_S:
            self._process.kill()
            raise DeviceError(
                f"the arm's loop has measured nothing for {age_s:.1f} s and was ended; restart the"
                " arm process"
            )

    def _look(self) -> None:
        """Raise DeviceError if the loop's process is dead; note since when it has been looked at."""
        self._process.require()
        now = time.monotonic()
        if now - self._looked > LOOKED_AWAY_S:
            self._watched_since = now
        self._looked = now

    def _send(self, counter: str) -> None:
        self._order[counter] += 1
        self._orders.write(self._order)
        report = self._wait(
            lambda report: report[counter] == self._order[counter],
            ORDER_TIMEOUT_S,
            f"carry out {counter}",
        )
        if report["refusal"]:
            raise _refusal(report)

    def configure(self, setup: ArmSetup) -> ArmState:
        self._order["setup"] = messages.record(messages.setup_layout(self.joints), setup)
        self._send("setups")
        return self.state()

    def tune(self, compliance: Compliance) -> ArmState:
        self._order["compliance"] = messages.record(
            messages.compliance_layout(self.joints), compliance
        )
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

    def move_fingers(self, order: Array) -> None:
        """Hand a `messages.FINGER_ORDER` over; the loop takes it up at its next tick."""
        self._order["finger_order"] = order
        self._send("finger_orders")

    def fingers_state(self) -> Array:
        """A `messages.FINGERS`."""
        self._process.require()
        report = self._report.read()
        fingers: Array = report["fingers"].copy()
        fingers["t"] = report["state"]["t"]
        return fingers

    def reset(self, seed: int) -> WorldState:
        self._order["seed"] = seed
        self._process.resets += 1
        self._send("resets")
        return self.world()

    def state(self) -> ArmState:
        self._process.require()
        state = messages.to_state(self._report.read()["state"])
        return replace(state, age_s=max(time.monotonic() - state.t, 0.0))

    def world(self) -> WorldState:
        self._process.require()
        return messages.to_world(self._world.read())

    def ago(self, age_s: float) -> Array:
        """Pose of the tool so long ago."""
        return self.ring.ago(age_s)

    def past_world(self, age_s: float) -> WorldState:
        raise ConfigError(
            "a simulated world's past is kept in lockstep alone: on the real clock pictures are as"
            " old as they are"
        )

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
        """The loop holds its arms, and leaves when they stand: none goes on without another."""
        self._order["stop"] = True
        self._orders.write(self._order)
        self._process.leave()


def _refusal(report: Array) -> ConfigError | DeviceError:
    """Why the arm refused an order; ConfigError for what may not be asked for."""
    error = ConfigError if report["is_wrong"] else DeviceError
    return error(bytes(report["refusal"]).decode(errors="ignore"))


@contextmanager
def one_thread_for_blas() -> Iterator[None]:
    """For a process that is started meanwhile: BLAS starts no threads in it, which would take the
    loop's core.
    """
    before = {
        name: os.environ.get(name)
        for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
    }
    os.environ.update(dict.fromkeys(before, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
