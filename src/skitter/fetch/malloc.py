"""Settings of glibc's malloc for the memory of pages."""

from __future__ import annotations

import contextlib
import functools
import sys

LARGE_BYTES = 1_048_576
SPARE_BYTES = 2_097_152
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


@functools.cache
def tune_malloc() -> None:
    """Set malloc to keep freed memory of pages in the process, and to return that of large bodies to the system.

    Every page takes as much as the last one gave back. glibc returns the free end of its heap, 128 KB and more,
    to the system: where a page's tree happened to lie there, that was two or three system calls for each, and fresh
    memory behind them: an eighth of the cost of a small page.

    A large block goes back, whatever was freed before it. glibc raises its idea of large with each one that it frees,
    up to 32 MB, and a few large bodies would leave holes which no later one fits: 64 bodies in Brotli, with four
    megabytes of history each, left 256 MB.
    """
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(ImportError, OSError, AttributeError):  # another C library has no such thing
        import ctypes

        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, SPARE_BYTES)
