"""The sender's thread: what is handed over goes into the spool, then to the learner, until that has
it in its log.

`SendQueue` is what there is to deliver, in order, and how far that is; `SenderThread` delivers it.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import zmq

from robot_rl.links.sockets import LinkSocket, Wakeup, connect, new_socket
from robot_rl.stream import protocol, records
from robot_rl.stream.codec import SCHEMA, space_hash
from robot_rl.stream.protocol import BATCH, Greeting, Message
from robot_rl.stream.records import Payload, Record
from robot_rl.stream.spool import Spool
from robot_rl.types import DataError, LinkError, RecordId, RefusedError, RobotRLError, SpaceSpec

log = logging.getLogger(__name__)


KEPT_WINDOWS = 4
"""So a burst need not be read back from the spool, only what a learner that is away has not taken."""


@dataclass
class _Stream:
    """One epoch: records before `base` are acknowledged, those before `next` sent, those before
    `end` exist.
    """

    epoch: int
    base: int
    end: int
    next: int = 0


class SendQueue:
    """Streams that earlier processes left in the spool, oldest first, then the own one; each after
    the other.

    Of the own records, those in the window of what may be on its way are kept in memory, and those
    of the next ones (`KEPT_WINDOWS`); the backlog behind them lies in the spool and is read from
    there when its turn comes. Once the spool cannot be written all of it stays in memory. No
    socket, no thread: the thread's bookkeeping.
    """

    def __init__(self, spool: Spool, window: int):
        self.epoch, self.spool = spool.epoch, spool
        self._window = window
        self._streams = [_Stream(held.epoch, held.first, held.end) for held in spool.leftovers]
        self._own = _Stream(spool.epoch, 0, 0)
        self._streams.append(self._own)
        self._memory: dict[int, Record] = {}
        self._stored = 0  # own records on the disk: those before this one

    @property
    def current(self) -> int:
        """The epoch whose turn it is."""
        return self._streams[0].epoch

    @property
    def offer(self) -> int:
        """The oldest record of the current epoch that we can still send."""
        return self.spool.held(self.current).first

    @property
    def acknowledged(self) -> int:
        """How many own records the learner has in its log."""
        return self._own.base

    @property
    def stored(self) -> int:
        """How many own records need no memory any more: they are on the disk, or the learner has
        them.
        """
        return max(self._stored, self._own.base)

    @property
    def leftovers(self) -> int:
        """How many records of earlier processes are not known to be in the learner's log."""
        return sum(stream.end - stream.base for stream in self._streams[:-1])

    @property
    def is_idle(self) -> bool:
        """Whether nothing is on its way."""
        return self._streams[0].next == self._streams[0].base

    def put(self, several: Sequence[Record], spooled: bool = True) -> None:
        """Take the next own records. DataError if the spool cannot be written; they are then kept
        in memory.

        Once that has happened, `spooled` must be False: the spool holds no record behind one that
        it lacks.
        """
        own = self._own
        own.end += len(several)
        try:
            if spooled:
                self.spool.append_all(several)
                self._stored = own.end
        finally:
            for record in several:
                if (
                    record.identity.seq >= self._stored
                    or record.identity.seq < own.base + KEPT_WINDOWS * self._window
                ):
                    self._memory[record.identity.seq] = record

    def resume(self, position: int) -> None:
        """The learner's log of the current epoch ends at this seq: go on behind it."""
        stream = self._streams[0]
        position = min(position, stream.end - 1)
        if position + 1 < stream.base:
            log.warning("the learner's log ends at record %d of epoch %d, though it had acknowledged up to %d: what "
                        "follows is sent again", position, stream.epoch, stream.base - 1)  # fmt: skip
            stream.base = position + 1
        stream.next = stream.base
        self.acknowledge(stream.epoch, position)

    def acknowledge(self, epoch: int, seq: int) -> bool:
        """The learner has everything up to `seq` in its log; returns whether that is news."""
        stream = self._streams[0]
        if epoch != stream.epoch or not stream.base <= seq < stream.end:
            return False
        for number in range(stream.base, seq + 1) if stream is self._own else ():
            self._memory.pop(number, None)
        stream.base = seq + 1
        stream.next = max(stream.next, stream.base)
        self.spool.acknowledge(epoch, seq)
        return True

    def advance(self) -> bool:
        """Turn to the next stream if the current one is delivered; returns whether there is a new
        one.
        """
        if len(self._streams) > 1 and self._streams[0].base == self._streams[0].end:
            self._streams.pop(0)
            return True
        return False

    def take(self, limit: int) -> list[Record]:
        """The next records to send, at most `limit`, none beyond the window. DataError for a
        damaged one.
        """
        stream = self._streams[0]
        end = min(stream.end, stream.base + self._window, stream.next + limit)
        taken = [self._fetch(stream, seq) for seq in range(stream.next, end)]
        stream.next += len(taken)
        return taken

    def close(self, finished: bool) -> None:
        """Let go of the spool; what is acknowledged is removed. `finished`: no episode is without
        its end.
        """
        everything = self.leftovers == 0 and self._own.base == self._own.end
        self.spool.close(delivered=everything and finished)

    def _fetch(self, stream: _Stream, seq: int) -> Record:
        if stream is self._own and seq in self._memory:
            return self._memory[seq]
        return self.spool.read(stream.epoch, seq)


class PendingRecord(NamedTuple):
    """A record as it is handed over: its payload, and whether an episode ends with it."""

    kind: int
    payload: Payload
    ends_episode: bool


@dataclass(frozen=True)
class Progress:
    """How far the sending thread is: own records taken, of these on the disk or at the learner, of these
    at the learner.
    """

    taken: int = 0
    stored: int = 0
    acknowledged: int = 0
    leftovers: int = 0


class SenderThread:
    """The thread behind a StepSender. It alone touches socket, queue and spool.

    `handed` is appended to by the sender and emptied here. `report(progress, failure,
    undeliverable)` is called here whenever there is news. When the disk fails, what is in memory is
    still delivered; when the link fails (for good: `undeliverable`), what is handed over is still
    stored.
    """

    def __init__(
        self, address: str, actor: str, space: SpaceSpec, run: str, queue: SendQueue, handed: deque[PendingRecord],
        taken: int, resend_s: float, report: Callable[[Progress, RobotRLError | None, bool], None],
    ):  # fmt: skip
        self._address, self._actor, self._space, self._run_id = address, actor, space, run
        self._queue, self._handed, self._taken = queue, handed, taken
        self._resend_s, self._report = resend_s, report
        self._finished = True  # no episode is without its end
        self._stores = True  # until the disk has failed
        self._link_failed = False
        self._streaming = False
        self._closing = False
        self._in_doubt = False  # whether the learner still has what it had acknowledged
        self._progress_at = 0.0
        self._wake = Wakeup()
        self._socket: LinkSocket
        self._thread = threading.Thread(target=self._run, name="steps", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Something was handed over. Any thread."""
        if len(self._handed) == 1:  # else the thread is at work on those before it, and looks again
            self._wake.set()

    def ask_again(self) -> None:
        """Ask where the learner's log ends, unless that is being asked. Any thread."""
        self._in_doubt = True
        self._wake.set()

    def close(self) -> None:
        """Store what was handed over, then end. Any thread, once."""
        self._closing = True
        self._wake.set()
        self._thread.join()
        self._wake.close()

    # From here on: the sending thread alone.

    def _run(self) -> None:
        try:
            self._open()
            while not self._closing or self._handed:
                if not self._handed:
                    self._poller.poll(50)
                    self._wake.clear()
                self._store()
                if not self._link_failed:
                    self._exchange()
                self._tell()
        except Exception as error:
            log.exception("the steps link failed")
            self._tell(LinkError(f"the steps link failed: {error}"), undeliverable=True)
        finally:
            self._queue.close(self._finished)
            self._socket.close()

    def _store(self) -> None:
        """Up to a message's worth, between two looks at the network."""
        handed = [self._handed.popleft() for _ in range(min(len(self._handed), BATCH))]
        if not handed:
            return
        framed = [
            records.frame(each.kind, RecordId(self._actor, self._queue.epoch, seq), each.payload)
            for seq, each in enumerate(handed, self._taken)
        ]
        self._taken += len(framed)
        for each in handed:
            if each.kind == records.Kind.STEP:
                self._finished = each.ends_episode
        try:
            self._queue.put(framed, self._stores)
            if any(each.ends_episode for each in handed):
                self._queue.spool.sync_soon()
        except DataError as error:
            self._stores = False
            log.error("%s", error)
            self._tell(error)

    def _exchange(self) -> None:
        try:
            while self._socket.poll(0):
                self._take(self._socket.recv_multipart())
            if self._streaming and self._queue.advance():
                self._streaming = False
                self._say_hello()
            if self._streaming:
                self._send()
            self._socket.check()
            self._check_progress()
        except RobotRLError as error:  # refused, wrong keys, a damaged record in the spool
            self._link_failed = True
            log.error("%s", error)
            self._tell(error, undeliverable=True)

    def _open(self) -> None:
        """A new socket, so that nothing old is in a queue, and the question where the learner's log
        ends.
        """
        self._socket = new_socket(zmq.DEALER)
        self._socket.setsockopt(zmq.SNDHWM, 0)  # the window is what bounds it
        connect(self._socket, self._address)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._wake.fd, zmq.POLLIN)
        self._streaming = False
        self._say_hello()

    def _say_hello(self) -> None:
        queue = self._queue
        greeting = Greeting(
            self._actor, queue.current, queue.offer, SCHEMA, space_hash(self._space), self._run_id
        )
        self._socket.send_multipart(protocol.hello(greeting))
        self._progress_at = time.monotonic()

    def _take(self, frames: list[bytes]) -> None:
        try:
            head = protocol.parse_head(frames)
        except DataError as error:
            log.warning("message from %s passed over: %s", self._address, error)
            return
        if head.message is Message.REFUSED:
            raise RefusedError(f"the learner at {self._address} refuses the steps of '{self._actor}': "
                               f"{frames[1].decode(errors='replace')}")  # fmt: skip
        if head.epoch != self._queue.current:
            return  # about a stream that is delivered
        if head.message is Message.POSITION and not self._streaming:
            self._queue.resume(head.seq)
            self._streaming = True
            self._progress_at = time.monotonic()
        elif head.message is Message.ACK and self._queue.acknowledge(head.epoch, head.seq):
            self._progress_at = time.monotonic()

    def _send(self) -> None:
        if self._queue.is_idle:
            self._progress_at = time.monotonic()
        while several := self._queue.take(BATCH):
            self._socket.send_multipart(protocol.batch(self._queue.current, several), copy=False)

    def _check_progress(self) -> None:
        if self._in_doubt and self._streaming and self._queue.is_idle:
            self._streaming = False
            self._say_hello()
        self._in_doubt = False
        if (
            self._queue.is_idle and self._streaming
        ) or time.monotonic() - self._progress_at < self._resend_s:
            return
        if self._streaming:
            log.info(
                "no acknowledgement from %s for %g s: asking where its log ends",
                self._address,
                self._resend_s,
            )
            self._socket.close()
            self._open()
        else:
            self._say_hello()  # on the same socket: a learner that is only busy answers in the end

    def _tell(self, failure: RobotRLError | None = None, undeliverable: bool = False) -> None:
        queue = self._queue
        progress = Progress(self._taken, queue.stored, queue.acknowledged, queue.leftovers)
        self._report(progress, failure, undeliverable)
