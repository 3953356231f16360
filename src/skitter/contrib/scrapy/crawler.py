"""Crawler object of a Scrapy project in a worker: settings, signals, stats, and an engine backed by skitter."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import scrapy
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.utils.misc import build_from_crawler, load_object
from twisted.internet.defer import Deferred

from skitter.contrib.scrapy.components import build
from skitter.spiders.stats import Stats

log = logging.getLogger("skitter.spider.scrapy")


class WorkerCrawler(Crawler):
    """Scrapy's crawler without Scrapy's engine."""

    def __init__(self, kind: type[scrapy.Spider], settings: Settings) -> None:
        super().__init__(kind, settings)
        self.addons.load_settings(self.settings)

    def open(self, arguments: dict[str, str], engine: Engine, stats: Stats) -> scrapy.Spider:
        """Create the spider and the attributes of ``self.crawler``; call ``extend`` next to create the extensions."""
        self.crawling = True
        self.stats = _collector(self, stats)
        self.logformatter = build_from_crawler(load_object(self.settings["LOG_FORMATTER"]), self)
        self.request_fingerprinter = build_from_crawler(load_object(self.settings["REQUEST_FINGERPRINTER_CLASS"]), self)
        engine.crawler = self
        # Scrapy declares its own engine type here; this engine only has the methods that components call.
        vars(self)["_engine"] = engine
        self.spider = self._create_spider(**arguments)
        engine.spider = self.spider
        if not hasattr(self.spider, "state"):
            # With Scrapy's JOBDIR this is persistent; here it lives as long as the worker.
            vars(self.spider)["state"] = {}
        return self.spider

    def extend(self) -> list[Any]:
        """Create the extensions of the project, which listen to signals."""
        made = [component.made for component in build(self, "EXTENSIONS")]
        self.settings.freeze()
        return made

    async def send(self, signal: Any, **parts: Any) -> list[tuple[Any, Any]]:
        """Send a signal and wait for handlers that are coroutines or return Deferreds."""
        if not self.listens(signal):
            return []
        deferred = self.signals.send_catch_log_deferred(signal, **parts)
        results: list[tuple[Any, Any]] = await deferred.asFuture(asyncio.get_running_loop())
        return results

    def tell(self, signal: Any, **parts: Any) -> None:
        """Send a signal to handlers that are plain functions."""
        self.signals.send_catch_log(signal, **parts)

    def listens(self, signal: Any) -> bool:
        """Return whether a signal has any handlers."""
        from pydispatch import dispatcher

        return bool(list(dispatcher.liveReceivers(dispatcher.getAllReceivers(self, signal))))


def _collector(crawler: Crawler, stats: Stats) -> Any:
    """Create the stats collector of the project, which also adds to the counters of the job."""
    kind: Any = load_object(crawler.settings["STATS_CLASS"])

    class JobStats(kind):  # type: ignore[misc]
        """Stats of this worker, as in Scrapy, which also add to the counters of the whole job."""

        def count(self, key: str) -> None:
            """Count only in this worker, for values that skitter's own report already contains."""
            super().inc_value(key)

        def inc_value(self, key: str, count: int = 1, start: int = 0, *rest: Any, **named: Any) -> None:
            super().inc_value(key, count, start, *rest, **named)
            whole: Any = count
            if isinstance(whole, int) and whole > 0 and 0 < len(key) <= 100 and key.isprintable():
                stats.add(key, count)

    return JobStats(crawler)


class Engine:
    """Methods of ``crawler.engine`` that components of a project call.

    ``crawl`` passes requests to the seeding of the job; ``download`` fetches at once, in this worker.
    """

    def __init__(
        self,
        download: Callable[[scrapy.Request], Coroutine[Any, Any, Response]],
        stop: Callable[[str], Coroutine[Any, Any, None]],
    ) -> None:
        self.crawler: WorkerCrawler | None = None
        self.spider: scrapy.Spider | None = None
        self.running = True
        self.paused = False
        self.start_time: float = 0.0
        self._download = download
        self._stop = stop
        self._tasks: set[asyncio.Task[Any]] = set()
        self.requested: asyncio.Queue[scrapy.Request] = asyncio.Queue()
        """Requests passed to ``crawl`` that are not yet in the frontier."""

    # Newer versions of Scrapy have removed the parameter ``spider``; older components still pass it.

    def crawl(self, request: scrapy.Request, spider: scrapy.Spider | None = None) -> None:  # noqa: ARG002
        """Queue a request from a signal handler."""
        self.requested.put_nowait(request)

    def schedule(self, request: scrapy.Request, spider: scrapy.Spider | None = None) -> None:  # noqa: ARG002
        """Queue a request, like ``crawl``."""
        self.crawl(request)

    def download(
        self,
        request: scrapy.Request,
        spider: scrapy.Spider | None = None,  # noqa: ARG002
    ) -> Deferred[Response]:
        """Fetch a request at once, for a callback or pipeline that awaits it."""
        return Deferred.fromFuture(asyncio.ensure_future(self._download(request)))

    async def download_async(self, request: scrapy.Request) -> Response:
        """Fetch a request at once, like ``download``."""
        return await self._download(request)

    def close_spider(
        self,
        spider: scrapy.Spider | None = None,  # noqa: ARG002
        reason: str = "cancelled",
    ) -> Deferred[None]:
        """Stop the job."""
        return Deferred.fromFuture(asyncio.ensure_future(self._stop(reason)))

    async def close_spider_async(self, *, reason: str = "cancelled") -> None:
        """Stop the job."""
        await self._stop(reason)

    def stop(self) -> Deferred[None]:
        """Stop the job."""
        return self.close_spider(reason="shutdown")

    async def stop_async(self) -> None:
        """Stop the job."""
        await self._stop("shutdown")

    def close_soon(self, reason: str) -> None:
        """Stop the job without waiting for it."""
        task = asyncio.get_running_loop().create_task(self._stop(reason))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"crawler.engine.{name} has no counterpart: skitter queues and fetches requests")


async def ask_idle(crawler: WorkerCrawler) -> bool:
    """Send ``spider_idle``; return whether a handler wants the spider to stay open."""
    results = crawler.signals.send_catch_log(signals.spider_idle, dont_log=DontCloseSpider, spider=crawler.spider)
    return any(isinstance(getattr(result, "value", None), DontCloseSpider) for _, result in results)
