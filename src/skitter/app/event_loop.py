"""The event loop that everything runs on, and the interpreter under it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from typing import Final

RINGS: Final = (10_000, 10, 10)
"""How many more objects there may be before the collector looks for rings. What a page leaves behind goes with its last
reference, so that Python's own 700 means to look at every page for nothing: 1.5 % of its cost."""
SWITCH_SECONDS: Final = 0.001
"""How long a thread may keep the interpreter to itself. Others here are short and waited for: the end of a transaction,
a renewal. With Python's own five milliseconds a commit takes twice that in vain."""


def settle_process() -> None:
    """Before the loop runs, when everything is imported: what is there stays, and is never looked at again.

    Neither while it runs nor at the end, where that took 20 ms. A process that is to come here may begin without a
    collector, which saves it some milliseconds more.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(*RINGS)
    sys.setswitchinterval(SWITCH_SECONDS)


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop where there is one."""
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()
