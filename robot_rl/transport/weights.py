"""The weights link: the newest parameters, from the learner to whoever acts. Latest only, never a queue.

One frame: magic, publisher, version, crc32 | named arrays. `publisher` is drawn anew by each process, so that after a
restart an older version is taken for what it is: what the learner now has.
"""

import logging
import secrets
import struct
import threading
import time
import zlib
from collections.abc import Mapping

import zmq

from robot_rl.data import arrays
from robot_rl.transport.endpoint import ANY_PORT, Wakeup, bind, connect, new_socket
from robot_rl.types import Array, DataError

log = logging.getLogger(__name__)

_HEADER = struct.Struct("<4sIQqI4x")
_MAGIC = b"RRw1"
_NUDGE_S = 0.4


class WeightsPublisher:
    """The learner's side. `publish` copies the arrays and returns at once; a thread sends.

    Whoever subscribes later is served the newest version at once, also while the learner computes. A subscriber that
    is slow misses versions and never gets an old one.
    """

    def __init__(self, address: str = ANY_PORT):
        self._socket = new_socket(zmq.XPUB, linger_s=0.2)
        self._socket.setsockopt(zmq.XPUB_VERBOSE, 1)  # else only the first subscriber is announced
        self._socket.setsockopt(zmq.SNDHWM, 4)  # frames that wait for one slow subscriber: 4 x 20 MB
        self.address = bind(self._socket, address)
        self._publisher = secrets.randbits(63)
        self._frame: bytes | None = None
        self._wake = Wakeup()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="weights", daemon=True)
        self._thread.start()

    def publish(self, version: int, parameters: Mapping[str, Array]) -> None:
        """Make these parameters the newest. Raises DataError for a dtype that does not travel."""
        body = b"".join(arrays.pack(parameters))
        header = _HEADER.pack(_MAGIC, 0, self._publisher, version, zlib.crc32(body))
        self._frame = header + body
        self._wake.set()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._wake.set()
            self._thread.join()
            self._socket.close()
            self._wake.close()

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._wake.fd, zmq.POLLIN)
        sent: bytes | None = None
        while not self._closing:
            poller.poll()
            self._wake.clear()  # from here on a new frame is seen below, or wakes the next round
            joined = False
            while self._socket.poll(0):
                joined |= self._socket.recv().startswith(b"\x01")
            frame = self._frame
            if frame is not None and (joined or frame is not sent):
                self._socket.send(frame, copy=False)
                sent = frame


class WeightsSubscriber:
    """The actor's side, for one thread. The socket keeps only the newest frame, whatever the actor does meanwhile."""

    def __init__(self, address: str):
        self._address = address
        self._socket = new_socket(zmq.SUB)
        self._socket.setsockopt(zmq.CONFLATE, 1)  # has no effect after connect
        self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        connect(self._socket, address)
        self._newest: tuple[int, dict[str, Array]] | None = None
        self._origin: tuple[int, int] | None = None  # publisher and version of the newest
        self._returned: tuple[int, int] | None = None

    def latest(self) -> tuple[int, dict[str, Array]] | None:
        """Version and parameters, if others came than were returned last. Never blocks; the arrays are read-only."""
        self._drain()
        if self._origin == self._returned:
            return None
        self._returned = self._origin
        return self._newest

    def wait_for(self, version: int, timeout_s: float) -> tuple[int, dict[str, Array]] | None:
        """The newest parameters as soon as their version is at least `version`; None if that takes too long.

        Parameters that were returned before count, and `latest` will still return those that this returns first.
        """
        deadline = time.monotonic() + timeout_s
        nudge = time.monotonic() + _NUDGE_S
        self._drain()
        while self._newest is None or self._newest[0] < version:
            now = time.monotonic()
            if now > deadline:
                return None
            if now > nudge:
                self._ask_again()
                nudge = now + _NUDGE_S
            self._socket.poll(int(1000 * (min(deadline, nudge) - now)) + 1)
            self._drain()
        return self._newest

    def _ask_again(self) -> None:
        """A frame that found the publisher's pipe full was dropped there; who subscribes anew is served the newest."""
        self._socket.setsockopt(zmq.UNSUBSCRIBE, b"")
        self._socket.setsockopt(zmq.SUBSCRIBE, b"")

    def _drain(self) -> None:
        while self._socket.poll(0):
            frame = self._socket.recv()
            try:
                publisher, version, parameters = _decode(frame)
            except DataError as error:
                log.warning("weights from %s passed over: %s", self._address, error)
                continue
            if (publisher, version) != self._origin:
                self._origin, self._newest = (publisher, version), (version, parameters)

    def close(self) -> None:
        self._socket.close()


def _decode(frame: bytes) -> tuple[int, int, dict[str, Array]]:
    if len(frame) < _HEADER.size:
        raise DataError(f"{len(frame)} bytes are no weights")
    magic, _, publisher, version, crc = _HEADER.unpack_from(frame)
    if magic != _MAGIC:
        raise DataError(f"weights of an unknown kind {magic!r}; this code reads {_MAGIC!r}")
    if zlib.crc32(memoryview(frame)[_HEADER.size :]) != crc:
        raise DataError("the checksum of the weights is wrong")
    return publisher, version, arrays.unpack(frame, _HEADER.size)
