"""Sockets: what all links share. Within a machine only this user reaches them; tcp is encrypted,
and asks who comes.

Every socket of the project is made, bound and connected here, with every option set before bind or
connect. How an address is written, and where local ones are: `address.py`. Whose keys: `keys.py`.
Who may come in: `allow_list.py`.
"""

import contextlib
import errno
import math
import os
import resource
import time
from collections.abc import Iterator, Sequence
from typing import Any

import zmq

from robot_rl.links.address import Address, LocalListener, new_name, parse_address, path_of
from robot_rl.links.allow_list import guard
from robot_rl.links.curve_monitor import BREAKING_S, Handshake
from robot_rl.links.flood import GuardedPort
from robot_rl.links.keys import SELF, KeyPair, Keyring
from robot_rl.types import LinkError

ANY_PORT = "local://*"
"""Bind here for an address that nobody has; `bind` returns it."""

HANDSHAKE_MS = 10_000
"""How long a connection has to say who it is."""

HALF_OPEN_S = 20
"""How long a TCP connection lives on whose other side is gone without a word."""

_SKIPPED_AT_ONCE = 200
"""Frames of a message that is passed over, taken at one call: 0.1 ms."""

_SLACK = 1 << 16
"""Bytes of ZeroMQ's own, and of the encryption, around the messages that may wait."""

_PATIENCE_S = 1.0
_LOOK_S = 0.1
"""How often a wait looks for a problem."""


class LinkSocket(zmq.Socket[bytes]):
    """A socket that knows why it has no connection, and never waits to send. Used by one thread."""

    _handshake: Handshake | None = None
    _peer: str | None = None  # what it is connected to, if it sends and waits for answers
    _most = 0  # bytes that a connection may bring without an end of a message; 0: any
    _door: GuardedPort | None = None
    _skipping = False  # in the midst of a message that has too many frames
    _listener: LocalListener | None = None

    def problem(self, patience_s: float = BREAKING_S) -> str | None:
        """Why the other side will not talk to us, or we not to it; None while it may still come.
        Never blocks.
        """
        return self._handshake.problem(patience_s) if self._handshake else None

    def check(self, patience_s: float = BREAKING_S) -> None:
        """Raise LinkError if there is a `problem`."""
        if problem := self.problem(patience_s):
            raise LinkError(problem)

    def connections(self) -> int:
        """How many connections have come about so far, if this one connects; the last of them may
        be gone.
        """
        self.problem()
        return self._handshake.succeeded if self._handshake else 0

    def wait(self, timeout_s: float, over: float = math.inf) -> bool:
        """Whether a message comes within `timeout_s`. LinkError as soon as there is a `problem`.

        It ends, with False, as soon as there have been more than `over` connections: what went over
        the last of these may be lost with it.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            remaining = max(0.0, deadline - time.monotonic())
            if self.poll(int(1000 * min(remaining, _LOOK_S)) + (remaining > 0.0)):
                return True
            self.check(patience_s=min(remaining, BREAKING_S))
            if remaining == 0.0 or self.connections() > over:
                return False

    def send_multipart(
        self, msg_parts: Sequence[Any], flags: int = 0, *args: Any, **options: Any
    ) -> Any:
        """As ZeroMQ's, but over a new connection if there is none, where that would wait for ever.

        ZeroMQ gives a connection up, for good, when the other side sends what is none of its
        messages, or a larger one than is allowed, or refuses our key. A new one can end that way
        before anything is sent over it: then the message is lost with it, as it is with one that
        ends a moment later.
        """
        if self._peer is None:
            return super().send_multipart(msg_parts, flags, *args, **options)
        try:
            return super().send_multipart(msg_parts, flags | zmq.DONTWAIT, *args, **options)
        except zmq.Again:
            with contextlib.suppress(zmq.ZMQError):  # it may have noticed in the meantime
                self.disconnect(self._peer)  # else it holds that it is connected
            self.connect(self._peer)
            with contextlib.suppress(zmq.Again):
                return super().send_multipart(msg_parts, flags | zmq.DONTWAIT, *args, **options)

    def bound(self, most_bytes: int, waiting: int = 0) -> None:
        """Before bind: nobody's message is larger than this, in all its frames; so many may wait to
        be taken.

        Where none is taken (a publisher), `waiting` is 0: then it is all that a connection may
        bring, but for a trickle. What is larger ends the connection. Over TCP alone whole messages
        can be counted (`flood.py`); frames are in any case.
        """
        self.setsockopt(zmq.MAXMSGSIZE, most_bytes)
        if waiting:
            self.setsockopt(zmq.RCVHWM, waiting)
        self._most = most_bytes * (waiting + 1) + _SLACK

    def recv_bounded(self, most_frames: int) -> "list[zmq.Frame] | None":
        """The next message, its sender's name in front; None if it has more frames: it is passed
        over.

        Some frames of it at each call, so that no call takes long.
        """
        frames: list[zmq.Frame] = []
        while len(frames) < (_SKIPPED_AT_ONCE if self._skipping else most_frames):
            frames.append(self.recv(copy=False))
            if not frames[-1].more:
                was_skipped, self._skipping = self._skipping, False
                if self._door is not None:
                    self._door.take(frames[-1])
                return None if was_skipped else frames
        self._skipping = True
        return None

    def close(self, linger: int | None = None) -> None:
        if self._door is not None:
            self._door.close()
            self._door = None
        if self._handshake is not None:
            self._handshake.close()
            self._handshake = None
        if self._listener is not None:
            self._listener.remove()
            self._listener = None
        super().close(linger)


def new_socket(kind: int, linger_s: float = 0.0) -> LinkSocket:
    """A socket with the options that every link wants.

    `linger_s` is how long closing waits for what is still to be sent: zero wherever the other side
    can ask again.
    """
    socket: LinkSocket = zmq.Context.instance().socket(kind, socket_class=LinkSocket)  # type: ignore[arg-type]
    socket.setsockopt(zmq.LINGER, int(1000 * linger_s))
    socket.setsockopt(zmq.RECONNECT_IVL, 50)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 500)
    socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)  # ends those that never say who they are
    _end_half_open(socket)
    return socket


def bind(socket: LinkSocket, address: str) -> str:
    """Bind and return the address that it became; the socket is closed if that fails.

    An address that is taken is tried for `_PATIENCE_S`: ZeroMQ lets go of a port some time after
    its socket was closed, and a service that restarts wants its own back. LinkError if it stays
    taken, if other users could reach it, or if it needs keys and there are none; loopback's are
    made.
    """
    deadline = time.monotonic() + _PATIENCE_S
    with _closed_on_error(socket):
        where = parse_address(address)
        if where.name == "*":
            where = parse_address(f"local://{new_name()}")
        if where.machine not in ("", SELF):
            raise LinkError(
                f"'{address}': to listen, the only machine that can be named is '{SELF}'"
            )
        if not where.is_local:
            guard(socket, Keyring(), alone=where.is_loopback)
            socket._door = GuardedPort(socket, socket._most)
        while True:
            try:
                return _listen(socket, where)
            except (OSError, zmq.ZMQError) as error:
                if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                    raise LinkError(f"cannot listen at {address}: {error.strerror}. Is another run using it? Stop that "
                                    "run, or give this one another address") from error  # fmt: skip
                time.sleep(0.02)


def _listen(socket: LinkSocket, where: Address) -> str:
    """Listen there and return the address as clients write it. OSError if that cannot be."""
    if where.is_local:
        socket._listener = LocalListener(where.name)
        # bound already: ZeroMQ would take a living one's file
        socket.setsockopt(zmq.USE_FD, socket._listener.detach())
        socket.bind(f"ipc://{path_of(where.name)}")
        return where.endpoint
    assert socket._door is not None
    socket.bind(where.endpoint)
    socket._door.open()
    bound: bytes = socket.getsockopt(zmq.LAST_ENDPOINT)  # type: ignore[assignment]
    return (
        bound
        .rstrip(b"\x00")
        .decode()
        .replace("://", f"://{where.machine}{'@' if where.machine else ''}", 1)
    )


def connect(socket: LinkSocket, address: str) -> None:
    """Connect, now or whenever the other side comes up; the socket is closed if the address or a
    key is wrong.

    LinkError if the address needs keys and this machine has none, or does not know the other's; and
    if other users could have their hands in a local one.
    """
    with _closed_on_error(socket):
        where = _reachable(address)
        machine, endpoint = "", where.endpoint
        if where.is_local:
            endpoint = f"ipc://{path_of(where.name)}"
        else:
            pair, machine, server = _keys_for(where)
            socket.setsockopt(zmq.CURVE_SECRETKEY, pair.secret)
            socket.setsockopt(zmq.CURVE_PUBLICKEY, pair.public)
            socket.setsockopt(zmq.CURVE_SERVERKEY, server)
        socket._handshake = Handshake(socket, where, machine)
        try:
            socket.connect(endpoint)
        except zmq.ZMQError as error:
            raise LinkError(
                f"'{address}' is no address: {error.strerror}; write it as tcp://HOST:PORT"
            ) from error
        if socket.type == zmq.DEALER:
            socket._peer = endpoint


def _end_half_open(socket: LinkSocket) -> None:
    """Connections whose other side is gone without a word (a cable, a machine without power) end
    within `HALF_OPEN_S`.

    By the kernel: nobody sends ZeroMQ's heartbeats. ZeroMQ (4.3.5) ends the process, "Assertion
    failed: !_io_error", when it is to send or answer one on a connection that has brought more than
    may wait (a learner that pretrains takes nothing for minutes) and has broken since.
    """
    for option, value in (
        (zmq.TCP_KEEPALIVE, 1),
        (zmq.TCP_KEEPALIVE_IDLE, HALF_OPEN_S // 2),
        (zmq.TCP_KEEPALIVE_INTVL, HALF_OPEN_S // 10),
        (zmq.TCP_KEEPALIVE_CNT, 5),
        (zmq.TCP_MAXRT, 1000 * HALF_OPEN_S),  # while something that was sent is not acknowledged
    ):
        socket.setsockopt(option, value)


def check_address(address: str) -> str:
    """The address, if `connect` would take it; else its LinkError, in the thread of the
    caller.
    """
    where = _reachable(address)
    if where.is_local:
        path_of(where.name)
    else:
        _keys_for(where)
    return address


def _keys_for(where: Address) -> tuple[KeyPair, str, bytes]:
    """This machine's pair, and name and public key of the machine there."""
    keys = Keyring()
    if where.is_loopback:
        pair = keys.make()
        return pair, SELF, pair.public
    return keys.require_own(), *keys.server(where.machine, where.host)


def _reachable(address: str) -> Address:
    where = parse_address(address)
    if where.is_all_interfaces or where.name == "*":
        raise LinkError(
            f"'{address}' is an address to listen at; to connect, name the machine: tcp://HOST:PORT"
        )
    return where


@contextlib.contextmanager
def _closed_on_error(socket: LinkSocket) -> Iterator[None]:
    try:
        yield
    except BaseException:
        socket.close()
        raise


def free_addresses(count: int) -> list[str]:
    """Distinct addresses within this machine that nobody has, for processes that are still to be
    started.
    """
    return [f"local://{new_name()}" for _ in range(count)]


def allow_many_files() -> None:
    """Let this process have as many open files, and so connections, as the system lets it (often
    1024 to begin with).

    A connection of a stranger takes one until it has said who it is, or its time for that is up.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Wakeup:
    """Wakes a thread that polls sockets: any thread may `set`, the polling one registers `fd` and
    calls `clear`.
    """

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def set(self) -> None:
        os.eventfd_write(self.fd, 1)

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.fd)

    def close(self) -> None:
        os.close(self.fd)
