"""The steps link: every step of an actor reaches the learner's log exactly once and in order, over crashes of the link.

A step's identity is (actor, epoch, seq); the epoch is drawn anew by each actor process. The learner takes only the
next seq of an epoch, appends it to its log, and then acknowledges: acknowledged means persisted. The actor keeps what
is not acknowledged; after a second without progress it goes back to the first of these, over a new socket, and asks
the learner where its log ends. So a learner may be killed at any moment and resumed from its log.

Frames: header (magic, kind, seq, crc32 of the body) | body. Actor to learner: HELLO (JSON), STEP (the codec's bytes).
Learner to actor: POSITION and ACK (seq = the last one persisted, -1 for none), REFUSED (the reason).
"""

import json
import logging
import secrets
import struct
import threading
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import zmq

from robot_rl.data.codec import SCHEMA, StepCodec, space_hash
from robot_rl.data.records import check_actor
from robot_rl.transport.endpoint import Wakeup, bind, check_local, connect, new_socket
from robot_rl.types import DataError, Identity, LinkError, SpaceSpec, Step

log = logging.getLogger(__name__)

_HEADER = struct.Struct("<4sB3xqI4x")
_MAGIC = b"RRs1"
_MAX_ROUTES = 256


class _Kind(IntEnum):
    HELLO = 1
    STEP = 2
    POSITION = 3
    ACK = 4
    REFUSED = 5


def _message(kind: _Kind, seq: int, body: bytes = b"") -> list[bytes]:
    return [_HEADER.pack(_MAGIC, kind, seq, zlib.crc32(body)), body]


def _parse(frames: list[bytes]) -> tuple[_Kind, int, bytes]:
    """Kind, seq and body; DataError for anything else."""
    if len(frames) != 2 or len(frames[0]) != _HEADER.size:
        raise DataError(f"{len(frames)} frames that are no message of the steps link")
    magic, kind, seq, crc = _HEADER.unpack(frames[0])
    if magic != _MAGIC or kind not in set(_Kind):
        raise DataError(f"a message of an unknown kind {magic!r} {kind}")
    if zlib.crc32(frames[1]) != crc:
        raise DataError(f"the checksum of message {seq} is wrong")
    return _Kind(kind), seq, frames[1]


def _checked_hello(hello: Any) -> tuple[str, int, int, Any, Any]:
    """Actor, epoch, first seq, schema and space of a HELLO; DataError."""
    try:
        actor, epoch, first = hello["actor"], hello["epoch"], hello["first"]
        schema, space = hello["schema"], hello["space"]
        check_actor(actor)
    except (TypeError, KeyError, AttributeError) as error:
        raise DataError(f"a damaged greeting: {error!r}") from error
    if type(epoch) is not int or type(first) is not int or not 0 <= epoch < 2**63 or first < 0:
        raise DataError(f"a greeting with epoch {epoch!r} and first {first!r}")
    return actor, epoch, first, schema, space


class StepSender:
    """The actor's side. `send` is for one thread and does not wait for the network; a thread of its own sends.

    At most `window` steps are on their way. At most `limit` wait to be acknowledged: one more is a LinkError, or, with
    `wait_when_full` (lockstep, where nothing moves meanwhile), a wait.
    """

    def __init__(
        self, address: str, space: SpaceSpec, *, actor: str = "actor", epoch: int | None = None, window: int = 64,
        limit: int = 10_000, wait_when_full: bool = False, resend_s: float = 1.0,
    ):  # fmt: skip
        check_actor(actor)
        self.actor = actor
        self.epoch = secrets.randbits(63) if epoch is None else epoch
        self._address = check_local(address)
        self._codec = StepCodec(space)
        self._window, self._limit, self._wait_when_full, self._resend_s = window, limit, wait_when_full, resend_s
        self._changed = threading.Condition()  # guards the next three
        self._waiting: dict[int, bytes] = {}  # seq -> message, from the first unacknowledged on
        self._base = 0  # the first unacknowledged
        self._end = 0  # the next to be made
        self._failure: LinkError | None = None
        self._closing = False
        self._wake = Wakeup()
        self._thread = threading.Thread(target=self._run, name="steps", daemon=True)
        self._thread.start()

    @property
    def unacknowledged(self) -> int:
        """How many steps are not yet known to be in the learner's log."""
        return self._end - self._base

    def send(self, step: Step) -> Identity:
        """Hand over a step. DataError if it does not fit the space; LinkError if the link has failed for good."""
        message = self._codec.encode(step)
        with self._changed:
            self._raise_failure()
            if self.unacknowledged >= self._limit and not self._wait_when_full:
                raise LinkError(f"{self.unacknowledged} steps wait for the learner at {self._address}, and no more "
                                "fit. Start it, or resume the run")  # fmt: skip
            self._changed.wait_for(lambda: self.unacknowledged < self._limit or self._failure is not None)
            self._raise_failure()
            identity = Identity(self.actor, self.epoch, self._end)
            self._waiting[self._end] = message
            self._end += 1
        self._wake.set()
        return identity

    def drain(self, timeout_s: float) -> None:
        """Wait until the learner has persisted everything; LinkError says how many steps it has not."""
        with self._changed:
            self._changed.wait_for(lambda: self.unacknowledged == 0 or self._failure is not None, timeout_s)
            self._raise_failure()
            if self.unacknowledged:
                raise LinkError(f"{self.unacknowledged} of {self._end} steps were not acknowledged by the learner at "
                                f"{self._address} within {timeout_s:g} s. Is it running?")  # fmt: skip

    def close(self) -> None:
        """Stop at once; what is not acknowledged is given up (see `drain`)."""
        if not self._closing:
            self._closing = True
            self._wake.set()
            self._thread.join()
            self._wake.close()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    # From here on: the sender's thread.

    def _run(self) -> None:
        self._open()
        try:
            while not self._closing and self._failure is None:
                self._poller.poll(50)
                self._wake.clear()
                while self._socket.poll(0):
                    self._take(self._socket.recv_multipart())
                if self._streaming:
                    self._fill_window()
                self._check_progress()
        except Exception as error:
            log.exception("the steps link failed")
            self._fail(f"the steps link failed: {error}")
        finally:
            self._socket.close()

    def _open(self) -> None:
        """A new socket, so that nothing old is in a queue, and the question where the learner's log ends."""
        self._socket = new_socket(zmq.DEALER)
        self._socket.setsockopt(zmq.SNDHWM, 0)  # the window is what bounds it
        connect(self._socket, self._address)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._wake.fd, zmq.POLLIN)
        self._streaming = False
        self._say_hello()

    def _say_hello(self) -> None:
        hello = {"actor": self.actor, "epoch": self.epoch, "first": self._base, "schema": SCHEMA,
                 "space": space_hash(self._codec.space)}  # fmt: skip
        self._socket.send_multipart(_message(_Kind.HELLO, -1, json.dumps(hello).encode()))
        self._progress = time.monotonic()

    def _take(self, frames: list[bytes]) -> None:
        try:
            kind, seq, body = _parse(frames)
        except DataError as error:
            log.warning("message from %s passed over: %s", self._address, error)
            return
        if kind is _Kind.REFUSED:
            self._fail(
                f"the learner at {self._address} refuses the steps of '{self.actor}': {body.decode(errors='replace')}"
            )
        elif kind in (_Kind.ACK, _Kind.POSITION) and seq < self._end:
            self._acknowledge(seq)
            if kind is _Kind.POSITION and not self._streaming:
                self._streaming = True
                self._next = self._base

    def _acknowledge(self, seq: int) -> None:
        with self._changed:
            if seq >= self._base:
                self._progress = time.monotonic()
            while self._base <= seq:
                del self._waiting[self._base]
                self._base += 1
            self._changed.notify_all()
        if self._streaming:
            self._next = max(self._next, self._base)

    def _fill_window(self) -> None:
        if self._next == self._base:
            self._progress = time.monotonic()
        while self._next < min(self._end, self._base + self._window):
            self._socket.send_multipart(_message(_Kind.STEP, self._next, self._waiting[self._next]), copy=False)
            self._next += 1

    def _check_progress(self) -> None:
        if time.monotonic() - self._progress < self._resend_s:
            return
        if self._streaming:
            log.info(
                "no acknowledgement from %s for %g s: resending from %d", self._address, self._resend_s, self._base
            )
            self._socket.close()
            self._open()
        else:
            self._say_hello()  # on the same socket: a learner that is only busy answers in the end

    def _fail(self, reason: str) -> None:
        with self._changed:
            self._failure = LinkError(reason)
            self._changed.notify_all()


@dataclass(frozen=True)
class Received:
    """A step that has arrived, checked: its identity, the bytes for the log, and the step (views of these bytes)."""

    identity: Identity
    payload: bytes
    step: Step


@dataclass
class _Stream:
    """What the learner knows of one actor process."""

    actor: str
    epoch: int
    persisted: int
    received: int
    route: bytes = b""


class StepReceiver:
    """The learner's side, for one thread. Without a receiving learner the actors wait or fill their memory.

    ```
    receiver = StepReceiver(address, space, step_log.positions)
    while running:
        batch = receiver.receive(timeout_s=0.1)
        for received in batch:
            step_log.append(received.payload, received.identity)
        receiver.ack(batch)     # only now: acknowledged means persisted
    ```
    """

    def __init__(self, address: str, space: SpaceSpec, positions: Mapping[tuple[str, int], int] | None = None):
        self._codec = StepCodec(space)
        self._socket = new_socket(zmq.ROUTER, linger_s=0.5)
        self._socket.setsockopt(zmq.MAXMSGSIZE, self._codec.size + (1 << 16))
        self.address = bind(self._socket, address)
        self._streams = {key: _Stream(*key, persisted=seq, received=seq) for key, seq in (positions or {}).items()}
        self._routes: dict[bytes, _Stream] = {}

    def receive(self, timeout_s: float = 0.0, limit: int = 256) -> list[Received]:
        """Steps that are next in their epoch, in order, each once; waits up to `timeout_s` for the first message."""
        batch: list[Received] = []
        timeout_ms = int(1000 * timeout_s)
        while len(batch) < limit and self._socket.poll(timeout_ms):
            timeout_ms = 0
            route, *frames = self._socket.recv_multipart()
            try:
                kind, seq, body = _parse(frames)
                if kind is _Kind.HELLO:
                    self._greet(route, json.loads(body))
                elif kind is _Kind.STEP and route in self._routes:
                    batch += self._accept(self._routes[route], seq, body)
            except (DataError, ValueError, RecursionError) as error:
                log.warning("message passed over: %s", error)
        return batch

    def ack(self, batch: Iterable[Received]) -> None:
        """Tell the actors that these are in the log, on disk or at least in the kernel's hands."""
        touched = {}
        for received in batch:
            stream = self._streams[received.identity.actor, received.identity.epoch]
            stream.persisted = max(stream.persisted, received.identity.seq)
            touched[stream.actor, stream.epoch] = stream
        for stream in touched.values():
            self._reply(stream.route, _Kind.ACK, stream.persisted)

    def close(self) -> None:
        self._socket.close()

    def _greet(self, route: bytes, hello: Any) -> None:
        actor, epoch, first, *theirs = _checked_hello(hello)
        ours = [SCHEMA, space_hash(self._codec.space)]
        if theirs != ours:
            reason = (f"the actor has schema {theirs[0]} and space {theirs[1]}, the learner schema {ours[0]} and space "
                      f"{ours[1]}: start both with the same task, hardware, obs and version")  # fmt: skip
            self._reply(route, _Kind.REFUSED, -1, reason)
            return
        stream = self._streams.setdefault((actor, epoch), _Stream(actor, epoch, persisted=-1, received=-1))
        if first > stream.persisted + 1:
            reason = (f"the learner's log ends at step {stream.persisted} of this actor, which no longer has those "
                      f"before {first}, as they were acknowledged: resume the learner from the run's log")  # fmt: skip
            self._reply(route, _Kind.REFUSED, -1, reason)
            return
        stream.route = route
        self._routes[route] = stream  # older routes stay: what still comes through them is of the same epoch
        while len(self._routes) > _MAX_ROUTES:
            del self._routes[next(iter(self._routes))]
        self._reply(route, _Kind.POSITION, stream.persisted)

    def _accept(self, stream: _Stream, seq: int, payload: bytes) -> list[Received]:
        if seq <= stream.received:
            self._reply(stream.route, _Kind.ACK, stream.persisted)  # a duplicate: its acknowledgement was lost
            return []
        if seq > stream.received + 1:
            return []  # something before it is missing: the actor will go back
        try:
            step = self._codec.decode(payload)
        except DataError as error:
            self._reply(stream.route, _Kind.REFUSED, seq, str(error))
            raise
        stream.received = seq
        return [Received(Identity(stream.actor, stream.epoch, seq), payload, step)]

    def _reply(self, route: bytes, kind: _Kind, seq: int, reason: str = "") -> None:
        self._socket.send_multipart([route, *_message(kind, seq, reason.encode())])
