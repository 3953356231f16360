"""Twisted's reactor on the event loop of a worker, so that Deferreds of spiders and pipelines fire."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from twisted.internet.defer import Deferred

_MODULE = "twisted.internet.reactor"


def install_on_running_loop() -> None:
    """Install the asyncio reactor on the loop that runs; without one, nothing is done, and nothing would drive it.

    To be called before a project is imported: its first ``from twisted.internet import reactor`` would install another.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    if _MODULE in sys.modules:
        return
    from twisted.internet import asyncioreactor

    install: Any = asyncioreactor.install
    install(loop)
    reactor: Any = sys.modules[_MODULE]
    # As its run() does, but for the loop, which runs already. Signals are the worker's.
    reactor.startRunning(installSignalHandlers=False)


async def awaited(value: Any) -> Any:
    """Return a value, or what a Deferred, a coroutine or another awaitable gives."""
    if isinstance(value, Deferred):
        return await value.asFuture(asyncio.get_running_loop())
    if hasattr(value, "__await__"):
        return await value
    return value
