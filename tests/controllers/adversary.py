"""What a broken, hostile or late program may send; and a long watch that nothing of it leaves the limits.

`make soak-targets` is the long version, ten million of them.
"""

import argparse
import time
from dataclasses import replace

import numpy as np

from robot_rl.controllers import safety
from robot_rl.controllers.loop import ArmLoop
from robot_rl.geometry import quat_from_rotvec
from robot_rl.interfaces import ArmReading
from robot_rl.types import Box, Fault
from tests.controllers.bench import LIMITS, SETUP

KEEP_OUT = (Box((0.42, -0.02, -0.01), (0.46, 0.03, 0.08)), Box((0.55, 0.05, 0.1), (0.6, 0.3, 0.2)))
LOW, HIGH = np.array(LIMITS.workspace_low), np.array(LIMITS.workspace_high)
BOXES = np.array([(box.low, box.high) for box in KEEP_OUT])


class GhostArm:
    """An arm without a body: it stands wherever its last reference was, so that a million ticks take seconds."""

    joints = 7

    def __init__(self, rng):
        self.reading = ArmReading(7)
        self.reading.pose[:] = (0.5, 0.0, 0.2, *LIMITS.workspace_quat)
        self.reading.jacobian[:] = rng.normal(size=(6, 7))

    def set_tool(self, pose_flange_tool): ...

    def read(self):
        return self.reading

    def write(self, tau): ...

    def close(self): ...


def targets(rng, count):
    """`count` targets `(7,)`, about half of them sound, and when they claim to have been made [s before now]."""
    out = np.empty((count, 7))
    out[:, :3] = rng.uniform(LOW - 0.1, HIGH + 0.1, (count, 3))
    out[:, 3:] = rng.normal(size=(count, 4))
    out[:, 3:] /= np.linalg.norm(out[:, 3:], axis=1, keepdims=True)
    kind, one = rng.integers(16, size=count), np.arange(count)
    near = kind < 6
    turns = 0.8 * rng.normal(size=(count, 3))
    out[near, 3:] = [quat_multiply_down(turn) for turn in turns[near]]
    out[kind == 6, 3:] *= -1.0
    out[kind == 7, :3] *= 10.0 ** rng.uniform(0.0, 307.0, (count, 1))[kind == 7]
    out[kind == 8, 3:] *= 10.0 ** rng.uniform(-300.0, 150.0, (count, 1))[kind == 8]
    out[kind == 9, 3:] = 0.0
    column = rng.integers(7, size=count)
    for which, value in ((10, np.nan), (11, np.inf), (12, -np.inf), (13, 1e308)):
        out[one[kind == which], column[kind == which]] = value
    age = np.where(rng.random(count) < 0.1, rng.uniform(-1.0, 3.0, count), 0.0)
    age[rng.random(count) < 0.01] = np.nan
    return out, age


def quat_multiply_down(turn):
    """The workspace's middle orientation, turned."""
    from robot_rl.geometry import quat_multiply

    return quat_multiply(np.array(LIMITS.workspace_quat), quat_from_rotvec(turn))


def is_allowed(pose):
    """Whether a pose is in the workspace, outside the keep-out boxes and inside the cone, to rounding."""
    inside = bool((pose[:3] >= LOW - 1e-9).all() and (pose[:3] <= HIGH + 1e-9).all())
    free = all(safety.depth_inside(pose[:3], box) <= 1e-9 for box in BOXES)
    dot = min(1.0, abs(float(pose[3:] @ LIMITS.workspace_quat)))
    return inside and free and 2.0 * np.arccos(dot) <= LIMITS.workspace_angle + 1e-6


def watch(count, seed):
    """Send `count` targets, a tick after each; raise AssertionError at the first that leaves the limits."""
    rng = np.random.default_rng(seed)
    arm = GhostArm(rng)
    loop = ArmLoop(arm, replace(SETUP, limits=replace(LIMITS, keep_out=KEEP_OUT)))
    tau, largest = loop._tau.copy(), np.array(LIMITS.max_torque)
    step, turn = LIMITS.max_reference_speed * 0.001, LIMITS.max_reference_rotation_speed * 0.001
    taken = 0
    for target, age in zip(*targets(rng, count), strict=True):
        before, sound = loop._reference.copy(), safety.pose_is_valid(target)
        if rng.random() < 0.02:
            arm.reading.pose[:] = loop._reference
            loop.acknowledge()
        loop.command(target, loop.t + 0.3, loop.t - age)
        assert sound or loop.fault == Fault.TARGET_NOT_FINITE
        taken += not loop.holding
        loop.tick(loop.t + 0.001)
        assert is_allowed(loop._target), (target, loop._target)
        assert is_allowed(loop._reference), (target, loop._reference)
        assert np.linalg.norm(loop._reference[:3] - before[:3]) <= step + 1e-12
        assert 2.0 * np.arccos(min(1.0, abs(float(loop._reference[3:] @ before[3:])))) <= turn + 1e-6
        assert (np.abs(loop._tau) <= largest).all() and np.abs(loop._tau - tau).max() <= 1.0 + 1e-9
        tau = loop._tau.copy()
        arm.reading.pose[:] = loop._reference
        if loop.fault:
            loop.acknowledge()
    return taken


def main():
    parser = argparse.ArgumentParser(description="Send hostile targets to the governor until one leaves the limits.")
    parser.add_argument("--targets", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begun, done, taken, portion = time.monotonic(), 0, 0, 100_000
    while done < options.targets:
        taken += watch(min(portion, options.targets - done), options.seed + done)
        done += portion
        print(f"{min(done, options.targets)} targets, {taken} taken, none left the limits, "
              f"{time.monotonic() - begun:.0f} s", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
