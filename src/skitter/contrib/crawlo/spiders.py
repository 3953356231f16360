"""Crawlo's base class: a spider whose first requests come from ``start_requests``."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable
from typing import Any

import skitter
from skitter.contrib.crawlo.requests import Request


class Spider(skitter.Spider):
    """A spider as in Crawlo: name, start_urls, custom_settings, allowed_domains, start_requests, parse, logger."""

    handled_names = frozenset({"start_requests"})

    def start_requests(self) -> Any:
        """Yield the first requests: by default those of ``start_urls``."""
        for url in self.start_urls:
            yield Request(url)

    async def start(self) -> Any:
        """Yield what ``start_requests`` does, plain or async."""
        requests = self.start_requests()
        if isinstance(requests, Awaitable):
            requests = await requests
        if isinstance(requests, AsyncIterable):
            async for request in requests:
                yield request
        else:
            for request in requests or ():
                yield request

    def make_request(self, url: str, callback: Any = None, **options: Any) -> skitter.Request:
        """Make a request, as in Crawlo."""
        return Request(url, callback=callback, **options)
