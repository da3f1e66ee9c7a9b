"""Memory that processes of one machine share, and a latest-value slot in it: one writer, any number
of readers.

Nobody has to let go of the memory: the kernel frees it with the last process that has it, however
that one ends. There is no file and no entry in /dev/shm to be left behind, nor a limit of its size
to be met there. Linux (memfd_create).

Of a slot nobody ever waits. It is the hand-over between the 1 kHz loop and the network side. Who
writes and who reads what, at which rate:

| slot   | writer, rate                     | reader, rate                   | if the writer is silent               |
|--------|----------------------------------|--------------------------------|---------------------------------------|
| orders | network side, per request        | loop, each tick                | the lease runs out and the arm holds  |
| state  | loop, each tick                  | network side, per request      | the loop is dead: requests get errors |
| world  | loop of a simulated arm, 100 Hz  | network side, per request      | as for state                          |
"""

import mmap
import os
import weakref
import zlib
from multiprocessing.reduction import DupFd
from typing import Any

import numpy as np

from robot_rl.types import Array, DataError

_HEADER = 24
"""Bytes before the two copies: how often was written, and each copy's crc32 (uint64 each)."""

_ATTEMPTS = 10_000
"""Of a reader, each a few microseconds: it meets the writer in the same copy once in a while."""


class SharedBlock:
    """`size` bytes, zero at first. Hand it to a spawned process among its arguments; arrays may
    outlive it.

    ```
    block = SharedBlock(8)
    count = np.frombuffer(block.memory, np.int64)
    ```
    """

    def __init__(self, size: int, fd: int | None = None):
        """New memory; or that which stands behind a file descriptor, which this object closes."""
        self._fd = os.memfd_create("robot_rl") if fd is None else fd
        weakref.finalize(self, os.close, self._fd)
        if fd is None:
            os.ftruncate(self._fd, size)
        self.memory = mmap.mmap(self._fd, size)

    def __reduce__(self) -> tuple[Any, ...]:
        return _adopt, (len(self.memory), DupFd(self._fd))


def _adopt(size: int, descriptor: Any) -> SharedBlock:
    return SharedBlock(size, descriptor.detach())


class LatestSlot:
    """A structured numpy value in two copies, of which one is whole at any time.

    The writer fills the copy that nobody is sent to, with its crc, and then the number of writes
    sends readers there. So one that is interrupted or dies in the middle leaves the value before,
    and readers wait for nobody. A reader that was interrupted itself, for so long that the writer
    came round to its copy, finds a wrong crc and reads again. The crc also covers machines on which
    another core may see the stores in another order.
    """

    def __init__(self, dtype: np.dtype, block: SharedBlock | None = None):
        """A slot of zeros; or the one whose `block` another process has handed over."""
        size = dtype.itemsize
        self.block = block or SharedBlock(_HEADER + 2 * size)
        self._header = np.frombuffer(self.block.memory, np.uint64, 3)
        self._copies = np.frombuffer(self.block.memory, np.uint8, 2 * size, _HEADER)
        self._copies = self._copies.reshape(2, size)
        self._dtype = dtype
        if block is None:
            self.write(np.zeros((), dtype))

    @property
    def version(self) -> int:
        """Changes with each write: what a reader compares before it reads."""
        return int(self._header[0])

    def write(self, value: Array) -> None:
        """Replace the value; only one process may do this."""
        raw = value.tobytes()
        writes = self.version + 1
        self._copies[writes % 2] = np.frombuffer(raw, np.uint8)
        self._header[1 + writes % 2] = zlib.crc32(raw)
        self._header[0] = writes

    def try_read(self) -> Array | None:
        """The value `()`, or None if the writer was met: the 1 kHz loop reads again next tick."""
        copy = self.version % 2
        raw = self._copies[copy].tobytes()
        if zlib.crc32(raw) != int(self._header[1 + copy]):
            return None
        return np.frombuffer(raw, self._dtype)[0]

    def read(self) -> Array:
        """The value, shape `()`. Raises DataError if the memory is damaged."""
        for _ in range(_ATTEMPTS):
            if (value := self.try_read()) is not None:
                return value
        raise DataError("a shared slot holds no whole value: its memory is damaged")
