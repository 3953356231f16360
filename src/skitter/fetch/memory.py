"""What the C library does with the memory of large bodies."""

from __future__ import annotations

import contextlib
import functools
import sys

LARGE_BYTES = 1_048_576
SPARE_BYTES = 8_388_608
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


@functools.cache
def give_back_large_blocks() -> None:
    """From here on, a large block that is freed goes back to the system, whatever was freed before it.

    glibc raises its idea of large with each block that it frees, up to 32 MB. A few large bodies then leave holes
    which no later one fits: 64 bodies in Brotli, with four megabytes of history each, left 256 MB. What is smaller
    stays with the process, because every page takes as much again. A crawl without large bodies never comes here.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):  # another C library has no such thing
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, SPARE_BYTES)
