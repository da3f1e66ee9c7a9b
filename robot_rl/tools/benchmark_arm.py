"""How well the arm's loop keeps time against a robot: the simulated FR3 behind its real wire, in
real time.

Numbers with the names of `LoopStats`; what the robot's side says is counted apart: `server_slips`
are ticks that the simulated robot itself began late, for which the client is not to blame. Robot
and loop share a core, so that whatever takes the machine away from one takes it from both; the
robot has the higher priority, and sees a loop that is slow.
"""

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from robot_rl import config
from robot_rl.config import ArmConfig
from robot_rl.controllers.client import ArmClient
from robot_rl.controllers.server import be_prompt
from robot_rl.tools.arm_check import measure_timing
from robot_rl.types import ArmTarget, Array, Compliance, LinkError

HARDWARE, TASK = "fci_sim", "peg_insert"
SETTLE_S = 1.0
"""The first ticks after a start are not the loop's rhythm."""


def measure_arm(seconds: float = 60.0, burners: int = 0) -> dict[str, float]:
    """The arm moves all the while, a target a tenth of a second; `burners` processes load the
    machine beside it.

    `rate_hz` is the loop's; `lost_ticks` the cycles that the robot went through without a command;
    `law_us`, `tick_us` as in `LoopStats`; `pose_round_trip_ms` a state asked of the arm's process,
    there and back, by a thread of the same priority: an ordinary one also waits for its own turn
    among the busy.
    """
    from robot_rl.sim.fci.process import Simulation

    arm, scene = config.load_hardware(HARDWARE).arms[0], config.load_task(TASK).scene
    arm = replace(arm, loop_cpu=max(os.sched_getaffinity(0)))
    with Simulation(arm, scene) as robot:
        real = replace(arm, driver="franka", options={**arm.options, "ip": robot.ip})
        with prompt(), served(real) as client, busy(burners):
            mover = Mover(client)
            until = time.monotonic() + SETTLE_S
            while time.monotonic() < until:
                mover.step()
            before = robot.ask("status")
            timing = measure_timing(client, seconds, beside=mover.step)
            after = robot.ask("status")
            fault = client.refresh().fault
    return timing | {
        "seconds": seconds,
        "burners": burners,
        "fault": int(fault),
        "lost_ticks": after["lost_ticks"] - before["lost_ticks"],
        "server_slips": after["slips"] - before["slips"],
    }


@contextmanager
def prompt() -> Iterator[None]:
    """This thread has the priority of an arm's network side, where that is allowed."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    be_prompt()
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


class Mover:
    """Sends a target every tenth of a second, on a circle of 20 mm above the table."""

    def __init__(self, client: ArmClient):
        self._client = client
        self._middle: Array = client.refresh().pose_base_tcp.copy()
        self._due, self._steps = time.monotonic(), 0

    def step(self) -> None:
        if time.monotonic() < self._due:
            return
        self._due += 0.1
        self._steps += 1
        angle = 0.1 * self._steps
        pose = self._middle.copy()
        pose[:3] += 0.02 * np.array([np.sin(angle), 1.0 - np.cos(angle), 0.0])
        self._client.command(ArmTarget(pose, 0.1))


@contextmanager
def served(arm: ArmConfig) -> Iterator[ArmClient]:
    """A client of a process that serves this arm."""
    from robot_rl.links.sockets import free_addresses

    (address,) = free_addresses(1)
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    process = context.Process(target=_serve, args=(replace(arm, address=address), stop))
    process.start()
    try:
        client = ArmClient(address, timeout_s=120.0)
        client.configure(np.array(arm.pose_flange_tcp), Compliance(), arm.limits)
        yield client
        client.close()
    except LinkError:
        process.kill()
        raise
    finally:
        stop.set()
        process.join(10.0)


def _serve(arm: ArmConfig, stop: Any) -> None:
    from robot_rl.controllers.server import serve

    serve(arm, stop=stop.is_set)


@contextmanager
def busy(count: int, nice: int = 0) -> Iterator[None]:
    """Processes that do nothing but use up time; with `nice` that of nobody else, whoever started
    this one.
    """
    context = multiprocessing.get_context("spawn")
    burners = [context.Process(target=_burn, args=(nice,), daemon=True) for _ in range(count)]
    for burner in burners:
        burner.start()
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()


def _burn(nice: int) -> None:
    if nice:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.nice(nice)
    while True:
        pass


def table(numbers: dict[str, float], wanted: Sequence[tuple[str, str]]) -> Any:
    """The numbers as a table for a terminal, with what is asked of them."""
    from rich.table import Table

    out = Table(title="the arm's loop against the simulated FR3, in real time")
    for heading in ("number", "value", "asked for"):
        out.add_column(heading, justify="right" if heading == "value" else "left")
    asked = dict(wanted)
    for name, value in numbers.items():
        out.add_row(name, f"{value:.4g}", asked.get(name, ""))
    return out


ASKED = (
    ("rate_hz", "997 or more"),
    ("lost_ticks", "0"),
    ("law_us_p50", "below 50"),
    ("pose_round_trip_ms_p99", "below 2"),
)
