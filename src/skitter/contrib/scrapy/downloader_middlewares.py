"""Downloader middlewares of a project, called from skitter's hooks.

The decision of a middleware is stored in the page that is passed to the callback (``pages.LivePage``): its own
response, a request to send instead, or a failure for the errback.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scrapy
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from skitter.contrib.scrapy.components import Component, method_of
from skitter.contrib.scrapy.pages import failure_of
from skitter.contrib.scrapy.twisted_reactor import awaited
from skitter.policy.redirects import REDIRECT_STATUSES

REDIRECT_ORDER, RETRY_ORDER = 600.0, 550.0
"""Order of Scrapy's own middlewares. Those with smaller numbers do not see responses that are redirected or retried."""
_Methods = list[tuple[float, Callable[..., Any]]]


class DownloaderMiddlewares:
    """Downloader middlewares of one worker."""

    def __init__(self, components: list[Component], crawler: Crawler, retried: frozenset[int]) -> None:
        self._retried = retried
        self._request = _ordered(components, "process_request", crawler)
        self._response = _ordered(components[::-1], "process_response", crawler)
        self._exception = _ordered(components[::-1], "process_exception", crawler)

    async def process_request(self, request: scrapy.Request) -> Any:
        """Return None to send the request, a response, another request, or a failure."""
        for _, method in self._request:
            try:
                result = await awaited(method(request))
            except IgnoreRequest as error:
                return failure_of(error, request)
            except Exception as error:  # noqa: BLE001  any error of a middleware goes to the others and to the errback
                recovered = await self.process_exception(request, error)
                return failure_of(error, request) if recovered is None else recovered
            if result is not None:
                return _checked(method, result)
        return None

    async def process_response(self, request: scrapy.Request, response: Response) -> Any:
        """Return a response, another request, or a failure."""
        least = self._least_order(response)
        for order, method in self._response:
            if order < least:
                continue
            try:
                result = await awaited(method(request, response))
            except Exception as error:  # noqa: BLE001  passed to the errback, as in Scrapy
                return failure_of(error, request)
            if not isinstance(_checked(method, result), Response):
                return result
            response = result
        return response

    async def process_exception(self, request: scrapy.Request, error: Exception) -> Any:
        """Return a response, a request or a failure, or None if no middleware handles the error."""
        for _, method in self._exception:
            try:
                result = await awaited(method(request, error))
            except Exception as raised:  # noqa: BLE001  as above
                return failure_of(raised, request)
            if result is not None:
                return _checked(method, result)
        return None

    def _least_order(self, response: Response) -> float:
        if response.status in REDIRECT_STATUSES and b"Location" in response.headers:
            return REDIRECT_ORDER
        return RETRY_ORDER if response.status in self._retried else float("-inf")


def _ordered(components: list[Component], name: str, crawler: Crawler) -> _Methods:
    found = ((component.order, method_of(component.made, name, crawler)) for component in components)
    return [(order, method) for order, method in found if method is not None]


def _checked(method: Callable[..., Any], result: Any) -> Any:
    if not isinstance(result, (Response, scrapy.Request)):
        name = getattr(method, "__qualname__", repr(method))
        raise TypeError(f"the middleware {name} returned a {type(result).__name__}: return a response or a request")
    return result
