"""How hard the simulated arm hits what it meets, by its speed: `python benchmarks/impact.py`.

The peg comes down with the compliance of peg_insert, at a steady reference speed, leaning by a
random angle within the cone, onto a random place of the table, or onto the rim of the socket;
straight down, or aslant with a leash of half a metre. Speed and force are MuJoCo's own: the speed
of the peg's tip in the millisecond before it touches, the force of the contacts as it is and after
the 10 ms with which the arm filters what it measures (and above which `max_force` latches). Median
and worst of so many tries; `over` counts those whose filtered peak is above `max_force`.
"""

import argparse
import math
from dataclasses import replace

import numpy as np

from robot_rl.controllers.arms.mujoco import Options
from robot_rl.controllers.loop import ArmLoop
from robot_rl.controllers.recorder import Ring
from robot_rl.geometry import quat_from_rotvec, quat_multiply
from robot_rl.types import ArmTarget, Array
from tests.controllers import truth
from tests.controllers.bench import GIVEN, LIMITS, SETUP
from tests.controllers.truth import Rows, TrueArm

SPEEDS = (0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.09, 0.10, 0.12, 0.15, 0.18, 0.25)
PLACES = ("table", "rim")
UNLIMITED = replace(
    LIMITS,
    max_force=1e4,
    retreat_force=1e4,
    max_moment=1e4,
    retreat_moment=1e4,
    workspace_margin_m=0.1,
)
ABOVE_M, AFTER_TICKS = 0.06, 300
RIM_M = 0.025
WALL_FROM_MIDDLE_M = 0.0205
"""From the middle of the hole to the middle of a wall of the socket."""


def impact(
    arm: TrueArm, ring: Ring, speed: float, place: str, seed: int
) -> tuple[float, float, float]:
    """(speed of the tip [m/s], peak force [N], peak of the filtered force [N]) of one blow."""
    rng = np.random.default_rng([seed, PLACES.index(place)])
    arm.reset(seed)
    arm.rows.count[0] = 0
    x, y, _ = LIMITS.workspace_low
    limits = replace(UNLIMITED, workspace_low=(x, y, -0.1))
    setup = replace(SETUP, limits=limits, leash_translation=0.5, leash_rotation=1.5)
    loop = ArmLoop(arm, setup, ring)
    start, end = np.empty(7), np.empty(7)
    if place == "table":
        start[:2] = rng.uniform((0.38, -0.17), (0.43, 0.17))  # beside the socket
        start[2] = ABOVE_M
    else:
        socket = arm.world().objects[0]
        offset = rng.permutation((
            WALL_FROM_MIDDLE_M * rng.choice((-1.0, 1.0)),
            rng.uniform(-0.02, 0.02),
        ))
        start[:2], start[2] = socket[:2] + offset, RIM_M + ABOVE_M
    turn = rng.normal(size=3)
    turn *= rng.uniform(0.0, LIMITS.workspace_angle) / np.linalg.norm(turn)
    start[3:] = quat_multiply(np.array(LIMITS.workspace_quat), quat_from_rotvec(turn))
    drive(loop, start, 2500)
    loop.configure(replace(setup, limits=replace(limits, max_reference_speed=speed)))
    first = len(arm.rows)

    end[:] = start
    end[2] = -0.09
    if place == "table" and rng.random() < 0.5:
        end[:2] += rng.uniform(-0.15, 0.15, 2)
    drive(loop, end, int(4.0 * ABOVE_M / min(speed, 0.2) * 1000) + AFTER_TICKS)
    force = arm.rows.get("tool_force")[first:] + arm.rows.get("arm_force")[first:]
    size, speeds = (
        np.linalg.norm(force, axis=1),
        np.linalg.norm(truth.twists(arm.rows)[first:, :3], axis=1),
    )
    touch = int(np.flatnonzero(size > 1.0)[0]) if size.any() else 0
    if not touch:
        print(f"seed {seed} at {speed} m/s touched nothing: fault {loop.fault.name} {loop.reason}")
        return math.nan, math.nan, math.nan
    return float(speeds[touch - 1]), float(size.max()), float(truth.filtered(force).max())


def drive(loop: ArmLoop, target: Array, ticks: int) -> None:
    """Follow a target, sent anew every 10 ms: the reference never rests."""
    for k in range(ticks):
        if k % 10 == 0:
            loop.obey(ArmTarget(target, 0.1, seen_t=loop.t), loop.t + 0.1)
        loop.tick(loop.t + 0.001)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="How hard the simulated arm hits table and socket, by its speed."
    )
    parser.add_argument("--tries", type=int, default=40)
    parser.add_argument("--speeds", type=float, nargs="+", default=SPEEDS)
    options = parser.parse_args()
    arm, ring = TrueArm(Options(), GIVEN, Rows(20_000)), Ring(7)
    print("                   tip at the touch [m/s]   force [N]       filtered 10 ms [N]   over")
    print(
        "place  ref. [m/s]  median  worst            median  worst   median  worst        max_force"
    )
    for place in PLACES:
        for speed in options.speeds:
            tries = np.array([
                impact(arm, ring, speed, place, seed) for seed in range(options.tries)
            ])
            (v, f, g), (w, e, h) = np.nanmedian(tries, axis=0), np.nanmax(tries, axis=0)
            over = int((tries[:, 2] > LIMITS.max_force).sum())
            print(
                f"{place:6} {speed:10.2f} {v:7.3f} {w:6.3f} {f:17.1f} {e:6.1f} {g:8.1f} {h:6.1f}"
                f" {over:8}/{len(tries)}"
            )


if __name__ == "__main__":
    main()
