"""What an actor has to deliver, in order, and how far that is. No socket, no thread: the courier's bookkeeping."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from robot_rl.data.records import Record
from robot_rl.data.spool import Spool
from robot_rl.types import DataError

log = logging.getLogger(__name__)

KEPT_WINDOWS = 4
"""So a burst need not be read back from the spool, only what a learner that is away has not taken."""


@dataclass
class _Stream:
    """One epoch: records before `base` are acknowledged, those before `next` sent, those before `end` exist."""

    epoch: int
    base: int
    end: int
    next: int = 0


class Outbox:
    """Streams that earlier processes left in the spool, oldest first, then the own one; each after the other.

    Of the own records, those in the window of what may be on its way are kept in memory, and those of the next ones
    (`KEPT_WINDOWS`); the backlog behind them lies in the spool and is read from there when its turn comes. Without a
    spool (or once that cannot be written) all of it stays in memory.
    """

    def __init__(self, epoch: int, window: int, spool: Spool | None = None):
        self.epoch, self.spool = epoch, spool
        self._window = window
        leftovers = spool.leftovers if spool is not None else []
        self._streams = [_Stream(held.epoch, held.first, held.end) for held in leftovers]
        self._own = _Stream(epoch, 0, 0)
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
        stream = self._streams[0]
        return stream.base if self.spool is None else self.spool.held(stream.epoch).first

    @property
    def acknowledged(self) -> int:
        """How many own records the learner has in its log."""
        return self._own.base

    @property
    def stored(self) -> int:
        """How many own records need no memory any more: they are on the disk, or the learner has them."""
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
        """Take the next own records. DataError if the spool cannot be written; they are then kept in memory.

        Once that has happened, `spooled` must be False: the spool holds no record behind one that it lacks.
        """
        own = self._own
        own.end += len(several)
        try:
            if self.spool is not None and spooled:
                self.spool.append_all(several)
                self._stored = own.end
        finally:
            for record in several:
                if record.identity.seq >= self._stored or record.identity.seq < own.base + KEPT_WINDOWS * self._window:
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
        if self.spool is not None:
            self.spool.acknowledge(epoch, seq)
        return True

    def advance(self) -> bool:
        """Turn to the next stream if the current one is delivered; returns whether there is a new one."""
        if len(self._streams) > 1 and self._streams[0].base == self._streams[0].end:
            self._streams.pop(0)
            return True
        return False

    def take(self, limit: int) -> list[Record]:
        """The next records to send, at most `limit`, none beyond the window. DataError for a damaged one."""
        stream = self._streams[0]
        end = min(stream.end, stream.base + self._window, stream.next + limit)
        taken = [self._fetch(stream, seq) for seq in range(stream.next, end)]
        stream.next += len(taken)
        return taken

    def close(self, finished: bool) -> None:
        """Let go of the spool; what is acknowledged is removed. `finished`: no episode is without its end."""
        if self.spool is not None:
            everything = self.leftovers == 0 and self._own.base == self._own.end
            self.spool.close(delivered=everything and finished)

    def _fetch(self, stream: _Stream, seq: int) -> Record:
        if stream is self._own and seq in self._memory:
            return self._memory[seq]
        if self.spool is None:
            raise DataError(f"record {seq} is neither in memory nor in a spool")
        return self.spool.read(stream.epoch, seq)
