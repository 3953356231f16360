"""``skitter.get``, ``skitter.aget`` and ``skitter.Session``: one page, by the engine and with the rules of a crawl."""

# ruff: noqa: ASYNC109  ``timeout`` is told with the URL, as of any other fetch
from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from skitter._version import __version__
from skitter.app import script
from skitter.app.crawl_node import opened
from skitter.app.crawl_source import seed_url
from skitter.app.failure_sentence import failure_sentence
from skitter.app.fetchers import make_fetcher
from skitter.app.page_session import cookies_of
from skitter.app.proxy_registration import register_once
from skitter.app.single_page import PageFetch
from skitter.errors import FetchError
from skitter.extract.response import Response
from skitter.model.job import JobSpec
from skitter.model.request import Fingerprinter, Request
from skitter.model.secrets import shown_url
from skitter.model.session import CookieNews
from skitter.settings import Settings
from skitter.spiders.scrapy_settings import translated

_MEMORY = "memory:"
_JOB = "get"
_NEED = "fetch.get"
Headers = Mapping[str, str] | None
SettingValues = Mapping[str, Any] | None


class Session:
    """Several calls of ``get`` with the same settings and cookies, for pages behind a login for example.

    session = skitter.Session()
    session.get(skitter.Request(login_url, method="POST", body="user=me&password=…"))
    page = session.get(members_url)
    """

    def __init__(self, *, settings: SettingValues = None) -> None:
        self._settings = settings or {}
        self._cookies: list[CookieNews] = []

    def get(self, url: str | Request, *, headers: Headers = None, timeout: float | None = None) -> Response:
        """Fetch one page like ``skitter.get``, with the cookies of earlier calls."""
        return script.run(self.aget(url, headers=headers, timeout=timeout))

    async def aget(self, url: str | Request, *, headers: Headers = None, timeout: float | None = None) -> Response:
        """Fetch one page like ``get``, without blocking the event loop."""
        wanted = url if isinstance(url, Request) else Request(url)
        wanted = wanted.replace(headers={**wanted.headers, **(headers or {})})
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                return await _fetched(wanted, self._settings, self._cookies)
        except TimeoutError:
            if not limit.expired():
                raise
        raise FetchError("timeout", f"not fetched within {timeout:g} s: {shown_url(wanted.url)}")


def get(
    url: str | Request, *, headers: Headers = None, settings: SettingValues = None, timeout: float | None = None
) -> Response:
    """Fetch one page, as a crawl would: robots.txt, redirects, retries, limits and the network guard.

    ``url`` may be a Request, with a method, headers and a body. Returns the final response of the server,
    whatever its status. Raises FetchError if the server did not respond, or if the page may not be fetched.
    ``settings`` are those of ``crawl``, such as ``{"obey_robots": False, "max_attempts": 1}``. ``timeout`` limits the
    seconds for all of it, with redirects and retries. The function also works if an event loop is running.

        title = skitter.get("https://books.example/").css("h1::text").get()
    """
    return Session(settings=settings).get(url, headers=headers, timeout=timeout)


async def aget(
    url: str | Request, *, headers: Headers = None, settings: SettingValues = None, timeout: float | None = None
) -> Response:
    """Fetch one page like ``get``, without blocking the event loop."""
    return await Session(settings=settings).aget(url, headers=headers, timeout=timeout)


async def _fetched(wanted: Request, given: Mapping[str, Any], cookies: list[CookieNews]) -> Response:
    """Fetch the request with these cookies, and put those that are known afterwards in their place."""
    own = {"concurrency": 1, "shutdown_seconds": 5.0}
    settings = Settings.from_layers([translated("settings", given, [])[0], ("get", own)])
    request = wanted.replace(
        url=seed_url(wanted.url), callback=None, errback="failed", need=_NEED, dont_filter=True, seed=True
    )
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(opened(_MEMORY, _JOB, create=True))
        await store.begin(JobSpec(name=_JOB, spider="", settings=settings.job_wide(), version=__version__))
        await store.add_cookies(cookies)
        await register_once(store, settings.run)
        job = await store.job()
        entry = Fingerprinter.of_job(job).entry(request, 0, 0)
        await store.add([entry])
        fetcher = make_fetcher(settings)
        stack.push_async_callback(fetcher.close)
        fetch = PageFetch(_MEMORY, store, job, entry, settings, fetcher)
        try:
            await fetch.run(math.inf)
        except FetchError:
            if fetch.response is None:
                raise
        cookies[:] = await cookies_of(store)
        if (response := fetch.response) is None:
            # Its host was given up, which the frontier decides.
            for failed in await store.failures("", 1):
                raise FetchError(failed.error_class, failure_sentence(failed.url, failed.error_class, failed.error))
            raise FetchError("lost", f"the page was not fetched: {shown_url(request.url)}")
    response.request = response.request.replace(callback=wanted.callback, errback=wanted.errback, need=wanted.need)
    return response
