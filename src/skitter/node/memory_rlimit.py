"""The memory limit of a worker process."""

from __future__ import annotations

import contextlib
import sys


def limit_memory(limit_bytes: int | None) -> None:
    """Limit this process: an allocation beyond it fails, in Python and in libraries, instead of taking all there is.

    It counts what the process may write and has for itself: mapped files and memory shared with others do not count.
    Only Linux counts so. A limit that is already lower stays.
    """
    if limit_bytes is None or not sys.platform.startswith("linux"):
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    lower = [limit_bytes] + [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (min(lower), hard))
