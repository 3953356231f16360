"""Running a job on this machine: the frontier, the sinks, the workers, and the way out."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from skitter.app.backends import is_shared, open_frontier, open_sink
from skitter.app.child import ChildConfig, job_settings, make_spider, make_worker
from skitter.app.plan import CrawlPlan, Output, Summary
from skitter.errors import JobError, UsageError
from skitter.frontier.contract import Frontier
from skitter.model.job import Begun, Job, Report, State
from skitter.settings import Settings
from skitter.sinks.contract import Sink
from skitter.spiders.base import Spider
from skitter.worker.delivery import Delivery
from skitter.worker.identity import is_dead, worker_id
from skitter.worker.renewal import RenewalThread, renew_while_running
from skitter.worker.supervisor import Supervisor

REPORT_SECONDS = 0.5
STDOUT = "-"
_ENDED = (State.FINISHED, State.STOPPED)
OnReport = Callable[[Report], None]
OnEvent = Callable[[str], None]


class Stop:
    """What Ctrl-C and SIGTERM do: the first asks, the second does not."""

    def __init__(self, on_event: OnEvent) -> None:
        self.signal = 0
        self._on_event = on_event
        self._ask: Callable[[], None] = lambda: None
        self._force: Callable[[], None] = lambda: None

    def aim(self, ask: Callable[[], None], force: Callable[[], None]) -> None:
        """From now on signals mean this."""
        self._ask, self._force = ask, force
        if self.signal:
            ask()

    def now(self) -> None:
        """Stop as a first signal would, for another reason."""
        self._ask()

    def _hear(self, number: int) -> None:
        if not self.signal:
            self.signal = number
            self._on_event("stopping: finishing what is in flight; once more to leave at once, nothing is lost")
            self._ask()
        elif number == signal.SIGINT:
            self._force()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        heard: list[signal.Signals] = []
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                # Outside the main thread (a notebook) there are no signals to handle.
                with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
                    loop.add_signal_handler(number, self._hear, number)
                    heard.append(number)
            yield
        finally:
            for number in heard:
                loop.remove_signal_handler(number)


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
    began = time.monotonic()
    stop = Stop(on_event)
    async with _opened(plan.frontier, plan.spec.name, create=True) as frontier:
        if plan.fresh:
            await _refuse_while_workers_live(frontier)
        await _release_the_dead(frontier, on_event)
        sinks = await _sinks_to_serve(frontier, plan, on_event)
        delivery = Delivery(frontier, sinks, owner=worker_id())
        with stop.listening():
            # Before the run begins: a target that cannot be written must not cost the results of the last run.
            await delivery.take()
            try:
                begun = await frontier.begin(plan.spec, fresh=plan.fresh, sinks=[sink.target for sink in sinks])
                before = await frontier.counts()
                await delivery.open()
                async with _reporting(frontier, on_report):
                    if inline:
                        working = _work_inline(plan, frontier, spider, stop)
                    else:
                        working = _work_supervised(plan, frontier, stop, on_event)
                    await _work_and_deliver(working, delivery, stop)
                    report = await frontier.report()
                    await delivery.finish(complete=report.job.state is State.FINISHED)
            finally:
                await delivery.close()
        report = await frontier.report()
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
                raise JobError(f"no such job: {job}")
            _check_same_spider(found, spider)
            await _release_the_dead(opened, on_event)
            before = await opened.counts()
            plan = CrawlPlan(
                spec=found.spec,
                frontier=frontier,
                settings=job_settings(found, settings_overrides),
                verbosity=verbosity,
            )
            async with _reporting(opened, on_report):
                await _work_supervised(plan, opened, stop, on_event, stay=stay, spider=spider)
            report = await opened.report()
            on_report(report)
    return _summary(report, Begun.RESUMED, stop.signal, time.monotonic() - began, before.done)


async def run_drain(*, frontier: str, job: str, outputs: list[Output]) -> int:
    """Write what the outbox holds for the targets, in place of an owner that is gone. How many items."""
    sinks = [open_sink(output.target, overwrite=False, job=job) for output in outputs]
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
            await delivery.open()
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
async def _reporting(frontier: Frontier, on_report: OnReport) -> AsyncIterator[None]:
    async def report() -> None:
        while True:
            on_report(await frontier.report())
            await asyncio.sleep(REPORT_SECONDS)

    task = asyncio.create_task(report())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _work_and_deliver(working: Coroutine[Any, Any, None], delivery: Delivery, stop: Stop) -> None:
    """Work, with the sinks keeping up beside it. A sink that fails ends the work, gently."""
    over = asyncio.Event()
    work, deliver = asyncio.create_task(working), asyncio.create_task(delivery.run(over))
    try:
        await asyncio.wait([work, deliver], return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
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


async def _work_supervised(
    plan: CrawlPlan, frontier: Frontier, stop: Stop, on_event: OnEvent, *, stay: bool = False, spider: str = ""
) -> None:
    run = msgspec.to_builtins(plan.settings.run)

    def command(pipe: int) -> list[str]:
        config = ChildConfig(
            frontier=plan.frontier,
            job=plan.spec.name,
            spider=spider,
            run=run,
            stay=stay,
            verbosity=plan.verbosity,
            pipe=pipe,
        )
        return [sys.executable, "-m", "skitter.app", msgspec.json.encode(config).decode()]

    supervisor = Supervisor(
        command,
        plan.settings.run.workers,
        frontier=frontier,
        callback_seconds=plan.settings.limits.callback_seconds,
        on_event=on_event,
    )
    stop.aim(supervisor.stop, supervisor.kill)
    await supervisor.run()


async def _work_inline(plan: CrawlPlan, frontier: Frontier, spider: Spider | None, stop: Stop) -> None:
    from skitter.fetch.engine import CurlFetcher

    job = await frontier.job()
    settings = job_settings(job, msgspec.to_builtins(plan.settings.run))
    fetcher = CurlFetcher(settings.fetch)
    worker = make_worker(frontier, fetcher, spider or make_spider(job), job, settings, stay=False)
    task = asyncio.current_task()
    assert task is not None
    stop.aim(worker.stop, lambda: _cancel(task))
    lease_seconds = settings.limits.lease_seconds
    try:
        if is_shared(plan.frontier):

            def own_source() -> tuple[Frontier, Any]:
                source = open_frontier(plan.frontier, plan.spec.name, create=False)
                return source, source.close

            with RenewalThread(worker, own_source, lease_seconds):
                await worker.run()
        else:
            renewing = asyncio.create_task(renew_while_running(worker, frontier, lease_seconds, worker.lost))
            try:
                await worker.run()
            finally:
                renewing.cancel()
    finally:
        await fetcher.close()


async def _release_the_dead(frontier: Frontier, on_event: OnEvent) -> None:
    """Workers that died on this machine with their supervisor: nobody else would hand their leases back at once."""
    try:
        workers = await frontier.workers()
    except JobError:
        return
    for worker in workers:
        if is_dead(worker.id):
            back = await frontier.release_worker(worker.id)
            if back:
                on_event(f"worker {worker.id} is gone; {back} leases go back")
    for sink in (await frontier.report()).sinks:
        if sink.owner and is_dead(sink.owner):
            await frontier.close_sink(sink.target, sink.owner)


async def _sinks_to_serve(frontier: Frontier, plan: CrawlPlan, on_event: OnEvent) -> list[Sink]:
    """The targets of this command, and those an unfinished run began with; not the ones that another process serves."""
    job = plan.spec.name
    sinks = {
        sink.target: sink
        for sink in (open_sink(output.target, overwrite=output.overwrite, job=job) for output in plan.outputs)
    }
    try:
        report = await frontier.report()
    except JobError:
        return list(sinks.values())
    goes_on = not plan.fresh and (report.job.state is not State.FINISHED or report.undelivered)
    for seen in report.sinks:
        if seen.owner:
            if sinks.pop(seen.target, None):
                on_event(f"{seen.target} is being written by {seen.owner}")
        elif goes_on and seen.target not in sinks:
            if seen.target == STDOUT:
                # Nobody reads the standard output of a command that is gone.
                await frontier.open_sink(seen.target, worker_id())
                await frontier.close_sink(seen.target, worker_id(), forget=True)
            else:
                sinks[seen.target] = open_sink(seen.target, overwrite=False, job=job)
    return list(sinks.values())


async def _refuse_while_workers_live(frontier: Frontier) -> None:
    try:
        job = await frontier.job()
    except JobError:
        return
    lease_seconds = Settings.from_layers([("the job", job.spec.settings)]).limits.lease_seconds
    await _release_the_dead(frontier, lambda _: None)
    living = [worker.id for worker in await frontier.workers() if worker.silent_seconds < lease_seconds]
    if living and job.state not in _ENDED:
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


async def _wait_for_job(frontier: Frontier, stop: Stop) -> Job | None:
    while not stop.signal:
        with contextlib.suppress(JobError):
            return await frontier.job()
        await asyncio.sleep(1.0)
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


def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
