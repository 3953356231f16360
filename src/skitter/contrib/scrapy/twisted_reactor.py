"""Twisted's reactor on the event loop of a worker, so that Deferreds in spiders and pipelines fire."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from twisted.internet.defer import Deferred

from skitter.errors import SpiderError

_MODULE = "twisted.internet.reactor"


def install() -> None:
    """Install the asyncio reactor on the running event loop, or on a new loop if none is running.

    Call it before a project is imported, because ``from twisted.internet import reactor`` would install another one.
    A command loads a project before its loop runs, so the reactor has a loop that never runs until ``use_loop``.
    """
    if _MODULE in sys.modules:
        return
    from twisted.internet import asyncioreactor

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
    begin: Any = asyncioreactor.install
    begin(loop)


def use_loop() -> None:
    """Move the reactor to the running loop. Raises SpiderError if another kind of reactor is installed."""
    from twisted.internet.asyncioreactor import AsyncioSelectorReactor

    install()
    reactor: Any = sys.modules[_MODULE]
    if not isinstance(reactor, AsyncioSelectorReactor):
        raise SpiderError(
            f"another Twisted reactor is already installed: {type(reactor).__name__}",
            hint="load the Scrapy spider before anything else imports twisted.internet.reactor",
        )
    vars(reactor)["_asyncioEventloop"] = asyncio.get_running_loop()
    if not reactor.running:
        # Like its run(), without running the loop, which already runs. The worker handles signals.
        reactor.startRunning(installSignalHandlers=False)


async def awaited(value: Any) -> Any:
    """Return a value, or the result of a Deferred, coroutine or other awaitable."""
    if isinstance(value, Deferred):
        return await value.asFuture(asyncio.get_running_loop())
    if hasattr(value, "__await__"):
        return await value
    return value
