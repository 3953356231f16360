"""Running a job on this machine: the frontier, the sinks, the workers, and the way out."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from skitter._version import __version__
from skitter.app.backends import is_shared, open_frontier
from skitter.app.child import job_settings
from skitter.app.plan import CrawlPlan, Output, Summary
from skitter.app.stop import Stop
from skitter.app.watching import Watching
from skitter.app.working import work_inline, work_supervised
from skitter.errors import FrontierError, JobError, UsageError
from skitter.frontier.contract import Frontier
from skitter.model.job import Begun, Job, Report, State
from skitter.observe import events
from skitter.settings import Settings
from skitter.sinks.contract import Sink
from skitter.sinks.targets import parse_target, sink_of
from skitter.spiders.base import Spider
from skitter.spiders.loading import code_of
from skitter.worker.delivery import Delivery
from skitter.worker.identity import is_dead, worker_id

REPORT_SECONDS = 0.5
GONE_SECONDS = 3.0
"""A dead worker that was heard from more lately is its supervisor's to mourn: it knows which page is to blame."""
STDOUT = "-"
_ENDED = (State.FINISHED, State.STOPPED)
OnReport = Callable[[Report], None]
OnEvent = Callable[[events.Event], None]


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
    named = [
        sink_of(parse_target(output.target, overwrite=output.overwrite, job=plan.spec.name)) for output in plan.outputs
    ]
    began = time.monotonic()
    stop = Stop(on_event)
    async with _opened(plan.frontier, plan.spec.name, create=True) as frontier:
        if plan.fresh:
            await _refuse_while_workers_live(frontier)
        await _release_the_dead(frontier, on_event)
        with contextlib.suppress(JobError):
            _check_same_version(await frontier.job(), on_event)
        plan, joins = await _joining(frontier, plan, on_event)
        sinks = await _sinks_to_serve(frontier, plan, named, on_event)
        delivery = Delivery(frontier, sinks, owner=worker_id())
        with stop.listening():
            # Before the run begins: a target that cannot be written must not cost the results of the last run.
            await delivery.take()
            try:
                begun = await frontier.begin(plan.spec, fresh=plan.fresh, sinks=[sink.target for sink in sinks])
                begun = Begun.JOINED if joins else begun
                before = await frontier.counts()
                on_event(events.JOB_BEGUN(begun=begun, run=(await frontier.job()).run))
                await delivery.open()
                async with _reporting(frontier, on_report, on_event) as watching:
                    if inline:
                        working = work_inline(plan, frontier, spider, stop)
                    else:
                        working = work_supervised(plan, frontier, stop, on_event)
                    await _work_and_deliver(working, delivery, stop, on_event)
                    report = await frontier.report()
                    if not stop.forced:
                        await delivery.finish(complete=report.job.state is State.FINISHED)
            finally:
                await delivery.close()
        report = await frontier.report()
        watching.look(report)
        on_report(report)
    return _summary(report, begun, stop.signal, time.monotonic() - began, before.done)


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
) -> Summary:
    """Join a job that exists until it is finished; with ``stay``, wait for it and for more."""
    if not is_shared(frontier):
        raise UsageError(f"cannot be shared with another process: {frontier}", hint="use --frontier sqlite:PATH")
    began = time.monotonic()
    stop = Stop(on_event)
    async with _opened(frontier, job, create=stay) as opened:
        with stop.listening():
            found = await _wait_for_job(opened, stop) if stay else await opened.job()
            if found is None:
                # Interrupted before there was a job to sum up.
                raise SystemExit(128 + stop.signal)
            _check_same_spider(found, spider)
            _check_same_version(found, on_event)
            _check_same_code(found, code_of(spider or found.spec.spider, Path.cwd()), spider, on_event)
            await _release_the_dead(opened, on_event)
            before = await opened.counts()
            plan = CrawlPlan(
                spec=found.spec,
                frontier=frontier,
                settings=job_settings(found, settings_overrides),
                verbosity=verbosity,
                event_level=event_level,
            )
            async with _reporting(opened, on_report, on_event) as watching:
                await work_supervised(plan, opened, stop, on_event, stay=stay, spider=spider)
            report = await opened.report()
            watching.look(report)
            on_report(report)
    return _summary(report, Begun.RESUMED, stop.signal, time.monotonic() - began, before.done)


async def run_drain(*, frontier: str, job: str, outputs: list[Output], rest: bool = False) -> int:
    """Write what the outbox holds for the targets, in place of an owner that is gone. How many items.

    ``rest``: what was written before is lost, and the targets begin anew with what is left.
    """
    sinks = [sink_of(parse_target(output.target, job=job)) for output in outputs]
    async with _opened(frontier, job, create=False) as opened:
        await _release_the_dead(opened, lambda _: None)
        kept = [sink.target for sink in (await opened.report()).sinks]
        for sink in sinks:
            if sink.target not in kept:
                raise JobError(
                    f"the job keeps no items for this target: {sink.target}",
                    hint=f"its targets: {', '.join(kept)}" if kept else "it was started without -o, and keeps none",
                )
        delivery = Delivery(opened, sinks, owner=worker_id())
        await delivery.take()
        try:
            await delivery.open(anew=rest)
            await delivery.drain()
            report = await opened.report()
            await delivery.finish(complete=report.job.state is State.FINISHED)
        finally:
            await delivery.close()
    return delivery.delivered


# ---- the parts


@asynccontextmanager
async def _opened(url: str, job: str, *, create: bool) -> AsyncIterator[Frontier]:
    frontier = open_frontier(url, job, create=create)
    try:
        yield frontier
    finally:
        await frontier.close()


@asynccontextmanager
async def _reporting(frontier: Frontier, on_report: OnReport, on_event: OnEvent) -> AsyncIterator[Watching]:
    watching = Watching(on_event)

    async def report() -> None:
        while True:
            # If the store is in trouble, the workers will say so; a display is no reason to end a crawl.
            with contextlib.suppress(FrontierError):
                report = await frontier.report()
                watching.look(report)
                on_report(report)
                # Another command on this machine may have been killed with its workers while we go on.
                await _release_the_dead(frontier, on_event, GONE_SECONDS)
            await asyncio.sleep(REPORT_SECONDS)

    task = asyncio.create_task(report())
    try:
        yield watching
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _work_and_deliver(
    working: Coroutine[Any, Any, None], delivery: Delivery, stop: Stop, on_event: OnEvent
) -> None:
    """Work, with the sinks keeping up beside it. A sink that fails ends the work, gently."""
    over = asyncio.Event()
    work, deliver = asyncio.create_task(working), asyncio.create_task(delivery.run(over))
    try:
        await asyncio.wait([work, deliver], return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            on_event(events.SINK_FAILED(reason=str(deliver.exception())))
            stop.now()
            await asyncio.wait([work])
        over.set()
        await asyncio.wait([deliver])
        # Both may have failed; the sink's error is the one that the user can mend.
        deliver.result()
        work.result()
    finally:
        for task in (work, deliver):
            task.cancel()
        await asyncio.wait([work, deliver])


async def _release_the_dead(frontier: Frontier, on_event: OnEvent, silent_seconds: float = 0.0) -> None:
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


async def _sinks_to_serve(frontier: Frontier, plan: CrawlPlan, named: Sequence[Sink], on_event: OnEvent) -> list[Sink]:
    """The targets of this command, and those an unfinished run began with; not the ones that another process serves."""
    sinks = {sink.target: sink for sink in named}
    try:
        report = await frontier.report()
    except JobError:
        return list(sinks.values())
    goes_on = not plan.fresh and (report.job.state is not State.FINISHED or report.undelivered)
    for seen in report.sinks:
        if seen.owner:
            if sinks.pop(seen.target, None):
                on_event(events.SINK_ELSEWHERE(target=seen.target, owner=seen.owner))
        elif goes_on and seen.target not in sinks:
            if seen.target == STDOUT:
                # Nobody reads the standard output of a command that is gone.
                await frontier.open_sink(seen.target, worker_id())
                await frontier.close_sink(seen.target, worker_id(), forget=True)
            else:
                sinks[seen.target] = sink_of(parse_target(seen.target, job=plan.spec.name))
    return list(sinks.values())


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
    await _release_the_dead(frontier, lambda _: None)
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


async def _wait_for_job(frontier: Frontier, stop: Stop) -> Job | None:
    stopped = asyncio.Event()
    stop.aim(stopped.set, stopped.set)
    while not stopped.is_set():
        with contextlib.suppress(JobError):
            return await frontier.job()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await stopped.wait()
    return None


def _summary(report: Report, begun: Begun, number: int, seconds: float, done_before: int) -> Summary:
    counts, tally = report.counts, report.tally
    rate = max(0, counts.done - done_before) / seconds if seconds else 0.0
    return Summary(
        job=report.job.spec.name,
        state=report.job.state,
        run=report.job.run,
        pages=counts.done,
        items=tally.get("items", 0),
        redirected=counts.redirected,
        failed=counts.dead,
        excluded=counts.excluded,
        duplicates=tally.get("duplicates", 0),
        bytes=tally.get("bytes", 0),
        seconds=round(seconds, 3),
        pages_per_second=round(rate, 1),
        seeds_done=counts.done > 0,
        signal=number,
        blocked_by="sink" if any(sink.blocking for sink in report.sinks) else "",
        undelivered=report.undelivered,
        errors=report.errors,
        reason=report.job.reason,
        begun=begun,
    )
