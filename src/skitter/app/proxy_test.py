"""A test of proxies: one page through each of them, from this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from skitter.errors import FetchError
from skitter.fetch.contract import FetchRequest
from skitter.fetch.engine import CurlFetcher
from skitter.model.proxy import ProxySeen
from skitter.settings import Fetch

AT_ONCE = 20


class ProxyTest(msgspec.Struct, frozen=True, kw_only=True):
    """How the page came through one proxy."""

    id: str
    proxy: str
    """Without its password."""
    status: int = 0
    seconds: float = 0.0
    error: str = ""


async def run_proxy_tests(proxies: Sequence[ProxySeen], url: str, settings: Fetch) -> list[ProxyTest]:
    """Fetch a page through each proxy; nothing of it is told to the frontier."""
    fetcher, free = CurlFetcher(settings), asyncio.Semaphore(AT_ONCE)

    async def test(proxy: ProxySeen) -> ProxyTest:
        request = FetchRequest(url=url, trusted=True, proxy=proxy.url, proxy_trusted=True)
        async with free:
            try:
                page = await fetcher.fetch(request)
            except FetchError as error:
                return ProxyTest(id=proxy.id, proxy=proxy.shown, error=str(error))
        return ProxyTest(id=proxy.id, proxy=proxy.shown, status=page.status, seconds=round(page.seconds, 3))

    try:
        return await asyncio.gather(*(test(proxy) for proxy in proxies))
    finally:
        await fetcher.close()
