"""Runs of a spider in a test: the real worker on a frontier in memory, with provided or recorded pages."""

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
from skitter.model.job import FailedRequest, State
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
"""Number of polls without a lease, with a clock that advances ever faster, after which the run ends."""
_BOUNDLESS = 1 << 40
_IN_ORDER = {"concurrency": 1}
_WITHOUT_DELAY = {"delay_seconds": 0, "target_concurrency": None}
_BATCH = 1000


class SpiderRun(msgspec.Struct, kw_only=True):
    """Result of a spider in a test."""

    items: list[dict[str, Any]]
    """Items as an output would get them, in order."""
    requests: list[FetchRequest]
    """Requests that were sent, in order, including redirects and retries but not robots.txt."""
    failures: list[FailedRequest]
    """Failed requests with ``url``, ``error_class``, ``error`` (the traceback if a callback failed) and ``status``."""
    missing: list[str]
    """Pages that were requested but not provided, and were answered with 404."""
    stats: dict[str, int]
    """Counts: ``done``, ``redirected``, ``failed``, ``excluded``, ``queued``, ``duplicates``, ``items``,
    ``dropped:REASON``, ``outside:RULE`` and the other counts that ``skitter status`` sums up."""


def run(
    target: Target,
    pages: Mapping[str, Answer] | str | Path,
    urls: str | Sequence[str] = (),
    *,
    settings: Mapping[str, Any] | None = None,
    arguments: Mapping[str, str] | None = None,
) -> SpiderRun:
    """Run a spider class, a function or the built-in spider on provided pages, without a network.

    ``pages`` maps URLs to answers (``Answer``), or is a folder written by ``record``. Other URLs are answered with 404
    and listed in ``missing``. The real worker runs: robots.txt, scope, dedup, redirects and retries work as in a crawl.
    The run never waits: a fake clock is advanced instead. Requests are sent one after the other, unless ``settings``
    sets another ``concurrency``. The other parameters are those of ``skitter.crawl``.

        >>> import skitter
        >>> class Books(skitter.Spider):
        ...     start_urls = ["https://books.example/"]
        ...
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
    """Run a spider on the network, politely, and write every answer to a folder for ``run``.

    The parameters are those of ``run``; use ``settings={"max_pages": 20}`` to limit the run. A page that is already in
    the folder is replaced; other pages are kept. The format is described in docs/how-to/test-a-spider.md.
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
    """Run a crawl. ``clock`` is advanced instead of waiting; None means real time."""
    # The outbox is unlimited, because it is read only at the end.
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
        # This is an error of the test, not of a page.
        raise fetcher.error
    return await _result(frontier, fetcher)


@contextlib.asynccontextmanager
async def _renewed(worker: Worker, frontier: Frontier, lease_seconds: float | None) -> AsyncIterator[None]:
    """Renew leases during a run in real time."""
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
        failures=await frontier.failures("", _BOUNDLESS),
        missing=fetcher.missing,
        stats={**msgspec.to_builtins(report.counts), **report.tally},
    )


class _Timeless:
    """Frontier whose clock is advanced when its worker is idle."""

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
            # A page is being fetched or parsed; its outcome wakes the worker.
            return grant
        self._idle_rounds += 1
        if self._idle_rounds > IDLE_ROUNDS:
            # No worker of this run serves the need (``Request.need``) of the requests that are queued.
            self.worker.stop()
        self._clock.advance(max(grant.ask_again_seconds, 0.001 * 2**self._idle_rounds))
        return msgspec.structs.replace(grant, ask_again_seconds=0.0)

    async def commit(self, worker: str, outcomes: Sequence[Outcome], want: int = 0, call: Call = ONCE) -> Committed:
        committed = await self._frontier.commit(worker, outcomes, want, call)
        if committed.grant is None or committed.grant.leases:
            return committed
        # The worker asks again at once with ``lease``, which knows whether anything else is in flight.
        return msgspec.structs.replace(committed, grant=msgspec.structs.replace(committed.grant, ask_again_seconds=0.0))
