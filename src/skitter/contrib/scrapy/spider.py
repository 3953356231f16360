"""Spider that runs a Scrapy spider: start, callbacks by name, hooks for middlewares, and close."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import pprint
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import scrapy
from scrapy import signals
from scrapy.exceptions import DownloadFailedError
from scrapy.http import Response as ScrapyResponse
from scrapy.settings import Settings
from w3lib.http import basic_auth_header

from skitter.contrib.scrapy.components import build, own_components
from skitter.contrib.scrapy.crawler import Engine, WorkerCrawler, ask_idle
from skitter.contrib.scrapy.downloader_middlewares import DownloaderMiddlewares
from skitter.contrib.scrapy.downloads import Downloads
from skitter.contrib.scrapy.outputs import NO_REFERRER, RESERVED, ItemOutput, RequestOutput, WorkerCodec
from skitter.contrib.scrapy.page_calls import PageCalls
from skitter.contrib.scrapy.pages import ERRORS, LivePage, failure_of, live_page, made_page, make_response
from skitter.contrib.scrapy.project_settings import overridden, setting_layer
from skitter.contrib.scrapy.spider_middlewares import SpiderMiddlewares, as_async
from skitter.contrib.scrapy.twisted_reactor import use_loop
from skitter.errors import RequestError, SkitterError, SpiderError
from skitter.extract.response import Response
from skitter.fetch.contract import Fetcher
from skitter.model.job import Command
from skitter.model.request import Request
from skitter.model.url import host_key
from skitter.policy.redirects import REDIRECT_STATUSES
from skitter.policy.retry import UNREACHABLE_ERROR_CLASSES
from skitter.settings import Settings as SkitterSettings
from skitter.settings import read_statuses
from skitter.spiders.failure import Failure
from skitter.spiders.foreign_project import AdaptedSpider
from skitter.spiders.hooks import Drop, JobInfo
from skitter.spiders.scrapy_names import SETTINGS
from skitter.spiders.scrapy_settings import Translated

IDLE_SECONDS = 0.5
"""Interval at which the store is asked whether a job is idle, if a spider handles ``spider_idle``."""
STAY_SECONDS = 5.0
"""Pause before the next ``spider_idle`` if the spider wants to stay open, as in Scrapy."""
_NOT_FETCHED = ("callback", "sitemap", "hook")


class ScrapySpider(AdaptedSpider):
    """Runs one Scrapy spider. ``adapted_class`` creates subclasses."""

    project: ClassVar[Settings]
    merged: ClassVar[Settings]
    """Settings of the project, overridden by those of the spider."""

    def __init__(self, **arguments: str) -> None:
        # Arguments of the Scrapy spider, not attributes of this one.
        self._arguments = arguments
        self._calls: PageCalls | None = None
        self._close_reason = ""

    def own_settings(self, origin: str, warnings: list[str]) -> Translated:
        """Return the translated settings of the project and the spider."""
        (_, settings), sinks, frontier = setting_layer(origin, self.name, self.merged, warnings)
        attributes = {setting: getattr(self.adapted, name, None) for name, setting in SETTINGS.items()}
        given = {setting: value for setting, value in attributes.items() if value is not None}
        return Translated((origin, settings | given), sinks, frontier)

    # ---- worker

    def use_worker(self, source: Any, fetcher: Fetcher, settings: SkitterSettings) -> None:
        """Set the frontier, fetcher and settings of the worker."""
        self._source = source
        self._settings = settings
        self._hosts: set[str] = set()
        self._downloads = Downloads(fetcher, settings, self._hosts.__contains__, self._add_headers)

    async def on_start(self, job: JobInfo) -> None:  # noqa: ARG002  every hook gets the job
        """Create the spider with its crawler, middlewares, pipelines and extensions."""
        use_loop()
        crawler = self._crawler = WorkerCrawler(self.adapted, self.project)
        engine = self._engine = Engine(self._download, self._stop_job)
        try:
            spider = self._spider = crawler.open(self._arguments, engine, self.stats)
        except Exception as error:
            raise SpiderError(
                f"the Scrapy spider cannot be created: {self.adapted.__name__}: {type(error).__name__}: {error}",
                hint="are the arguments of -a the ones that its __init__ takes?",
            ) from error
        extensions = crawler.extend()
        self._extensions = extensions
        codec = self._codec = WorkerCodec(spider, _RESERVED_NAMES)
        self._items = ItemOutput(crawler, build(crawler, "ITEM_PIPELINES"))
        self._requests = RequestOutput(crawler, codec)
        self._middlewares = SpiderMiddlewares(build(crawler, "SPIDER_MIDDLEWARES"), crawler)
        retried = read_statuses(self._settings.retry.retry_statuses)
        self._downloader = DownloaderMiddlewares(build(crawler, "DOWNLOADER_MIDDLEWARES"), crawler, retried)
        self._headers = _default_headers(crawler.settings)
        self._authorization = _authorization(spider, crawler.settings)
        self._sends_referrer = crawler.settings.getbool("REFERER_ENABLED")
        self._calls = PageCalls(
            *(crawler, engine, codec, self._requests, self._items, self._middlewares),
            has_item_steps=bool(self.item_functions),
        )
        crawler.stats.open_spider(spider)
        crawler.stats.set_value("start_time", dt.datetime.now(dt.UTC))
        await self._items.open()
        await crawler.send(signals.engine_started)
        await crawler.send(signals.spider_opened, spider=spider)

    async def close_worker(self, reason: str) -> None:
        """Close pipelines, send the closing signals and log the stats."""
        if self._calls is None:
            return
        crawler, now = self._crawler, dt.datetime.now(dt.UTC)
        reason = self._close_reason or reason
        started = crawler.stats.get_value("start_time") or now
        crawler.stats.set_value("finish_time", now)
        crawler.stats.set_value("elapsed_time_seconds", (now - started).total_seconds())
        crawler.stats.set_value("finish_reason", reason)
        await self._items.close()
        await crawler.send(signals.spider_closed, spider=self._spider, reason=reason)
        await crawler.send(signals.engine_stopped)
        log = logging.getLogger(f"skitter.spider.{self.name}")
        if crawler.settings.getbool("STATS_DUMP"):
            log.info("Dumping Scrapy stats:\n%s", pprint.pformat(crawler.stats.get_stats()))

    # ---- requests

    async def start(self) -> AsyncIterator[Request]:
        """Yield the start requests, and the requests of ``spider_idle`` handlers."""
        outputs = await self._middlewares.start(_start_of(self._spider))
        async for output in as_async(outputs):
            if isinstance(output, scrapy.Request):
                if (converted := self._requests.convert(output, None, None)) is not None:
                    yield converted
            elif output is not None:
                self._spider.logger.error("an item from start() is dropped, yield it from a callback: %r", output)
        if not self._crawler.listens(signals.spider_idle):
            return
        while True:
            while not self._engine.requested.empty():
                converted = self._requests.convert(self._engine.requested.get_nowait(), None, None)
                if converted is not None:
                    yield converted
            await asyncio.sleep(IDLE_SECONDS)
            counts = (await self._source.report()).counts
            if counts.unfinished > 0 or not self._engine.requested.empty():
                continue
            is_to_stay = await ask_idle(self._crawler)
            if self._engine.requested.empty() and not is_to_stay:
                return
            if self._engine.requested.empty():
                await asyncio.sleep(STAY_SECONDS)

    def on_request(self, request: Request) -> Any:
        """Add the headers that Scrapy sends, then call the project's middlewares."""
        if request.chain and not request.dont_filter and self._requests.is_offsite(request.url):
            return Drop("offsite")
        self._hosts.add(host_key(request.url))
        self._add_headers(request)
        return self._through_middlewares(request) if self._has_downloader_middlewares else None

    _has_downloader_middlewares: ClassVar[bool] = False

    def _add_headers(self, request: Request) -> None:
        given = {name.lower() for name in request.headers}
        added = {name: value for name, value in self._headers.items() if name.lower() not in given}
        referrer = request.referrer if self._sends_referrer and "referer" not in given else None
        if request.meta.get(NO_REFERRER):
            referrer = None
        if referrer and not (referrer.startswith("https:") and request.url.startswith("http:")):
            added["Referer"] = referrer
        if self._authorization is not None and "authorization" not in given:
            domain, value = self._authorization
            host = host_key(request.url).partition("//")[2].partition(":")[0]
            if not domain or host == domain or host.endswith(f".{domain}"):
                added["Authorization"] = value
        if added:
            request.headers = added | request.headers

    async def _through_middlewares(self, request: Request) -> Any:
        assert self._calls is not None
        seen = self._calls.request_of(request, None)
        result = await self._downloader.process_request(seen)
        if result is not None:
            return Response(made_page(request.url, result), request)
        changed = self._encoded(seen)
        if changed.url != self._codec.encode(self._calls.request_of(request, None)).url:
            return request.replace(url=changed.url, headers=changed.headers, meta=changed.meta, cookies=changed.cookies)
        request.method, request.body, request.headers = changed.method, changed.body, changed.headers
        request.cookies, request.meta = changed.cookies, {**request.meta, **changed.meta}
        if "session" in Request.__struct_fields__:
            vars_of: Any = request
            vars_of.session = getattr(changed, "session", None)
        return None

    def _encoded(self, seen: scrapy.Request) -> Request:
        """Return a request that a middleware has changed. It is sent, not stored, so unstorable ``meta`` is removed."""
        try:
            return self._codec.encode(seen)
        except RequestError as error:
            self._spider.logger.warning("%s: the value is not passed on", error)
            for name in list(seen.meta):
                try:
                    self._codec.encode(seen.replace(meta={name: seen.meta[name]}))
                except RequestError:
                    del seen.meta[name]
            return self._codec.encode(seen)

    # ---- pages

    def parse(self, response: Response, **_: Any) -> Any:
        """Handle pages of requests without a callback. The request has the original keyword arguments."""
        assert self._calls is not None
        return self._calls.of_page(response)

    def __getattr__(self, name: str) -> Any:
        """Return the callback or errback with a stored name, which is a method of the Scrapy spider."""
        spider = self.__dict__.get("_spider")
        method = None if spider is None else getattr(spider, name.removeprefix(RESERVED), None)
        if not callable(method):
            raise AttributeError(name)  # noqa: TRY004  the usual error for a missing attribute

        def called(argument: Any, **_: Any) -> Any:
            assert self._calls is not None
            # Keyword arguments are read from the request, in the form that they had before they were stored.
            return self._calls.of_failure(argument) if isinstance(argument, Failure) else self._calls.of_page(argument)

        called.__name__ = name
        return called

    async def process_scrapy_item(self, item: Any) -> dict[str, Any]:
        """Run an item through the pipelines of the project."""
        assert self._calls is not None
        return await self._items.process(item, self._calls.responses.pop(id(item), None))

    async def on_error(self, request: Request, failure: Failure) -> Any:
        """Pass errors without a response to middlewares, and those of unreachable hosts to errbacks."""
        if failure.response is not None or failure.error_class in _NOT_FETCHED:
            return None
        assert self._calls is not None
        error: Any = ERRORS.get(failure.error_class, DownloadFailedError)(failure.message)
        seen = self._calls.request_of(request, None)
        result = await self._downloader.process_exception(seen, error)
        if result is None and request.errback is not None and failure.error_class in UNREACHABLE_ERROR_CLASSES:
            # When skitter gives up a host, its queued requests fail without errback calls, so it is tried here.
            try:
                result = await self._downloads.fetch(seen, self._codec)
            except Exception as last:  # noqa: BLE001  any error goes to the errback
                result = failure_of(last, seen)
        return None if result is None else Response(made_page(request.url, result), request)

    # ---- for the engine

    async def _download(self, request: scrapy.Request) -> ScrapyResponse:
        result: Any = await self._downloader.process_request(request) if self._has_downloader_middlewares else None
        if result is None:
            result = await self._downloads.fetch(request, self._codec)
        if isinstance(result, ScrapyResponse):
            return result
        if isinstance(result, scrapy.Request):
            return await self._downloads.fetch(result, self._codec)
        raise result.value

    async def _stop_job(self, reason: str) -> None:
        self._close_reason = reason
        try:
            await self._source.command(Command.STOP)
        except (AttributeError, SkitterError) as error:
            self._spider.logger.warning("the job cannot be stopped from here (%s): %s", reason, error)


class _WithResponseHooks(ScrapySpider):
    """Scrapy spider with downloader middlewares, which get responses and failures."""

    async def on_response(self, request: Request, response: Response) -> Any:
        """Pass a response to the downloader middlewares."""
        assert self._calls is not None
        page = response.page
        live = page.scrapy if isinstance(page, LivePage) else None
        if live is not None and not isinstance(live, ScrapyResponse):
            return None
        seen = live.request if live is not None and live.request is not None else self._calls.request_of(request, page)
        found = live if live is not None else make_response(page, seen)
        result = await self._downloader.process_response(seen, found)
        if result is found and page.status in REDIRECT_STATUSES:
            return None
        if isinstance(result, ScrapyResponse):
            return Response(live_page(page, result, status=result.status), request)
        return Response(live_page(page, result, status=200, headers=[], body=b""), request)


_RESERVED_NAMES = frozenset(dir(_WithResponseHooks)) | {"_calls", "_crawler", "_engine", "_spider"}


def adapted_class(kind: type[scrapy.Spider], project: Settings) -> type[AdaptedSpider]:
    """Return the class that runs a Scrapy spider with the settings of its project."""
    settings = project.copy()
    kind.update_settings(settings)
    has_middlewares = bool(own_components(settings, "DOWNLOADER_MIDDLEWARES"))
    has_item_steps = (
        bool(own_components(settings, "ITEM_PIPELINES") or own_components(settings, "EXTENSIONS"))
        or vars(kind).get("from_crawler") is not None
        or "ADDONS" in overridden(settings)
    )
    members: dict[str, Any] = {
        "__doc__": kind.__doc__,
        "__module__": kind.__module__,
        "name": str(getattr(kind, "name", None) or kind.__name__),
        "adapted": kind,
        "project": project,
        "merged": settings,
        "handle_statuses": () if hasattr(kind, "handle_httpstatus_list") else _allowed_statuses(settings),
        "item_functions": ("process_scrapy_item",) if has_item_steps else (),
        "_has_downloader_middlewares": has_middlewares,
    }
    return type(kind.__name__, (_WithResponseHooks if has_middlewares else ScrapySpider,), members)


def _start_of(spider: scrapy.Spider) -> Any:
    """Return the start requests of ``start`` or the older ``start_requests``, whichever the most derived class has."""
    for kind in type(spider).__mro__:
        if "start" in vars(kind):
            return spider.start()
        if "start_requests" in vars(kind):
            return spider.start_requests()  # type: ignore[attr-defined]
    raise AssertionError("Scrapy's base class has start()")


def _allowed_statuses(settings: Settings) -> tuple[int, ...]:
    """Return the statuses whose pages settings pass to callbacks; redirects are always followed."""
    if settings.getbool("HTTPERROR_ALLOW_ALL"):
        return tuple(status for status in range(300, 600) if status not in REDIRECT_STATUSES)
    codes = map(int, settings.getlist("HTTPERROR_ALLOWED_CODES"))
    return tuple(code for code in codes if code not in REDIRECT_STATUSES)


def _default_headers(settings: Settings) -> dict[str, str]:
    return {str(name): str(value) for name, value in settings.getdict("DEFAULT_REQUEST_HEADERS").items() if value}


def _authorization(spider: Any, settings: Settings) -> tuple[str, str] | None:
    """Return the domain and header for basic authentication of a spider or its project, or None."""
    user = getattr(spider, "http_user", "") or settings.get("HTTPAUTH_USER") or ""
    password = getattr(spider, "http_pass", "") or settings.get("HTTPAUTH_PASS") or ""
    if not user and not password:
        return None
    domain = getattr(spider, "http_auth_domain", None) or settings.get("HTTPAUTH_DOMAIN") or ""
    return str(domain), basic_auth_header(user, password).decode("latin-1")
