"""The proxy that a lease names: its URL, and what an answer or a failure says of it.

Whose fault a failure was is often not known: a proxy that cuts connections looks like a server that does. Then the
frontier decides, which knows what other proxies met with at the host (``ProxyFault.UNSURE``).
"""

from __future__ import annotations

import asyncio

from skitter.errors import FetchError
from skitter.frontier.contract import WorkSource
from skitter.model.lease import Lease
from skitter.model.page import Page
from skitter.model.proxy import ProxyFault, ProxyNews
from skitter.settings import Proxies, read_statuses

BAN_TEXT_BYTES = 65_536
"""Of a body that texts are looked for in."""
GATEWAY_STATUSES = frozenset({502, 503, 504})
"""What a proxy for HTTP may say by itself, in the place of the server."""
_OF_THE_WAY = frozenset({"dns", "connect", "tls", "timeout", "slow", "truncated", "protocol"})
"""Error classes that a proxy can be the reason for."""


class LeasedProxies:
    """The proxies of the job's pool, as one worker knows them."""

    def __init__(self, source: WorkSource, settings: Proxies) -> None:
        self._source = source
        self._urls: dict[str, str] = {}
        self._one_at_a_time = asyncio.Lock()
        self._statuses = read_statuses(settings.proxy_ban_statuses, lowest=200)
        self._texts = [text.encode() for text in settings.proxy_ban_texts]
        self._headers = [
            (name.strip().lower(), value.strip())
            for name, _, value in (header.partition(":") for header in settings.proxy_ban_headers)
        ]
        self._errors = frozenset(filter(None, (name.strip() for name in settings.proxy_ban_errors.split(","))))

    async def url_of(self, lease: Lease) -> str:
        """The URL of a lease's proxy, with its password. A proxy that nobody knows any more gives the lease back."""
        if lease.proxy not in self._urls:
            async with self._one_at_a_time:
                if lease.proxy not in self._urls:
                    self._urls = {proxy.id: proxy.url for proxy in await self._source.proxies()}
        url = self._urls.get(lease.proxy)
        if url is None:
            # As if it had been broken off: it goes back, and the host's delay goes on.
            raise asyncio.CancelledError
        return url

    def of_page(self, page: Page, proxy: str, *, is_page: bool = True) -> ProxyNews | None:
        """What an answer says of its proxy; None: it has not come through one. ``is_page``: rules of bans count."""
        if page.cached:
            return None
        fault = ProxyFault.NONE
        if is_page and self._is_ban(page):
            fault = ProxyFault.BANNED
        elif page.status in GATEWAY_STATUSES and page.url.startswith("http:") and proxy.startswith("http"):
            fault = ProxyFault.UNSURE
        return ProxyNews(fault=fault, latency_seconds=page.seconds, bytes=page.wire_bytes)

    def of_error(self, error: FetchError, *, is_page: bool = True) -> ProxyNews | None:
        """What a failed fetch says of its proxy; None: nothing, it was not used."""
        if is_page and error.error_class in self._errors:
            return ProxyNews(fault=ProxyFault.BANNED)
        if error.error_class == "proxy":
            return ProxyNews(fault=ProxyFault.PROXY)
        if error.error_class in _OF_THE_WAY:
            return ProxyNews(fault=ProxyFault.UNSURE)
        return None if error.error_class == "guard" else ProxyNews()

    def _is_ban(self, page: Page) -> bool:
        if page.status in self._statuses:
            return True
        if any((found := page.header(name)) is not None and value in found for name, value in self._headers):
            return True
        return bool(self._texts) and any(text in page.body[:BAN_TEXT_BYTES] for text in self._texts)
