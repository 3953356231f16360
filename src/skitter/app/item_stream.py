"""``skitter.stream``: the items of a crawl, one after the other, as a program requests them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from skitter.app.config import CrawlConfig
from skitter.app.crawl_thread import CrawlThread, wake_often
from skitter.app.frontiers import default_frontier
from skitter.app.script import refuse_while_loading, runs_here, script_config
from skitter.app.summary import Summary
from skitter.delivery.item_buffer import ItemBuffer, Record, Waiting
from skitter.errors import CrawlError
from skitter.model.job import Counts
from skitter.spiders.base import Spider


def stream(
    target: type[Spider] | Callable[..., Any] | str | Sequence[str] = (),
    urls: str | Sequence[str] = (),
    *,
    sitemaps: Sequence[str] = (),
    output: str | Path | Sequence[str | Path] | None = None,
    overwrite: bool = False,
    job: str | None = None,
    frontier: str | None = None,
    settings: Mapping[str, Any] | None = None,
    arguments: Mapping[str, str] | None = None,
    fresh: bool = False,
) -> ItemStream:
    """Crawl, and yield items as they arrive: ``for item in skitter.stream(Books)``, or with ``async for``.

    Parameters are those of ``crawl``. The crawl starts when the first item is requested, in a separate thread, also
    if an event loop is running. Leaving the loop stops the crawl gracefully. Without ``job``, ``output`` and
    ``frontier`` the crawl is kept in memory, and the same call starts it again: its items are always all of them.
    With one of them, the same call resumes the crawl, and first yields the items that were found but not yet yielded.
    An item counts as processed when the next one is requested: the last item before the loop was left is yielded
    again, unless ``confirm`` was called (docs/how-to/scripts-and-notebooks.md).

        items = list(skitter.stream(Books))
    """
    refuse_while_loading("stream")
    config, spider, given = script_config(
        target,
        urls,
        sitemaps=sitemaps,
        output=output,
        overwrite=overwrite,
        job=job,
        frontier=frontier,
        settings=settings,
        arguments=arguments,
        fresh=fresh,
    )
    own, is_named = config.settings, job or frontier or config.frontier != default_frontier(config.spec.name)
    is_kept = fresh or config.outputs or own.recrawl.is_on or own.dedup.dedup_scope == "job"
    if not (is_named or is_kept) and runs_here(own.run):
        # Nothing names a job to resume, so no item that an earlier program took may be missing.
        config = msgspec.structs.replace(config, frontier="memory:")
    return ItemStream(config, spider, given)


class ItemStream:
    """Items of a crawl, from ``skitter.stream``: an iterator, an async iterator, and a context manager of both kinds.

    In a ``with`` block, the last item also counts as processed if the block ends without an exception.
    """

    def __init__(self, config: CrawlConfig, spider: Spider | None, given: Collection[str]) -> None:
        self._job = config.spec.name
        self._buffer = ItemBuffer()
        self._crawl = CrawlThread(config, spider, given, self._buffer)
        self._is_begun = self._is_over = False
        self._consumer: int | None = None
        """The thread of a loop that is not async."""

    @property
    def summary(self) -> Summary | None:
        """Summary of the crawl, as ``crawl`` returns it; None while the crawl is running."""
        ended = self._crawl.ended
        return ended.result() if ended.done() and ended.exception() is None else None

    def counts(self) -> Counts:
        """Return the number of requests in each state, half a second old at most: ``done`` of ``seen`` for a progress
        bar."""
        return self._crawl.counts

    def __repr__(self) -> str:
        summary = self.summary
        state = summary.state if summary else "left" if self._is_over else "running" if self._is_begun else "not begun"
        return f"<ItemStream of job {self._job!r}: {state}, {self._crawl.counts.done} pages>"

    def raise_for_state(self) -> None:
        """Raise CrawlError if the crawl failed or is not complete: the items that were returned are not all."""
        if self.summary is None:
            raise CrawlError("the crawl has not ended")
        self.summary.raise_for_state()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        self._consumer = threading.get_ident()
        try:
            while isinstance(found := self._ask(), Waiting):
                found.changed.result()
        except KeyboardInterrupt:
            self.close()
            raise
        if found is None:
            self._end()
            raise StopIteration
        return found

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        self._consumer = None
        try:
            while isinstance(found := self._ask(), Waiting):
                await wake_often(asyncio.wrap_future(found.changed))
        except asyncio.CancelledError:
            await self._stop_in_loop()
            raise
        if found is None:
            self._end()
            raise StopAsyncIteration
        return found

    def confirm(self) -> None:
        """Mark the current item as processed before the next one is requested: it is not yielded again."""
        self._buffer.confirm()

    def close(self) -> None:
        """Stop the crawl gracefully, and wait until it has ended. May be called again."""
        if self._leave():
            self._crawl.wait_for_end()

    async def aclose(self) -> None:
        """Stop the crawl as ``close`` does, without blocking the event loop."""
        if self._leave():
            await self._crawl.wait_in_loop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.confirm()
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.confirm()
        await self.aclose()

    def __del__(self) -> None:
        # A loop that was left lets go of it at once, in its own thread, and whoever begins again finds the job free.
        # Elsewhere (a loop of asyncio, another thread's collection of garbage) nobody is to be kept waiting.
        with contextlib.suppress(Exception):
            if self._leave() and self._consumer == threading.get_ident() and not self._crawl.is_current:
                self._crawl.wait_for_end()

    def _ask(self) -> Record | Waiting | None:
        if not self._is_begun:
            self._crawl.start()
            self._is_begun = True
        self._buffer.confirm()
        return self._buffer.take()

    def _end(self) -> None:
        """Nothing more comes; raises why, once, if the crawl failed."""
        if not self._is_over:
            self._is_over = True
            self._crawl.ended.result()

    def _leave(self) -> bool:
        """Take nothing more, and stop the crawl; False: there is none, or not any more."""
        self._buffer.leave()
        if not self._is_begun or self._is_over:
            return False
        self._is_over = True
        self._crawl.stop()
        return True

    async def _stop_in_loop(self) -> None:
        if self._leave():
            ended = asyncio.wrap_future(self._crawl.ended)
            try:
                await asyncio.wait([ended])
            except asyncio.CancelledError:
                self._crawl.kill()
                await asyncio.wait([ended])
            ended.exception()
