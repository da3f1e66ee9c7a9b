"""The Franka driver against a simulated robot that nobody here wrote: `make cross-check`
(docs/franka.md).

`franky-sim` speaks Franka's protocol too. The arm's process drives it through pylibfranka as it
would a robot: hold, a circle in the air, a joint-space move, torque control ended and begun anew by
another tool. What both sides say of the same posture is compared with this project's own
kinematics.
"""

import contextlib
import json
import multiprocessing
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl import config, geometry
from robot_rl.controllers.client import ArmClient
from robot_rl.controllers.server import serve
from robot_rl.links.sockets import free_addresses
from robot_rl.sim.panda import flange_pose
from robot_rl.types import ArmTarget, Array, Compliance, JointTarget

IP = "127.0.0.9"
START_S = 60.0
RADIUS_M, TURN_S = 0.04, 4.0


def serve_arm(arm: config.ArmConfig, stop: Any, folder: Path) -> None:
    """The arm's process."""
    serve(arm, stop=stop.is_set, blackbox=folder)


def circle(arm: ArmClient, seconds: float) -> tuple[float, str]:
    """Follow a circle; the largest distance from the target [m], and the fault if there was one."""
    middle, begun, furthest = arm.refresh().pose_base_tcp.copy(), time.monotonic(), 0.0
    while (t := time.monotonic() - begun) < seconds:
        target = middle.copy()
        target[1:3] += RADIUS_M * np.array([
            np.sin(2 * np.pi * t / TURN_S),
            1.0 - np.cos(2 * np.pi * t / TURN_S),
        ])
        state = arm.command(ArmTarget(target, 0.1))
        if state.fault:
            return furthest, f"{state.fault.name}: {state.reason}"
        furthest = max(furthest, float(np.linalg.norm(state.pose_base_tcp[:3] - target[:3])))
        time.sleep(0.02)
    return furthest, ""


def pose_error(arm: ArmClient, tool: Array) -> tuple[float, float]:
    """[mm] and [deg] between the robot's pose of the tool and what our kinematics makes of the same
    joint angles.
    """
    state = arm.refresh()
    error = geometry.pose_error(
        state.pose_base_tcp, geometry.pose_multiply(flange_pose(state.q), tool)
    )
    return 1e3 * float(np.linalg.norm(error[:3])), float(np.degrees(np.linalg.norm(error[3:])))


def measure(arm: ArmClient, tool: Array) -> dict[str, Any]:
    """What there is to compare, in the units that the names say."""
    found: dict[str, Any] = {}
    configure(arm, tool)
    begin = arm.refresh().q.copy()
    found["pose_error_mm"], found["pose_error_deg"] = pose_error(arm, tool)
    furthest_m, found["fault"] = circle(arm, 10.0)
    found["behind_target_mm"] = 1e3 * furthest_m
    moved = arm.move_joints(JointTarget(begin + 0.1, 0.1, 0.3))
    found["joint_error_rad"] = float(np.abs(moved.q - begin - 0.1).max())
    longer = geometry.pose_multiply(tool, np.array([0.0, 0.0, 0.05, 0.0, 0.0, 0.0, 1.0]))
    configure(arm, longer)
    found["other_tool_error_mm"], _ = pose_error(arm, longer)
    stats = arm.stats()
    return found | {
        "rate_hz": stats.rate_hz,
        "lost_ticks": stats.lost_ticks,
        "tick_us_p50": stats.tick_us_p50,
    }


def configure(arm: ArmClient, tool: Array) -> None:
    arm.configure(tool, Compliance(), LIMITS, 0.05, 0.3)


HARDWARE = config.load_hardware("franka_fr3").arms[0]
LIMITS = replace(
    HARDWARE.limits,
    workspace_low=(0.1, -0.5, 0.05),
    workspace_high=(0.8, 0.5, 0.8),
    workspace_angle=1.0,
)


def main(server: str) -> int:
    """Start the other simulator, whose program is `server`, drive it, print one JSON object."""
    robot = subprocess.Popen([server, "--simulator", "mujoco", "--hostname", IP], stdout=sys.stderr)
    (address,) = free_addresses(1)
    bench = replace(
        HARDWARE, address=address, limits=LIMITS, options={**HARDWARE.options, "ip": IP}
    )
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    with tempfile.TemporaryDirectory() as folder:
        process = context.Process(target=serve_arm, args=(bench, stop, Path(folder)))
        try:
            wait_for_port(robot)
            process.start()
            arm = ArmClient(address)
            arm.configure(np.array(bench.pose_flange_tcp), Compliance(), bench.limits)
            print(json.dumps(measure(arm, np.array(bench.pose_flange_tcp)), indent=2))
            arm.close()
        finally:
            stop.set()
            process.join(10.0)
            robot.kill()
    return 0


def wait_for_port(robot: subprocess.Popen) -> None:
    """Until the robot listens at Franka's port of commands."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and robot.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((IP, 1337), 1.0):
            time.sleep(1.0)  # it takes one client at a time, and has to see that this one has gone
            return
        time.sleep(0.2)
    raise SystemExit(f"the other simulator does not listen at {IP} after {START_S:g} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
