"""Addresses and sockets: what all links share. Loopback only, and every option is set before bind or connect."""

import contextlib
import errno
import os
import socket as system_socket
import time

import zmq

from robot_rl.types import LinkError

ANY_PORT = "tcp://127.0.0.1:*"
"""Bind here for a free port; `bind` returns the address that it became."""

_PATIENCE_S = 1.0
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")


def check_local(address: str) -> str:
    """The address, if only this machine can reach it; else LinkError."""
    scheme, _, rest = address.partition("://")
    if scheme in ("ipc", "inproc") and rest:
        return address
    host, _, port = rest.rpartition(":")
    if scheme != "tcp" or not host or not (port == "*" or (port.isdecimal() and int(port) < 65536)):
        raise LinkError(f"'{address}' is no address; write it as tcp://127.0.0.1:PORT")
    if host not in _LOCAL_HOSTS:
        raise LinkError(
            f"address {address} is not on this machine. Links to other machines need encryption keys, which come in a "
            f"later version; until then use tcp://127.0.0.1:{port}, and a tunnel of your own (ssh -L) between machines"
        )
    return address


def new_socket(kind: int, linger_s: float = 0.0) -> zmq.Socket[bytes]:
    """A socket with the options that every link wants.

    `linger_s` is how long closing waits for what is still to be sent: zero wherever the other side can ask again.
    """
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(kind)
    socket.setsockopt(zmq.LINGER, int(1000 * linger_s))
    socket.setsockopt(zmq.RECONNECT_IVL, 50)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 500)
    socket.setsockopt(zmq.HEARTBEAT_IVL, 2000)  # ends half-open connections
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 10000)
    return socket


def bind(socket: zmq.Socket[bytes], address: str) -> str:
    """Bind and return the address with the port it got; the socket is closed if that fails.

    A port that is taken is tried for `_PATIENCE_S`: ZeroMQ lets go of one some time after its socket was closed, and a
    service that restarts wants its own back.
    """
    deadline = time.monotonic() + _PATIENCE_S
    try:
        check_local(address)
        while True:
            try:
                socket.bind(address)
                return socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\x00").decode()  # type: ignore[union-attr]
            except zmq.ZMQError as error:
                if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
    except zmq.ZMQError as error:
        socket.close()
        raise LinkError(f"cannot listen at {address}: {error.strerror}. Is another run using it? Stop that run, or "
                        "give this one other ports") from error  # fmt: skip
    except LinkError:
        socket.close()
        raise


def connect(socket: zmq.Socket[bytes], address: str) -> None:
    """Connect, now or whenever the other side comes up; the socket is closed if the address is wrong."""
    try:
        socket.connect(check_local(address))
    except zmq.ZMQError as error:
        socket.close()
        raise LinkError(f"'{address}' is no address: {error.strerror}; write it as tcp://127.0.0.1:PORT") from error
    except LinkError:
        socket.close()
        raise


def free_addresses(count: int) -> list[str]:
    """Distinct loopback addresses that nobody uses at the moment."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(system_socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [f"tcp://127.0.0.1:{probe.getsockname()[1]}" for probe in probes]


class Wakeup:
    """Wakes a thread that polls sockets: any thread may `set`, the polling one registers `fd` and calls `clear`."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def set(self) -> None:
        os.eventfd_write(self.fd, 1)

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.fd)

    def close(self) -> None:
        os.close(self.fd)
