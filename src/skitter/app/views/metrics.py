"""Figures of jobs and schedules as samples of metrics: the same values that ``skitter status --json`` shows."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from skitter._version import __version__
from skitter.app.schedules import ScheduleView
from skitter.app.views.status import StatusView, status_view
from skitter.frontier.contract import Frontier
from skitter.model.job import State
from skitter.model.proxy import ProxySeen
from skitter.model.schedule import TickOutcome
from skitter.model.store_capacity import StoreCapacity
from skitter.model.worker import Doing
from skitter.observe import metrics
from skitter.observe.metrics import JOB_METRICS, Metric, Sample

PREFIX = "skitter_job_"


class _One(Protocol):
    def __call__(self, metric: Metric, value: float) -> Sample: ...


class _Each(Protocol):
    def __call__(self, metric: Metric, values: dict[str, int]) -> Iterator[Sample]: ...


class JobFigures(NamedTuple):
    """What the store tells of one job."""

    status: StatusView
    proxies: Sequence[ProxySeen] = ()
    capacity: Sequence[StoreCapacity] = ()


async def read_job(frontier: Frontier, url: str) -> JobFigures:
    """Read the figures of a job; JobError if it is gone."""
    status = status_view(await frontier.report(0), url)
    return JobFigures(status, await frontier.proxies(), await frontier.capacity())


def build_info() -> Sample:
    """Return the versions."""
    return Sample(metrics.BUILD_INFO, (__version__, platform.python_version()), 1)


def job_samples(figures: JobFigures) -> Iterator[Sample]:
    """Give out all series of one job. How many there are does not depend on its hosts, pages or workers."""
    status = figures.status
    job = status.job

    def one(metric: Metric, value: float) -> Sample:
        return Sample(metric, (job,), value)

    def each(metric: Metric, values: dict[str, int]) -> Iterator[Sample]:
        for name in list(metric.labels.values())[1]:
            yield Sample(metric, (job, name), values.get(name, 0))

    yield from each(metrics.JOB_STATE, {status.state: 1})
    yield one(metrics.JOB_RUN, status.run)
    yield one(metrics.JOB_STARTED, status.started_at)
    yield from each(metrics.JOB_REQUESTS, {name: getattr(status, name) for name in metrics.REQUEST_STATES})
    yield one(metrics.JOB_PAGES, status.done)
    yield one(metrics.JOB_UNCHANGED, status.unchanged)
    yield one(metrics.JOB_ITEMS, status.items)
    yield one(metrics.JOB_REJECTED, status.rejected)
    yield one(metrics.JOB_DROPPED, sum(status.dropped.values()))
    yield one(metrics.JOB_BYTES, status.tally.get("bytes", 0))
    failed: dict[str, int] = {}
    for name, count in status.errors.items():
        known = metrics.known_value(name, metrics.FAILED_CLASSES)
        failed[known] = failed.get(known, 0) + count
    yield from each(metrics.JOB_FAILED, failed)
    ended = status.done + status.failed
    yield one(metrics.JOB_FAILURE_RATIO, status.failed / ended if ended else 0.0)
    yield one(metrics.JOB_RATE, status.pages_per_second)
    yield one(metrics.JOB_OVERDUE, status.overdue_seconds)
    yield from _worker_samples(status, one, each)
    duplicates = status.tally.get("duplicates", 0)
    yield from each(metrics.JOB_LINKS, {"new": status.seen, "duplicate": duplicates})
    if status.dedup is not None:
        yield one(metrics.JOB_FILTER_ITEMS, status.dedup.items)
        yield one(metrics.JOB_FILTER_CAPACITY, status.dedup.capacity)
        yield one(metrics.JOB_FILTER_FILL, status.dedup.fill)
    yield one(metrics.JOB_UNDELIVERED, status.undelivered)
    yield from each(
        metrics.JOB_SINKS,
        {
            "open": sum(not sink.closed for sink in status.sinks),
            "closed": sum(sink.closed for sink in status.sinks),
            "unowned": sum(not sink.owner and sink.is_incomplete for sink in status.sinks),
            "blocking": sum(sink.blocking for sink in status.sinks),
            "troubled": sum(bool(sink.trouble) for sink in status.sinks),
        },
    )
    yield from _intake_samples(status, one, each)
    yield from _proxy_samples(figures.proxies, one, each)
    free = [place.free_bytes / place.total_bytes for place in figures.capacity if place.total_bytes]
    yield one(metrics.JOB_STORE_FREE, min(free, default=1.0))


def _worker_samples(status: StatusView, one: _One, each: _Each) -> Iterator[Sample]:
    alive = [worker for worker in status.worker_list if worker.alive]
    doing = dict.fromkeys(metrics.WORKER_STATES, 0)
    for worker in status.worker_list:
        known = worker.doing.replace(" ", "_")
        state = known if worker.alive or worker.doing == Doing.SKIPPED else "silent"
        # A worker of another version may do what this one has no name for.
        doing[state if state in doing else str(Doing.FETCHING)] += 1
    yield from each(metrics.JOB_WORKERS, doing)
    yield one(metrics.JOB_IN_FLIGHT, sum(worker.in_flight for worker in alive))
    yield one(metrics.JOB_SLOTS, sum(worker.slots for worker in alive))
    seen = [worker.latency_seconds for worker in alive if worker.latency_seconds]
    yield one(metrics.JOB_LATENCY, sum(seen) / len(seen) if seen else 0.0)


def _intake_samples(status: StatusView, one: _One, each: _Each) -> Iterator[Sample]:
    intakes = status.intakes
    yield from each(
        metrics.JOB_INTAKES,
        {
            "open": sum(not intake.closed for intake in intakes),
            "closed": sum(intake.closed for intake in intakes),
            "unread": sum(intake.is_abandoned for intake in intakes),
            "paused": sum(bool(intake.paused) for intake in intakes),
            "troubled": sum(bool(intake.trouble) for intake in intakes),
        },
    )
    yield from each(
        metrics.JOB_MESSAGES,
        {
            "added": sum(intake.added for intake in intakes),
            "duplicate": sum(intake.duplicates for intake in intakes),
            "dead_letter": sum(intake.dead_letters for intake in intakes),
        },
    )
    yield one(metrics.JOB_BACKLOG, sum(intake.backlog or 0 for intake in intakes))
    yield one(metrics.JOB_INTAKE_LAG, max((intake.lag_seconds or 0.0 for intake in intakes), default=0.0))


def _proxy_samples(proxies: Sequence[ProxySeen], one: _One, each: _Each) -> Iterator[Sample]:
    states = dict.fromkeys(metrics.PROXY_STATES, 0)
    for proxy in proxies:
        is_banned, is_resting = proxy.banned_seconds > 0, proxy.resting_seconds > 0
        states["draining" if proxy.draining else "banned" if is_banned else "resting" if is_resting else "ready"] += 1
    yield from each(metrics.JOB_PROXIES, states)
    yield one(metrics.JOB_PROXY_IN_FLIGHT, sum(proxy.in_flight for proxy in proxies))
    results = {"answer": sum(proxy.answers for proxy in proxies), "failure": sum(proxy.failures for proxy in proxies)}
    yield from each(metrics.JOB_PROXY_REQUESTS, results)


def schedule_samples(schedules: Iterable[ScheduleView], now: float) -> Iterator[Sample]:
    """Give out the series of the schedules of a store."""
    views = list(schedules)
    counts = {
        "active": sum(not view.paused for view in views),
        "paused": sum(view.paused for view in views),
        "running": sum(bool(view.running) for view in views),
        "waiting": sum(bool(view.waiting) for view in views),
        "failing": sum(view.last is not None and view.last.outcome is TickOutcome.FAILED for view in views),
    }
    for state, count in counts.items():
        yield Sample(metrics.SCHEDULES, (state,), count)
    oldest = min((at for view in views for at in view.waiting), default=now)
    yield Sample(metrics.SCHEDULE_LATE, (), max(0.0, now - oldest))


def jobs_samples(states: Iterable[str], left_out: int) -> Iterator[Sample]:
    """Give out the numbers of jobs."""
    found = list(states)
    for state in metrics.JOB_STATES:
        yield Sample(metrics.JOBS, (state,), found.count(state))
    yield Sample(metrics.JOBS_LEFT_OUT, (), left_out)


def figure_name(sample: Sample) -> str:
    """Return the name of a job's figure in an alert: its metric without the prefix, and its label's value if any."""
    return ":".join([sample.metric.name.removeprefix(PREFIX), *sample.labels[1:]])


def figure_names() -> list[str]:
    """Return the names of all figures of a job."""
    names = []
    for metric in JOB_METRICS.values():
        if metric.name.startswith(PREFIX):
            of_label = list(metric.labels.values())[1:]
            name = metric.name.removeprefix(PREFIX)
            names += [f"{name}:{value}" for value in of_label[0]] if of_label else [name]
    return names


class ScaleView(msgspec.Struct, frozen=True, kw_only=True):
    """How many workers a job could use: what an autoscaler asks for."""

    job: str
    state: str
    queue_length: int
    """Requests that wait or are being fetched; 0 unless the job runs."""
    workers: int
    """Workers that are alive."""
    workers_wanted: int
    """One for each so many of ``queue_length``."""


def scale_view(status: StatusView, per_worker: int) -> ScaleView:
    """Return how many workers a job could use, with so many requests for each."""
    works = status.state in (State.RUNNING, State.DRAINING)
    queue = status.queued + status.delayed + status.leased if works else 0
    # A job that is being seeded, or waits for an intake, has nothing queued and needs somebody to go on.
    least = 1 if works and (status.seeding or status.waits_for_intakes) else 0
    return ScaleView(
        job=status.job,
        state=str(status.state),
        queue_length=queue,
        workers=status.workers,
        workers_wanted=max(least, -(-queue // per_worker)),
    )
