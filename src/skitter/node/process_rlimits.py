"""The limits of a worker process: its memory, and how many files it may open."""

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


def allow_open_files() -> None:
    """Raise this process's limit of open files to what the system allows it, above all for connections.

    The usual soft limit of 1024 is for programs that call select(2), which nothing in a worker does.
    """
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
