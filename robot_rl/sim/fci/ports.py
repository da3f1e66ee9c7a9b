"""The two TCP ports of the simulated robot, and the UDP streams that belong to them: what a client
may say, and hears.

One thread, no locks: the server keeps time (`server.py`) and says when a port is to serve and when to
send.
"""

import contextlib
import random
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

import numpy as np

from robot_rl.sim.fci import layout
from robot_rl.sim.fci.layout import Command, HandCommand
from robot_rl.sim.fci.robot import FciRobot
from robot_rl.sim.fci.urdf import robot_urdf
from robot_rl.sim.hand import Hand, HandOutcome
from robot_rl.types import Array, LinkError

ARM_SIZES = {command: layout.PAYLOAD[command].itemsize for command in Command}
HAND_SIZES = {command: layout.HAND_PAYLOAD[command].size for command in HandCommand}
"""Bytes behind the header of each request."""

K = TypeVar("K", bound=IntEnum)

HAND_EVERY_TICKS = 33


@dataclass
class Network:
    """What goes wrong between robot and client, on demand.

    `loss` (a probability, either way), loss of commands alone, and a cut, during which nothing
    passes and nobody can connect.
    """

    loss: float = 0.0
    command_loss: float = 0.0
    cut: bool = False


class Listener:
    """A TCP port with one client at a time, to whom a UDP stream may go as well; a second one is
    sent away.

    `header` is what stands before each request and each answer: command, its id, the size of the
    whole.
    """

    def __init__(self, host: str, port: int, header: struct.Struct):
        self._address, self.header = (host, port), header
        self.client: socket.socket | None = None
        self.udp: socket.socket | None = None
        self._buffer = b""
        self._listening: socket.socket | None = None
        self.open()

    def open(self) -> None:
        """Listen. Raises LinkError if somebody else does."""
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(self._address)
        except OSError as error:
            listening.close()
            raise LinkError(
                f"{self._address[0]}:{self._address[1]} cannot be bound: {error.strerror}"
            ) from error
        listening.listen(1)
        listening.setblocking(False)
        self._listening = listening

    def sockets(self) -> list[socket.socket]:
        return [each for each in (self._listening, self.client) if each is not None]

    def accept(self, ready: list[socket.socket]) -> None:
        """Take in a new client, if one knocks and there is none."""
        if self._listening not in ready or self._listening is None:
            return
        try:
            client, _ = self._listening.accept()
        except OSError:  # it has left already
            return
        if self.client is not None:
            client.close()
            return
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setblocking(False)
        self.client, self._buffer = client, b""

    def received(self, ready: list[socket.socket]) -> bytes | None:
        """All bytes that wait to be understood; None once the client is gone."""
        if self.client not in ready or self.client is None:
            return self._buffer
        try:
            data = self.client.recv(4096)
        except OSError:
            data = b""
        if not data:
            return None
        self._buffer += data
        return self._buffer

    def requests(
        self, ready: list[socket.socket], sizes: Mapping[K, int]
    ) -> Iterator[tuple[K, int, bytes]]:
        """The whole requests that have come, in order: command, its id, its payload of
        `sizes[command]` bytes.

        A client that is gone, or sends what is none, is let go.
        """
        header, commands = self.header, {int(command): command for command in sizes}
        data = self.received(ready)
        while data is not None and len(data) >= header.size:
            number, command_id, size = header.unpack_from(data)
            command = commands.get(number)
            # whatever its size makes believe is to come
            if command is None or size != header.size + sizes[command]:
                data = None
                break
            if len(data) < size:
                return
            self._buffer = data[size:]
            yield command, command_id, data[header.size : size]
            data = self.received([])
        if data is None:
            self.lose_client()

    def lose_client(self) -> None:
        """What the end of a client means."""
        self.drop()

    def reply(self, command: int, command_id: int, body: bytes) -> None:
        """Send an answer. A client that asks and asks, and reads no answers, is let go: nobody
        waits for it.
        """
        if self.client is not None:
            try:
                self.client.sendall(
                    self.header.pack(command, command_id, self.header.size + len(body)) + body
                )
            except OSError:
                self.lose_client()

    def stream_to(self, port: int) -> None:
        """Open the UDP stream to the port that the client has named."""
        if self.client is None:
            return
        if self.udp is not None:
            self.udp.close()
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.setblocking(False)
        try:
            self.udp.bind((self._address[0], 0))
            self.udp.connect((self.client.getpeername()[0], port))
        except OSError:  # it has left already
            self.lose_client()

    def send_datagram(self, data: bytes) -> None:
        """To the client, if one listens; nobody knows whether it arrives."""
        if self.udp is not None:
            with contextlib.suppress(OSError):
                self.udp.send(data)

    def drop(self) -> None:
        """Close the connection and the stream, if there are any."""
        for each in (self.client, self.udp):
            if each is not None:
                each.close()
        self.client = self.udp = None
        self._buffer = b""

    def close(self) -> None:
        """Stop listening; a client that is there stays."""
        if self._listening is not None:
            self._listening.close()
        self._listening = None


class ArmPort(Listener):
    """Port 1337: requests by TCP; states go out and torques come in by UDP."""

    def __init__(self, host: str, robot: FciRobot, network: Network):
        super().__init__(host, layout.ARM_PORT, layout.ARM_HEADER)
        self._robot, self._network = robot, network
        self._state = np.zeros((), layout.STATE)
        robot.settings_into(self._state)
        self._urdf = robot_urdf().encode()
        self._move_id = 0
        self._answered = 0
        self._recovery: tuple[int, float] | None = None
        self._chance = random.Random(0)

    def settings_changed(self) -> None:
        """Show the robot's settings anew."""
        self._robot.settings_into(self._state)

    def sockets(self) -> list[socket.socket]:
        return super().sockets() + ([self.udp] if self.udp is not None else [])

    def receive(self, ready: list[socket.socket]) -> Array | None:
        """Answer requests; the newest torques that have come, or None."""
        # first of all: the client that leaves makes room for the one that knocks
        for command, command_id, message in self.requests(ready, ARM_SIZES):
            value = np.frombuffer(message, layout.PAYLOAD[command])[0] if message else np.zeros(())
            self._handle(command, command_id, value)
        self.accept(ready)
        return self._torques() if self.udp in ready else None

    def _handle(self, command: Command, command_id: int, value: Array) -> None:
        robot = self._robot
        match command:
            case Command.CONNECT:
                matches = int(value["version"]) == layout.VERSION
                self.reply(
                    command, command_id, layout.CONNECTED.pack(0 if matches else 1, layout.VERSION)
                )
                if matches:
                    self.stream_to(int(value["udp_port"]))
                    self.send_state()
                return
            case Command.MOVE:
                status = int(robot.start_motion(int(value["controller"]), int(value["generator"])))
                self._move_id, self._answered = command_id, robot.message_id
            case Command.STOP_MOVE:
                robot.stop_motion()
                self.report_end()
                status = layout.OK
            case Command.AUTOMATIC_ERROR_RECOVERY:
                self._recovery = command_id, time.monotonic() + robot.recovery_s
                self.report_end()
                return
            case Command.GET_ROBOT_MODEL:
                self.reply(command, command_id, bytes([layout.OK]) + self._urdf)
                return
            case _:
                status = robot.set(command, value)
                robot.settings_into(self._state)
        self.reply(command, command_id, bytes([status]))

    def _torques(self) -> Array | None:
        newest = None
        while self.udp is not None:
            try:
                data = self.udp.recv(2048)
            except OSError:  # nothing is left, or the client's port is closed
                break
            if len(data) != layout.TORQUES.itemsize or self._loses_command():
                continue
            value = np.frombuffer(data, layout.TORQUES)[0]
            if int(value["message_id"]) > self._answered:
                newest, self._answered = value, int(value["message_id"])
        return newest

    def _loses_command(self) -> bool:
        network = self._network
        return self._chance.random() < max(network.loss, network.command_loss)

    def send_state(self) -> None:
        """Send the state of this tick, as far as the network lets it pass."""
        if self.udp is None or self._network.cut:
            return
        self._robot.state_into(self._state)
        if self._chance.random() >= self._network.loss:
            self.send_datagram(self._state.tobytes())

    def report_end(self) -> None:
        """Tell the client how its motion has ended, if it has, and its recovery."""
        if self._recovery is not None and time.monotonic() >= self._recovery[1]:
            command_id, self._recovery = self._recovery[0], None
            self.reply(Command.AUTOMATIC_ERROR_RECOVERY, command_id, bytes([self._robot.recover()]))
        status = self._robot.finished_motion()
        if status is not None:
            self.reply(Command.MOVE, self._move_id, bytes([status]))

    def lose_client(self) -> None:
        """Forget a client that is gone."""
        self._robot.lose_client()
        self._recovery = None
        self.drop()


class HandPort(Listener):
    """Port 1338: commands by TCP, each answered when the hand is through; the width by UDP, 30
    times a second.
    """

    def __init__(self, host: str, hand: Hand, network: Network):
        super().__init__(host, layout.HAND_PORT, layout.HAND_HEADER)
        self._hand, self._network = hand, network
        self._pending: tuple[HandCommand, int] | None = None
        self._ticks = 0

    def receive(self, ready: list[socket.socket]) -> None:
        """Take up commands."""
        for command, command_id, message in self.requests(ready, HAND_SIZES):
            self._handle(command, command_id, layout.HAND_PAYLOAD[command].unpack(message))
        self.accept(ready)

    def _handle(self, command: HandCommand, command_id: int, values: tuple[float, ...]) -> None:
        hand = self._hand
        if command == HandCommand.CONNECT:
            matches = values[0] == layout.HAND_VERSION
            body = layout.HAND_CONNECTED.pack(0 if matches else 1, layout.HAND_VERSION)
            self.reply(command, command_id, body)
            if matches:
                self.stream_to(int(values[1]))
                self._send_state()
            return
        if command == HandCommand.STOP:
            hand.stop()
            self._report_end()
            self.reply(command, command_id, layout.HAND_ANSWER.pack(HandOutcome.SUCCESS))
            return
        if self._pending is not None:
            hand.stop()
            self._report_end()
        match command:
            case HandCommand.HOMING:
                hand.home()
            case HandCommand.MOVE:
                hand.move(values[0], values[1])
            case HandCommand.GRASP:
                hand.grasp(*values)
        self._pending = (command, command_id)

    def step(self) -> None:
        """One millisecond of the hand."""
        if not self._hand.has_world:
            self._hand.step(layout.TICK_S)
        self._report_end()
        self._ticks += 1
        if self._ticks % HAND_EVERY_TICKS == 0:
            self._send_state()

    def _report_end(self) -> None:
        if self._pending is not None and self._hand.outcome is not None:
            self.reply(*self._pending, layout.HAND_ANSWER.pack(self._hand.outcome))
            self._pending = None

    def _send_state(self) -> None:
        hand = self._hand
        if not self._network.cut:
            self.send_datagram(
                layout.HAND_STATE.pack(
                    self._ticks + 1, hand.width, hand.max_width, hand.grasped, 30
                )
            )

    def lose_client(self) -> None:
        """Forget a client that is gone; a movement under way ends."""
        self._hand.stop()
        self._pending = None
        self.drop()
