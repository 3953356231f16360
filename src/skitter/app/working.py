"""The two ways to work for a job: in processes of their own under a supervisor, or in this one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable

import msgspec

from skitter.app.backends import is_shared, open_frontier
from skitter.app.child import ChildConfig, job_settings, join, leave, make_spider, make_worker
from skitter.app.plan import CrawlPlan
from skitter.app.stop import Stop
from skitter.frontier.contract import Frontier
from skitter.observe.events import Event
from skitter.spiders.base import Spider
from skitter.worker.loop import Worker
from skitter.worker.renewal import RenewalThread, renew_while_running
from skitter.worker.shared_urls import new_table
from skitter.worker.supervisor import Supervisor


async def work_supervised(
    plan: CrawlPlan,
    frontier: Frontier,
    stop: Stop,
    on_event: Callable[[Event], None],
    *,
    stay: bool = False,
    spider: str = "",
) -> None:
    """Worker processes, until each has ended."""
    workers = plan.settings.run.workers
    url_table = new_table(plan.settings.limits.max_known_urls) if workers > 1 else -1
    config = ChildConfig(
        frontier=plan.frontier,
        job=plan.spec.name,
        spider=spider,
        run=msgspec.to_builtins(plan.settings.run),
        stay=stay,
        verbosity=plan.verbosity,
        event_level=plan.event_level,
        url_table=url_table,
    )
    supervisor = Supervisor(
        lambda pipe: [sys.executable, "-m", "skitter.app", str(pipe)],
        workers,
        frontier=frontier,
        callback_seconds=plan.settings.limits.callback_seconds,
        shutdown_seconds=plan.settings.run.shutdown_seconds,
        on_event=on_event,
        told=msgspec.json.encode(config),
        inherits=[url_table] if workers > 1 else [],
    )
    stop.aim(supervisor.stop, supervisor.kill)
    try:
        await supervisor.run()
    finally:
        if workers > 1:
            os.close(url_table)


async def work_inline(plan: CrawlPlan, frontier: Frontier, spider: Spider | None, stop: Stop) -> None:
    """One worker in this process: for a frontier that lives in it, or a spider that no other could load."""
    from skitter.fetch.engine import CurlFetcher

    job = await frontier.job()
    settings = job_settings(job, msgspec.to_builtins(plan.settings.run))
    fetcher = CurlFetcher(settings.fetch, proxy=settings.run.proxy, max_buffered_bytes=settings.run.max_buffered_bytes)
    worker = make_worker(frontier, fetcher, spider or make_spider(job), job, settings, stay=False)
    await join(worker, frontier)
    running = asyncio.create_task(worker.run())
    stop.aim(worker.stop, running.cancel)
    try:
        async with _renewed(worker, plan, frontier, settings.limits.lease_seconds):
            # Not awaited: being cancelled itself and running's being cancelled are told apart. What the spider
            # prints goes where it goes in a process of its own: standard output is for data.
            with contextlib.redirect_stdout(sys.stderr):
                await asyncio.wait([running])
        if not (stop.forced and running.cancelled()):
            running.result()
            await leave(worker, frontier)
    finally:
        running.cancel()
        await asyncio.wait([running])
        await fetcher.close()


@contextlib.asynccontextmanager
async def _renewed(worker: Worker, plan: CrawlPlan, frontier: Frontier, lease_seconds: float) -> AsyncIterator[None]:
    """Its leases are kept, beside the loop where another client of the store can be had."""
    if is_shared(plan.frontier):
        with RenewalThread(
            worker, lambda: open_frontier(plan.frontier, plan.spec.name, create=False, patient=True), lease_seconds
        ):
            yield
        return
    renewing = asyncio.create_task(renew_while_running(worker, frontier, lease_seconds, worker.lost))
    try:
        yield
    finally:
        renewing.cancel()
