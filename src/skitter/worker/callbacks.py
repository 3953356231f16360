"""Running what people wrote: a callback of any kind, to its end, with what it yields on the way to a commit.

Whatever a callback does, it costs its page and nothing else. What is not its doing (a lost lease, a store
that fails while a part is sent, a worker that stops) passes through.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from pathlib import Path
from types import FrameType, GeneratorType
from typing import Any

from skitter.errors import FrontierError, RejectItem, RequestError, SinkError, SkitterError
from skitter.extract.items import is_item
from skitter.model.lease import Lease
from skitter.model.outcome import Outcome
from skitter.model.request import Links, Request
from skitter.model.secrets import concealed
from skitter.spiders import function_spider
from skitter.worker.item_functions import ItemFunctions, is_drop
from skitter.worker.page_yield import PageYield
from skitter.worker.worker_stats import CallbackStats

CommitPart = Callable[[Outcome, list[str]], Awaitable[bool]]
"""Commits a part of a large page; False: the lease is lost."""
_SPIDERS = Path(function_spider.__file__).parent
_CALLERS = (
    str(Path(__file__).parent),
    *(str(_SPIDERS / name) for name in ("function_spider.py", "base.py", "rules.py")),
)
"""Code that calls what people wrote: a traceback begins after it."""
_SKITTER = str(Path(__file__).parent.parent)


class LeaseLostError(Exception):
    """The page belongs to another worker now: drop it."""


class Callbacks:
    """Runs callbacks for one worker."""

    def __init__(
        self,
        *,
        callback_seconds: float,
        commit_part: CommitPart,
        item_functions: ItemFunctions | None = None,
        secrets: Iterable[str] = (),
        stats: CallbackStats | None = None,
    ) -> None:
        """``secrets`` of the spider must not be seen in its tracebacks."""
        self._stats = stats or CallbackStats()
        self._callback_seconds = callback_seconds
        self._commit_part = commit_part
        self._item_functions = item_functions
        self._secrets = list(secrets)

    async def call(
        self, lease: Lease, page_yield: PageYield, callback: Callable[..., Any], argument: Any, keywords: dict[str, Any]
    ) -> str:
        """Run it to its end; the traceback if it raised, else nothing."""
        result: Any = None
        began = time.perf_counter()
        try:
            result = callback(argument, **keywords)
            # Nearly every callback is a generator, and to be sure that it is nothing else takes a while.
            if not isinstance(result, GeneratorType) and isinstance(result, (AsyncIterable, Awaitable)):
                await self._consume_async(lease, page_yield, result, argument)
            else:
                await self._consume(lease, page_yield, result, argument)
        except BaseException as error:
            if not is_of_the_callback(error):
                raise
            return self.described(error, result)
        finally:
            self._stats.add(getattr(callback, "__name__", "?"), time.perf_counter() - began)
        return ""

    def described(self, error: BaseException, result: Any = None) -> str:
        """The traceback, from where the spider's own code begins, without secrets.

        ``result`` of the callback: if it is a generator that waits at a yield, what it yielded there is to blame.
        """
        return concealed(_traceback(error, _waiting_frame(result)), self._secrets)

    async def send_part(self, lease: Lease, page_yield: PageYield) -> None:
        """Commit what was harvested so far, ahead of the rest. Raises LeaseLostError when that is refused."""
        part, urls = page_yield.take_part(lease)
        if not await self._commit_part(part, urls):
            raise LeaseLostError

    async def _take(self, page_yield: PageYield, output: Any, argument: Any) -> None:
        """One thing that a callback yielded; an item passes the item functions first."""
        if self._item_functions is not None and is_item(output):
            try:
                # An errback is given a failure, which has a response or none.
                response = getattr(argument, "response", argument)
                output = await self._item_functions.apply(output, response)
            except RejectItem as reject:
                page_yield.reject(output, str(reject))
                return
            except Exception as error:
                if not is_drop(error):
                    raise
                page_yield.drop(str(error))
                return
        page_yield.take(output)

    async def _consume(self, lease: Lease, page_yield: PageYield, result: Any, argument: Any) -> None:
        if result is None:
            return
        if not isinstance(result, GeneratorType) and (
            isinstance(result, (Request, str)) or is_item(result) or not isinstance(result, Iterable)
        ):
            result = (result,)  # a text is one wrong thing, not as many as it has letters
        for output in result:
            if self._item_functions:
                await self._take(page_yield, output, argument)
            else:
                page_yield.take(output)
            if page_yield.is_large:
                await self.send_part(lease, page_yield)
            elif isinstance(output, Links) and not output:
                # How a callback of ours lets others go on in the middle of long work: what reads sitemaps.
                await asyncio.sleep(0)

    async def _consume_async(
        self, lease: Lease, page_yield: PageYield, result: AsyncIterable[Any] | Awaitable[Any], argument: Any
    ) -> None:
        limit = asyncio.timeout(self._callback_seconds)
        try:
            async with limit:
                if isinstance(result, AsyncIterable):
                    await self._consume_each(lease, page_yield, result, argument)
                else:
                    await self._consume(lease, page_yield, await result, argument)
        except TimeoutError as error:
            if limit.expired():
                raise TimeoutError(f"the callback took more than {self._callback_seconds:g} s") from error
            raise

    async def _consume_each(
        self, lease: Lease, page_yield: PageYield, outputs: AsyncIterable[Any], argument: Any
    ) -> None:
        async with contextlib.AsyncExitStack() as stack:
            if callable(close := getattr(outputs, "aclose", None)):
                # Now, and not when the collector finds it: it may hold connections.
                stack.push_async_callback(close)
            async for output in outputs:
                if self._item_functions:
                    await self._take(page_yield, output, argument)
                else:
                    page_yield.take(output)
                if page_yield.is_large:
                    await self.send_part(lease, page_yield)


def is_of_the_callback(error: BaseException) -> bool:
    """Whether the page is to blame. A callback may well raise SystemExit, or CancelledError from a task of its own."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or not task.cancelling()
    return isinstance(error, (Exception, SystemExit)) and not isinstance(
        error, (LeaseLostError, FrontierError, SinkError)
    )


def _waiting_frame(result: Any) -> FrameType | None:
    """Where a generator stands; None: it has ended, or is none."""
    while isinstance(result, GeneratorType) and isinstance(result.gi_yieldfrom, GeneratorType):
        result = result.gi_yieldfrom
    return result.gi_frame if isinstance(result, GeneratorType) else None


def _traceback(error: BaseException, waiting: FrameType | None) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename.startswith(_CALLERS):
        trace = trace.tb_next
    text = _refusal(error, waiting) or "".join(traceback.format_exception(type(error), error, trace))
    # On the same line, which is the one that lists and logs show.
    return f"{text.rstrip()} ({error.hint})" if isinstance(error, SkitterError) and error.hint else text


def _refusal(error: BaseException, waiting: FrameType | None) -> str:
    """The traceback of a value that skitter refuses: the lines that made or yielded it, not those that looked at it."""
    if not isinstance(error, TypeError):
        return ""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_SKITTER)]
    if not frames and waiting is not None:
        code, line = waiting.f_code, waiting.f_lineno
        frames = [traceback.FrameSummary(code.co_filename, line, code.co_name)]
    elif not isinstance(error, RequestError):
        return ""
    if not frames:
        return ""
    return "".join(
        [
            "Traceback (most recent call last):\n",
            *traceback.StackSummary.from_list(frames).format(),
            *traceback.format_exception_only(error),
        ]
    )
