"""Keeps the proxies of a node's sources registered: reads the lists again, renews what stays, removes what is gone.

A list that cannot be read leaves the last one in force. What a node has registered is gone some time after the node,
unless another one has the same proxy in its lists.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from skitter.errors import SkitterError
from skitter.frontier.contract import ProxyPool
from skitter.observe import events

LEAST_LIFETIME_SECONDS = 600.0
"""Of a registration, which is renewed after a third of it."""
OnEvent = Callable[[events.Event], None]
ReadSource = Callable[[str], list[str]]


class ProxyRefresher:
    """The proxies of some sources in the pool of one job."""

    def __init__(
        self,
        pool: ProxyPool,
        sources: Sequence[str],
        *,
        read: ReadSource,
        shown: Callable[[str], str],
        owner: str,
        refresh_seconds: float,
        on_event: OnEvent,
    ) -> None:
        """``read``: a source to URLs of proxies; it blocks. ``shown``: a source without its secrets."""
        self._pool = pool
        self._sources = sources
        self._read = read
        self._shown = shown
        self._owner = owner
        self._refresh_seconds = refresh_seconds
        self._lifetime_seconds = max(LEAST_LIFETIME_SECONDS, 3 * refresh_seconds)
        self._on_event = on_event
        self._lists: dict[str, list[str]] = {}
        self._troubled: set[str] = set()
        self._registered: dict[str, tuple[str, float]] = {}
        """By URL: its id, and when it was last registered."""

    async def begin(self) -> None:
        """Read and register everything. Raises what a source that cannot be read raises."""
        for source in self._sources:
            self._lists[source] = await asyncio.to_thread(self._read, source)
        await self._register()
        self._on_event(events.PROXIES_REGISTERED(proxies=len(self._registered), sources=len(self._sources)))

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(self._refresh_seconds)
            for source in self._sources:
                await self._read_again(source)
            try:
                await self._register()
            except SkitterError as error:
                # The store is unavailable: workers wait for it too.
                self._on_event(events.PROXY_LIST_TROUBLE(source="the pool", reason=str(error)))

    async def _read_again(self, source: str) -> None:
        try:
            self._lists[source] = await asyncio.to_thread(self._read, source)
        except SkitterError as error:
            if source not in self._troubled:
                self._troubled.add(source)
                self._on_event(events.PROXY_LIST_TROUBLE(source=self._shown(source), reason=str(error)))
        else:
            self._troubled.discard(source)

    async def _register(self) -> None:
        wanted = dict.fromkeys(url for urls in self._lists.values() for url in urls)
        for url in wanted:
            known = self._registered.get(url)
            if known is None or time.monotonic() - known[1] > self._lifetime_seconds / 3:
                proxy = await self._pool.register_proxy(url, self._owner, self._lifetime_seconds)
                self._registered[url] = (proxy, time.monotonic())
        for url in [url for url in self._registered if url not in wanted]:
            await self._pool.remove_proxy(self._registered[url][0])
            del self._registered[url]


@asynccontextmanager
async def refreshed(refresher: ProxyRefresher | None) -> AsyncIterator[None]:
    """While the body works, the proxies are kept registered; None: there are none."""
    if refresher is None:
        yield
        return
    await refresher.begin()
    refreshing = asyncio.create_task(refresher.run())
    try:
        yield
    finally:
        refreshing.cancel()
        await asyncio.wait([refreshing])
