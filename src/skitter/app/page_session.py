"""Pages that a person asks for one by one (``skitter fetch``, ``parse``, ``shell``), fetched as a crawl would do it.

A frontier in memory keeps the politeness of the session: robots.txt, delays and back-off. One fetcher has its guard,
its proxy and its cookies.
"""

from __future__ import annotations

import asyncio
from typing import Self, TypeVar

import msgspec

from skitter._version import __version__
from skitter.app.crawl_source import seed_url
from skitter.app.event_loop import new_loop
from skitter.app.fetchers import make_fetcher
from skitter.app.frontiers import open_frontier
from skitter.app.proxy_check import check_proxy
from skitter.app.proxy_registration import register_once
from skitter.app.single_page import NotYet, PageFetch
from skitter.concurrency import LoopThread
from skitter.errors import FetchError
from skitter.extract.response import Response
from skitter.fetch.contract import Fetcher
from skitter.frontier.contract import Frontier
from skitter.model.job import JobSpec
from skitter.model.page import Page
from skitter.model.request import Fingerprinter, Request
from skitter.model.session import CookieNews, JarRef
from skitter.settings import Settings

T = TypeVar("T")
MAX_WAIT_SECONDS = 60.0
"""A host that is to be asked later than this is not waited for."""
_LOOK_SECONDS = 1.0
_STORE = "memory:"
_JOB = "session"
ERROR_STATUSES = tuple(range(400, 600))


async def cookies_of(store: Frontier) -> list[CookieNews]:
    """Return all cookies of a store, for another one."""
    sessions = await store.sessions()
    jars = await store.jars([JarRef(one.name, domain) for one in sessions for domain in one.domains])
    return [CookieNews(session=jar.session, domain=jar.domain, cookies=jar.cookies) for jar in jars]


class PageSession:
    """Fetches requests, whatever status they are answered with."""

    def __init__(self, settings: Settings) -> None:
        """A failure is told at once: nothing is tried again."""
        once = msgspec.structs.replace(settings.retry, max_attempts=1)
        run = msgspec.structs.replace(settings.run, concurrency=1, shutdown_seconds=1.0)
        self._settings = msgspec.structs.replace(settings, retry=once, run=run)
        self._store: Frontier | None = None
        self._fetcher: Fetcher | None = None
        self._count = 0
        self._cookies: list[CookieNews] = []
        """Kept when what is known of hosts is forgotten."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections; cookies and what is known of hosts are forgotten."""
        await self._forget_hosts()
        self._cookies = []
        if self._fetcher is not None:
            await self._fetcher.close()
            self._fetcher = None

    async def fetch(self, request: Request) -> Page:
        """Return the page, after redirects. Raises FetchError if there is none: robots.txt forbids it, no answer, …"""
        if self._fetcher is None:
            await check_proxy(self._settings.run)
            self._fetcher = make_fetcher(self._settings)
        try:
            return await self._fetch(request, self._fetcher)
        except asyncio.CancelledError:
            # By Ctrl-C at a prompt: what was leased must not hold up the next page of the host.
            await self._forget_hosts()
            raise
        except FetchError as error:
            # A host that was given up gets a new chance.
            await self._forget_hosts()
            if error.error_class == "robots":
                raise FetchError("robots", str(error), hint="use --ignore-robots if you are allowed to") from error
            raise

    async def _fetch(self, request: Request, fetcher: Fetcher) -> Page:
        if self._store is None:
            self._store = open_frontier(_STORE, _JOB, create=True)
            spec = JobSpec(name=_JOB, spider="", settings=self._settings.job_wide(), version=__version__)
            await self._store.begin(spec)
            await self._store.add_cookies(self._cookies)
            await register_once(self._store, self._settings.run)
        store = self._store
        self._count += 1
        wanted = request.replace(
            url=seed_url(request.url),
            dont_filter=True,
            need=f"page.{self._count}",
            callback=None,
            errback="failed",
            # Typed by somebody: its host may be private, as that of a seed.
            seed=True,
        )
        entry = Fingerprinter.of_job(await store.job()).entry(wanted, self._count)
        await store.add([entry])
        waited = 0.0
        while True:
            # Read again: one that was finished goes on now.
            job = await store.job()
            one = PageFetch(_STORE, store, job, entry, self._settings, fetcher, handle_statuses=ERROR_STATUSES)
            page = await one.run(_LOOK_SECONDS)
            if not isinstance(page, NotYet):
                return page
            waited += _LOOK_SECONDS
            if page.seconds + waited > MAX_WAIT_SECONDS:
                raise FetchError(
                    "timeout",
                    f"the host accepts no request for another {page.seconds:.0f} s: {wanted.url}",
                    hint="the settings, robots.txt or a Retry-After set this delay",
                )

    async def _forget_hosts(self) -> None:
        if self._store is not None:
            self._cookies = await cookies_of(self._store)
            await self._store.close()
            self._store = None


class BlockingPageSession:
    """A PageSession for a prompt, on a loop of its own: a notebook or IPython may run another."""

    def __init__(self, settings: Settings) -> None:
        self._session = PageSession(settings)
        self._thread = LoopThread("skitter-pages", new_loop())
        self._wait_for = self._thread.wait_for

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._wait_for(self._session.close())
        self._thread.stop()

    def fetch(self, request: Request) -> Response:
        """Return the page as a callback would be given it."""
        return response_of(self._wait_for(self._session.fetch(request)), request)


def response_of(page: Page, request: Request) -> Response:
    """Return the response to a request, or to the last hop of its redirects."""
    return Response(page, request.replace(url=page.url))
