"""Conversion of the output of a Scrapy spider: requests that are in scope, and items with their signals."""

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
"""Prefix of the stored name of a method that skitter's base class of spiders has too."""
PLAIN_REQUESTS = 50_000
"""Maximum number of cached plain requests."""
NO_REFERRER = "scrapy_no_referrer"
"""Key in the ``meta`` of a request that replaces another one, and was not found on a page."""


class WorkerCodec(RequestCodec):
    """Codec of a worker. ``reserved``: names that have another meaning on skitter's spider."""

    def __init__(self, spider: scrapy.Spider, reserved: frozenset[str]) -> None:
        super().__init__(spider)
        self._reserved = reserved
        self._has_plain_parse = type(spider)._parse is scrapy.Spider._parse  # noqa: SLF001

    def name_of(self, request: scrapy.Request, field: str) -> Any:
        """Return the stored name, or None for the default callback."""
        name = super().name_of(request, field)
        if name == "parse" and field == "callback" and self._has_plain_parse:
            return None
        return RESERVED + name if name in self._reserved else name

    def method_of(self, name: str | None) -> Any:
        """Return the spider's method with a stored name."""
        return super().method_of(None if name is None else name.removeprefix(RESERVED))


class RequestOutput:
    """Converts the requests of a spider for the frontier."""

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
        """Converted requests with only a URL and a callback: links that many pages share."""
        self._domains: tuple[str, ...] = ()
        self._hosts: re.Pattern[str] | None = None
        self._known_hosts: dict[str, bool] = {}

    def convert(self, request: scrapy.Request, response: Response | None, origin: Request | None) -> Request | None:
        """Return skitter's request, or None if a rule or a signal handler rejects it.

        ``response`` is that of the page with the request, or None if it is not from a page. ``origin`` is the request
        of that page, or the request that this one replaces, or None for a start request.
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
        """Return whether no rule of Scrapy and no signal handler rejects a request."""
        if self._max_chars and len(request.url) > self._max_chars and not is_start:
            self._crawler.stats.inc_value("urllength/request_ignored_count")
            return False
        if not request.dont_filter and self.is_offsite(request.url) and not request.meta.get("allow_offsite"):
            self._crawler.stats.inc_value("offsite/filtered")
            return False
        return not self._is_listened or self._is_scheduled(request)

    def _complete(self, found: Request, request: scrapy.Request, origin: Request | None, *, has_page: bool) -> None:
        """Apply the project's settings, the spider's attributes and the originating request to a request."""
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
        """Return whether a URL is outside the spider's ``allowed_domains``, which the spider may change at run time."""
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
    """Return whether a request has only a URL and a callback."""
    return (
        type(request) is scrapy.Request
        and not (request._meta or request._headers or request._cookies or request._cb_kwargs or request._flags)  # noqa: SLF001
        and not (request.body or request.priority or request.dont_filter or request.errback)
        and request.method == "GET"
    )


def _inherit_cookies(origin: Request, found: Request, request: scrapy.Request) -> None:
    """Pass on the cookies of the originating request, as Scrapy's jar would, but only to the same host."""
    if request.meta.get("dont_merge_cookies") or host_key(found.url) != host_key(origin.url):
        return
    found.cookies = origin.cookies | plain_cookies(request.cookies)


class ItemOutput:
    """Processes items for the outbox: pipelines, signals, counters."""

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
        """Call ``close_spider`` of each pipeline, even if one raises an exception."""
        for method in self._close:
            try:
                await awaited(method())
            except Exception:  # noqa: BLE001  the other pipelines must be closed too
                self._log.exception("a pipeline failed when it was closed")

    def take(self, item: Any) -> dict[str, Any]:
        """Return the record of an item if there are no pipelines and no signal handlers."""
        self._crawler.stats.count("item_scraped_count")
        return self._export.record(item)

    async def process(self, item: Any, response: Any) -> dict[str, Any]:
        """Return the record of an item after the pipelines. Raises DropItem if the item is dropped."""
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
            # Only this item is lost, as in Scrapy; other items of the page are kept.
            self._log.exception("Error processing %r", original)
            await self._crawler.send(signals.item_error, item=original, failure=failure_of(error), **parts)
            raise DropItem(f"a pipeline failed: {type(error).__name__}") from error
        self._crawler.stats.count("item_scraped_count")
        await self._crawler.send(signals.item_scraped, item=item, **parts)
        return self._export.record(item)
