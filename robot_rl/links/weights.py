"""The weights link: the newest parameters, from the learner to the actors. Latest only, never a
queue.

One frame: magic, CRC-32C of what follows, publisher, version, version of the learned judge, hash
of the layout | named arrays.
`publisher` is drawn anew by each process, so that after a restart an older version is taken for
what it is: what the learner now has.

Only what learning changes travels here, as float32: 320 kB from state, 450 kB with a frozen encoder
(whose 2.2 MB go once, with the call `policy`), 2.5 MB with one that is renewed or trained end to
end. Half precision would save 2 to 10 ms on a network of 1 Gbit/s, beside what the arm does, and
the policy that acts would not be the one that a checkpoint holds.
"""

import hashlib
import logging
import secrets
import struct
import threading
import time
from collections.abc import Mapping

import numpy as np
import zmq

from robot_rl import packing
from robot_rl.links.seldom import Seldom
from robot_rl.links.sockets import ANY_PORT, Wakeup, bind, connect, new_socket
from robot_rl.packing import crc32c
from robot_rl.types import Array, DataError, LinkError

log = logging.getLogger(__name__)
_seldom = Seldom(log)

_PREFIX = struct.Struct("<4sI")  # magic, checksum
_HEADER = struct.Struct("<QqqQ")  # publisher, version, the judge's version, hash of the layout
_START = _PREFIX.size + _HEADER.size
_MAGIC = b"RRw4"
_NUDGE_S = 0.4
PATIENCE_S = 60.0
"""For so long an actor on a real clock goes on with the weights that it has while only such come
that it refuses.
"""

_MAX_SUBSCRIPTION = 1 << 12  # bytes: all that a subscriber sends
_AGAIN_S = 0.1  # the same version is sent no more often, however many subscribe
_AT_ONCE = 100  # subscriptions between two looks at what there is to send


class WeightsPublisher:
    """The learner's side. `publish` copies the arrays and returns at once; a thread sends.

    A later subscriber is sent the newest version at once, also while the learner computes.
    A subscriber that is slow misses versions and never gets an old one.
    """

    def __init__(self, address: str = ANY_PORT):
        self._socket = new_socket(zmq.XPUB, linger_s=0.2)
        self._socket.setsockopt(zmq.XPUB_VERBOSE, 1)  # else only the first subscriber is announced
        # frames that wait for one slow subscriber: 4 x 20 MB
        self._socket.setsockopt(zmq.SNDHWM, 4)
        self._socket.bound(_MAX_SUBSCRIPTION)
        self.address = bind(self._socket, address)
        self._publisher = secrets.randbits(63)
        self.judge = 0
        """The version of a learned judge that is published beside the parameters; 0: none."""
        self._frame: bytes | None = None
        self._wake = Wakeup()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="weights", daemon=True)
        self._thread.start()

    def publish(self, version: int, parameters: Mapping[str, Array]) -> None:
        """Make these parameters the newest. Raises DataError for a dtype that does not travel."""
        layout = _layout_hash(packing.layout_of(parameters))
        header = _HEADER.pack(self._publisher, version, self.judge, layout)
        pieces = [header, *packing.pack(parameters)]
        crc = 0
        for piece in pieces:
            crc = crc32c(piece, crc)
        self._frame = b"".join([_PREFIX.pack(_MAGIC, crc), *pieces])  # the one copy
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
        joined, again_at = False, 0.0
        while not self._closing:
            waits = joined and self._frame is not None
            poller.poll(1 + int(1000 * max(0.0, again_at - time.monotonic())) if waits else None)
            self._wake.clear()  # from here on a new frame is seen below, or wakes the next round
            for _ in range(_AT_ONCE):
                if not self._socket.poll(0):
                    break
                joined |= self._socket.recv().startswith(b"\x01")
            frame = self._frame
            is_due = joined and time.monotonic() >= again_at
            if frame is not None and (is_due or frame is not sent):
                self._socket.send(frame, copy=False)
                sent, joined, again_at = frame, False, time.monotonic() + _AGAIN_S


class WeightsSubscriber:
    """The actor's side, for one thread. The socket keeps only the newest frame, whatever the actor
    does meanwhile.

    `layout` is that of the parameters that the actor's policy takes; without it, that of the first
    that come. Others, and those with numbers that are not finite, are refused with a warning that
    says why, and what was here before stays. LinkError, from both methods, if nothing else has come
    for `patience_s`, or if the publisher does not trust this machine or is not the one whose key is
    trusted here.
    """

    def __init__(
        self, address: str, layout: packing.Layout | None = None, patience_s: float = PATIENCE_S
    ):
        self._address = address
        self._layout = layout
        self.judge = 0
        """The version of a learned judge that came with the newest parameters; 0: none."""
        self._refused: str | None = None  # why the newest frame was not taken
        self._refused_since = 0.0
        self._patience_s = patience_s
        self._socket = new_socket(zmq.SUB)
        # no effect after connect; and no MAXMSGSIZE beside it (status.py)
        self._socket.setsockopt(zmq.CONFLATE, 1)
        self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        connect(self._socket, address)
        self._newest: tuple[int, dict[str, Array]] | None = None
        self._origin: tuple[int, int] | None = None  # publisher and version of the newest
        self._returned: tuple[int, int] | None = None

    def latest(self) -> tuple[int, dict[str, Array]] | None:
        """Version and parameters, if others came than were returned last. Never blocks; the arrays
        are read-only.
        """
        self._drain()
        if self._refused is not None and time.monotonic() - self._refused_since > self._patience_s:
            raise LinkError(f"the weights from {self._address} cannot be used: {self._refused}")
        if self._origin == self._returned:
            return None
        self._returned = self._origin
        return self._newest

    def wait_for(self, version: int, timeout_s: float) -> tuple[int, dict[str, Array]] | None:
        """The newest parameters as soon as their version is at least `version`; None if that takes
        too long.

        Parameters that were returned before count, and `latest` will still return those that this
        returns first. LinkError if it takes too long because those that come are refused.
        """
        deadline = time.monotonic() + timeout_s
        nudge = time.monotonic() + _NUDGE_S
        self._drain()
        while self._newest is None or self._newest[0] < version:
            now = time.monotonic()
            if now > deadline:
                if self._refused is not None:
                    raise LinkError(
                        f"the weights from {self._address} cannot be used: {self._refused}"
                    )
                return None
            if now > nudge:
                self._ask_again()
                nudge = now + _NUDGE_S
            self._socket.poll(int(1000 * (min(deadline, nudge) - now)) + 1)
            self._drain()
        return self._newest

    def _ask_again(self) -> None:
        """A frame that found the publisher's pipe full was dropped there; who subscribes anew is
        served the newest.
        """
        self._socket.setsockopt(zmq.UNSUBSCRIBE, b"")
        self._socket.setsockopt(zmq.SUBSCRIBE, b"")

    def _drain(self) -> None:
        if self._socket.poll(0):  # it holds the newest alone
            frame = self._socket.recv(copy=False)
            try:
                self._take(*_decode(frame.buffer))
            except DataError as error:
                _seldom.warning("weights from %s passed over: %s", self._address, error)
        self._socket.check()

    def _take(
        self, publisher: int, version: int, judge: int, layout: int, parameters: dict[str, Array]
    ) -> None:
        if self._layout is None:
            self._layout = packing.layout_of(parameters)
        why = ""
        if layout != _layout_hash(self._layout):
            why = _difference(packing.layout_of(parameters), self._layout)
        elif wrong := _not_finite(parameters):
            why = (
                f"'{wrong}' has numbers that are not finite: learning has diverged, see the"
                " learner's log"
            )
        if why:
            if why != self._refused:  # once, not for each version
                log.warning(
                    "weights from %s are refused, the policy stays as it is: %s", self._address, why
                )
            if self._refused is None:
                self._refused_since = time.monotonic()
            self._refused = why
            return
        self._refused = None
        if (publisher, version) != self._origin:
            self._origin, self._newest = (publisher, version), (version, parameters)
            self.judge = judge

    def close(self) -> None:
        self._socket.close()


def _decode(frame: bytes | memoryview) -> tuple[int, int, int, int, dict[str, Array]]:
    """Publisher, both versions, hash of the layout and the parameters; DataError for anything that
    is no frame.
    """
    if len(frame) < _START:
        raise DataError(f"{len(frame)} bytes are no weights")
    magic, crc = _PREFIX.unpack_from(frame)
    if magic != _MAGIC:
        raise DataError(f"weights of an unknown kind {magic!r}; this code reads {_MAGIC!r}")
    if crc32c(memoryview(frame)[_PREFIX.size :]) != crc:
        raise DataError("the checksum of the weights is wrong")
    parameters = packing.unpack(frame, _START)
    publisher, version, judge, layout = _HEADER.unpack_from(frame, _PREFIX.size)
    if layout != _layout_hash(packing.layout_of(parameters)):
        raise DataError("the hash of the weights is not that of their layout")
    return publisher, version, judge, layout, parameters


def _not_finite(parameters: Mapping[str, Array]) -> str | None:
    """The name of the first parameter that has a number which is none."""
    for name, array in parameters.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return name
    return None


def _layout_hash(layout: packing.Layout) -> int:
    """Equal for equal names, dtypes and shapes, whatever their order."""
    digest = hashlib.sha256(packing.encode_layout(sorted(layout))).digest()
    return int.from_bytes(digest[:8], "little")


def _difference(theirs: packing.Layout, ours: packing.Layout) -> str:
    """Both sides of what differs, at most three of them spelled out."""
    sides = [
        {name: f"{dtype} {shape}" for name, dtype, shape in layout} for layout in (theirs, ours)
    ]
    names = [name for name in sides[0] | sides[1] if sides[0].get(name) != sides[1].get(name)]
    parts = [
        f"'{n}' is {sides[0].get(n, 'absent')} there and {sides[1].get(n, 'absent')} here"
        for n in names[:3]
    ]
    more = f", and {len(names) - 3} more" if len(names) > 3 else ""
    return (f"layout {_layout_hash(theirs):016x} there, {_layout_hash(ours):016x} here: {'; '.join(parts)}{more}. "
            "Restart the side whose run or version is the wrong one")  # fmt: skip
