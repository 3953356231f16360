"""Live figures of jobs: one poll of the store for all clients, and a bounded series of samples for charts."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from skitter.cluster.process_identity import live_workers
from skitter.concurrency import wait_shielded
from skitter.errors import SkitterError
from skitter.model.job import Report
from skitter.web.api.route import encoded, problem_of
from skitter.web.frontier_routes import in_time
from skitter.web.stores import Store

POLL_SECONDS = 2.0
FRESH_SECONDS = 1.0
"""A report that was read so lately is given to whoever else asks."""
HOSTS_TOLD = 16
MAX_SERIES = 100
"""Jobs whose samples are kept; of those, the one that was looked at least lately goes first."""
MAX_SAMPLES = 900
_AGES = ((600.0, 0.0), (3600.0, 10.0), (float("inf"), 60.0))
"""Samples up to this age are so far apart at least."""

Key = tuple[str, str]
log = logging.getLogger("skitter.web")


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a job at one instant. Counts are of the whole run: a chart shows their differences."""

    at: float
    run: int
    state: str
    done: int
    failed: int
    queued: int
    delayed: int
    leased: int
    pages_per_second: float
    bytes: int
    items: int
    undelivered: int
    latency_seconds: float
    """Mean response time that live workers tell."""
    workers: int
    errors: dict[str, int]


class Watcher:
    """A client that is told when one of its topics has changed. It has no queue: it reads the newest value."""

    def __init__(self) -> None:
        self.changed: set[Topic] = set()
        self.woken = asyncio.Event()

    def wake(self, topic: Topic) -> None:
        self.changed.add(topic)
        self.woken.set()


class Topic:
    """A value that several watchers look at: it is read while there are any, once for all of them."""

    def __init__(self, event: str, read: Callable[[], Awaitable[Any]]) -> None:
        self.event = event
        self.messages: list[tuple[str, bytes]] = []
        """The newest: events and their data."""
        self._read = read
        self._watchers: set[Watcher] = set()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_watched(self) -> bool:
        return bool(self._watchers)

    def add(self, watcher: Watcher) -> None:
        self._watchers.add(watcher)
        if self.messages:
            watcher.wake(self)
        if self._task is None:
            self._task = asyncio.create_task(self._poll())

    def remove(self, watcher: Watcher) -> list[asyncio.Task[None]]:
        """Remove a watcher. The last one cancels the task, which is returned: it may have a store to close."""
        self._watchers.discard(watcher)
        if self._watchers or self._task is None:
            return []
        task, self._task = self._task, None
        task.cancel()
        return [task]

    async def _poll(self) -> None:
        while True:
            try:
                value = await self._read()
                messages = [(self.event, encoded(value))]
            except SkitterError as error:
                messages = [("problem", encoded(problem_of(error)))]
            except Exception as error:
                # A stream that says nothing any more would look alive.
                log.exception("the figures of a stream cannot be read: %s", self.event)
                messages = [("problem", encoded(problem_of(error)))]
            if messages != self.messages:
                self.messages = messages
                for watcher in self._watchers:
                    watcher.wake(self)
            await asyncio.sleep(POLL_SECONDS)


class LiveFigures:
    """Reports of jobs, read at most once a second, and their samples."""

    def __init__(self, seen_report: Callable[[str, str, Report], Report]) -> None:
        """``seen_report``: adds to a report of a store's job what this server knows of its workers."""
        self._seen_report = seen_report
        self._reports: dict[Key, tuple[float, asyncio.Task[Report]]] = {}
        self._series: OrderedDict[Key, list[Sample]] = OrderedDict()
        self._topics: dict[tuple[Any, ...], Topic] = {}

    async def report(self, store: Store, job: str) -> Report:
        """The report of a job, at most a second old; whoever asks meanwhile waits for the same one."""
        key, now = (store.name, job), time.monotonic()
        read_at, task = self._reports.get(key, (0.0, None))
        is_usable = task is not None and not (task.done() and (task.cancelled() or task.exception()))
        if task is None or not is_usable or (task.done() and now - read_at > FRESH_SECONDS):
            task = asyncio.create_task(self._read(store, job))
            self._drop_old(now)
            self._reports[key] = now, task
        return await wait_shielded(task)

    def _drop_old(self, now: float) -> None:
        """Reports that nobody will be given any more: one may have a hundred thousand seeds."""
        old = [key for key, (at, task) in self._reports.items() if task.done() and now - at > FRESH_SECONDS]
        for key in old:
            del self._reports[key]

    def forget(self, store: Store, job: str) -> None:
        """Read the job anew when it is next asked for: it was changed."""
        self._reports.pop((store.name, job), None)

    async def history(self, store: Store, job: str, since: float) -> list[Sample]:
        """The samples of a job later than ``since``; a new one is added if the last is old enough."""
        report = await self.report(store, job)
        return [sample for sample in self._sampled(store, job, report) if sample.at > since]

    def watch(
        self, watcher: Watcher, key: tuple[Any, ...], event: str, read: Callable[[], Awaitable[Any]]
    ) -> Callable[[], list[asyncio.Task[None]]]:
        """Let a watcher look at the topic of a key, made if nobody does yet. The answer ends that: see ``remove``."""
        topic = self._topics.setdefault(key, Topic(event, read))
        topic.add(watcher)

        def end() -> list[asyncio.Task[None]]:
            tasks = topic.remove(watcher)
            if not topic.is_watched and self._topics.get(key) is topic:
                del self._topics[key]
            return tasks

        return end

    async def _read(self, store: Store, job: str) -> Report:
        await store.check_job(job)

        async def read() -> Report:
            async with store.use(job) as frontier:
                return await frontier.report(hosts=HOSTS_TOLD)

        report = self._seen_report(store.name, job, await in_time(read(), 15.0))
        if (store.name, job) in self._series:
            self._sampled(store, job, report)
        return report

    def _sampled(self, store: Store, job: str, report: Report) -> list[Sample]:
        key = store.name, job
        series = self._series.setdefault(key, [])
        self._series.move_to_end(key)
        while len(self._series) > MAX_SERIES:
            self._series.popitem(last=False)
        now = time.time()
        if not series or now - series[-1].at >= POLL_SECONDS * 0.9:
            series.append(sample_of(report, now))
            if len(series) > MAX_SAMPLES:
                series[:] = thinned(series, now)
        return series


def sample_of(report: Report, at: float) -> Sample:
    """A sample of a report."""
    counts, live = report.counts, live_workers(report)
    latencies = [
        worker.heartbeat.latency_seconds for worker in live if worker.heartbeat and worker.heartbeat.latency_seconds
    ]
    return Sample(
        at=round(at, 3),
        run=report.job.run,
        state=report.job.state,
        done=counts.done,
        failed=counts.failed,
        queued=counts.queued,
        delayed=counts.delayed,
        leased=counts.leased,
        pages_per_second=round(report.pages_per_second, 2),
        bytes=report.tally.get("bytes", 0),
        items=report.items,
        undelivered=report.undelivered,
        latency_seconds=round(sum(latencies) / len(latencies), 4) if latencies else 0.0,
        workers=len(live),
        errors={name: n for name, n in report.errors.items() if n},
    )


def thinned(series: list[Sample], now: float) -> list[Sample]:
    """The samples, the older the fewer: every one of the last ten minutes, and the last five hours in all."""
    kept: list[Sample] = []
    for sample in series:
        distance = next(step for age, step in _AGES if now - sample.at <= age)
        if not kept or sample.at - kept[-1].at >= distance:
            kept.append(sample)
    # Room for more: this is not done with every sample.
    return kept[-(MAX_SAMPLES - 50) :]
