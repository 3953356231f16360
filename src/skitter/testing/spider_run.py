"""Runs of a spider in a test: the real worker on a frontier in memory, with given or recorded pages."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from skitter.app import script
from skitter.app.config import crawl_config, trusting_own_code
from skitter.app.crawl_source import CrawlSource
from skitter.app.fetchers import make_fetcher
from skitter.app.script import Target, source_of
from skitter.app.worker_config import job_settings
from skitter.app.worker_main import make_spider, make_worker
from skitter.delivery.stream_runner import CLIENT
from skitter.extract.items import decode_item
from skitter.fetch.contract import FetchRequest
from skitter.frontier.contract import Frontier
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.model.item import ItemKind
from skitter.model.job import Dead, State
from skitter.model.lease import ONCE, Call, Grant
from skitter.model.outcome import Committed, Outcome
from skitter.settings import Settings
from skitter.spiders.scrapy_settings import translated
from skitter.testing.clock import FakeClock
from skitter.testing.given_pages import Answer, GivenPages, table_of_pages
from skitter.testing.recorded_pages import RecordingFetcher, recorded_answers
from skitter.worker.lease_renewal import renew_while_running
from skitter.worker.loop import Worker

IDLE_ROUNDS = 40
"""After so many looks at a queue that gives nothing, with a clock that runs ever faster, nothing will come."""
_BOUNDLESS = 1 << 40
_IN_ORDER = {"concurrency": 1}
_WITHOUT_DELAY = {"delay_seconds": 0, "target_concurrency": None}
_BATCH = 1000


class SpiderRun(msgspec.Struct, kw_only=True):
    """What became of a spider in a test."""

    items: list[dict[str, Any]]
    """As a target would get them, in order."""
    requests: list[FetchRequest]
    """What was sent, in order: redirects and retries too, robots.txt not."""
    failures: list[Dead]
    """Requests that failed for good: ``url``, ``error_class``, ``error`` (of a callback its traceback), ``status``."""
    missing: list[str]
    """Pages that were asked for and not given; they were answered with 404."""
    stats: dict[str, int]
    """Counts: ``done``, ``redirected``, ``dead``, ``excluded``, ``queued``, ``duplicates``, ``items``,
    ``dropped:REASON``, ``outside:RULE`` and the others that ``status`` adds up."""


def run(
    target: Target,
    pages: Mapping[str, Answer] | str | Path,
    urls: str | Sequence[str] = (),
    *,
    settings: Mapping[str, Any] | None = None,
    arguments: Mapping[str, str] | None = None,
) -> SpiderRun:
    """Run a spider class, a function or the built-in spider against given pages, without a network.

    ``pages``: URLs with their answers (``Answer``), or a folder that ``record`` has written. What is not there is a
    404, and listed in ``missing``. It is the real worker: robots.txt, scope, dedup, redirects and retries are as in a
    crawl. Nothing waits: where a crawl would, the clock is put forward. Requests are sent one after the other, unless
    ``settings`` has another ``concurrency``. The other parameters are those of ``skitter.crawl``.

        >>> import skitter
        >>> class Books(skitter.Spider):
        ...     start_urls = ["https://books.example/"]
        ...     def parse(self, response):
        ...         yield {"title": response.css("h1::text").get()}
        ...         yield from response.follow_all(css="a")
        >>> ran = run(Books, {"https://books.example/": "<h1>One</h1><a href=/2>next</a>"})
        >>> ran.items, ran.missing
        ([{'title': 'One'}], ['https://books.example/2'])
    """
    fetcher = GivenPages(table_of_pages(pages) if isinstance(pages, Mapping) else recorded_answers(Path(pages)))
    source = source_of(target, urls, arguments or {})
    layers = [("the run", _IN_ORDER), *_own(settings), ("the run", _WITHOUT_DELAY)]
    return script.run(_run(source, layers, lambda _: fetcher, FakeClock()))


def record(
    target: Target,
    folder: str | Path,
    urls: str | Sequence[str] = (),
    *,
    settings: Mapping[str, Any] | None = None,
    arguments: Mapping[str, str] | None = None,
) -> SpiderRun:
    """Run a spider against the network, politely, and write every answer into a folder for ``run``.

    Parameters are those of ``run``; ``settings={"max_pages": 20}`` bounds it. What the folder has is replaced page by
    page, and the rest of it stays (docs/how-to/test-a-spider.md has the format).
    """
    source = source_of(target, urls, arguments or {})

    def recording(whole: Settings) -> RecordingFetcher:
        return RecordingFetcher(make_fetcher(whole), Path(folder))

    return script.run(_run(source, _own(settings), recording, None))


def _own(settings: Mapping[str, Any] | None) -> list[tuple[str, Mapping[str, Any]]]:
    return [translated("settings", settings or {}, [])[0]]


async def _run(
    source: CrawlSource,
    layers: Sequence[tuple[str, Mapping[str, Any]]],
    fetcher_of: Callable[[Settings], GivenPages | RecordingFetcher],
    clock: FakeClock | None,
) -> SpiderRun:
    """``clock``: put forward instead of waiting. None: real time."""
    # The outbox is read at the end.
    joined = Settings.from_layers(
        [("the spider", source.settings), *layers, ("the run", {"max_outbox_items": _BOUNDLESS})]
    )
    config = crawl_config(source, trusting_own_code(joined), job=None, frontier="memory:", outputs=[])
    name = config.spec.name
    frontier = memory_frontier(name, MemoryStore(clock.of_store() if clock is not None else None))
    await frontier.begin(config.spec, sinks=[CLIENT])
    job = await frontier.job()
    settings = job_settings(job, msgspec.to_builtins(config.settings.run))
    spider = source.instance or make_spider(job, config.spec.spider, settings.run.trusted)
    fetcher = fetcher_of(settings)
    work = frontier if clock is None else _Timeless(frontier, clock)
    worker = make_worker(work, fetcher, spider, job, settings, stay=False)
    if isinstance(work, _Timeless):
        work.worker = worker
    try:
        async with _renewed(worker, frontier, settings.limits.lease_seconds if clock is None else None):
            await worker.run()
    finally:
        await fetcher.close()
    if fetcher.error is not None:
        # A mistake of the test, and not of a page.
        raise fetcher.error
    return await _result(frontier, fetcher)


@contextlib.asynccontextmanager
async def _renewed(worker: Worker, frontier: Frontier, lease_seconds: float | None) -> AsyncIterator[None]:
    """Where time passes, leases are renewed."""
    if lease_seconds is None:
        yield
        return
    renewing = asyncio.create_task(renew_while_running(worker, frontier, lease_seconds, worker.lost))
    try:
        yield
    finally:
        renewing.cancel()


async def _result(frontier: Frontier, fetcher: GivenPages | RecordingFetcher) -> SpiderRun:
    items: list[dict[str, Any]] = []
    after = 0
    while batch := await frontier.peek(after, _BATCH):
        after = batch[-1].position
        items += [decode_item(item.record) for item in batch if item.kind is ItemKind.RECORD]
    report = await frontier.report()
    return SpiderRun(
        items=items,
        requests=fetcher.requests,
        failures=await frontier.dead("", _BOUNDLESS),
        missing=fetcher.missing,
        stats={**msgspec.to_builtins(report.counts), **report.tally},
    )


class _Timeless:
    """A frontier whose clock is put forward when its worker has nothing to do."""

    worker: Worker

    def __init__(self, frontier: Frontier, clock: FakeClock) -> None:
        self._frontier = frontier
        self._clock = clock
        self._idle_rounds = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._frontier, name)

    async def lease(self, worker: str, limit: int, call: Call = ONCE) -> Grant:
        grant = await self._frontier.lease(worker, limit, call)
        if grant.leases or grant.state is not State.RUNNING:
            self._idle_rounds = 0
            return grant
        if self.worker.held:
            # A page is being fetched or parsed: what it brings wakes the worker.
            return grant
        self._idle_rounds += 1
        if self._idle_rounds > IDLE_ROUNDS:
            # What is queued is for no worker that there is (``Request.need``).
            self.worker.stop()
        self._clock.advance(max(grant.ask_again_seconds, 0.001 * 2**self._idle_rounds))
        return msgspec.structs.replace(grant, ask_again_seconds=0.0)

    async def commit(self, worker: str, outcomes: Sequence[Outcome], want: int = 0, call: Call = ONCE) -> Committed:
        committed = await self._frontier.commit(worker, outcomes, want, call)
        if committed.grant is None or committed.grant.leases:
            return committed
        # Asked for again at once, by ``lease``: then it is known whether anything else is in flight.
        return msgspec.structs.replace(committed, grant=msgspec.structs.replace(committed.grant, ask_again_seconds=0.0))
