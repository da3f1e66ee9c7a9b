"""Memory that messages of 100 kB come and go in: kept by the process instead of given back and
asked for again.
"""

import ctypes
import gc
import logging

log = logging.getLogger(__name__)

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_KEPT_BYTES = 256 << 20


def settle_memory() -> None:
    """What a process does once, as it begins, when everything is imported.

    The C library is told not to give freed memory back to the system, up to 256 MB: every step's
    bytes would otherwise be mapped anew, page by page (without glibc nothing happens). And the
    garbage collector need not look again at what there is by now (PyTorch alone is 300,000
    objects), which is a fifth of the link's processor time.
    """
    gc.collect()
    gc.freeze()
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    for parameter in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD):
        if not mallopt(parameter, _KEPT_BYTES):
            log.info("this C library does not take the setting %d of its allocator", parameter)
