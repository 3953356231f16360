"""The process of one worker: ``python -m skitter.app PIPE STATUS``, started by a supervisor.

Its configuration comes by standard input, and not by the command line, which everybody on the machine can read.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from skitter.app.event_loop import new_loop, settle_process
from skitter.app.fetchers import make_fetcher
from skitter.app.frontiers import open_frontier
from skitter.app.lock_store import locks_given
from skitter.app.worker_config import WorkerConfig, job_settings
from skitter.cluster.process_identity import heartbeat_of, worker_id
from skitter.errors import ContradictionError, FrontierError, JobError, SettingsError, SkitterError
from skitter.fetch.contract import Fetcher
from skitter.frontier.contract import WorkerStore, WorkSource
from skitter.model.job import Job, State
from skitter.model.worker import Doing, WaitsFor
from skitter.node.memory_watch import MemoryWatch
from skitter.node.process_rlimits import allow_open_files, limit_memory
from skitter.node.supervisor_pipe import PipeLogHandler, SupervisorPipe
from skitter.observe import events
from skitter.observe.node_counters import NodeCounters
from skitter.settings import Fetch, Run, Settings
from skitter.sinks.contract import ARCHIVES, Archive, FileStore
from skitter.spiders.base import Spider
from skitter.spiders.class_changes import check_attributes_of
from skitter.spiders.file_saver import FileSaver
from skitter.spiders.foreign_project import AdaptedSpider
from skitter.spiders.function_spider import FunctionSpider
from skitter.spiders.loading import load_spider
from skitter.spiders.loading import make_spider as instance_of
from skitter.worker.close_hook import close_each_run, close_job
from skitter.worker.lease_renewal import BEAT_SECONDS, RenewalThread
from skitter.worker.loop import Worker
from skitter.worker.loop_status import LoopStatus
from skitter.worker.start_permit import CHECK_SECONDS, StartPermit

_ORPHAN_SECONDS = 5.0
"""Without a supervisor nobody else ends a worker that does not stop: it has its shutdown time, and this."""
_TELL_TURNS = 50
"""Looks at a permit that is not valid, between two words to the frontier that the worker is there."""
log = logging.getLogger("skitter.worker")


def make_spider(job: Job, reference: str, trusted: Sequence[str]) -> Spider:
    """The job's spider, with its arguments; the built-in one and functions get the job's seeds.

    ``reference``: what this node's command named; empty: as the job says, if that is trusted.
    """
    kind = load_spider(reference or job.spec.spider, Path.cwd(), None if reference else trusted)
    spider = instance_of(kind, job.spec.arguments)
    if not job.spec.spider or issubclass(kind, FunctionSpider):
        spider.start_urls = job.spec.seeds
    if job.spec.sitemaps:
        spider.sitemap_urls = [*spider.sitemap_urls, *job.spec.sitemaps]
    return spider


def make_worker(
    source: WorkSource,
    fetcher: Fetcher,
    spider: Spider,
    job: Job,
    settings: Settings,
    *,
    stay: bool,
    url_table: int = -1,
    archive: Archive | None = None,
    loop_status: LoopStatus | None = None,
    task: str = "",
    member: str = "",
    coordinator: str = "",
    permit: StartPermit | None = None,
    counters: NodeCounters | None = None,
) -> Worker:
    """A worker on open parts."""
    heartbeat = heartbeat_of(job.spec.spider)
    spider.file_saver = FileSaver(partial(_file_store, settings.items.file_target))
    if isinstance(spider, AdaptedSpider):
        spider.use_worker(source, fetcher, settings)
    return Worker(
        worker_id(),
        source=source,
        fetcher=fetcher,
        spider=spider,
        job=job,
        settings=settings,
        by_seeds=not job.spec.spider and not spider.allowed_domains,
        stay=stay,
        heartbeat=msgspec.structs.replace(heartbeat, task=task, member=member, coordinator=coordinator),
        url_table=url_table,
        archive=archive,
        loop_status=loop_status,
        permit=permit,
        counters=counters,
    )


def _file_store(target: str) -> FileStore:
    from skitter.sinks.file_store import open_file_store  # most jobs download nothing

    return open_file_store(target)


async def join(worker: Worker, source: WorkSource) -> None:
    """List a worker that begins."""
    heartbeat = worker.heartbeat()
    await source.tell(worker.id, heartbeat)
    told = {"version": heartbeat.version, "spider": heartbeat.spider or "built-in spider"}
    events.emit(events.WORKER_JOINED(worker=worker.id, host_name=heartbeat.host_name, pid=heartbeat.pid, **told))


async def leave(worker: Worker, source: WorkSource) -> None:
    """Remove a worker that has ended from the list; after its last renewal, which would list it again."""
    # If the store is unavailable, it is forgotten by itself some day; a job that was dropped has no list.
    with contextlib.suppress(FrontierError, JobError):
        await source.tell(worker.id, None)
    events.emit(events.WORKER_LEFT(worker=worker.id, reason=worker.why_it_ended()))
    with contextlib.suppress(FrontierError, JobError):
        await worker.distinct_urls.tell(source)


async def close_adapted(spider: Spider, worker: Worker) -> None:
    """Tell a spider of another framework that its worker has ended."""
    if isinstance(spider, AdaptedSpider):
        ended = {State.FINISHED: "finished", State.STOPPED: "cancelled"}
        await spider.close_worker(ended.get(worker.state, "shutdown"))


async def _archive(frontier: WorkerStore, job: str, fetch: Fetch) -> Archive | None:
    if not any(ARCHIVES in sink.target for sink in await frontier.sinks()):
        return None
    # Most jobs have none, and a worker without one starts without all that sinks are made of.
    from skitter.delivery.archive import open_archive

    return await open_archive(frontier, job, fetch)


async def _work(
    config: WorkerConfig, pipe: SupervisorPipe, loop_status: LoopStatus, counters: NodeCounters | None
) -> dict[str, bool]:
    """Work until the worker ends; return its last message: whether it starts again, and whether the job is over."""
    frontier: WorkerStore = open_frontier(config.frontier, config.job, create=False, patient=True)
    work = asyncio.current_task()
    assert work is not None, "this is a task"
    orphaned = asyncio.create_task(_cancel_without_supervisor(pipe, work))
    try:
        job = await frontier.job()
        permit = await _begun_permit(config, frontier, job)
        settings = job_settings(job, config.run)
        fetcher = make_fetcher(settings)
        spider = make_spider(job, config.spider, settings.run.trusted)
        check_attributes_of(type(spider), config.attributes)
        archive = await _archive(frontier, config.job, settings.fetch)
        worker = make_worker(
            frontier,
            fetcher,
            spider,
            job,
            settings,
            stay=config.stay,
            url_table=config.url_table,
            archive=archive,
            loop_status=loop_status,
            task=config.task,
            member=config.member,
            coordinator=config.coordinator,
            permit=permit,
            counters=counters,
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        pipe.say(hello=worker.id)
        memory = _memory_watch(worker, settings.run)
        heartbeat = _Heartbeat(worker, pipe, settings.run.shutdown_seconds, memory)
        renewal = RenewalThread(
            worker,
            lambda: open_frontier(config.frontier, config.job, create=False, patient=True),
            settings.limits.lease_seconds,
            heartbeat.beat,
        )
        await join(worker, frontier)
        orphaned.cancel()
        try:
            with renewal:
                async with locks_given(spider, settings.run, config.frontier, config.job):
                    # Beside the work of a worker that stays, and else after it.
                    closing = asyncio.create_task(close_each_run(worker, frontier)) if config.stay else None
                    if await worker.run() is State.FINISHED and not worker.superseded:
                        await close_job(worker, frontier)
                    if closing is not None:
                        closing.cancel()
                        await asyncio.wait([closing])
        finally:
            pipe.say(committed=worker.committed)
            await close_adapted(spider, worker)
            await fetcher.close()
            if archive is not None:
                archive.close()
        await leave(worker, frontier)
        if memory.reached_bytes and not worker.committed:
            # The next one would come no further.
            raise SettingsError(
                f"a worker needs more memory than its limit before its first page: {memory.reached_bytes} bytes",
                hint=f"memory_limit_bytes is {settings.run.memory_limit_bytes}",
            )
        again = (worker.superseded and config.stay) or worker.cut_off or memory.reached_bytes > 0
        is_over = worker.state in (State.FINISHED, State.STOPPED) and not worker.superseded and not config.stay
        return {"end": again, "of_job": is_over and not again}
    finally:
        orphaned.cancel()
        await frontier.close()


async def _begun_permit(config: WorkerConfig, source: WorkSource, job: Job) -> StartPermit | None:
    """The permit of this node, once it is valid: a worker is of its member only while that is there; None: no permit.

    A worker that is started in an outage of the coordinator waits here for its end.
    """
    if config.permit < 0:
        return None
    permit = StartPermit(config.permit)
    # What a spider starts has no business with it; the memory stays mapped.
    os.close(config.permit)
    told = {"doing": Doing.WAITING, "waits_for": WaitsFor.COORDINATOR, "coordinator": config.coordinator}
    heartbeat = msgspec.structs.replace(heartbeat_of(job.spec.spider), **told)
    for turn in itertools.count():
        if permit.begin():
            return permit
        if turn % _TELL_TURNS == 0:
            await source.tell(worker_id(), heartbeat)
        await asyncio.sleep(CHECK_SECONDS)
    raise AssertionError("counting has no end")


async def _cancel_without_supervisor(pipe: SupervisorPipe, work: asyncio.Task[Any]) -> None:
    """Before the heartbeat starts: a store that is unavailable at the start is waited for, but not without a
    supervisor."""
    while not pipe.is_broken:
        await asyncio.sleep(BEAT_SECONDS)
        pipe.say(beat=True)
    work.cancel()


def _memory_watch(worker: Worker, run: Run) -> MemoryWatch:
    """Its functions are called in the renewal thread."""
    loop = asyncio.get_running_loop()

    def tell(size: int, consequence: str) -> None:
        events.emit(events.WORKER_MEMORY(worker=worker.id, resident_bytes=size, consequence=consequence))

    def stop(size: int) -> None:
        tell(size, "it finishes its requests in flight, and another one replaces it")
        loop.call_soon_threadsafe(worker.stop)

    return MemoryWatch(
        warning_bytes=run.memory_warning_bytes,
        limit_bytes=run.memory_limit_bytes,
        on_warning=lambda size: tell(size, "memory_warning_bytes is reached"),
        on_limit=stop,
    )


class _Heartbeat:
    """Tells the supervisor, from the renewal thread, that the process is alive, and ends it without a supervisor."""

    def __init__(self, worker: Worker, pipe: SupervisorPipe, shutdown_seconds: float, memory: MemoryWatch) -> None:
        self._worker = worker
        self._pipe = pipe
        self._memory = memory
        self._grace_seconds = shutdown_seconds + _ORPHAN_SECONDS
        self._loop = asyncio.get_running_loop()
        self._orphaned_since: float | None = None
        self._committed = 0

    def beat(self) -> None:
        self._pipe.say(beat=True)
        if self._worker.committed != self._committed:
            self._committed = self._worker.committed
            self._pipe.say(committed=self._committed)
        self._memory.look()
        if self._pipe.is_broken:
            self._end()

    def _end(self) -> None:
        now = time.monotonic()
        if self._orphaned_since is None:
            self._orphaned_since = now
            self._loop.call_soon_threadsafe(self._worker.stop)
        elif now - self._orphaned_since > self._grace_seconds:
            # A callback that blocks would keep its page leased for ever. So it is lost, and leased to others.
            os._exit(1)


def main() -> int:
    pipe, loop_status = SupervisorPipe(int(sys.argv[1])), LoopStatus(int(sys.argv[2]))
    config = msgspec.json.decode(sys.stdin.buffer.read(), type=WorkerConfig)
    counters = NodeCounters(int(sys.argv[2])) if config.counts else None
    # What a spider starts has no business with it; the memory stays mapped.
    os.close(int(sys.argv[2]))
    logging.basicConfig(handlers=[PipeLogHandler(pipe)], level=config.event_level)
    events.logger.setLevel(config.event_level)
    settle_process()
    allow_open_files()
    limit_memory(msgspec.convert(config.run, Run, strict=False).max_worker_bytes)
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            last_word = runner.run(_work(config, pipe, loop_status, counters))
    except asyncio.CancelledError:
        # Without a supervisor: nobody would read why.
        return 1
    except ContradictionError as error:
        # What a page brought may be the reason: then it costs that page, and not the crawl.
        pipe.say_last(failed=str(error))
        return 1
    except SkitterError as error:
        pipe.say_last(error=str(error), hint=error.hint, code=error.exit_code)
        return error.exit_code
    except Exception as error:
        log.critical("the worker failed: %s: %s", type(error).__name__, error, exc_info=config.verbosity > 0)
        pipe.say_last(failed=f"{type(error).__name__}: {error}")
        return 1
    pipe.say_last(**last_word)
    return 0
