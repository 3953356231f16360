"""Downloads that a callback or pipeline awaits: media pipelines and ``crawler.engine.download``.

The worker that needs them sends them in addition to its pages: with the user agent, proxy and network guard of the job,
at most ``CONCURRENT`` at a time per host and with the job's delay between them. They are not queued, and not
deduplicated across workers. Redirects are followed, and failures are retried a few times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import scrapy
from scrapy import exceptions
from scrapy.http import Response

from skitter.contrib.scrapy.pages import ERRORS, make_response
from skitter.contrib.scrapy.request_codec import RequestCodec
from skitter.errors import FetchError, UrlError
from skitter.fetch.contract import Fetcher, FetchRequest
from skitter.model.page import Page
from skitter.model.request import Request
from skitter.model.url import absolute, host_key
from skitter.policy.redirects import REDIRECT_STATUSES
from skitter.settings import Settings, read_statuses

CONCURRENT = 4
"""Maximum number of downloads of one worker in flight to one host."""


class Downloads:
    """Downloads of one worker.

    ``is_trusted`` returns whether the network guard may let a host key through. ``add_headers`` adds the headers that
    all requests have.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        settings: Settings,
        is_trusted: Callable[[str], bool],
        add_headers: Callable[[Request], None],
    ) -> None:
        self._add_headers = add_headers
        self._fetcher = fetcher
        self._delay_seconds = settings.politeness.delay_seconds or 0.0
        self._attempts = min(settings.retry.max_attempts, 3)
        self._retried = read_statuses(settings.retry.retry_statuses)
        self._max_redirects = settings.fetch.max_redirects
        self._is_trusted = is_trusted
        self._hosts: dict[str, asyncio.Semaphore] = {}

    async def fetch(self, request: scrapy.Request, codec: RequestCodec) -> Response:
        """Return the response. Raises one of Scrapy's exceptions if there is none."""
        plain = codec.encode(request.replace(callback=None, errback=None))
        self._add_headers(plain)
        try:
            url = absolute(plain.url)
            page = await self._answered(plain, url)
        except UrlError as error:
            raise exceptions.UnsupportedURLSchemeError(str(error)) from error
        except FetchError as error:
            raise ERRORS.get(error.error_class, exceptions.DownloadFailedError)(str(error)) from error
        return make_response(page, request if page.url == url else request.replace(url=page.url))

    async def _answered(self, request: Request, url: str) -> Page:
        handled: Any = request.meta
        for _ in range(self._max_redirects + 1):
            page = await self._tried(request, url)
            location = page.header("location")
            if page.status not in REDIRECT_STATUSES or location is None or handled.get("dont_redirect"):
                return page
            target = absolute(location, url)
            request = request.replace(url=target) if page.status in (307, 308) else Request(target, meta=request.meta)
            url = target
        raise FetchError("redirect", f"more than {self._max_redirects} redirects")

    async def _tried(self, request: Request, url: str) -> Page:
        attempt = 1
        while True:
            try:
                page = await self._fetched(request, url)
            except FetchError:
                if attempt >= self._attempts:
                    raise
            else:
                if page.status not in self._retried or attempt >= self._attempts:
                    return page
            await asyncio.sleep(0.2 * 2**attempt)
            attempt += 1

    async def _fetched(self, request: Request, url: str) -> Page:
        key = host_key(url)
        if key not in self._hosts and len(self._hosts) > 10_000:
            self._hosts.clear()
        host = self._hosts.setdefault(key, asyncio.Semaphore(1 if self._delay_seconds else CONCURRENT))
        async with host:
            try:
                return await self._fetcher.fetch(
                    FetchRequest(
                        url=url,
                        method=request.method,
                        headers=request.headers,
                        body=request.body,
                        cookies=request.cookies,
                        trusted=self._is_trusted(key),
                        timeout_seconds=request.timeout,
                    )
                )
            finally:
                if self._delay_seconds:
                    await asyncio.sleep(self._delay_seconds)
