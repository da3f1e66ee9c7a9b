"""The process of a simulated FR3: `python -m robot_rl.sim.fci JOB`, JOB being the JSON of
`process.Simulation`.
"""

import contextlib
import gc
import json
import os
import queue
import random
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from robot_rl.config import ArmConfig
from robot_rl.links.sockets import Wakeup
from robot_rl.machine.clock import ClockKind
from robot_rl.machine.validation import from_json
from robot_rl.sim.fci import layout
from robot_rl.sim.fci.layout import Mode
from robot_rl.sim.fci.process import world_to_json
from robot_rl.sim.fci.robot import FciRobot
from robot_rl.sim.fci.server import FciServer
from robot_rl.sim.hand import Hand
from robot_rl.types import ConfigError, LinkError, RobotRLError, Use

WORLD_EVERY_TICKS = 10
PRIORITY = 85
"""Of SCHED_FIFO, on the real clock: above the loop that it drives (80), so that one which takes too
long is seen to.
"""


class Control:
    """The pipes' end in the simulation: a thread reads requests, the server's carries them out
    between two ticks.
    """

    def __init__(self, robot: FciRobot, hand: Hand, world_port: int):
        self._robot, self._hand = robot, hand
        self.server: FciServer | None = None
        self.wakeup = Wakeup()
        self.stopped = False
        self._requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
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
                self._stream.send(json.dumps(world_to_json(self._robot.world())).encode())
        return not self.stopped

    def _do(self, what: str, value: Any) -> Any:
        robot, server = self._robot, self.server
        assert server is not None
        match what:
            case "status":
                return robot.status() | {
                    "slips": server.slips,
                    "longest_slip_s": server.longest_slip_s,
                    "network": asdict(server.network),
                }
            case "world":
                return world_to_json(robot.world())
            case "reset":
                robot.reset(int(value))
                return world_to_json(robot.world())
            case "network":
                vars(server.network).update(asdict(replace(server.network, **value)))
            case "user_stop":
                robot.user_stop(bool(value))
            case "mode":
                if value not in Mode.__members__:
                    raise ConfigError(
                        f"unknown mode {value!r}; known: {', '.join(Mode.__members__)}"
                    )
                robot.enter(Mode[value])
            case "recovery":
                robot.recovery_status = int(value["status"])
                robot.recovery_s = float(value["seconds"])
            case "hand_mass":
                robot.hand_mass = float(value)
                server.settings_changed()
            case "touch":
                robot.touch[:3] = value
            case "torque_jump":
                robot.torque_jump = float(value)
            case "jam_hand":
                self._hand.jammed = bool(value)
            case _:
                known = (
                    "status, world, reset, network, user_stop, mode, recovery, hand_mass, touch,"
                    " torque_jump, jam_hand"
                )
                raise ConfigError(f"unknown request {what!r}; known: {known}")
        return None


def run(job: Mapping[str, Any]) -> None:
    """The process: build the robot, listen, say where, serve until stdin ends or a signal comes."""
    config = from_json(ArmConfig, job["arm"])
    scene = from_json(Use, job["scene"]) if job["scene"] else None
    robot = FciRobot(config, scene)
    hand = robot.fingers or Hand(job["object_width_m"])
    control = Control(robot, hand, job["world_port"])
    ip, server = listen_somewhere(job["ip"], robot, hand, job["clock"], control.wakeup)
    control.server = server
    signal.signal(signal.SIGTERM, control.stop)
    signal.signal(signal.SIGINT, control.stop)
    gc.collect()
    gc.freeze()
    gc.disable()
    if job["clock"] == "real":
        # without the right to, the simulated robot slips more often
        with contextlib.suppress(OSError):
            os.sched_setscheduler(
                0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(PRIORITY)
            )
            # beside its loop: what stops that core stops both, and is a slip
            if config.loop_cpu is not None:
                os.sched_setaffinity(0, {config.loop_cpu})
    control.listen()
    say({"ok": {"ip": ip}})
    try:
        server.run(control.between_ticks)
    finally:
        server.close()


def say(answer: Mapping[str, Any]) -> None:
    """One line on stdout."""
    # nobody is left to hear it; the end of stdin says so too
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def listen_somewhere(
    ip: str, robot: FciRobot, hand: Hand, clock: ClockKind, wakeup: Wakeup
) -> tuple[str, FciServer]:
    """The ports are fixed, so each simulated robot has a loopback address: the one asked for, or a
    free one.
    """
    if ip:
        return ip, FciServer(ip, robot, hand, clock, wakeup)
    chance = random.Random(os.getpid())
    for _ in range(20):
        ip = f"127.{chance.randrange(1, 255)}.{chance.randrange(255)}.{chance.randrange(1, 255)}"
        with contextlib.suppress(LinkError):
            return ip, FciServer(ip, robot, hand, clock, wakeup)
    raise LinkError(
        f"no loopback address has its ports {layout.ARM_PORT} and {layout.HAND_PORT} free"
    )


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
