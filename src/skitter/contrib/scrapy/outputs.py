"""What a Scrapy spider yields, as skitter takes it: requests that are in scope, and items with their signals."""

from __future__ import annotations

import logging
import re
from typing import Any
from urllib.parse import urlsplit

import scrapy
from scrapy import signals
from scrapy.exceptions import DropItem, IgnoreRequest
from scrapy.http import Response

from skitter.contrib.scrapy.components import Component, is_off, methods_of
from skitter.contrib.scrapy.crawler import WorkerCrawler
from skitter.contrib.scrapy.exported_items import ItemExport
from skitter.contrib.scrapy.pages import failure_of
from skitter.contrib.scrapy.request_codec import RequestCodec, plain_cookies
from skitter.contrib.scrapy.twisted_reactor import awaited
from skitter.model.request import Request
from skitter.model.url import host_key

_MIDDLEWARE = "scrapy.downloadermiddlewares"
RESERVED = "scrapy:"
"""Begins the stored name of a method that skitter's own base class of spiders has too."""


PLAIN_REQUESTS = 50_000
NO_REFERRER = "scrapy_no_referrer"
"""Key of the ``meta`` of a request that stands for another one, and was not found on its page."""


class WorkerCodec(RequestCodec):
    """The codec of a worker. ``reserved``: names that mean something else on skitter's spider."""

    def __init__(self, spider: scrapy.Spider, reserved: frozenset[str]) -> None:
        super().__init__(spider)
        self._reserved = reserved
        self._has_plain_parse = type(spider)._parse is scrapy.Spider._parse  # noqa: SLF001

    def name_of(self, request: scrapy.Request, field: str) -> Any:
        """Return the stored name; None: the default callback."""
        name = super().name_of(request, field)
        if name == "parse" and field == "callback" and self._has_plain_parse:
            return None
        return RESERVED + name if name in self._reserved else name

    def method_of(self, name: str | None) -> Any:
        return super().method_of(None if name is None else name.removeprefix(RESERVED))


class RequestOutput:
    """Requests on their way to the frontier."""

    def __init__(self, crawler: WorkerCrawler, codec: RequestCodec) -> None:
        settings = crawler.settings
        assert crawler.spider is not None
        self._crawler = crawler
        self._spider = crawler.spider
        self._codec = codec
        self._is_listened = crawler.listens(signals.request_scheduled)
        self._depth_priority = settings.getint("DEPTH_PRIORITY")
        self._max_chars = settings.getint("URLLENGTH_LIMIT")
        self._unfiltered = str(settings["DUPEFILTER_CLASS"]).endswith("BaseDupeFilter")
        self._meta: dict[str, Any] = {}
        if not settings.getbool("REDIRECT_ENABLED", True) or is_off(
            settings, "DOWNLOADER_MIDDLEWARES", f"{_MIDDLEWARE}.redirect.RedirectMiddleware"
        ):
            self._meta["dont_redirect"] = True
        if handled := getattr(self._spider, "handle_httpstatus_list", None):
            self._meta["handle_httpstatus_list"] = list(handled)
        if getattr(self._spider, "handle_httpstatus_all", False):
            self._meta["handle_httpstatus_all"] = True
        self._checks_offsite = not is_off(
            settings, "DOWNLOADER_MIDDLEWARES", f"{_MIDDLEWARE}.offsite.OffsiteMiddleware"
        ) and not is_off(settings, "SPIDER_MIDDLEWARES", "scrapy.spidermiddlewares.offsite.OffsiteMiddleware")
        self._is_plain = not (self._is_listened or self._depth_priority or self._unfiltered or self._meta)
        self._plain: dict[tuple[str, Any], Request] = {}
        """Converted requests that have nothing but a URL and a callback: links that many pages share."""
        self._domains: tuple[str, ...] = ()
        self._hosts: re.Pattern[str] | None = None
        self._known_hosts: dict[str, bool] = {}

    def convert(self, request: scrapy.Request, response: Response | None, origin: Request | None) -> Request | None:
        """Return skitter's request; None: it is not made.

        ``response``: of the page that it stands on; None: on none. ``origin``: the request of that page, or the one
        that this stands for; None: at the start.
        """
        key = None
        if self._is_plain and response is not None and _is_plain(request) and not (origin and origin.cookies):
            key = (request.url, request.callback)
            if (known := self._plain.get(key)) is not None:
                return known
        if not self._is_made(request, is_start=response is None and origin is None):
            return None
        found = self._codec.encode(request)
        if key is None:
            self._complete(found, request, origin, has_page=response is not None)
        else:
            if len(self._plain) >= PLAIN_REQUESTS:
                self._plain.clear()
            self._plain[key] = found
        return found

    def _is_made(self, request: scrapy.Request, *, is_start: bool) -> bool:
        """Return whether no rule of Scrapy's, and no handler of a signal, is against a request."""
        if self._max_chars and len(request.url) > self._max_chars and not is_start:
            self._crawler.stats.inc_value("urllength/request_ignored_count")
            return False
        if not request.dont_filter and self.is_offsite(request.url) and not request.meta.get("allow_offsite"):
            self._crawler.stats.inc_value("offsite/filtered")
            return False
        return not self._is_listened or self._is_scheduled(request)

    def _complete(self, found: Request, request: scrapy.Request, origin: Request | None, *, has_page: bool) -> None:
        """Add what the project's settings, the spider and the page that led here mean for a request."""
        if self._depth_priority and origin is not None:
            found.priority -= (origin.depth + 1) * self._depth_priority
        if self._unfiltered:
            found.dont_filter = True
        if self._meta:
            found.meta = self._meta | found.meta
        if origin is not None and not has_page:
            found.meta = {**found.meta, NO_REFERRER: True}
        if origin is not None and origin.cookies:
            _inherit_cookies(origin, found, request)

    def is_offsite(self, url: str) -> bool:
        """Return whether a URL is outside of the spider's ``allowed_domains``, which it may change as it runs."""
        domains = getattr(self._spider, "allowed_domains", None)
        if not domains or not self._checks_offsite:
            return False
        if (now := tuple(domains)) != self._domains:
            self._domains, self._known_hosts = now, {}
            names = [re.escape(urlsplit(name).netloc or name) for name in now if name]
            self._hosts = re.compile(rf"^(.*\.)?({'|'.join(names)})$") if names else None
        if self._hosts is None:
            return False
        host = urlsplit(url).hostname or ""
        known = self._known_hosts.get(host)
        if known is None:
            if len(self._known_hosts) > 10_000:
                self._known_hosts.clear()
            known = self._known_hosts[host] = self._hosts.search(host) is None
        return known

    def _is_scheduled(self, request: scrapy.Request) -> bool:
        results = self._crawler.signals.send_catch_log(
            signals.request_scheduled, dont_log=IgnoreRequest, request=request, spider=self._spider
        )
        return not any(isinstance(getattr(result, "value", None), IgnoreRequest) for _, result in results)


def _is_plain(request: scrapy.Request) -> bool:
    """Return whether a request has nothing but a URL and a callback."""
    return (
        type(request) is scrapy.Request
        and not (request._meta or request._headers or request._cookies or request._cb_kwargs or request._flags)  # noqa: SLF001
        and not (request.body or request.priority or request.dont_filter or request.errback)
        and request.method == "GET"
    )


def _inherit_cookies(origin: Request, found: Request, request: scrapy.Request) -> None:
    """Send on the cookies that a request was given, as Scrapy's jar would; to the same host alone."""
    if request.meta.get("dont_merge_cookies") or host_key(found.url) != host_key(origin.url):
        return
    found.cookies = origin.cookies | plain_cookies(request.cookies)


class ItemOutput:
    """Items on their way to the outbox: pipelines, signals, counters."""

    def __init__(self, crawler: WorkerCrawler, pipelines: list[Component]) -> None:
        self._crawler = crawler
        self._export = ItemExport(crawler.settings)
        self._open = methods_of(pipelines, "open_spider", crawler)
        self._process = methods_of(pipelines, "process_item", crawler)
        self._close = methods_of(pipelines[::-1], "close_spider", crawler)
        self._log = logging.getLogger(f"skitter.spider.{getattr(crawler.spider, 'name', '')}")

    async def open(self) -> None:
        """Call ``open_spider`` of each pipeline."""
        for method in self._open:
            await awaited(method())

    async def close(self) -> None:
        """Call ``close_spider`` of each pipeline; all of them, whatever one raises."""
        for method in self._close:
            try:
                await awaited(method())
            except Exception:  # noqa: BLE001  as above
                self._log.exception("a pipeline failed when it was closed")

    def take(self, item: Any) -> dict[str, Any]:
        """Return the record of an item that no pipeline and no signal is for."""
        self._crawler.stats.count("item_scraped_count")
        return self._export.record(item)

    async def process(self, item: Any, response: Any) -> dict[str, Any]:
        """Return the record of an item that has passed the pipelines; DropItem if it is left out."""
        parts = {"response": response, "spider": self._crawler.spider}
        original = item
        try:
            for method in self._process:
                item = await awaited(method(item))
        except DropItem as reason:
            self._crawler.stats.count("item_dropped_count")
            self._crawler.stats.count(f"item_dropped_reasons_count/{type(reason).__name__}")
            await self._crawler.send(signals.item_dropped, item=original, exception=reason, **parts)
            raise
        except Exception as error:
            # Only this item is lost, as in Scrapy; the others of the page go on.
            self._log.exception("Error processing %r", original)
            await self._crawler.send(signals.item_error, item=original, failure=failure_of(error), **parts)
            raise DropItem(f"a pipeline failed: {type(error).__name__}") from error
        self._crawler.stats.count("item_scraped_count")
        await self._crawler.send(signals.item_scraped, item=item, **parts)
        return self._export.record(item)
