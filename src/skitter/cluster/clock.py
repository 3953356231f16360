"""The clock that lifetimes are counted with: it never jumps, and goes on while the machine sleeps."""

from __future__ import annotations

import time


def now_seconds() -> float:
    """Return seconds since some moment: the boot, on Linux, for all processes of a machine."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
