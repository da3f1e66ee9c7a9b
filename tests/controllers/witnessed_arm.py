"""An arm's process on the real clock with a witness: `python -m tests.controllers.witnessed_arm
ADDRESS FILE`.

It is the package's own `serve`; the driver alone is another one, whose rows of truth lie in FILE,
where the test reads them, whoever has died meanwhile. A spawned process runs the main module's file
first, so that the loop's process has that driver as well.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl.config import ArmConfig
from robot_rl.controllers import loop_process
from robot_rl.controllers.arms.mujoco import Options
from robot_rl.controllers.server import serve
from robot_rl.interfaces import Given
from robot_rl.machine.clock import ClockKind
from robot_rl.types import Use
from tests.controllers.bench import HARDWARE, TASK
from tests.controllers.truth import Rows, TrueArm

TICKS = 20_000


def open_with_witness(
    config: ArmConfig, scene: Use | None = None, clock: ClockKind = "real"
) -> Any:
    """Instead of `setup.open_drivers`: the simulated arm, with rows that begin anew when the world
    is reset.
    """
    given = Given(name=config.name, arm=config, scene=scene, clock=clock)
    arm = TrueArm(Options(), given, read_rows(Path(sys.argv[2])))
    arm.clock, arm.rows_begin_at_reset = time.monotonic, True
    return arm


def read_rows(path: Path) -> Rows:
    """The rows in a file, shared with whoever else has it open."""
    return Rows(TICKS, np.memmap(path, np.float64, "r+"))


def make_rows(path: Path) -> Rows:
    """A new file with room for 20 s."""
    np.memmap(path, np.float64, "w+", shape=(Rows.numbers(TICKS),)).flush()
    return read_rows(path)


if __name__ in ("__main__", "__mp_main__"):
    loop_process.open_drivers = lambda configs, *its: [open_with_witness(configs[0], *its)]
if __name__ == "__main__":
    serve(
        replace(HARDWARE, address=sys.argv[1]),
        TASK.scene,
        "real",
        blackbox=Path(sys.argv[2]).parent,
    )
