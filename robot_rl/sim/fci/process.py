"""The starter's handle of a simulated FR3; the process itself is `__main__.py`.

What no real robot has, the world's truth, its reset and the faults of tests, goes through the pipes
between the two: a JSON object of one key a line, `{"reset": 7}`, answered by `{"ok": ...}` or
`{"error": "..."}`. On the real clock the world is also sent by UDP, a hundred times a second, for a
loop that must not wait.
"""

import contextlib
import json
import select
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from robot_rl.config import ArmConfig
from robot_rl.machine.clock import ClockKind
from robot_rl.machine.validation import to_json
from robot_rl.types import DeviceError, LinkError, Use, WorldState

START_TIMEOUT_S = 120.0
"""The first start on a machine compiles."""

ANSWER_S = 20.0


class Simulation:
    """Starts a simulated robot and talks to it; it ends with `close`, or with this process.

    ```
    with Simulation(arm_config, scene) as robot:
        pylibfranka.Robot(robot.ip, ...)
        robot.ask("user_stop", True)
    ```
    What can be asked: `status`, `world`, `reset` (a seed), `network` (fields of `ports.Network`),
    `user_stop` (pressed or not), `mode` (the name of a `layout.Mode`, as somebody in Desk or at the
    arm makes it), `recovery` (`{"status": 3, "seconds": 0.0}`: how the next ones end, and how long
    they take), `hand_mass` ([kg] that Desk knows of), `touch` (a force (3,) [N] on the tool),
    `torque_jump` (an error [Nm] of the next command), `jam_hand` (or not). Used by one thread.
    """

    def __init__(
        self,
        config: ArmConfig,
        scene: Use | None = None,
        clock: ClockKind = "real",
        object_width_m: float | None = None,
        ip: str = "",
    ):
        self._clock = clock
        self._stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._stream.bind(("127.0.0.1", 0))
        self._stream.setblocking(False)
        job = {
            "arm": to_json(config),
            "scene": to_json(scene) if scene else None,
            "clock": clock,
            "object_width_m": object_width_m,
            "ip": ip,
            "world_port": self._stream.getsockname()[1],
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "robot_rl.sim.fci", json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # a Ctrl-C is for the process that started this, which then closes it in order
            start_new_session=True,
        )
        self.pid = self._process.pid
        ready = self._hear(START_TIMEOUT_S)
        self.ip: str = ready["ip"]
        self._latest = self._keep(self.ask("world"))

    def ask(self, what: str, value: Any = None) -> Any:
        """Request one thing. Raises DeviceError if it is refused, LinkError if the simulation is
        gone.
        """
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({what: value}).encode() + b"\n")
            self._process.stdin.flush()
        return self._hear(ANSWER_S)

    def _hear(self, timeout_s: float) -> Any:
        pipe = self._process.stdout
        assert pipe is not None
        if not select.select([pipe], [], [], timeout_s)[0]:
            raise LinkError(f"the simulated robot does not answer within {timeout_s:g} s")
        line = pipe.readline()
        if not line:
            code = self._process.wait(ANSWER_S)
            raise LinkError(
                f"the simulated robot ended with code {code}; what it said stands above"
            )
        answer = json.loads(line)
        if "error" in answer:
            raise DeviceError(f"the simulated robot refused: {answer['error']}")
        return answer["ok"]

    def world(self) -> WorldState:
        """The truth: now, in lockstep; on the real clock the newest that was sent, without waiting."""
        if self._clock == "lockstep":
            return self._keep(self.ask("world"))
        newest = None
        with contextlib.suppress(BlockingIOError):
            while True:
                newest = self._stream.recv(1 << 16)
        return self._latest if newest is None else self._keep(json.loads(newest))

    def reset(self, seed: int) -> WorldState:
        """Put the arm at home, at rest, and the objects where the seed says."""
        return self._keep(self.ask("reset", seed))

    def _keep(self, values: Mapping[str, Any]) -> WorldState:
        world = world_from_json(values)
        # not one sent before a reset
        if not hasattr(self, "_latest") or world.sequence > self._latest.sequence:
            self._latest = world
        return self._latest

    def close(self) -> None:
        """End the simulation."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._stream.close()

    def __enter__(self) -> "Simulation":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def world_to_json(world: WorldState) -> dict[str, Any]:
    """A world as plain data."""
    arrays = ("q", "objects", "goal_base_tcp", "scene_q", "goal_back")
    values = {name: np.asarray(getattr(world, name)).tolist() for name in arrays}
    return {
        **values,
        "sequence": world.sequence,
        "t": world.t,
        "success": bool(world.success),
        "success_back": bool(world.success_back),
        "seed": world.seed,
        "width_m": world.width_m,
    }


def world_from_json(values: Mapping[str, Any]) -> WorldState:
    """The world of what `world_to_json` made: the very numbers."""
    names = ("q", "goal_base_tcp", "scene_q", "goal_back")
    q, goal, scene_q, goal_back = (np.array(values[name], float) for name in names)
    objects = np.array(values["objects"], float).reshape(-1, 7)
    return WorldState(
        values["sequence"],
        values["t"],
        q,
        objects,
        goal,
        values["success"],
        values["seed"],
        scene_q,
        values["width_m"],
        goal_back,
        values["success_back"],
    )
