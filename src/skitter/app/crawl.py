"""Running a job on this machine: the frontier, the sinks, the workers, and the way out."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from skitter._version import __version__
from skitter.app.config import CrawlPlan, Summary, job_settings, trusting_own_code
from skitter.app.frontiers import is_shared, open_frontier
from skitter.app.report_events import ReportDiff
from skitter.app.start_checks import check_proxy
from skitter.app.vanished_store import vanished_store_told
from skitter.app.worker_processes import work_supervised
from skitter.cluster.process_identity import is_dead
from skitter.delivery.failover import SinkFailover, relieving
from skitter.delivery.job_sinks import OnEvent, delivery_of, finish_delivery, sinks_to_serve, work_and_deliver
from skitter.delivery.node_archive import archiving
from skitter.errors import FrontierError, JobError, UsageError
from skitter.frontier.contract import Frontier
from skitter.model.job import Begun, Job, Report, State
from skitter.model.request import Fingerprinter
from skitter.model.url import host_key
from skitter.node.shutdown_signals import ShutdownSignals
from skitter.observe import events
from skitter.settings import Settings
from skitter.sinks.targets import sink_of
from skitter.spiders.base import Spider
from skitter.spiders.loading import check_trusted, code_of

REPORT_SECONDS = 0.5
GONE_SECONDS = 3.0
"""A dead worker that was heard from more lately is its supervisor's to mourn: it knows which page is to blame."""
_ENDED = (State.FINISHED, State.STOPPED)
OnReport = Callable[[Report], None]


async def run_crawl(
    plan: CrawlPlan, *, on_report: OnReport, on_event: OnEvent, spider: Spider | None = None
) -> Summary:
    """Begin, resume or join the job, and work until it ends and its sinks have caught up.

    ``spider``: an object to use in this process, for spiders that no other process could load.
    """
    inline = spider is not None or not is_shared(plan.frontier)
    if inline and plan.settings.run.workers > 1:
        raise UsageError(
            f"one process only: {plan.frontier}" if spider is None else "a spider without a file runs in one process",
            hint="use --frontier sqlite:PATH, or --workers 1",
        )
    # Before anything is made: a target without a format is a mistake of typing.
    for target in plan.outputs:
        sink_of(target)
    await check_proxy(plan.settings.run)
    plan = msgspec.structs.replace(plan, settings=trusting_own_code(plan.settings))
    began = time.monotonic()
    stop = ShutdownSignals(on_event)
    async with (
        opened(plan.frontier, plan.spec.name, create=True) as frontier,
        vanished_store_told(frontier, plan, on_event) as current,
    ):
        if plan.fresh:
            await _refuse_while_workers_live(frontier)
        await recover_dead_workers(frontier, on_event)
        with contextlib.suppress(JobError):
            _check_same_version(await frontier.job(), on_event)
        plan, joins = await _joining(frontier, plan, on_event)
        sinks = await sinks_to_serve(
            frontier,
            plan.spec.name,
            plan.outputs,
            fresh=plan.fresh,
            password=plan.sink_password,
            trusted=plan.settings.run.trusted,
            on_event=on_event,
        )
        delivery = current.delivery = delivery_of(frontier, sinks, plan.spec.name, on_event)
        with stop.listening():
            # Before the run begins: a target that cannot be written must not cost the results of the last run.
            await delivery.take()
            try:
                begun = await frontier.begin(plan.spec, fresh=plan.fresh, sinks=[sink.target for sink in sinks])
                begun = Begun.JOINED if joins else begun
                before = await frontier.counts()
                on_event(events.JOB_BEGUN(begun=begun, run=(await frontier.job()).run))
                await delivery.open()
                # A crawl that joins leaves the outputs to those that are at work.
                if not sinks and not joins:
                    on_event(events.JOB_NO_OUTPUT())
                async with _reporting(frontier, on_report, on_event) as watching:
                    if inline:
                        from skitter.app.inline_worker import work_inline

                        working = work_inline(plan, frontier, spider, stop)
                    else:
                        working = work_supervised(plan, frontier, stop, on_event, spider=plan.spec.spider)
                    served = [sink.target for sink in sinks]
                    others = SinkFailover(
                        frontier,
                        plan.spec.name,
                        plan.sink_password,
                        on_event,
                        trusted=plan.settings.run.trusted,
                        named=plan.outputs,
                        but_not=served,
                    )
                    async with relieving(others, stop):
                        await work_and_deliver(working, delivery, stop, on_event)
                    report = await frontier.report()
                    if not stop.forced:
                        await finish_delivery(delivery, stop, complete=report.job.state is State.FINISHED)
            finally:
                await delivery.close()
        report = await frontier.report()
        watching.look(report)
        on_report(report)
        why = await _why_no_seed(frontier, report)
    return _summary(report, begun, stop.signal, time.monotonic() - began, before.done, why)


async def run_worker(
    *,
    frontier: str,
    job: str,
    spider: str = "",
    settings_overrides: dict[str, Any],
    stay: bool,
    on_report: OnReport,
    on_event: OnEvent,
    verbosity: int = 0,
    event_level: int = events.Level.INFO,
    sink_password: str | None = None,
) -> Summary:
    """Join a job that exists until it is finished; with ``stay``, wait for it and for more."""
    if not is_shared(frontier):
        raise UsageError(f"cannot be shared with another process: {frontier}", hint="use --frontier sqlite:PATH")
    began = time.monotonic()
    stop = ShutdownSignals(on_event)
    async with opened(frontier, job, create=stay) as store:
        with stop.listening():
            found = await _wait_for_job(store, stop) if stay else await store.job()
            if found is None:
                # Interrupted before there was a job to sum up.
                raise SystemExit(128 + stop.signal)
            settings = job_settings(found, settings_overrides)
            await check_proxy(settings.run)
            _check_same_spider(found, spider)
            if not spider:
                check_trusted(found.spec.spider, Path.cwd(), settings.run.trusted)
            _check_same_version(found, on_event)
            _check_same_code(found, code_of(spider or found.spec.spider, Path.cwd()), spider, on_event)
            await recover_dead_workers(store, on_event)
            before = await store.counts()
            plan = CrawlPlan(
                spec=found.spec,
                frontier=frontier,
                settings=settings,
                verbosity=verbosity,
                event_level=event_level,
            )
            async with (
                _reporting(store, on_report, on_event) as watching,
                relieving(SinkFailover(store, job, sink_password, on_event, trusted=settings.run.trusted), stop),
                archiving(store, job, stop, on_event),
            ):
                await work_supervised(plan, store, stop, on_event, stay=stay, spider=spider)
            report = await store.report()
            watching.look(report)
            on_report(report)
            why = await _why_no_seed(store, report)
    return _summary(report, Begun.RESUMED, stop.signal, time.monotonic() - began, before.done, why)


# ---- the parts


@asynccontextmanager
async def opened(url: str, job: str, *, create: bool) -> AsyncIterator[Frontier]:
    frontier = open_frontier(url, job, create=create)
    try:
        yield frontier
    finally:
        await frontier.close()


@asynccontextmanager
async def _reporting(frontier: Frontier, on_report: OnReport, on_event: OnEvent) -> AsyncIterator[ReportDiff]:
    watching = ReportDiff(on_event)

    async def report() -> None:
        while True:
            # If the store is in trouble, the workers will say so; a display is no reason to end a crawl.
            with contextlib.suppress(FrontierError):
                report = await frontier.report()
                watching.look(report)
                on_report(report)
                # Another command on this machine may have been killed with its workers while we go on.
                await recover_dead_workers(frontier, on_event, GONE_SECONDS)
            await asyncio.sleep(REPORT_SECONDS)

    task = asyncio.create_task(report())
    try:
        yield watching
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def recover_dead_workers(frontier: Frontier, on_event: OnEvent, silent_seconds: float = 0.0) -> None:
    """Workers that died on this machine with their supervisor: nobody else would hand their leases back at once."""
    try:
        workers = await frontier.workers()
    except JobError:
        return
    for worker in workers:
        if worker.silent_seconds >= silent_seconds and is_dead(worker.id):
            back = await frontier.release_worker(worker.id)
            on_event(events.WORKER_GONE(worker=worker.id, leases=back))
    for sink in (await frontier.report()).sinks:
        if sink.owner and is_dead(sink.owner):
            await frontier.close_sink(sink.target, sink.owner)


async def _at_work(frontier: Frontier) -> tuple[Job, list[str]] | None:
    """The job, if it goes on at this moment, and the workers that are at it."""
    try:
        job = await frontier.job()
    except JobError:
        return None
    lease_seconds = job_settings(job, {}).limits.lease_seconds
    living = [worker.id for worker in await frontier.workers() if worker.silent_seconds < lease_seconds]
    return (job, living) if living and job.state not in _ENDED else None


async def _joining(frontier: Frontier, plan: CrawlPlan, on_event: OnEvent) -> tuple[CrawlPlan, bool]:
    """Whether others are at the job; then the plan is with its settings: one more hand does not change its manners."""
    found = None if plan.fresh else await _at_work(frontier)
    if found is None:
        return plan, False
    job, _ = found
    _check_same_code(job, plan.spec.code, plan.spec.spider, on_event)
    defaults, theirs = Settings().job_wide(), job.spec.settings
    left = [
        f"{name}={value}"
        for name, value in plan.spec.settings.items()
        if value not in (defaults[name], theirs.get(name))
    ]
    if left:
        on_event(events.JOB_SETTINGS_KEPT(settings=", ".join(left)))
    spec = msgspec.structs.replace(plan.spec, settings=theirs, version=job.spec.version, code=job.spec.code)
    settings = job_settings(job, msgspec.to_builtins(plan.settings.run))
    return msgspec.structs.replace(plan, spec=spec, settings=settings), True


async def _refuse_while_workers_live(frontier: Frontier) -> None:
    await recover_dead_workers(frontier, lambda _: None)
    if (found := await _at_work(frontier)) is not None:
        living = found[1]
        raise JobError(
            f"workers are at work on this job: {', '.join(living)}",
            hint="stop them first: skitter stop, then try again",
        )


def _check_same_spider(job: Job, reference: str) -> None:
    """A node may keep the spider's file elsewhere; the class must be the job's."""
    ours, theirs = reference.rpartition(":")[2], job.spec.spider.rpartition(":")[2]
    if reference and ours != theirs:
        raise JobError(
            f"job {job.spec.name} has another spider: {job.spec.spider or 'the built-in one'}",
            hint="leave the spider out, or name the job's own",
        )


def _check_same_version(job: Job, on_event: OnEvent) -> None:
    """Another stored format is refused by the store itself. Of the same format, two versions may still differ in a rule
    that a frontier's scripts or a worker keep; nothing is lost by that, but a person should know."""
    theirs = job.spec.version
    if theirs and theirs != __version__ and job.state is not State.FINISHED:
        on_event(events.JOB_OTHER_VERSION(version=__version__, begun_by=theirs))


def _check_same_code(job: Job, code: str, spider: str, on_event: OnEvent) -> None:
    """The right class with other content: an old file on one of the nodes, more likely than not."""
    if code and job.spec.code and code != job.spec.code:
        on_event(events.JOB_OTHER_CODE(spider=spider or job.spec.spider))


async def _wait_for_job(frontier: Frontier, stop: ShutdownSignals) -> Job | None:
    stopped = asyncio.Event()
    stop.aim(stopped.set, stopped.set)
    while not stopped.is_set():
        with contextlib.suppress(JobError):
            return await frontier.job()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await stopped.wait()
    return None


async def _why_no_seed(frontier: Frontier, report: Report) -> str:
    """What the first failed request met with, or else the first seed; nothing if a page was done."""
    if report.counts.done:
        return ""
    for dead in await frontier.dead("", 1):
        return f"{dead.error_class}: {dead.error.strip().rpartition(chr(10))[2]}"
    for seed in report.job.spec.seeds[:1]:
        trace = await frontier.trace(Fingerprinter.of_job(report.job).fingerprint("GET", seed), host_key(seed))
        if trace is not None and trace.error_class:
            return f"{trace.error_class}: {trace.error.strip().rpartition(chr(10))[2]}"
    return ""


def _summary(
    report: Report, begun: Begun, number: int, seconds: float, done_before: int, no_seed_because: str
) -> Summary:
    counts, tally = report.counts, report.tally
    rate = max(0, counts.done - done_before) / seconds if seconds else 0.0
    return Summary(
        job=report.job.spec.name,
        state=report.job.state,
        run=report.job.run,
        pages=counts.done,
        items=report.items,
        rejected=report.rejected,
        dropped=report.dropped,
        redirected=counts.redirected,
        failed=counts.dead,
        excluded=counts.excluded,
        duplicates=tally.get("duplicates", 0),
        bytes=tally.get("bytes", 0),
        seconds=round(seconds, 3),
        pages_per_second=round(rate, 1),
        seeds_done=counts.done > 0,
        no_seed_because=no_seed_because,
        outputs=[sink.target for sink in report.sinks],
        signal=number,
        blocked_by="sink" if any(sink.blocking for sink in report.sinks) else "",
        undelivered=report.undelivered,
        errors=report.errors,
        reason=report.job.reason,
        begun=begun,
    )
