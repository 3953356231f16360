"""A fetcher that lets a browser load what is to be rendered, and hands everything else on to a plain one.

Nothing of a browser is imported before the first request that wants one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from skitter.errors import FetchError, SettingsError
from skitter.fetch.contract import Fetcher, FetchRequest, slow_transfers_of
from skitter.model.page import Page
from skitter.policy.politeness import PER_HOST, has_own_pace
from skitter.settings import Settings

if TYPE_CHECKING:
    from skitter.fetch.browser.pool import BrowserPool
    from skitter.fetch.browser.upstream import Upstream


MAX_LOOKUPS = 64
"""Threads that resolve names for browsers."""


class RenderingFetcher:
    """A Fetcher that ``RendersPages``. ``program``: Chromium's."""

    def __init__(self, fetcher: Fetcher, settings: Settings, program: str) -> None:
        self._fetcher = fetcher
        self._plain = fetcher.fetch
        self._settings = settings
        self._program = program
        self._pool: BrowserPool | None = None
        self._making = asyncio.Lock()
        self._close_lookups: Callable[[], None] = lambda: None
        self._tell: Callable[[bool, bool], None] = lambda _has_room, _works: None
        self._is_closed = False
        self.slow_transfers = slow_transfers_of(fetcher)

    def fetch(self, request: FetchRequest) -> Coroutine[Any, Any, Page]:
        """See ``Fetcher.fetch``."""
        # No coroutine of its own: a page that is not rendered costs one look.
        return self._render(request) if request.render else self._plain(request)

    def watch_room(self, tell: Callable[[bool, bool], None]) -> None:
        """See ``RendersPages.watch_room``."""
        self._tell = tell

    async def close(self) -> None:
        """See ``Fetcher.close``."""
        self._is_closed = True
        if self._pool is not None:
            await self._pool.close()
        self._close_lookups()
        await self._fetcher.close()

    async def _render(self, request: FetchRequest) -> Page:
        if self._is_closed:
            raise FetchError("protocol", "the fetcher is closed")
        async with self._making:
            if self._pool is None:
                # Playwright is half a second of imports, while others fetch.
                self._pool = await asyncio.to_thread(self._make_pool)
        if request.certificate is not None:
            raise FetchError("tls", "a rendered page cannot use a client certificate: omit render for this page")
        return await self._pool.render(request, self._upstream_of(request))

    def _upstream_of(self, request: FetchRequest) -> Upstream | None:
        """The proxy that a page goes through: its own, or else that of the settings."""
        from skitter.fetch.browser.upstream import Upstream
        from skitter.fetch.ca_bundle import ca_file
        from skitter.fetch.network_guard import Guard
        from skitter.fetch.proxy import read_proxy

        fetch = self._settings.fetch
        try:
            proxy = read_proxy(request.proxy or self._settings.run.proxy)
        except SettingsError as error:
            raise FetchError("proxy", str(error)) from error
        if proxy is None:
            return None
        # The user typed that of the settings and those of the pool; one that a request names may come from a stranger.
        is_typed = not request.proxy or request.proxy_trusted
        return Upstream(
            proxy,
            ca_file=ca_file(),
            verify_tls=fetch.verify_tls,
            seconds=fetch.connect_timeout_seconds,
            guard=None if is_typed else Guard(allow_private=fetch.allow_private),
        )

    def _make_pool(self) -> BrowserPool:
        from skitter.fetch.browser.guarded_proxy import Network
        from skitter.fetch.browser.host_connections import HostConnections
        from skitter.fetch.browser.pool import BrowserPool
        from skitter.fetch.dns_lookups import DnsLookups
        from skitter.fetch.network_guard import Guard

        fetch, politeness = self._settings.fetch, self._settings.politeness
        lookups = DnsLookups(max_lookups=MAX_LOOKUPS)
        self._close_lookups = lambda: lookups.close(FetchError("protocol", "the fetcher is closed"))
        network = Network(
            guard=Guard(allow_private=fetch.allow_private),
            lookups=lookups,
            connections=HostConnections(politeness.per_host or (PER_HOST if has_own_pace(politeness) else None)),
            connect_timeout_seconds=fetch.connect_timeout_seconds,
        )
        return BrowserPool(self._settings, self._program, network, self._tell)
