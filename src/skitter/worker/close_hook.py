"""Calls ``on_close`` of a finished run: in one worker of all, and again where that one died in the middle."""

from __future__ import annotations

import asyncio
import contextlib

from skitter.errors import FrontierError
from skitter.frontier.contract import SINK_OWNER_SECONDS, WorkerStore
from skitter.model.job import CloseClaim, Report, State
from skitter.observe import events
from skitter.spiders.hooks import CloseSummary
from skitter.worker.loop import Worker
from skitter.worker.page_hooks import WorkerHooks

POLL_SECONDS = 1.0
"""How often a worker looks whether the one that calls ``on_close`` has done so, or is gone."""


async def close_job(worker: Worker, store: WorkerStore) -> None:
    """Call ``on_close`` of a finished run, or wait while another worker does; nothing is done where there is none.

    A hook that fails has been called: it is told, and not called again.
    """
    if not worker.hooks.on_close:
        return
    while not worker.is_stopping:
        claim = await store.claim_close(worker.id)
        if claim is CloseClaim.NONE:
            return
        if claim is CloseClaim.MINE:
            await _call(worker.id, worker.hooks, store)
            return
        await asyncio.sleep(POLL_SECONDS)


async def close_each_run(worker: Worker, store: WorkerStore) -> None:
    """For a worker that stays: call ``on_close`` each time that the job is finished, until cancelled."""
    is_closed = False
    while worker.hooks.on_close:
        if worker.state is not State.FINISHED:
            is_closed = False
        elif not is_closed:
            with contextlib.suppress(FrontierError):
                await close_job(worker, store)
                is_closed = True
        await asyncio.sleep(POLL_SECONDS)


async def _call(worker: str, hooks: WorkerHooks, store: WorkerStore) -> None:
    renewing = asyncio.create_task(_renew(store, worker))
    try:
        for text in await hooks.close(close_summary(await store.report())):
            events.emit(events.CLOSE_FAILED(worker=worker, traceback=text))
    finally:
        renewing.cancel()
        await asyncio.wait([renewing])
    await store.claim_close(worker, done=True)


async def _renew(store: WorkerStore, worker: str) -> None:
    while True:
        await asyncio.sleep(SINK_OWNER_SECONDS / 3)
        # If the store is unavailable for long, another worker calls on_close once more.
        with contextlib.suppress(FrontierError):
            await store.claim_close(worker)


def close_summary(report: Report) -> CloseSummary:
    """What ``on_close`` is told of a run."""
    job, counts = report.job, report.counts
    return CloseSummary(
        job=job.spec.name,
        run=job.run,
        pages=counts.done,
        items=report.items,
        failed=counts.failed,
        excluded=counts.excluded,
        redirected=counts.redirected,
        bytes=report.tally.get("bytes", 0),
        errors={name: count for name, count in report.errors.items() if count},
        dropped=report.dropped,
        stats=report.stats,
        decisions=report.decisions,
        seconds=round(job.ended_at - job.started_at, 3),
    )
