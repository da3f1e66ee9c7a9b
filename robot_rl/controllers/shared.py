"""Memory that processes of one machine share, and that nobody has to let go of.

The kernel frees it with the last process that has it, however that one ends: there is no file and no entry in /dev/shm
to be left behind, nor a limit of its size to be met there. Linux (memfd_create).
"""

import mmap
import os
import weakref
from multiprocessing.reduction import DupFd
from typing import Any


class SharedBlock:
    """`size` bytes, zero at first. Hand it to a spawned process among its arguments; arrays may outlive it.

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
