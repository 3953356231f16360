"""A worker in this very process: for a frontier that lives in it, or a spider that no other process could load."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import TextIO

import msgspec

from skitter.app.config import CrawlConfig
from skitter.app.fetchers import make_fetcher
from skitter.app.frontiers import is_shared, open_frontier
from skitter.app.lock_store import locks_given
from skitter.app.worker_config import job_settings
from skitter.app.worker_main import join, leave, make_spider, make_worker
from skitter.delivery.archive import open_archive
from skitter.frontier.contract import Frontier
from skitter.spiders.base import Spider
from skitter.stop_request import StopRequest
from skitter.worker.lease_renewal import RenewalThread, renew_while_running
from skitter.worker.loop import Worker


class _StdoutToStderr:
    """Redirects ``sys.stdout`` while at least one worker of this process runs; the last one to end restores it.

    ``contextlib.redirect_stdout`` restores what each found, which is wrong when two end in the order they began.
    """

    def __init__(self) -> None:
        self._workers = 0
        self._before: TextIO = sys.stdout

    def __enter__(self) -> None:
        if not self._workers:
            self._before, sys.stdout = sys.stdout, sys.stderr
        self._workers += 1

    def __exit__(self, *_: object) -> None:
        self._workers -= 1
        if not self._workers:
            sys.stdout = self._before


_STDOUT_TO_STDERR = _StdoutToStderr()


async def work_inline(config: CrawlConfig, frontier: Frontier, spider: Spider | None, stop: StopRequest) -> None:
    """Run one worker until it has ended."""
    job = await frontier.job()
    settings = job_settings(job, msgspec.to_builtins(config.settings.run))
    fetcher = make_fetcher(settings)
    archive = await open_archive(frontier, job.spec.name, settings.fetch)
    made = spider or make_spider(job, config.spec.spider, settings.run.trusted)
    worker = make_worker(frontier, fetcher, made, job, settings, stay=False, archive=archive)
    await join(worker, frontier)
    running = asyncio.create_task(worker.run())
    stop.set_handlers(worker.stop, running.cancel)
    try:
        async with (
            _renewed(worker, config, frontier, settings.limits.lease_seconds),
            locks_given(made, settings.run, config.frontier, job.spec.name),
        ):
            # Not awaited: being cancelled itself and running's being cancelled are told apart. What the spider
            # prints goes where it goes in a process of its own: standard output is for data.
            with _STDOUT_TO_STDERR:
                await asyncio.wait([running])
        if not (stop.forced and running.cancelled()):
            running.result()
            await leave(worker, frontier)
    finally:
        running.cancel()
        await asyncio.wait([running])
        await fetcher.close()
        if archive is not None:
            archive.close()


@contextlib.asynccontextmanager
async def _renewed(
    worker: Worker, config: CrawlConfig, frontier: Frontier, lease_seconds: float
) -> AsyncIterator[None]:
    """Renew its leases while the body works: in a thread, where another client of the store can be had."""
    if is_shared(config.frontier):
        with RenewalThread(
            worker, lambda: open_frontier(config.frontier, config.spec.name, create=False, patient=True), lease_seconds
        ):
            yield
        return
    renewing = asyncio.create_task(renew_while_running(worker, frontier, lease_seconds, worker.lost))
    try:
        yield
    finally:
        renewing.cancel()
