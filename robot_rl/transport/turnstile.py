"""No more connections than a process can bear: strangers' own take at most half of the files that it may have open.

A connection to a port is a file of this process from the first moment on, and one that never says who it is keeps it
for `HANDSHAKE_MS` (`endpoint.py`). Without a bound there would soon be a log or a checkpoint that cannot be opened.
While half of the files are taken the system itself drops whoever comes next (a filter of socket(7), which needs no
rights): those that are connected go on, and a robot that comes just then tries again by itself until there is room.
"""

import contextlib
import ctypes
import logging
import os
import resource
import socket
import struct
import threading
import time

log = logging.getLogger(__name__)

LOOK_S = 0.02
REPORT_S = 60.0
_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27  # asm-generic/socket.h
_DROP = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # one instruction: return 0 bytes (bpf.h)
_DROP_ALL = struct.pack("HP", 1, ctypes.addressof(_DROP))
_lock = threading.Lock()
_running: "Turnstile | None" = None


def watch(fd: int) -> socket.socket:
    """Let nobody in at this listening socket while half of the files are taken. To be given back to `forget`."""
    global _running
    with _lock:
        if _running is None or _running.pid != os.getpid():
            _running = Turnstile()
        return _running.add(fd)


def forget(listener: socket.socket) -> None:
    """The socket is about to be closed."""
    if _running is not None and _running.pid == os.getpid():
        _running.remove(listener)
    listener.close()


class Turnstile:
    """Looks fifty times a second, in a thread of its own, for the rest of the process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._own = os.eventfd(0, os.EFD_CLOEXEC)
        self._listeners: set[socket.socket] = set()
        self._is_shut, self._reported = False, -REPORT_S
        self._changing = threading.Lock()
        threading.Thread(target=self._run, name="turnstile", daemon=True).start()

    def add(self, fd: int) -> socket.socket:
        listener = socket.socket(fileno=os.dup(fd))
        with self._changing:
            self._listeners.add(listener)
            if self._is_shut:
                _shut(listener, True)
        return listener

    def remove(self, listener: socket.socket) -> None:
        with self._changing:
            self._listeners.discard(listener)

    def _run(self) -> None:
        while True:
            time.sleep(LOOK_S)
            most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            is_shut = self._lowest_free(most) > most // 2
            if is_shut == self._is_shut:
                continue
            with self._changing:
                self._is_shut = is_shut
                for listener in self._listeners:
                    _shut(listener, is_shut)
            if is_shut and time.monotonic() - self._reported > REPORT_S:
                self._reported = time.monotonic()
                log.warning("half of the %d files that this process may open are taken, by connections of strangers "
                            "as it seems: nobody else is let in until there is room", most)  # fmt: skip

    def _lowest_free(self, most: int) -> int:
        """The number of the next file to be opened: as many are open, or more."""
        try:
            fd = os.dup(self._own)
        except OSError:
            return most
        os.close(fd)
        return fd


def _shut(listener: socket.socket, is_shut: bool) -> None:
    with contextlib.suppress(OSError):  # a system without such filters: EMFILE is then ZeroMQ's to survive
        if is_shut:
            listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, _DROP_ALL)
        else:
            listener.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
