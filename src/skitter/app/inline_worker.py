"""A worker in this very process: for a frontier that lives in it, or a spider that no other process could load."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any, TextIO, cast

import msgspec

from skitter.app.config import CrawlConfig
from skitter.app.fetchers import make_fetcher
from skitter.app.frontiers import is_shared, open_frontier
from skitter.app.lock_store import locks_given
from skitter.app.worker_config import job_settings
from skitter.app.worker_main import close_adapted, join, leave, make_spider, make_worker
from skitter.delivery.archive import open_archive
from skitter.frontier.contract import Frontier
from skitter.model.job import State
from skitter.node.node_metrics import NodeMetrics
from skitter.observe.node_counters import NodeCounters
from skitter.spiders.base import Spider
from skitter.stop_request import StopRequest
from skitter.worker.close_hook import close_job
from skitter.worker.lease_renewal import RenewalThread, renew_while_running
from skitter.worker.loop import Worker

_IN_WORKER: ContextVar[bool] = ContextVar("IN_WORKER", default=False)


class _WorkerStdout:
    """``sys.stdout`` while workers run in this process: what they print goes to standard error, the rest where it went.

    Told apart by context: a program prints the items of ``skitter.stream`` while the worker that finds them runs.
    """

    def __init__(self, before: TextIO) -> None:
        self.before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr if _IN_WORKER.get() else self.before, name)


class _StdoutOfWorkers:
    """Replaces ``sys.stdout`` while at least one worker of this process runs; the last one to end restores it.

    ``contextlib.redirect_stdout`` restores what each found, which is wrong when two end in the order they began. The
    program may redirect it too, and begin or end that during a crawl: only a ``_WorkerStdout`` is taken away.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers = 0

    def __enter__(self) -> None:
        with self._lock:
            if not isinstance(sys.stdout, _WorkerStdout):
                sys.stdout = cast(TextIO, _WorkerStdout(sys.stdout))
            self._workers += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._workers -= 1
            if not self._workers and isinstance(sys.stdout, _WorkerStdout):
                sys.stdout = sys.stdout.before


_STDOUT_OF_WORKERS = _StdoutOfWorkers()


async def work_inline(
    config: CrawlConfig,
    frontier: Frontier,
    spider: Spider | None,
    stop: StopRequest,
    metrics: NodeMetrics | None = None,
) -> None:
    """Run one worker until it has ended. ``metrics``: of this node, where they are asked for."""
    job = await frontier.job()
    settings = job_settings(job, msgspec.to_builtins(config.settings.run))
    fetcher = make_fetcher(settings)
    archive = await open_archive(frontier, job.spec.name, settings.fetch)
    made = spider or make_spider(job, config.spec.spider, settings.run.trusted)
    counters = NodeCounters() if metrics is not None else None
    worker = make_worker(frontier, fetcher, made, job, settings, stay=False, archive=archive, counters=counters)
    if metrics is not None and counters is not None:
        metrics.joined(counters)
    await join(worker, frontier)
    _IN_WORKER.set(True)
    running = asyncio.create_task(_run(worker, frontier))
    stop.set_handlers(worker.stop, running.cancel)
    try:
        async with (
            renewed(worker, config.frontier, job.spec.name, frontier, settings.limits.lease_seconds),
            locks_given(made, settings.run, config.frontier, job.spec.name),
        ):
            # Not awaited: being cancelled itself and running's being cancelled are told apart. What the spider
            # prints goes where it goes in a process of its own: standard output is for data.
            with _STDOUT_OF_WORKERS:
                await asyncio.wait([running])
        if not (stop.forced and running.cancelled()):
            running.result()
            await leave(worker, frontier)
    finally:
        running.cancel()
        await asyncio.wait([running])
        if metrics is not None and counters is not None:
            metrics.left(counters)
        await close_adapted(made, worker)
        await fetcher.close()
        if archive is not None:
            archive.close()


async def _run(worker: Worker, frontier: Frontier) -> None:
    if await worker.run() is State.FINISHED and not worker.superseded:
        await close_job(worker, frontier)


@contextlib.asynccontextmanager
async def renewed(worker: Worker, url: str, job: str, frontier: Frontier, lease_seconds: float) -> AsyncIterator[None]:
    """Renew its leases while the body works: in a thread, where another client of the store can be had."""
    if is_shared(url):
        with RenewalThread(worker, lambda: open_frontier(url, job, create=False, patient=True), lease_seconds):
            yield
        return
    renewing = asyncio.create_task(renew_while_running(worker, frontier, lease_seconds, worker.lost))
    try:
        yield
    finally:
        renewing.cancel()
