"""Checks before a crawl begins: what would fail every page is told at once."""

from __future__ import annotations

import asyncio

from skitter.errors import BackendError
from skitter.settings import Run

PROXY_SECONDS = 5.0
"""For the connection to a proxy; the network between is the user's own."""


async def check_proxy(run: Run) -> None:
    """BackendError if nothing listens where the setting ``proxy`` says. What it answers is not asked."""
    if not run.proxy:
        return
    # Drags in the fetch engine, which a process that only supervises does not need.
    from skitter.fetch.proxy import read_proxy

    proxy = read_proxy(run.proxy)
    assert proxy is not None, "the setting is not empty"
    try:
        async with asyncio.timeout(PROXY_SECONDS):
            _, writer = await asyncio.open_connection(proxy.host.strip("[]"), proxy.port)
    except (OSError, TimeoutError) as error:
        reason = getattr(error, "strerror", None) or f"no answer in {PROXY_SECONDS:g} s"
        raise BackendError(
            f"the proxy cannot be reached: {proxy.host}:{proxy.port}: {reason}",
            hint="start it, or correct the setting proxy; if it is only briefly unavailable, try again:"
            " nothing was started or lost",
        ) from error
    writer.close()
