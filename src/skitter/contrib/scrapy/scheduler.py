"""Scheduler for Scrapy on skitter's frontier: ``SCHEDULER = "skitter.contrib.scrapy.Scheduler"``.

Scrapy's engine asks for one request at a time and does not wait, so requests are leased ahead (``frontier_link``). A
request is done when its callback has yielded everything and every item has passed the pipelines; then its links and
items are committed together. To detect that, and to know which page links and items belong to, the scheduler wraps
``Scraper.enqueue_scrape``; callbacks and pipelines run in tasks that inherit its context.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self

import scrapy
from scrapy import signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from skitter.contrib.scrapy.frontier_link import FrontierLink
from skitter.contrib.scrapy.held_page import PART_LINKS, HeldPage
from skitter.contrib.scrapy.redis_spiders import RedisMixin
from skitter.contrib.scrapy.request_codec import RequestCodec
from skitter.contrib.scrapy.scheduler_settings import read_settings
from skitter.errors import RequestError, UrlError, UsageError
from skitter.model.lease import Lease
from skitter.model.outcome import Ending, Outcome
from skitter.model.secrets import shown_url

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

log = logging.getLogger("skitter.scrapy")
MARK = "skitter_lease"
"""Key in ``meta`` that links a redirect or retry to the request in flight that it replaces."""
START_PART_SECONDS = 0.2
"""Interval at which start requests are committed."""
_CURRENT: ContextVar[HeldPage | None] = ContextVar("skitter_page", default=None)
"""Page whose callback or pipeline is running."""


class Scheduler(BaseScheduler):
    """Scheduler that leaves queue, dedup, leases and end of the job to the frontier, and everything else to Scrapy."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._stats = crawler.stats
        self._pages: dict[scrapy.Request, HeldPage] = {}
        """Pages that the engine is processing, by their requests."""
        self._marked: dict[int, HeldPage] = {}
        self._link: FrontierLink | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create the scheduler, as Scrapy does."""
        return cls(crawler)

    # ---- opening and closing

    def open(self, spider: scrapy.Spider) -> Deferred[None]:
        """Start or resume the job, and take over the spider's start requests, which are read once per job."""
        from scrapy.utils.asyncio import is_asyncio_available

        if not is_asyncio_available():
            raise UsageError(
                "skitter's scheduler needs the asyncio reactor",
                hint="remove TWISTED_REACTOR, or set it to twisted.internet.asyncioreactor.AsyncioSelectorReactor",
            )
        return deferred_from_coro(self._open(spider))

    async def _open(self, spider: scrapy.Spider) -> None:
        self._spider = spider
        self._codec = RequestCodec(spider)
        settings = read_settings(self._crawler.settings, spider)
        # The frontier enforces the delay across all processes.
        spider.download_delay = 0  # type: ignore[attr-defined]
        engine: Any = self._crawler.engine
        self._start, engine._start = engine._start, None  # noqa: SLF001
        self._enqueue_scrape = engine.scraper.enqueue_scrape
        engine.scraper.enqueue_scrape = self._scrape
        self._crawler.signals.connect(self._item_scraped, signals.item_scraped)
        self._crawler.signals.connect(self._spider_error, signals.spider_error)
        self._link = FrontierLink(settings, seed=self._seed, wake_engine=self._wake_engine)
        await self._link.open(spider.open_intake if isinstance(spider, RedisMixin) else None)

    def close(self, reason: str) -> Deferred[None]:
        """Commit what has ended, return other leases, and wait for the outputs of a finished job."""
        return deferred_from_coro(self._close(reason))

    async def _close(self, reason: str) -> None:
        if self._link is None:
            return
        self._end_replaced(everything=True)
        await self._link.close(is_shutdown=reason == "shutdown")

    def _wake_engine(self) -> None:
        engine: Any = self._crawler.engine
        slot = engine._slot  # noqa: SLF001
        if slot is not None and slot.closing is None:
            slot.nextcall.schedule()

    # ---- called by the engine

    def has_pending_requests(self) -> bool:
        """Return True until the job is over, with nothing queued or in flight in this or any other process."""
        return self._link is not None and not self._link.is_over

    def next_request(self) -> scrapy.Request | None:
        """Return the request of a lease that may start now, or None."""
        self._end_replaced()
        if self._link is None:
            return None
        while (lease := self._link.take()) is not None:
            request = self._decoded(lease)
            if request is None:
                continue
            page = HeldPage(lease, request)
            request.meta[MARK] = lease.epoch
            self._pages[request] = self._marked[lease.epoch] = page
            if self._stats is not None:
                self._stats.inc_value("scheduler/dequeued")
            return request
        return None

    def _decoded(self, lease: Lease) -> scrapy.Request | None:
        assert self._link is not None
        try:
            return self._codec.decode(lease.request)
        except Exception as error:  # noqa: BLE001  an unreadable request affects only its page
            log.error("a stored request cannot be read: %s: %s", lease.host_key, error)  # noqa: TRY400
            outcome = Outcome(
                lease=lease, ending=Ending.FAILED, error_class="internal", error=str(error), touched=False
            )
            self._link.end(outcome, [])
            return None

    def enqueue_request(self, request: scrapy.Request) -> bool:
        """Add a request: a link of a page, a redirect or retry that replaces a request, or one without a page.

        Return False if this process knows it already, or if it cannot be stored. The frontier finds duplicates of
        other processes.
        """
        if self._link is None:
            return False
        page = _CURRENT.get()
        if page is None or page.is_over:
            page = self._marked.get(request.meta.get(MARK, 0)) if request._meta else None  # noqa: SLF001
        is_plain = request.method == "GET" and not request.body and not request.dont_filter
        if is_plain and request.url in self._link.known:
            return False
        try:
            parent, place = (page.lease.id, page.next_place()) if page is not None else (self._link.next_parent(), 0)
            entry = self._link.fingerprinter.entry(self._codec.encode(_unmarked(request)), parent, place)
        except RequestError as error:
            self._refuse(page, error)
            return False
        except UrlError as error:
            log.warning("cannot be crawled: %s: %s", shown_url(request.url), error)
            return False
        if self._stats is not None:
            self._stats.inc_value("scheduler/enqueued")
        if page is None:
            self._link.add(entry)
            return True
        page.links.append(entry)
        if is_plain:
            page.urls.append(request.url)
        if not page.is_scraped and page.request is not None:
            # A middleware has returned another request: a redirect or a retry.
            self._end(page, None)
        return True

    @staticmethod
    def _refuse(page: HeldPage | None, error: RequestError) -> None:
        """Report a request that cannot be stored as a problem of the page that yielded it, for ``skitter failed``."""
        log.error("%s\nhint: %s", error, error.hint)
        if page is not None:
            page.problem = page.problem or f"{error}\n{error.hint}"

    # ---- processing of a request

    def _scrape(self, result: Response | Failure, request: scrapy.Request, *rest: Any) -> Deferred[None]:
        """Wrap ``Scraper.enqueue_scrape``, so that everything that it starts belongs to this page."""
        page = self._pages.get(request)
        if page is None:
            unowned: Deferred[None] = self._enqueue_scrape(result, request, *rest)
            return unowned
        page.is_scraped = True
        token = _CURRENT.set(page)
        try:
            scraped: Deferred[None] = self._enqueue_scrape(result, request, *rest)
        finally:
            _CURRENT.reset(token)

        def ended(value: Any) -> Any:
            self._end(page, result)
            return value

        return scraped.addBoth(ended)

    def _end(self, page: HeldPage, result: Response | Failure | None) -> None:
        assert self._link is not None
        if page.request is not None:
            self._pages.pop(page.request, None)
        self._marked.pop(page.lease.epoch, None)
        is_wanted = not isinstance(result, Response) or self._is_wanted(result)
        self._link.end(page.outcome(result, is_wanted), page.urls)

    def _is_wanted(self, response: Response) -> bool:
        """Return whether Scrapy passes responses of this status to the spider (``HttpErrorMiddleware``)."""
        settings, meta = self._crawler.settings, response.request.meta if response.request is not None else {}
        if 200 <= response.status < 300 or meta.get("handle_httpstatus_all") or settings.getbool("HTTPERROR_ALLOW_ALL"):
            return True
        listed = meta.get("handle_httpstatus_list") or getattr(self._spider, "handle_httpstatus_list", None)
        codes = listed if listed is not None else settings.getlist("HTTPERROR_ALLOWED_CODES")
        return str(response.status) in map(str, codes)

    def _end_replaced(self, *, everything: bool = False) -> None:
        """End pages that the engine has dropped without a response: a middleware replaced them by an unmarked request.

        ``everything``: the engine is closed, so all remaining pages without a response are returned to the frontier.
        """
        engine: Any = self._crawler.engine
        slot = engine._slot  # noqa: SLF001
        in_progress = slot.inprogress if slot is not None and not everything else ()
        gone = [page for request, page in self._pages.items() if request not in in_progress and not page.is_scraped]
        for page in gone:
            if everything:
                assert self._link is not None
                self._link.give_back(page.lease)
            else:
                self._end(page, None)

    def _item_scraped(self, item: Any) -> None:
        page = _CURRENT.get()
        if page is not None and not page.is_over and self._link is not None and self._link.keeps_items:
            page.add_item(item)

    def _spider_error(self, failure: Failure) -> None:
        page = _CURRENT.get()
        if page is not None:
            page.problem = page.problem or "".join(traceback.format_exception(failure.value))

    # ---- start requests

    async def _seed(self, lease: Lease) -> None:
        """Run the spider's ``start()`` in the one process that holds its lease, and commit its requests in parts."""
        assert self._link is not None
        page = HeldPage(lease)
        page.is_scraped = True
        engine: Any = self._crawler.engine
        start, self._start = self._start, None
        if start is None:
            # This process has run it before and lost the lease.
            start = await engine.scraper.spidermw.process_start()
        sending = asyncio.create_task(self._send_parts(page))
        token = _CURRENT.set(page)
        try:
            async for output in start or _nothing():
                await self._take_start(engine, output)
                if len(page.links) >= PART_LINKS:
                    await self._link.commit_part(page)
        except CloseSpider as error:
            closing = deferred_from_coro(engine.close_spider_async(reason=error.reason or "cancelled"))
            closing.addErrback(lambda failure: log.warning("the spider cannot be closed: %s", failure.value))
        except Exception as error:
            log.exception("the spider's start() failed")
            page.problem = "".join(traceback.format_exception(error))
        finally:
            _CURRENT.reset(token)
            sending.cancel()
            await asyncio.wait([sending])
        self._end(page, None)

    async def _send_parts(self, page: HeldPage) -> None:
        """Commit start requests at intervals, because ``start()`` may read a slow source."""
        assert self._link is not None
        while True:
            await asyncio.sleep(START_PART_SECONDS)
            await self._link.commit_part(page)

    @staticmethod
    async def _take_start(engine: Any, output: Any) -> None:
        if isinstance(output, scrapy.Request):
            engine.crawl(output)
        elif output is not None:
            process = getattr(engine.scraper, "start_itemproc_async", None) or engine.scraper.start_itemproc
            await process(output, response=None)


async def _nothing() -> Any:
    for _ in ():
        yield


def _unmarked(request: scrapy.Request) -> scrapy.Request:
    """Return the request without skitter's key in ``meta``, which spiders copy with the rest of ``meta``."""
    if not request._meta or MARK not in request._meta:  # noqa: SLF001
        return request
    copy = request.copy()
    del copy.meta[MARK]
    return copy
