"""Why a connection does not come about: what ZeroMQ tells a client about its handshakes, in words.

Without this a refusal is a silence: ZeroMQ tries again and again, and the caller waits until its
time is up.
"""

import math
import struct
import time
from itertools import count

import zmq

from robot_rl.links.address import Address
from robot_rl.links.keys import SELF

BREAKING_S = 3.0
"""How long handshakes have to break off until the other side is taken for the wrong one: a restart
of the other side, or of a proxy between, looks the same for a moment."""

EVENT = struct.Struct("=Hi")
"""What ZeroMQ tells of a socket: an event, and a value that goes with it."""

_EVENTS = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)
_numbers = count()


def events_of(socket: "zmq.Socket[bytes]", events: int) -> "zmq.Socket[bytes]":
    """Where ZeroMQ tells such events of a socket. Closed after `disable_monitor`, and before the
    socket is.

    In this order: an event that nobody can take would stop ZeroMQ's own thread, and so every link.
    So would a full queue: this one has no bound.
    """
    place = f"inproc://events-{next(_numbers)}"
    socket.monitor(place, events)
    told: zmq.Socket[bytes] = socket.context.socket(zmq.PAIR)
    told.setsockopt(zmq.RCVHWM, 0)
    told.setsockopt(zmq.LINGER, 0)
    told.connect(place)
    return told


class Handshake:
    """Watches the handshakes of one socket. Made before it connects, by the thread that uses it.

    `machine` is the name under which the other side's key is trusted, empty for a local socket.
    """

    def __init__(self, socket: "zmq.Socket[bytes]", address: Address, machine: str):
        self._socket, self._address, self._machine = socket, address, machine
        self._breaking_since = math.inf
        self._problem: str | None = None
        self.succeeded = 0
        """How many handshakes, by the last look at the `problem`."""
        self._events = events_of(socket, _EVENTS)

    def problem(self, patience_s: float = BREAKING_S) -> str | None:
        """What is wrong with the newest handshakes, if time will not mend it. Never blocks.

        Those that break off are wrong when they have done so for `patience_s`.
        """
        while self._events.poll(0):
            event, value = EVENT.unpack(self._events.recv_multipart()[0])
            self._take(event, value)
        if self._problem is None and time.monotonic() - self._breaking_since >= patience_s:
            begin = (
                f"each handshake with {self._address.endpoint} breaks off: the machine there does"
                " not have the key "
            )
            if self._machine == SELF:
                return begin + "of this user here. Another user, or another program, listens there"
            return begin + (f"that is trusted as '{self._machine}'. Compare `robot-rl keys` there with "
                            "`robot-rl keys --list` here")  # fmt: skip
        return self._problem

    def close(self) -> None:
        """Before the socket is closed."""
        self._socket.disable_monitor()
        self._events.close(0)

    def _take(self, event: int, value: int) -> None:
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._breaking_since, self._problem = math.inf, None
            self.succeeded += 1
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            self._problem = (
                f"{self._address.endpoint} refuses this machine's key: it does not trust it. Run"
                " `robot-rl keys` here; it prints the line to run there"
            )
        elif event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:  # ZeroMQ does not try again after this
            if value == zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH:
                self._problem = (f"{self._address.endpoint} speaks without keys: another program listens there, or "
                                 "another version of this one")  # fmt: skip
            else:
                self._problem = (f"what listens at {self._address.endpoint} is not the service that is wanted there: "
                                 "is the port right, and does another program use it?")  # fmt: skip
        elif self._machine:
            self._breaking_since = min(self._breaking_since, time.monotonic())
