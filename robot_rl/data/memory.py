"""Memory that messages of 100 kB come and go in: kept by the process instead of given back and asked for again."""

import ctypes
import logging

log = logging.getLogger(__name__)

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_KEPT_BYTES = 256 << 20


def keep_freed_memory() -> None:
    """Tell the C library not to give freed memory back to the system, up to 256 MB; once, as a process begins.

    Every step's bytes would otherwise be mapped anew, page by page: the link with spool and log takes a third fewer
    steps per second then. Without glibc nothing happens.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    for parameter in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD):
        if not mallopt(parameter, _KEPT_BYTES):
            log.info("this C library does not take the setting %d of its allocator", parameter)
