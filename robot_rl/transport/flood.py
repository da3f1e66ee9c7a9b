"""A message is bounded in all its frames: who brings more, without an end of it, is hung up on.

ZeroMQ bounds single frames (MAXMSGSIZE). The frames of one message it keeps until the last of them is there, however
many come, and nobody sees them before. But the kernel counts the bytes that a TCP connection has brought (TCP_INFO,
`tcpi_bytes_received`). What has come since the last message that was taken from a connection is a message without an
end, if it is more than may wait there; the connection is then shut down, which gives its memory back.

A socket of the file system (ipc) has no such count: its folder lets in nobody but the user that runs this.
"""

import contextlib
import itertools
import logging
import os
import socket as system_socket
import struct
import threading
import time

import zmq

from robot_rl.transport.seldom import Seldom

log = logging.getLogger(__name__)
_seldom = Seldom(log)

LOOK_S = 0.05
TRICKLE = 1024
"""[B/s] that a connection may bring besides: subscriptions that are said again."""

_RECEIVED = struct.Struct("=Q")
_RECEIVED_AT = 128  # of tcpi_bytes_received in struct tcp_info (linux/tcp.h)
_SO_COOKIE = 57  # asm-generic/socket.h: a number that no other socket of this machine has or will have
_COOKIE = struct.Struct("=Q")
_EVENT = struct.Struct("=Hi")
_lock = threading.Lock()
_doors: "list[Door]" = []
_watching: int | None = None  # the process whose thread looks: after a fork there is none
_numbers = itertools.count()


class Door:
    """The connections of one socket that listens at a TCP port. A thread of the process looks at them."""

    def __init__(self, socket: "zmq.Socket[bytes]", port: int, most: int):
        """`most`: bytes that a connection may have brought since a message was `taken` from it."""
        self._socket, self._port, self._most = socket, port, most
        # by file number: its cookie, and when and at how many bytes the last message was taken
        self._known: dict[int, tuple[int, int, float]] = {}
        self._taken: set[int] = set()
        place = f"inproc://door-{next(_numbers)}"
        socket.monitor(place, zmq.EVENT_ACCEPTED)
        self._events: zmq.Socket[bytes] = socket.context.socket(zmq.PAIR)
        self._events.setsockopt(zmq.RCVHWM, 0)  # a full queue would stop ZeroMQ's own thread, and so every link
        self._events.setsockopt(zmq.LINGER, 0)
        self._events.connect(place)

    def take(self, last: zmq.Frame) -> None:
        """A whole message has come; this is its last frame."""
        with contextlib.suppress(zmq.ZMQError):  # it came from no connection
            self._taken.add(int(last.get(zmq.SRCFD)))

    def close(self) -> None:
        """Before the socket is closed."""
        with _lock:
            with contextlib.suppress(ValueError):
                _doors.remove(self)
            self._socket.disable_monitor()
            self._events.close(0)

    def look(self) -> None:
        """Hang up on whoever has brought too much. By the watching thread, or a test in its place."""
        now = time.monotonic()
        while self._events.poll(0):
            _, number = _EVENT.unpack(self._events.recv_multipart()[0])
            self._known[number] = (0, 0, now)
        taken, self._taken = self._taken, set()
        for number, (cookie, mark, since) in list(self._known.items()):
            try:
                with _connection(number) as connection:
                    brought = self._brought(connection, cookie)
                    if brought is None:
                        del self._known[number]
                    elif number in taken or not cookie:
                        mark = brought[1] if number in taken else 0
                        self._known[number] = (brought[0], mark, now)
                    elif brought[1] - mark > self._most + TRICKLE * (now - since):
                        del self._known[number]
                        connection.shutdown(system_socket.SHUT_RDWR)
                        _seldom.warning(
                            "a connection to port %d is hung up on: it brought %d bytes without an end of a message; "
                            "at most %d are allowed", self._port, brought[1] - mark, self._most,
                        )  # fmt: skip
            except OSError:
                self._known.pop(number, None)  # closed by now

    def _brought(self, connection: system_socket.socket, cookie: int) -> tuple[int, int] | None:
        """Its cookie and how many bytes it has brought; None if the file number is another connection's by now."""
        own = _COOKIE.unpack(connection.getsockopt(system_socket.SOL_SOCKET, _SO_COOKIE, _COOKIE.size))[0]
        info = connection.getsockopt(system_socket.IPPROTO_TCP, system_socket.TCP_INFO, 256)
        if connection.getsockname()[1] != self._port or cookie not in (0, own) or len(info) < _RECEIVED_AT + 8:
            return None
        return own, _RECEIVED.unpack_from(info, _RECEIVED_AT)[0]


def watch(socket: "zmq.Socket[bytes]", endpoint: str, most: int) -> Door | None:
    """Let nobody bring more than `most` bytes to this socket, bound to `endpoint`, without an end of a message.

    None where that cannot be counted, as the endpoint is no TCP port.
    """
    global _watching
    if not endpoint.startswith("tcp://"):
        return None
    door = Door(socket, int(endpoint.rpartition(":")[2]), most)
    with _lock:
        if _watching != os.getpid():
            _watching = os.getpid()
            _doors.clear()
            threading.Thread(target=_run, name="flood", daemon=True).start()
        _doors.append(door)
    return door


def _connection(number: int) -> system_socket.socket:
    """A second handle of a connection: the file number may become another's meanwhile, this cannot. OSError."""
    own = os.dup(number)
    try:
        return system_socket.socket(fileno=own)
    except OSError:
        os.close(own)
        raise


def _run() -> None:
    while True:
        time.sleep(LOOK_S)
        with _lock:
            for door in _doors:
                try:
                    door.look()
                except zmq.ZMQError as error:  # its socket is gone
                    _seldom.warning("a port is watched no more: %s", error)
                    _doors.remove(door)
                    break
