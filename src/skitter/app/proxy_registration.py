"""Proxies of a node: from what the setting ``proxies`` names to registrations that are kept up beside its workers."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

from skitter.cluster.process_identity import worker_id
from skitter.frontier.contract import Frontier
from skitter.node.proxy_refresher import OnEvent, ProxyRefresher, refreshed
from skitter.settings import Run


def proxies_registered(frontier: Frontier, run: Run, on_event: OnEvent) -> AbstractAsyncContextManager[None]:
    """While the body works for the job, the proxies of this node's sources are in its pool."""
    if not run.proxies:
        return refreshed(None)
    # Most nodes have none, and start without what reads them.
    from skitter.app.proxy_sources import REGISTERED, read_source, shown_source

    sources = [source for source in run.proxies if source != REGISTERED]
    refresher = ProxyRefresher(
        frontier,
        sources,
        read=read_source,
        shown=shown_source,
        owner=worker_id(),
        refresh_seconds=run.proxy_refresh_seconds,
        on_event=on_event,
    )
    return refreshed(refresher if sources else None)


async def check_proxies(run: Run) -> None:
    """BackendError or SettingsError for a source of proxies that cannot be read, before anything is begun."""
    if run.proxies:
        from skitter.app.proxy_sources import read_sources

        await asyncio.to_thread(read_sources, run.proxies)


async def register_once(frontier: Frontier, run: Run) -> None:
    """Put the proxies of this node's sources into the pool of a job that lives as long as this process."""
    if run.proxies:
        from skitter.app.proxy_sources import read_sources

        for urls in (await asyncio.to_thread(read_sources, run.proxies)).values():
            for url in urls:
                await frontier.register_proxy(url, worker_id())
