"""``skitter.get`` and ``skitter.aget``: one page, by the engine and with the rules of a crawl."""

from __future__ import annotations

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
from skitter.app.proxy_registration import register_once
from skitter.app.single_page import PageFetch
from skitter.errors import FetchError
from skitter.extract.response import Response
from skitter.model.job import JobSpec
from skitter.model.request import Fingerprinter, Request
from skitter.model.secrets import shown_url
from skitter.settings import Settings
from skitter.spiders.scrapy_settings import translated

_MEMORY = "memory:"
_JOB = "get"
_NEED = "fetch.get"


def get(url: str | Request, *, settings: Mapping[str, Any] | None = None) -> Response:
    """Fetch one page, as a crawl would: robots.txt, redirects, retries, limits and the network guard.

    ``url`` may be a Request, with a method, headers and a body. Returns the final response of the server,
    whatever its status. Raises FetchError if the server did not respond, or if the page may not be fetched.
    ``settings`` are those of ``crawl``, such as ``{"obey_robots": False, "max_attempts": 1}``. The function also works
    if an event loop is running.

        title = skitter.get("https://books.example/").css("h1::text").get()
    """
    return script.run(aget(url, settings=settings))


async def aget(url: str | Request, *, settings: Mapping[str, Any] | None = None) -> Response:
    """Fetch one page like ``get``, without blocking the event loop."""
    return await _fetched(url if isinstance(url, Request) else Request(url), settings or {})


async def _fetched(wanted: Request, given: Mapping[str, Any]) -> Response:
    own = {"concurrency": 1, "shutdown_seconds": 5.0}
    settings = Settings.from_layers([translated("settings", given, [])[0], ("get", own)])
    request = wanted.replace(
        url=seed_url(wanted.url), callback=None, errback="failed", need=_NEED, dont_filter=True, seed=True
    )
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(opened(_MEMORY, _JOB, create=True))
        await store.begin(JobSpec(name=_JOB, spider="", settings=settings.job_wide(), version=__version__))
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
        if (response := fetch.response) is None:
            # Its host was given up, which the frontier decides.
            for failed in await store.failures("", 1):
                raise FetchError(failed.error_class, failure_sentence(failed.url, failed.error_class, failed.error))
            raise FetchError("lost", f"the page was not fetched: {shown_url(request.url)}")
    response.request = response.request.replace(callback=wanted.callback, errback=wanted.errback, need=wanted.need)
    return response
