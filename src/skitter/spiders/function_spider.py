"""A plain function as a spider: ``scrape(url, meta)`` fetches by itself, ``scrape(response, meta)`` gets the page."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar

from skitter.errors import SpiderError
from skitter.spiders.base import Spider

if TYPE_CHECKING:
    from skitter.extract.response import Response

HINT = "use the parameters (url), (url, meta), (response) or (response, meta)"


class FunctionSpider(Spider):
    """The spider of one function, made by ``function_spider``."""

    function: ClassVar[Callable[..., Any]]
    takes_url: ClassVar[bool]
    """The function fetches by itself, so that the worker fetches nothing for it."""
    takes_meta: ClassVar[bool]

    def parse(self, response: Response, **keywords: Any) -> Any:
        kind = type(self)
        given = [response.url if kind.takes_url else response, *([response.meta] if kind.takes_meta else [])]
        is_async = inspect.iscoroutinefunction(kind.function) or inspect.isasyncgenfunction(kind.function)
        if is_async or not kind.takes_url:
            return kind.function(*given, **keywords)
        return _in_thread(lambda: kind.function(*given, **keywords))


def function_spider(function: FunctionType) -> type[FunctionSpider]:
    """Make a spider class, named as the function. Raises SpiderError for other parameters than ``HINT`` has."""
    wanted = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if wanted[:1] not in (["url"], ["response"]) or wanted[1:] not in ([], ["meta"]):
        raise SpiderError(f"not a spider: the function {function.__name__}({', '.join(wanted)})", hint=HINT)
    body = {
        "name": function.__name__,
        "function": staticmethod(function),
        "takes_url": wanted[0] == "url",
        "takes_meta": len(wanted) > 1,
        "__module__": function.__module__,
        "__doc__": function.__doc__,
    }
    return type(function.__name__, (FunctionSpider,), body)


async def _in_thread(call: Callable[[], Any]) -> Any:
    """Run a call in a thread of its own.

    Not in a pool: one that hangs would keep its place there, and the process from ending. There are never more than the
    worker has slots, and those that were given up after ``callback_seconds``.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if ended.done():
            return  # given up: the page was cancelled, or has taken too long
        if error is None:
            ended.set_result(result)
        else:
            ended.set_exception(error)

    def run() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = call()
            if inspect.isgenerator(result):
                result = list(result)
        except StopIteration as stop:
            # A future takes none of these.
            error = RuntimeError(f"the function raised {stop!r}")
        except BaseException as raised:  # noqa: BLE001  the page's fault, whatever it is: told where it is awaited
            error = raised
        # RuntimeError: the worker has ended.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, error)

    # With the context of the worker: where it prints, for example.
    threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True).start()
    return await ended
