"""The simulated FR3 as a process of its own, and the handle of whoever started it.

What no real robot has, the world's truth, its reset and the faults of tests, goes through the pipes between the two: a
JSON object of one key a line, `{"reset": 7}`, answered by `{"ok": ...}` or `{"error": "..."}`. On the real clock the
world is also sent by UDP, a hundred times a second, for a loop that must not wait.
"""

import contextlib
import gc
import json
import os
import queue
import random
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from robot_rl.clock import ClockKind
from robot_rl.config import ArmConfig
from robot_rl.controllers import messages
from robot_rl.sim.fci import layout
from robot_rl.sim.fci.robot import FciRobot
from robot_rl.sim.fci.server import FciServer
from robot_rl.sim.hand import Hand
from robot_rl.transport.endpoint import Wakeup
from robot_rl.types import Array, ConfigError, DeviceError, LinkError, RobotRLError, Use, WorldState
from robot_rl.validation import from_json, to_json

WORLD_EVERY_TICKS = 10
START_TIMEOUT_S = 120.0
"""The first start on a machine compiles."""

ANSWER_S = 5.0


class Simulation:
    """Starts a simulated robot and talks to it; it ends with `close`, or with this process.

    ```
    with Simulation(arm_config, scene) as robot:
        pylibfranka.Robot(robot.ip, ...)
        robot.ask("user_stop", True)
    ```
    What can be asked: `status`, `world`, `reset` (a seed), `network` (fields of `server.Network`), `user_stop`
    (pressed or not), `jam_hand` (or not). Used by one thread.
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
            start_new_session=True,  # a Ctrl-C is for whoever started this, who then closes it in order
        )
        self.pid = self._process.pid
        ready = self._hear(START_TIMEOUT_S)
        self.ip: str = ready["ip"]
        self._layout = messages.world_layout(7, ready["objects"])
        self._latest = self._ask_world("world", None)

    def ask(self, what: str, value: Any = None) -> Any:
        """Request one thing. Raises DeviceError if it is refused, LinkError if the simulation is gone."""
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
            raise LinkError(f"the simulated robot ended with code {code}; what it said stands above")
        answer = json.loads(line)
        if "error" in answer:
            raise DeviceError(f"the simulated robot refused: {answer['error']}")
        return answer["ok"]

    def world(self) -> WorldState:
        """The truth: now, in lockstep; on the real clock the newest that was sent, without waiting."""
        if self._clock == "lockstep":
            return self._ask_world("world", None)
        newest = None
        with contextlib.suppress(BlockingIOError):
            while True:
                newest = self._stream.recv(1 << 16)
        return self._latest if newest is None else self._keep(newest)

    def reset(self, seed: int) -> WorldState:
        """Put the arm at home, at rest, and the objects where the seed says."""
        return self._ask_world("reset", seed)

    def _ask_world(self, what: str, value: Any) -> WorldState:
        return self._keep(bytes.fromhex(self.ask(what, value)))

    def _keep(self, data: bytes) -> WorldState:
        world = messages.to_world(messages.body_as(self._layout, data))
        if not hasattr(self, "_latest") or world.sequence > self._latest.sequence:  # not one sent before a reset
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


class Control:
    """The pipes' end in the simulation: a thread reads requests, the server's carries them out between two ticks."""

    def __init__(self, robot: FciRobot, hand: Hand, world_port: int):
        self._robot, self._hand = robot, hand
        self.server: FciServer | None = None
        self.wakeup = Wakeup()
        self.stopped = False
        self._requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.objects = len(robot.world().objects)
        self._layout = messages.world_layout(7, self.objects)
        self._stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._stream.connect(("127.0.0.1", world_port))
        self._ticks = 0

    def listen(self) -> None:
        """Start to read requests; the end of stdin is the end of the simulation."""
        threading.Thread(target=self._read_stdin, daemon=True).start()

    def _read_stdin(self) -> None:
        for line in sys.stdin.buffer:
            self._requests.put(line)
            self.wakeup.set()
        self.stop()

    def stop(self, *_: object) -> None:
        """Leave after this tick."""
        self.stopped = True
        self.wakeup.set()

    def between_ticks(self) -> bool:
        """Carry out what was asked, publish the world now and then; False once it is time to leave."""
        while not self._requests.empty():
            try:
                ((what, value),) = json.loads(self._requests.get()).items()
                say({"ok": self._do(what, value)})
            except (RobotRLError, TypeError, ValueError) as error:
                say({"error": str(error)})
        self._ticks += 1
        if self._ticks % WORLD_EVERY_TICKS == 0:
            with contextlib.suppress(OSError):
                self._stream.send(self._world())
        return not self.stopped

    def _do(self, what: str, value: Any) -> Any:
        robot, server = self._robot, self.server
        assert server is not None
        match what:
            case "status":
                return robot.status() | {"slips": server.slips, "network": asdict(server.network)}
            case "world":
                return self._world().hex()
            case "reset":
                robot.reset(int(value))
                return self._world().hex()
            case "network":
                vars(server.network).update(asdict(replace(server.network, **value)))
            case "user_stop":
                robot.user_stop(bool(value))
            case "jam_hand":
                self._hand.jammed = bool(value)
            case _:
                raise ConfigError(f"unknown request {what!r}; known: status, world, reset, network, user_stop, jam_hand")
        return None

    def _world(self) -> bytes:
        record: Array = messages.record(self._layout, self._robot.world())
        return record.tobytes()


def run(job: Mapping[str, Any]) -> None:
    """The process: build the robot, listen, say where, serve until stdin ends or a signal comes."""
    config = from_json(ArmConfig, job["arm"])
    scene = from_json(Use, job["scene"]) if job["scene"] else None
    robot, hand = FciRobot(config, scene), Hand(job["object_width_m"])
    control = Control(robot, hand, job["world_port"])
    ip, server = _listen_somewhere(job["ip"], robot, hand, job["clock"], control.wakeup)
    control.server = server
    signal.signal(signal.SIGTERM, control.stop)
    signal.signal(signal.SIGINT, control.stop)
    gc.collect()
    gc.freeze()
    gc.disable()
    if job["clock"] == "real":
        with contextlib.suppress(OSError):  # without the right to, the simulated robot slips more often
            os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(80))
    control.listen()
    say({"ok": {"ip": ip, "objects": control.objects}})
    try:
        server.run(control.between_ticks)
    finally:
        server.close()


def say(answer: Mapping[str, Any]) -> None:
    """One line on stdout."""
    with contextlib.suppress(BrokenPipeError):  # nobody is left to hear it; the end of stdin says so too
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _listen_somewhere(ip: str, robot: FciRobot, hand: Hand, clock: ClockKind, wakeup: Wakeup) -> tuple[str, FciServer]:
    """The ports are fixed, so each simulated robot has a loopback address: the one asked for, or a free one."""
    if ip:
        return ip, FciServer(ip, robot, hand, clock, wakeup)
    chance = random.Random(os.getpid())
    for _ in range(20):
        ip = f"127.{chance.randrange(1, 255)}.{chance.randrange(255)}.{chance.randrange(1, 255)}"
        with contextlib.suppress(LinkError):
            return ip, FciServer(ip, robot, hand, clock, wakeup)
    raise LinkError(f"no loopback address has its ports {layout.ARM_PORT} and {layout.HAND_PORT} free")
