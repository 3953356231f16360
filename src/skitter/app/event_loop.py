"""The event loop that everything runs on."""

from __future__ import annotations

import asyncio
import contextlib


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop where there is one."""
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()
