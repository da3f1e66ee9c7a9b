"""The learner's side of the steps link: each record once and in order, whatever the actors send."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import zmq

from robot_rl.links.seldom import Seldom
from robot_rl.links.sockets import bind, new_socket
from robot_rl.stream import protocol, records
from robot_rl.stream.codec import SCHEMA, StepCodec, decode_mark, space_hash
from robot_rl.stream.protocol import BATCH, Greeting, Head, Message
from robot_rl.stream.records import Kind, Record
from robot_rl.types import ActorStream, DataError, Mark, RecordId, SpaceSpec, Step

_seldom = Seldom(logging.getLogger(__name__))

WAITING = 64
"""Messages of one actor that wait to be taken: twice what it sends before the first is
acknowledged.
"""

_MAX_ROUTES = 256


@dataclass(frozen=True)
class Received:
    """A record that has arrived, checked: its bytes for the log, and what they say (arrays are
    views of them).
    """

    record: Record
    said: Step | Mark

    @property
    def identity(self) -> RecordId:
        return self.record.identity

    @property
    def stream(self) -> ActorStream:
        return self.record.identity.actor, self.record.identity.epoch


class StepReceiver:
    """For one thread. Without a receiving learner the actors' spools grow; nobody waits.

    ```
    receiver = StepReceiver(address, space, step_log.positions)
    while running:
        batch = receiver.receive(timeout_s=0.1)
        step_log.append_records([received.record for received in batch])
        receiver.ack(batch)     # only now: acknowledged means persisted
    ```
    """

    def __init__(
        self,
        address: str,
        space: SpaceSpec,
        positions: Mapping[ActorStream, int] | None = None,
        *,
        run: str = "",
    ):
        self._codec = StepCodec(space)
        self._ours, self._run = [SCHEMA, space_hash(space)], run
        self._socket = new_socket(zmq.ROUTER, linger_s=0.5)
        self._socket.bound(BATCH * (self._codec.size + (1 << 16)), WAITING)
        self.address = bind(self._socket, address)
        # the last seq of each stream in the log
        self.persisted: dict[ActorStream, int] = dict(positions or {})
        self._received: dict[ActorStream, int] = dict(self.persisted)
        self._greeted: dict[bytes, ActorStream] = {}  # what each route may send
        # where the answers to a stream go: its newest route
        self._routes: dict[ActorStream, bytes] = {}

    def receive(self, timeout_s: float = 0.0, limit: int = 16) -> list[Received]:
        """Records that are next in their epoch, in order, each once; waits up to `timeout_s` for
        the first message.

        `limit` bounds how many, but for those that came in the same message. Well below the window
        of the actor, it lets both sides work at the same time: the acknowledgement of one batch
        calls for the next but one.
        """
        batch: list[Received] = []
        timeout_ms = int(1000 * timeout_s)
        while len(batch) < limit and self._socket.poll(timeout_ms):
            timeout_ms = 0
            message = self._socket.recv_bounded(most_frames=4)
            if message is None:
                continue
            route, *frames = message
            try:
                self._take(route.bytes, [frame.buffer for frame in frames], batch)
            except DataError as error:
                _seldom.warning("message passed over: %s", error)
        return batch

    def ack(self, batch: Iterable[Received]) -> None:
        """Tell the actors that these are in the log, on disk or at least in the kernel's hands."""
        newest = {received.stream: received.identity.seq for received in batch}
        for stream, seq in newest.items():
            self.persisted[stream] = max(self.persisted.get(stream, -1), seq)
            self._acknowledge(stream)

    def close(self) -> None:
        self._socket.close()

    def _take(self, route: bytes, frames: list[memoryview], batch: list[Received]) -> None:
        head = protocol.parse_head(frames)
        if head.message is Message.HELLO:
            self._greet(route, protocol.parse_hello(frames[1]))
        elif head.message is Message.RECORDS and route in self._greeted:
            self._accept(route, head, frames, batch)

    def _greet(self, route: bytes, greeting: Greeting) -> None:
        stream = greeting.actor, greeting.epoch
        theirs = [greeting.schema, greeting.space]
        last = self.persisted.get(stream, -1)
        if theirs != self._ours:
            self._refuse(
                route, greeting.epoch, f"the actor has schema {theirs[0]} and space {theirs[1]}, the learner schema "
                f"{self._ours[0]} and space {self._ours[1]}: start both with the same task, hardware, obs and version"
            )  # fmt: skip
        elif self._run and greeting.run and greeting.run != self._run:
            self._refuse(
                route, greeting.epoch, f"the actor is of run {greeting.run}, the learner of run {self._run}: its steps "
                "go to the learner of its own run; stop this actor, or start that learner at this address"
            )  # fmt: skip
        elif greeting.first > last + 1:
            self._refuse(
                route, greeting.epoch, f"the learner's log ends at record {last} of this actor, which no longer has "
                f"those before {greeting.first}, as they were acknowledged: resume the learner from the run's log"
            )  # fmt: skip
        else:
            while len(self._greeted) >= _MAX_ROUTES:
                old = next(iter(self._greeted))
                if self._routes.get(self._greeted[old]) == old:
                    del self._routes[self._greeted[old]]
                del self._greeted[old]
            # older routes stay: what still comes through them is of the same epoch
            self._greeted[route] = stream
            self._routes[stream] = route
            self._reply(route, protocol.plain(Message.POSITION, greeting.epoch, last))

    def _accept(
        self, route: bytes, head: Head, frames: list[memoryview], batch: list[Received]
    ) -> None:
        """Take what is next of a message; DataError at the first record that is damaged."""
        stream = self._greeted[route]
        several = protocol.parse_records(head, frames)
        if head.seq + head.n_records - 1 <= self._received.get(stream, -1):
            self._acknowledge(stream)  # all of it is here already: its acknowledgement was lost
        for record in several:
            last = self._received.get(stream, -1)
            if record.identity.actor != stream[0] or record.identity.epoch != stream[1]:
                raise DataError(f"a record of {record.identity} from whom greeted as {stream}")
            if record.identity.seq <= last:
                continue
            if record.identity.seq > last + 1:
                return  # something before it is missing: the actor will go back
            batch.append(Received(record, self._decode(route, record)))
            self._received[stream] = record.identity.seq

    def _decode(self, route: bytes, record: Record) -> Step | Mark:
        if not records.is_whole(record):
            raise DataError(f"the checksum of {record.identity} is wrong")
        try:
            if record.kind == Kind.STEP:
                return self._codec.decode(record.payload)
            if record.kind == Kind.MARK:
                return decode_mark(record.payload)
            raise DataError(
                f"a record of the kind {record.kind}; this code knows {', '.join(Kind.__members__)}"
            )
        except DataError as error:
            self._refuse(route, record.identity.epoch, str(error))
            raise

    def _acknowledge(self, stream: ActorStream) -> None:
        if (route := self._routes.get(stream)) is not None:
            self._reply(
                route, protocol.plain(Message.ACK, stream[1], self.persisted.get(stream, -1))
            )

    def _refuse(self, route: bytes, epoch: int, reason: str) -> None:
        self._reply(route, protocol.plain(Message.REFUSED, epoch, -1, reason.encode()))

    def _reply(self, route: bytes, frames: list[bytes]) -> None:
        self._socket.send_multipart([route, *frames])
