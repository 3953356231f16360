"""The seeding: running the spider's ``start()`` under a lease, and committing what it yields in parts.

In a job that recrawls, known pages that are due follow. A page that has not changed is not parsed, so nothing else
would lead to the pages that it links to.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterable, Awaitable
from typing import Any

import msgspec

from skitter.extract.items import is_item
from skitter.frontier.contract import WorkSource
from skitter.model.lease import Lease
from skitter.model.outcome import Ending, Outcome
from skitter.model.page_record import KnownPage
from skitter.model.request import Entry, RequestId, decode
from skitter.observe import events
from skitter.settings import Recrawl
from skitter.spiders.sitemaps import sitemap_requests
from skitter.worker.callbacks import Callbacks, is_of_the_callback
from skitter.worker.page_yield import PART_LINKS, LinkContext, PageYield

FIRST_PART = 64
"""A long list of seeds starts the crawl before it is read to its end."""
PART_SECONDS = 0.5
"""A start() that reads a slow feed has its seeds crawled as they come."""


class Seeder:
    """Adds the first requests. Only the last part closes the seeding, so a seeding that dies is run again."""

    def __init__(
        self, worker_id: str, *, rules: LinkContext, callbacks: Callbacks, source: WorkSource, recrawl: Recrawl
    ) -> None:
        self._worker_id = worker_id
        self._rules = rules
        self._callbacks = callbacks
        self._source = source
        self._recrawl = recrawl

    async def seed(self, lease: Lease) -> tuple[Outcome, list[str]]:
        """The last part, and its URLs to remember. If start() fails, what it yielded before that stays."""
        page_yield = PageYield(self._rules, lease.id, None)
        parts = _Parts(lease, page_yield, self._callbacks)
        sending = asyncio.create_task(parts.send_now_and_then())
        seeding = asyncio.current_task()
        assert seeding is not None
        # It only ends when it fails: then start(), which may be waiting for something, has to end as well.
        sending.add_done_callback(lambda sent: sent.cancelled() or seeding.cancel())
        try:
            problem = await self._consume(parts)
            if self._recrawl.is_on:
                # After the seeds, by which it is known on which hosts links of these pages are followed. What is added
                # from now on is due as well, and queued already.
                await self._add_known_pages(parts, lease.leased_at if self._recrawl.recrawl == "due" else math.inf)
            outcome, urls = await parts.last()
            if sending.done():
                sending.result()
        except asyncio.CancelledError:
            if sending.done():
                sending.result()
            raise
        finally:
            sending.cancel()
        if problem:
            outcome.ending, outcome.error_class, outcome.error = Ending.FAILED, "callback", problem
        return outcome, urls

    async def _consume(self, parts: _Parts) -> str:
        """Run start() to its end; the traceback if it raised, else nothing."""
        # Not under the callback's time limit: a start() may read a feed for hours. But a blocked loop is noticed.
        outputs: Any = None
        try:
            spider = self._rules.spider
            for request in sitemap_requests(spider.sitemap_urls, spider.start_urls):
                await parts.take(request)
            outputs = spider.start()
            if isinstance(outputs, Awaitable):
                outputs = await outputs
            if isinstance(outputs, AsyncIterable):
                async for output in outputs:
                    await parts.take(output)
            else:
                for output in outputs or ():
                    await parts.take(output)
        except BaseException as error:
            if not is_of_the_callback(error):
                raise
            return "start() failed:\n" + self._callbacks.described(error, outputs)
        return ""

    async def _add_known_pages(self, parts: _Parts, until: float) -> None:
        after, count, is_last = 0.0, 0, False
        while not is_last:
            pages = await self._source.known_pages(after, until, PART_LINKS)
            await parts.take_entries([self._entry(page) for page in pages])
            count += len(pages)
            # Not until there are none: a crawl that finds new pages meanwhile would never come to that.
            is_last = len(pages) < PART_LINKS
            after = pages[-1].due_at if pages else after
        if count:
            events.emit(events.PAGES_DUE(worker=self._worker_id, pages=count))

    def _entry(self, page: KnownPage) -> Entry:
        request = decode(page.payload)
        # What was in scope stays so, where seeds decide on it: a seed may have been redirected to its host.
        permits = self._rules.scope.is_by_seeds or request.seed
        # Whom the network guard lets through, the seeds of this run say.
        entry = self._rules.fingerprinter.entry(request)
        return msgspec.structs.replace(entry, id=RequestId(page.id), permits=permits, trusts=False)


class _Parts:
    """What start() has yielded, on its way into the frontier."""

    def __init__(self, lease: Lease, page_yield: PageYield, callbacks: Callbacks) -> None:
        self._lease = lease
        self._page_yield = page_yield
        self._callbacks = callbacks
        self._sent = 0
        self._sent_at = time.monotonic()
        # A part that arrived after the last one would be refused, and its seeds lost.
        self._turn = asyncio.Lock()

    async def take(self, output: Any) -> None:
        """One thing that start() yielded."""
        page_yield = self._page_yield
        if is_item(output):
            raise TypeError("start() must yield Requests, not items")
        page_yield.take(output)
        enough = page_yield.is_large or (not self._sent and len(page_yield.links) >= FIRST_PART)
        if enough or time.monotonic() - self._sent_at >= PART_SECONDS:
            await self._send()
            # The pages that are already there get their turn.
            await asyncio.sleep(0)

    async def take_entries(self, entries: list[Entry]) -> None:
        """Requests that the job has had before."""
        self._page_yield.links += entries
        await self._send()

    async def send_now_and_then(self) -> None:
        """For a start() that waits for its next seed while others are at hand."""
        while True:
            await asyncio.sleep(PART_SECONDS)
            await self._send()

    async def last(self) -> tuple[Outcome, list[str]]:
        """What is left, with nothing on its way any more."""
        async with self._turn:
            outcome, urls = self._page_yield.take_part(self._lease)
            outcome.more = False
            return outcome, urls

    async def _send(self) -> None:
        async with self._turn:
            self._sent_at = time.monotonic()
            if self._page_yield.links:
                self._sent += 1
                await self._callbacks.send_part(self._lease, self._page_yield)
