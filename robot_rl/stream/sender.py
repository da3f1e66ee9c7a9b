"""The actor's side of the steps link, as the control loop sees it: hand over, go on."""

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np

from robot_rl.links.sockets import check_address
from robot_rl.stream import records
from robot_rl.stream.codec import StepCodec, decode_mark, encode_mark
from robot_rl.stream.protocol import BATCH
from robot_rl.stream.records import Kind
from robot_rl.stream.sender_thread import PendingRecord, Progress, SenderThread, SendQueue
from robot_rl.stream.spool import Spool
from robot_rl.types import LinkError, Mark, MarkKind, RecordId, RobotRLError, SpaceSpec, Step

WINDOW = 256
"""Records on their way at once: 32 messages of 8 (25 MB with two images of 128 x 128 each)."""


class StepSender:
    """Hands steps and marks to a thread of its own, which stores them in the spool and delivers
    them.

    ```
    sender = StepSender(address, space, spool=folder / "spool")
    # what an earlier process of this actor left, before asking how far the run is
    sender.drain_leftovers(600.0)
    for step in episode:
        sender.send(step)
    sender.drain(600.0)
    sender.close()
    ```
    `send` is for one thread. It checks the step, so that a bad one is refused there and then, and
    hands it over; it waits neither for the disk nor for the network. At most `limit` records may be
    in memory alone, until they are on the disk: one more is a LinkError, or, with `wait_when_full`
    (lockstep, where nothing moves meanwhile), a wait.

    When the disk refuses (full, read-only), `send` raises a DataError from then on, so that the
    actor ends the episode and the arm holds; what was handed over is still delivered if the learner
    is there (`drain`). When the link fails for good (another space or run, a log that lacks what
    was acknowledged), `send` raises that RefusedError; everything is in the spool. If the last
    episode of the actor's process before this one has no end in the spool, the first record is a
    mark GAP that says so.
    """

    def __init__(
        self, address: str, space: SpaceSpec, *, spool: Path, actor: str = "actor", run: str = "",
        window: int = WINDOW, limit: int = 2_000, wait_when_full: bool = False, resend_s: float = 1.0,
    ):  # fmt: skip
        records.check_actor(actor)
        self.actor = actor
        self.epoch = secrets.randbits(63)
        self._address = check_address(address)
        self._codec = StepCodec(space)
        self._limit, self._wait_when_full = limit, wait_when_full
        self._changed = threading.Condition()  # guards the next three
        self._end = 0  # the next to be handed over
        self._progress = Progress()
        self._failure: RobotRLError | None = None
        self._undeliverable = False
        self._awaited: Callable[[], bool] | None = None  # what the sending thread waits for
        self._closed = False
        queue = SendQueue(Spool(spool, actor, self.epoch, space, run=run), window)
        self._end = record_gap(queue, self._codec)
        self._progress = Progress(self._end, self._end, 0, queue.leftovers)
        self._free = memoryview(b"")  # where the next steps are written
        self._handed: deque[PendingRecord] = deque()
        self._thread = SenderThread(
            self._address,
            actor,
            space,
            run,
            queue,
            self._handed,
            self._end,
            resend_s,
            self._take_report,
        )

    @property
    def unacknowledged(self) -> int:
        """How many own records are not yet known to be in the learner's log."""
        return self._end - self._progress.acknowledged

    @property
    def leftovers(self) -> int:
        """How many records of earlier processes are not yet known to be in the learner's log."""
        return self._progress.leftovers

    @property
    def stored(self) -> int:
        """How many own records are on the disk (or already at the learner): a kill does not take
        these.
        """
        return self._progress.stored

    def send(self, said: Step | Mark) -> RecordId:
        """Hand over a step or a mark. DataError if it does not fit; DataError or LinkError if an
        earlier one failed.
        """
        if isinstance(said, Step):
            pending = PendingRecord(
                Kind.STEP, self._encode(said), said.terminated or said.truncated
            )
        else:
            pending = PendingRecord(Kind.MARK, encode_mark(said), False)
        with self._changed:
            self._raise_failure()
            if self._in_memory >= self._limit:
                self._wait_for_room()
            identity = RecordId(self.actor, self.epoch, self._end)
            self._handed.append(pending)
            self._end += 1
        self._thread.wake()
        return identity

    def drain_leftovers(self, timeout_s: float) -> None:
        """Wait until the learner has what earlier processes left; LinkError or DataError if it does
        not get it.
        """
        self._wait(lambda: self.leftovers, timeout_s, "records of an earlier process")

    def drain(self, timeout_s: float) -> None:
        """Wait until the learner has everything; LinkError says how much it has not.

        A disk that cannot be written is no hindrance: what it did not take is delivered from
        memory.
        """
        self._wait(lambda: self.unacknowledged + self.leftovers, timeout_s, f"of {self._end} steps")

    def confirm(self, seq: int) -> bool:
        """The learner says that its log of this epoch ends at `seq`; returns whether that is all
        there is.

        If not, it is asked for its position again: it may have lost what it had acknowledged, and
        nothing else would tell while there is nothing new to send. DataError or LinkError if that
        failed for good.
        """
        if seq + 1 >= self._end:
            return True
        with self._changed:
            if self._undeliverable:
                self._raise_failure()
        self._thread.ask_again()
        return False

    def close(self) -> None:
        """Stop at once. What is not acknowledged stays in the spool, for the next process."""
        if not self._closed:
            self._closed = True
            self._thread.close()

    def _encode(self, step: Step) -> memoryview:
        """The step's message, behind that of the step before it: so several go to the network as
        they lie.
        """
        if len(self._free) < self._codec.size:
            self._free = np.empty(BATCH * self._codec.size, np.uint8).data
        payload = self._free[: self._codec.size]
        self._codec.encode_into(step, payload)
        self._free = self._free[self._codec.size :]
        return payload

    @property
    def _in_memory(self) -> int:
        return self._end - self._progress.stored

    def _wait_for_room(self) -> None:
        """Called with the lock held."""
        if not self._wait_when_full:
            raise LinkError(f"{self._in_memory} steps wait to be stored or taken by the learner at {self._address}, "
                            "and no more fit into memory. Is the learner running, and the disk able to keep up? "
                            "Start it, or resume the run")  # fmt: skip
        # half of it: else the two threads would take turns for each step
        self._wait_for(lambda: self._in_memory <= self._limit // 2 or self._failure is not None)
        self._raise_failure()

    def _wait(self, count: Callable[[], int], timeout_s: float, what: str) -> None:
        with self._changed:
            self._wait_for(lambda: count() == 0 or self._undeliverable, timeout_s)
            if count() and self._undeliverable:
                self._raise_failure()
            if count():
                raise LinkError(f"{count()} {what} were not acknowledged by the learner at {self._address} within "
                                f"{timeout_s:g} s. Is it running?")  # fmt: skip

    def _wait_for(self, done: Callable[[], bool], timeout_s: float | None = None) -> None:
        """Called with the lock held."""
        self._awaited = done
        self._changed.wait_for(done, timeout_s)
        self._awaited = None

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _take_report(
        self, progress: Progress, failure: RobotRLError | None, undeliverable: bool
    ) -> None:
        """Called by the sending thread."""
        with self._changed:
            if progress == self._progress and failure is None:
                return
            self._progress = progress
            self._failure = failure or self._failure
            self._undeliverable |= undeliverable
            if self._awaited is not None and self._awaited():
                self._changed.notify_all()


def record_gap(queue: SendQueue, codec: StepCodec) -> int:
    """If the process before this one left an episode without its end, say so in the first record;
    returns the next seq.

    DataError if that cannot be written; the spool is then closed.
    """
    spool = queue.spool
    try:
        gap = find_gap(spool, codec)
        if gap is None:
            return 0
        queue.put([
            records.frame(Kind.MARK, RecordId(spool.actor, spool.epoch, 0), encode_mark(gap))
        ])
        return 1
    except BaseException:
        spool.close()
        raise


def find_gap(spool: Spool, codec: StepCodec) -> Mark | None:
    """The mark for the process before this one, if its last episode has no end in the spool."""
    if not spool.leftovers:
        return None
    held = spool.leftovers[-1]
    for seq in range(held.end - 1, held.first - 1, -1):
        record = spool.read(held.epoch, seq)
        if record.kind == Kind.MARK and decode_mark(record.payload).kind == MarkKind.TRUNCATED:
            return None
        if record.kind != Kind.STEP:
            continue
        step = codec.decode(record.payload, recorded=True)
        if step.terminated or step.truncated:
            return None
        return Mark(MarkKind.GAP, step.episode, actor=spool.actor, epoch=held.epoch, last_seq=held.end - 1,
                    t_wall=time.time())  # fmt: skip
    return None
