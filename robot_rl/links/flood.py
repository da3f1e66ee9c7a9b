"""What strangers may bring to a TCP port: so many connections, and so many bytes without an end of
a message.

**Bytes.** ZeroMQ bounds single frames (MAXMSGSIZE). The frames of one message it keeps until the
last of them is there, however many come, and nobody sees them before. But the kernel counts the
bytes that a TCP connection has brought (TCP_INFO, `tcpi_bytes_received`). What has come since the
last message that was taken from a connection is a message without an end, if it is more than may
wait there; the connection is then shut down, which gives its memory back.

**Connections.** A connection is a file of this process from the first moment on, and one that never
says who it is keeps it for `HANDSHAKE_MS` (`sockets.py`). Without a bound there would soon be a
log or a checkpoint that cannot be opened. While half of the files that the process may have open
are taken, the system itself drops the next connection (a filter of socket(7), which needs no
rights): those that are connected go on, and a robot that comes just then tries again by itself
until there is room. ZeroMQ lets hundreds in within milliseconds, so the files are counted whenever
somebody is at the door, and between looks at two connections.

A socket of the file system (ipc) has no such count: its folder lets in nobody but the user that
runs this.
"""

import contextlib
import ctypes
import logging
import os
import resource
import select
import socket as system_socket
import struct
import threading
import time
from collections.abc import Iterator

import zmq

from robot_rl.links.curve_monitor import EVENT, events_of
from robot_rl.links.seldom import Seldom

log = logging.getLogger(__name__)
_seldom, _full = Seldom(log), Seldom(log)

LOOK_S = 0.05
"""How often it is looked what the connections have brought."""
_COUNT_S = 0.001
"""How often the files of the process are counted while somebody is at a door."""
TRICKLE = 1024
"""[B/s] that a connection may bring besides: subscriptions that are said again."""

_RECEIVED = struct.Struct("=Q")
_RECEIVED_AT = 128  # of tcpi_bytes_received in struct tcp_info (linux/tcp.h)
_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27  # asm-generic/socket.h
_SO_COOKIE = 57  # the same: a number that no other socket of this machine has or will have
_COOKIE = struct.Struct("=Q")
# one instruction: return 0 bytes (bpf.h)
_DROP = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
_DROP_ALL = struct.pack("HP", 1, ctypes.addressof(_DROP))
_lock = threading.Lock()
_doors: "list[GuardedPort]" = []
_watching: int | None = None  # the process whose thread looks: after a fork there is none


class GuardedPort:
    """The TCP port at which a socket listens, and its connections. A thread of the process looks at
    them.
    """

    def __init__(self, socket: "zmq.Socket[bytes]", most: int):
        """Before the socket is bound. `most`: bytes that a connection may have brought since a
        message was `taken` from it; 0: any."""
        self._socket, self._most = socket, most
        # by file number: its cookie, and when and at how many bytes the last message was taken
        self._known: dict[int, tuple[int, int, float]] = {}
        self._taken: set[int] = set()
        self._listener: system_socket.socket | None = None
        self._is_shut = False
        self._events = events_of(socket, zmq.EVENT_LISTENING | zmq.EVENT_ACCEPTED)

    def open(self) -> int:
        """When the socket is bound: look after it from now on; returns its port."""
        global _watching
        _, number = EVENT.unpack(self._events.recv_multipart()[0])
        self._listener = system_socket.socket(fileno=os.dup(number))
        self._port: int = self._listener.getsockname()[1]
        with _lock:
            if _watching != os.getpid():
                _watching = os.getpid()
                _doors.clear()
                threading.Thread(target=_run, name="flood", daemon=True).start()
            _doors.append(self)
        return self._port

    def fileno(self) -> int:
        """Of where it listens: it can be read when somebody wants to come in. Once it is open."""
        assert self._listener is not None
        return self._listener.fileno()

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
            if self._listener is not None:
                self._listener.close()

    def shut(self, is_shut: bool) -> None:
        """Let nobody else in, or let them in again."""
        if is_shut == self._is_shut or self._listener is None:
            return
        self._is_shut = is_shut
        # a system without such filters: EMFILE is then ZeroMQ's to survive
        with contextlib.suppress(OSError):
            if is_shut:
                self._listener.setsockopt(system_socket.SOL_SOCKET, _SO_ATTACH_FILTER, _DROP_ALL)
            else:
                self._listener.setsockopt(system_socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)

    def look(self, files: "_Files") -> Iterator[None]:
        """Hang up on each connection that has brought too much, one at each step. The watching
        thread takes them.
        """
        now = time.monotonic()
        while self._events.poll(0):
            _, number = EVENT.unpack(self._events.recv_multipart()[0])
            if self._most:
                self._known[number] = (0, 0, now)
        taken, self._taken = self._taken, set()
        for number, (cookie, mark, since) in list(self._known.items()):
            try:
                with files.second(number) as connection:
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
            yield

    def _brought(self, connection: system_socket.socket, cookie: int) -> tuple[int, int] | None:
        """Its cookie and how many bytes it has brought; None if the file number is another
        connection's by now.
        """
        own = _COOKIE.unpack(
            connection.getsockopt(system_socket.SOL_SOCKET, _SO_COOKIE, _COOKIE.size)
        )[0]
        info = connection.getsockopt(system_socket.IPPROTO_TCP, system_socket.TCP_INFO, 256)
        if (
            connection.getsockname()[1] != self._port
            or cookie not in (0, own)
            or len(info) < _RECEIVED_AT + 8
        ):
            return None
        return own, _RECEIVED.unpack_from(info, _RECEIVED_AT)[0]


def _run() -> None:
    files, next_look = _Files(), time.monotonic()
    while True:
        _wait_at_doors(next_look - time.monotonic())
        with _lock:
            files.bound()
            if time.monotonic() < next_look:
                continue
            for door in list(_doors):
                try:
                    for _ in door.look(files):
                        files.bound()
                except zmq.ZMQError as error:  # its socket is gone
                    _seldom.warning("a port is watched no more: %s", error)
                    _doors.remove(door)
        next_look = time.monotonic() + LOOK_S


def _wait_at_doors(timeout_s: float) -> None:
    """Until somebody wants to come in; at most `timeout_s`, and no shorter than `_COUNT_S`."""
    time.sleep(_COUNT_S)
    somebody = select.poll()
    with _lock:
        for door in _doors:
            somebody.register(door, select.POLLIN)
    somebody.poll(max(0.0, 1000.0 * (timeout_s - _COUNT_S)))


class _Files:
    """How many files this process has open, which decides whether its doors are shut.

    As many as the number of the next one says, or more: files that were closed have left holes. The
    thread that counts leaves none: `second` keeps its number.
    """

    def __init__(self) -> None:
        self._nothing, self._second = (os.eventfd(0, os.EFD_CLOEXEC) for _ in range(2))
        self._was_full = False

    def bound(self) -> None:
        """Shut the doors while half of the files are taken. Under the lock."""
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        is_full = self._next(most) > most // 2
        for door in _doors:
            door.shut(is_full)
        if is_full and not self._was_full:
            _full.warning("half of the %d files that this process may open are taken, by connections of strangers as "
                          "it seems: nobody else is let in until there is room", most)  # fmt: skip
        self._was_full = is_full

    def _next(self, most: int) -> int:
        try:
            fd = os.dup(self._nothing)
        except OSError:
            return most
        os.close(fd)
        return fd

    @contextlib.contextmanager
    def second(self, number: int) -> Iterator[system_socket.socket]:
        """A second handle of a connection: the file number may become another's meanwhile, this
        cannot. OSError if it is one by now that is no connection.
        """
        os.dup2(number, self._second, inheritable=False)
        try:
            connection = system_socket.socket(fileno=self._second)
            try:
                yield connection
            finally:
                connection.detach()
        finally:
            os.dup2(self._nothing, self._second, inheritable=False)
