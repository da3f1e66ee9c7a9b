"""The simulated bench of peg_insert, in this process: what the tests of the loop share."""

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from robot_rl import config, geometry
from robot_rl.config import ArmConfig
from robot_rl.controllers.client import ArmClient
from robot_rl.controllers.loop import ArmLoop
from robot_rl.controllers.server import serve
from robot_rl.controllers.setup import ArmSetup, open_driver
from robot_rl.interfaces import Given
from robot_rl.machine.clock import ClockKind
from robot_rl.types import ArmLimits, Array, Use

TASK = config.load_task("peg_insert")
HARDWARE = config.load_hardware("sim_panda").arms[0]
LIMITS: ArmLimits = HARDWARE.limits
GIVEN = Given(name=HARDWARE.name, arm=HARDWARE, scene=TASK.scene)
TOOL: Array = geometry.pose_multiply(
    np.array(HARDWARE.pose_flange_tcp), np.array(TASK.pose_tcp_tool)
)
SETUP = ArmSetup(TOOL, TASK.compliance, LIMITS, TASK.leash_translation, TASK.leash_rotation)


def make_loop(**changes) -> ArmLoop:
    """A loop over a fresh simulated arm, with some limits changed."""
    return ArmLoop(
        open_driver(HARDWARE, TASK.scene), replace(SETUP, limits=replace(LIMITS, **changes))
    )


def run(loop: ArmLoop, ticks: int, watch=None) -> None:
    """Tick the loop, in its own simulated time."""
    for _ in range(ticks):
        loop.tick(loop.t + 0.001)
        if watch:
            watch()


def moved(loop: ArmLoop, *delta: float) -> Array:
    """The target in force, moved by a translation in base axes."""
    pose = loop.state().target_base_tcp.copy()
    pose[:3] += delta
    return pose


@contextmanager
def served(
    address: str, clock: ClockKind, scene: Use | None = None
) -> Iterator[tuple[ArmClient, ArmConfig]]:
    """An arm's process in a thread, and a client that has set it up."""
    stop, arm = threading.Event(), replace(HARDWARE, address=address)
    blackbox = Path(tempfile.mkdtemp())
    job = (arm, scene, clock, stop.is_set, blackbox)
    thread = threading.Thread(target=serve, args=job, daemon=True)
    thread.start()
    client = ArmClient(address)
    try:
        client.configure(np.array(arm.pose_flange_tcp), TASK.compliance, LIMITS)
        yield client, arm
    finally:
        client.close()
        stop.set()
        thread.join(20.0)
        shutil.rmtree(blackbox, ignore_errors=True)
