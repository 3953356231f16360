"""Twisted's reactor on the event loop of a worker, so that Deferreds of spiders and pipelines fire."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from twisted.internet.defer import Deferred

from skitter.errors import SpiderError

_MODULE = "twisted.internet.reactor"


def install() -> None:
    """Install the asyncio reactor, on the loop that runs, if one does.

    To be called before a project is imported: its first ``from twisted.internet import reactor`` would install another.
    A command loads a project before its loop runs, so the reactor gets one that is never run, until ``use_loop``.
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
    """Let the reactor work on the loop that runs; SpiderError if a program has installed another kind of reactor."""
    from twisted.internet.asyncioreactor import AsyncioSelectorReactor

    install()
    reactor: Any = sys.modules[_MODULE]
    if not isinstance(reactor, AsyncioSelectorReactor):
        raise SpiderError(
            f"Twisted has another reactor here: {type(reactor).__name__}",
            hint="load the Scrapy spider before anything else imports twisted.internet.reactor",
        )
    vars(reactor)["_asyncioEventloop"] = asyncio.get_running_loop()
    if not reactor.running:
        # As its run() does, but for the loop, which runs already. Signals are the worker's.
        reactor.startRunning(installSignalHandlers=False)


async def awaited(value: Any) -> Any:
    """Return a value, or what a Deferred, a coroutine or another awaitable gives."""
    if isinstance(value, Deferred):
        return await value.asFuture(asyncio.get_running_loop())
    if hasattr(value, "__await__"):
        return await value
    return value
