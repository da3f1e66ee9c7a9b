"""Two simulated arms with hands over an empty table, and a task of both: what tests of several arms
share. `python -m tests.two_arms CLOCK ADDRESS ADDRESS` is the process of both.
"""

import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import mujoco

from robot_rl import config
from robot_rl.config import Hardware, StartPose, Task
from robot_rl.controllers.server import serve
from robot_rl.interfaces import Given
from robot_rl.links.sockets import free_addresses
from robot_rl.machine.clock import ClockKind
from robot_rl.sim.scenes import empty
from robot_rl.types import Compliance, Use

BENCH = config.load_hardware("sim_two_pandas")
STANDS = tuple(arm.pose_bench_base for arm in BENCH.arms)
NAMES = tuple(arm.name for arm in BENCH.arms)
LIFTED_M = 0.22


class Scene(empty.Scene):
    """The empty table, with hands that move; a success is that both are lifted."""

    fingers = True

    def __init__(self, options: object, given: Given):
        super().__init__(empty.Options(stands=STANDS, arms=NAMES), given)

    def success(self, data: mujoco.MjData) -> bool:
        return min(data.body(name).xpos[2] for name in ("hand", "arm1/hand")) > LIFTED_M + 0.1034


SCENE = Use("tests.two_arms:Scene")
TASK = Task(
    name="both",
    description="lift both hands",
    start=2 * (StartPose((0.40, 0.0, 0.18, 1.0, 0.0, 0.0, 0.0), (0.01, 0.01, 0.0)),),
    cameras=("wrist_left", "wrist_right", "front"),
    reward=Use("simulator"),
    scene=SCENE,
    max_steps=40,
    image_size=(32, 32),
    axes=("x", "y", "z", "rz"),
    grippers=("moved", "moved"),
    compliance=Compliance(error_clip=(0.01, 0.01, 0.01, 0.08, 0.08, 0.08)),
)


def at_free_addresses(bench: Hardware = BENCH) -> Hardware:
    """The bench, each of its arms where nobody else listens."""
    there = zip(bench.arms, free_addresses(len(bench.arms)), strict=True)
    return replace(bench, arms=tuple(replace(arm, address=address) for arm, address in there))


@contextmanager
def served(clock: ClockKind) -> Iterator[Hardware]:
    """The process of both arms, in a thread."""
    bench, stop = at_free_addresses(), threading.Event()
    blackbox = Path(tempfile.mkdtemp())
    job = (bench.arms, SCENE, clock, stop.is_set, blackbox)
    thread = threading.Thread(target=serve, args=job, daemon=True)
    thread.start()
    try:
        yield bench
    finally:
        stop.set()
        thread.join(20.0)
        shutil.rmtree(blackbox, ignore_errors=True)


if __name__ == "__main__":
    serve(
        [replace(arm, address=there) for arm, there in zip(BENCH.arms, sys.argv[2:], strict=True)],
        SCENE,
        "lockstep" if sys.argv[1] == "lockstep" else "real",
    )
