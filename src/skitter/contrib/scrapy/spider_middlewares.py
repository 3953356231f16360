"""Spider middlewares of a project, which process the input and output of callbacks.

Methods may be plain generators, as in most projects, or async generators; async output is collected into a list before
it is passed to a plain middleware.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from inspect import isasyncgenfunction
from typing import Any

from itemadapter import is_item
from scrapy.crawler import Crawler
from scrapy.http import Response

from skitter.contrib.scrapy.components import Component, method_of, methods_of
from skitter.contrib.scrapy.twisted_reactor import awaited


class SpiderMiddlewares:
    """Spider middlewares of one worker; false if there are none."""

    def __init__(self, components: list[Component], crawler: Crawler) -> None:
        self._is_any = bool(components)
        self._input = methods_of(components, "process_spider_input", crawler)
        # The middleware closest to the spider comes first.
        backwards = components[::-1]
        self._output = [method for each in backwards if (method := _output_method(each.made, crawler)) is not None]
        self._exception = methods_of(backwards, "process_spider_exception", crawler)
        self._start_requests = methods_of(backwards, "process_start_requests", crawler)
        self._start = methods_of(backwards, "process_start", crawler)

    def __bool__(self) -> bool:
        return self._is_any

    async def check_input(self, response: Response) -> None:
        """Call ``process_spider_input``; its exceptions go to the errback."""
        for method in self._input:
            await awaited(method(response))

    async def run(self, response: Response, called: Callable[[], Any]) -> AsyncIterator[Any]:
        """Yield the output of a callback after the middlewares. ``called`` calls the callback."""
        try:
            result = await awaited(called())
            for method in self._output:
                result = method(response, await _suited(result, method))
            async for output in as_async(result):
                yield output
        except Exception as error:
            for method in self._exception:
                recovered = await awaited(method(response, error))
                if recovered is not None:
                    async for output in as_async(recovered):
                        yield output
                    return
            raise

    async def start(self, requests: Any) -> Any:
        """Return the start requests after the middlewares."""
        for method in self._start_requests:
            requests = method([request async for request in as_async(requests)])
        for method in self._start:
            requests = await awaited(method(as_async(requests)))
        return requests


def _output_method(made: Any, crawler: Crawler) -> Callable[..., Any] | None:
    if (method := method_of(made, "process_spider_output_async", crawler)) is not None:
        return method
    return method_of(made, "process_spider_output", crawler)


async def _suited(result: Any, method: Callable[..., Any]) -> Any:
    """Return the output in the form that a middleware accepts."""
    if isasyncgenfunction(method):
        return as_async(result)
    if hasattr(result, "__aiter__"):
        return [output async for output in result]
    return listed(result)


async def as_async(result: Any) -> AsyncIterator[Any]:
    """Yield the elements of a callback's result of any kind."""
    result = await awaited(result)
    if hasattr(result, "__aiter__"):
        async for output in result:
            yield output
        return
    for output in listed(result):
        yield output


def listed(result: Any) -> Iterable[Any]:
    """Return a callback's result as an iterable: a single item or request is one element, None is empty."""
    if result is None:
        return ()
    if hasattr(result, "__next__"):
        generator: Iterable[Any] = result
        return generator
    if isinstance(result, (str, bytes)) or hasattr(result, "items") or not hasattr(result, "__iter__"):
        return (result,)
    return (result,) if is_item(result) else result
