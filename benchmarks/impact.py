"""How hard the simulated arm hits the table, by its speed: `python benchmarks/impact.py`.

The closed hand comes straight down at a steady reference speed, with the compliance of peg_insert. The peak is that of
the estimated force, filtered over 10 ms as the arm reports it; the other column is its mean over the second after.
"""

from dataclasses import replace

import numpy as np

from robot_rl import config
from robot_rl.controllers.loop import ArmLoop
from robot_rl.controllers.recorder import Ring
from robot_rl.controllers.setup import ArmSetup, open_driver

SPEEDS = (0.02, 0.05, 0.08, 0.12, 0.18, 0.25)
TASK, ARM = config.load_task("peg_insert"), config.load_hardware("sim_panda").arms[0]


def impact(speed: float) -> tuple[float, float]:
    """(peak, mean of the second after) of the vertical force [N] of a blow at `speed` [m/s]."""
    x, y, _ = ARM.limits.workspace_low
    wide = {
        "workspace_low": (x, y, -0.1),
        "max_force": 1e4,
        "retreat_force": 1e4,
        "max_moment": 1e4,
        "retreat_moment": 1e4,
    }
    limits = replace(ARM.limits, max_reference_speed=speed, workspace_margin_m=0.1, **wide)
    tool = np.array(ARM.pose_flange_tcp)  # the closed fingers, on an empty table
    ring = Ring(len(ARM.home))
    setup = ArmSetup(tool, TASK.compliance, limits, 0.05, 0.1)
    loop = ArmLoop(open_driver(ARM, None, "lockstep"), setup, ring)
    for _ in range(int(0.2 / speed / 0.01) + 150):
        target = loop.state().target_base_tcp.copy()
        target[2] = min(target[2], loop.state().pose_base_tcp[2]) - 0.05
        loop.command(target, loop.t + 0.1)
        for _ in range(10):
            loop.tick(loop.t + 0.001)
    force = ring.copy()[:, ring.columns.index("force_z")]
    peak = int(np.argmax(force))
    return float(force[peak]), float(force[peak + 500 : peak + 1500].mean())


if __name__ == "__main__":
    print("speed [m/s]   peak [N]   then [N]")
    for each in SPEEDS:
        print(f"{each:11.2f} {impact(each)[0]:10.1f} {impact(each)[1]:10.1f}")
