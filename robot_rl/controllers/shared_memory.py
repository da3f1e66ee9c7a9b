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
import time
import weakref
import zlib
from itertools import count
from multiprocessing.reduction import DupFd
from typing import Any

import numpy as np

from robot_rl.types import Array, DataError

_HEADER = 16
"""Bytes before the value: a version counter (uint64) and a crc32 of the value (uint32), padded."""

_ATTEMPTS, _PATIENCE_S = 100, 1.0
"""So often a reader tries at once; then it gives a writer that was interrupted time to go on."""


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
    """A structured numpy value behind a sequence lock.

    The writer makes the version odd, writes the value and its crc, and makes the version even: a
    reader that sees an odd version, a version that changed meanwhile, or a wrong crc has met the
    writer and reads again. The crc also covers machines on which another core may see the stores in
    another order.
    """

    def __init__(self, dtype: np.dtype, block: SharedBlock | None = None):
        """A slot of zeros; or the one whose `block` another process has handed over."""
        self.block = block or SharedBlock(_HEADER + dtype.itemsize)
        self._header = np.frombuffer(self.block.memory, np.uint64, 2)
        self._bytes = np.frombuffer(self.block.memory, np.uint8, dtype.itemsize, _HEADER)
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
        version = int(self._header[0]) & ~1
        self._header[0] = version + 1
        self._bytes[:] = np.frombuffer(raw, np.uint8)
        self._header[1] = zlib.crc32(raw)
        self._header[0] = version + 2

    def try_read(self) -> Array | None:
        """The value `()`, or None if the writer was met in the middle: the 1 kHz loop reads again
        next tick.
        """
        before = int(self._header[0])
        raw = self._bytes.tobytes()
        crc = int(self._header[1])
        if before & 1 or int(self._header[0]) != before or zlib.crc32(raw) != crc:
            return None
        return np.frombuffer(raw, self._dtype)[0]

    def read(self) -> Array:
        """The value, shape `()`. Raises DataError if no whole value can be had: the writer died
        while it wrote.
        """
        deadline = time.monotonic() + _PATIENCE_S
        for attempt in count():
            if (value := self.try_read()) is not None:
                return value
            if time.monotonic() > deadline:
                break
            if attempt > _ATTEMPTS:
                time.sleep(0.0005)
        raise DataError("a shared slot stays half written: its writer has died")
