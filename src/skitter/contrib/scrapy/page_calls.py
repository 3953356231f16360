"""Calls of a Scrapy spider's callbacks and errbacks with Scrapy's responses and failures, and their output."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from types import GeneratorType
from typing import Any

import scrapy
from scrapy import signals
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.http import HtmlResponse, Response
from scrapy.utils.response import get_meta_refresh
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure as TwistedFailure

from skitter.contrib.scrapy.crawler import Engine, WorkerCrawler
from skitter.contrib.scrapy.exported_items import is_item
from skitter.contrib.scrapy.outputs import ItemOutput, RequestOutput, WorkerCodec
from skitter.contrib.scrapy.pages import LivePage, failure_of, make_failure, make_response
from skitter.contrib.scrapy.spider_middlewares import SpiderMiddlewares, as_async, listed
from skitter.errors import RequestError
from skitter.extract.response import Response as SkitterResponse
from skitter.model.page import Page
from skitter.model.request import Request
from skitter.spiders.failure import Failure

_CALLBACK_CLASSES = ("callback", "hook", "internal")
"""Error classes of failures after the response: Scrapy does not call errbacks for them."""
REFRESH_BYTES = 4096
"""Scrapy looks for a meta refresh in this part of a page."""


class PageCalls:
    """Calls the callbacks and errbacks of one spider."""

    def __init__(
        self,
        crawler: WorkerCrawler,
        engine: Engine,
        codec: WorkerCodec,
        requests: RequestOutput,
        items: ItemOutput,
        middlewares: SpiderMiddlewares,
        *,
        has_item_steps: bool,
    ) -> None:
        """``has_item_steps``: whether items still pass pipelines or signal handlers, so they are not converted here."""
        assert crawler.spider is not None
        self._crawler = crawler
        self._engine = engine
        self._spider: Any = crawler.spider
        self._codec = codec
        self._requests = requests
        self._items = items
        self._middlewares = middlewares
        self._has_item_steps = has_item_steps
        self.responses: dict[int, Any] = {}
        """Responses of items that have yet to pass the pipelines, by the ids of the items."""
        self._is_received_listened = crawler.listens(signals.response_received)
        settings = crawler.settings
        self._refresh_seconds = (
            settings.getint("METAREFRESH_MAXDELAY") if settings.getbool("METAREFRESH_ENABLED") else 0
        )
        self._refresh_ignored = settings.getlist("METAREFRESH_IGNORE_TAGS")
        self._log = logging.getLogger(f"skitter.spider.{self._spider.name}")

    def of_page(self, response: SkitterResponse) -> Any:
        """Call the callback of a page; return an iterator of its output."""
        origin, page = response.request, response.page
        live = page.scrapy if isinstance(page, LivePage) else None
        if isinstance(live, scrapy.Request):
            return iter([self._requests.convert(live, None, origin)])
        if isinstance(live, TwistedFailure):
            failure: Any = live
            return self._of_errback(failure.request, failure, origin)
        if isinstance(live, Response):
            found = live
            if found.request is None:
                found.request = self.request_of(origin, page)
        else:
            found = make_response(page, self.request_of(origin, page))
        assert found.request is not None
        self._count(found)
        if (refreshed := self._refreshed(found)) is not None:
            return iter([self._requests.convert(refreshed, None, origin)])
        callback = found.request.callback or self._spider._parse  # noqa: SLF001
        keywords = found.request.cb_kwargs
        if self._middlewares:
            return self._through_middlewares(found, origin, lambda: callback(found, **keywords))
        return self._outputs(found, origin, lambda: callback(found, **keywords))

    def of_failure(self, failure: Failure) -> Any:
        """Call the errback of a request; return an iterator of its output, or None if there is none."""
        if failure.error_class in _CALLBACK_CLASSES:
            return None
        page = failure.response.page if failure.response is not None else None
        request = self.request_of(failure.request, page)
        response = make_response(page, request) if page is not None else None
        return self._of_errback(request, make_failure(failure, request, response), failure.request)

    def _of_errback(self, request: scrapy.Request, failure: Any, origin: Request) -> Any:
        if request.errback is None:
            if not failure.check(IgnoreRequest):
                self._log.error("Error downloading %s: %s", request, failure.getErrorMessage())
            return None
        errback = request.errback
        return self._outputs(getattr(failure.value, "response", None), origin, lambda: errback(failure))

    def request_of(self, origin: Request, page: Page | None) -> scrapy.Request:
        """Return Scrapy's request, with the values that Scrapy's engine sets in ``meta``."""
        request = self._codec.decode(origin)
        meta = request.meta
        meta["depth"] = origin.depth
        if origin.chain:
            meta["redirect_urls"] = list(origin.chain)
            meta["redirect_times"] = len(origin.chain)
        if page is not None:
            meta["download_latency"] = page.seconds
            meta.setdefault("download_timeout", self._crawler.settings.getfloat("DOWNLOAD_TIMEOUT"))
        return request

    # ---- output

    def _outputs(self, response: Response | None, origin: Request, call: Callable[[], Any]) -> Any:
        try:
            result = call()
        except Exception as error:  # noqa: BLE001  reported as in Scrapy
            self._failed(error, response)
            return None
        if isinstance(result, GeneratorType):
            return self._of_generator(result, response, origin)
        if isinstance(result, TwistedFailure):
            # An errback that returns its failure.
            return None
        if isinstance(result, Deferred) or hasattr(result, "__aiter__") or hasattr(result, "__await__"):
            return self._of_async(result, response, origin)
        return self._of_generator(iter(listed(result)), response, origin)

    def _of_generator(self, outputs: Any, response: Response | None, origin: Request) -> Iterator[Any]:
        """Yield the output of a callback. If it raises, its earlier output is kept, as in Scrapy.

        A request that cannot be stored raises an error at the line of its ``yield``, and the page fails: otherwise the
        request would be lost silently.
        """
        refused: RequestError | None = None
        step: Callable[[], Any] = partial(next, outputs)
        while True:
            try:
                output = step()
            except StopIteration:
                break
            except Exception as error:
                if error is refused:
                    raise
                self._failed(error, response)
                break
            step = partial(next, outputs)
            try:
                converted = self._converted(output, response, origin)
            except RequestError as error:
                if not isinstance(outputs, GeneratorType):
                    raise
                refused, step = error, partial(outputs.throw, error)
                continue
            if converted is not None:
                yield converted
        yield from self._requested(origin)

    async def _of_async(self, result: Any, response: Response | None, origin: Request) -> AsyncIterator[Any]:
        outputs = as_async(result)
        while True:
            try:
                output = await anext(outputs)
            except StopAsyncIteration:
                break
            except Exception as error:  # noqa: BLE001  reported as in Scrapy
                self._failed(error, response)
                break
            if (converted := self._converted(output, response, origin)) is not None:
                yield converted
        for requested in self._requested(origin):
            yield requested

    async def _through_middlewares(
        self, response: Response, origin: Request, call: Callable[[], Any]
    ) -> AsyncIterator[Any]:
        assert response.request is not None
        outputs: Any
        try:
            await self._middlewares.check_input(response)
        except Exception as error:  # noqa: BLE001  passed to the errback
            outputs = self._of_errback(response.request, failure_of(error, response.request), origin)
        else:
            outputs = self._of_async(self._middlewares.run(response, call), response, origin)
        async for output in as_async(outputs):
            yield output

    def _requested(self, origin: Request) -> Iterator[Request]:
        """Yield the requests that handlers have passed to ``crawler.engine.crawl`` meanwhile."""
        while not self._engine.requested.empty():
            converted = self._requests.convert(self._engine.requested.get_nowait(), None, origin)
            if converted is not None:
                yield converted

    def _converted(self, output: Any, response: Response | None, origin: Request) -> Any:
        if isinstance(output, scrapy.Request):
            return self._requests.convert(output, response, origin)
        if output is None:
            return None
        if not is_item(output):
            self._log.error("Spider must return request, item, or None, got %r in %s", type(output).__name__, origin)
            return None
        if not self._has_item_steps:
            return self._items.take(output)
        self.responses[id(output)] = response
        return output

    # ---- other tasks of Scrapy's engine

    def _refreshed(self, response: Response) -> scrapy.Request | None:
        """Return the request for the target of a meta refresh, or None if the page has none."""
        if not self._refresh_seconds or b"refresh" not in response.body[:REFRESH_BYTES].lower():
            return None
        request = response.request
        assert request is not None
        if not isinstance(response, HtmlResponse) or request.method == "HEAD" or request.meta.get("dont_redirect"):
            return None
        seconds, url = get_meta_refresh(response, ignore_tags=self._refresh_ignored)
        if not url or seconds is None or seconds >= self._refresh_seconds:
            return None
        reason = {"redirect_urls": [*request.meta.get("redirect_urls", []), request.url]}
        return request.replace(url=url, method="GET", body=b"", meta=request.meta | reason)

    def _count(self, response: Response) -> None:
        stats = self._crawler.stats
        stats.count("response_received_count")
        stats.count("downloader/response_count")
        stats.count(f"downloader/response_status_count/{response.status}")
        if self._is_received_listened:
            self._crawler.tell(
                signals.response_received, response=response, request=response.request, spider=self._spider
            )

    def _failed(self, error: Exception, response: Response | None) -> None:
        """Log and count an exception of the spider, and send ``spider_error``; CloseSpider stops the job."""
        if isinstance(error, CloseSpider):
            self._engine.close_soon(error.reason or "cancelled")
            return
        stats = self._crawler.stats
        stats.inc_value("spider_exceptions/count")
        stats.inc_value(f"spider_exceptions/{type(error).__name__}")
        shown = response.request if response is not None else "a request"
        self._log.error("Spider error processing %s", shown, exc_info=error)
        self._crawler.tell(signals.spider_error, failure=failure_of(error), response=response, spider=self._spider)
