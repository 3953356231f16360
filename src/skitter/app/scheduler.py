"""Node of ``skitter scheduler``. The leader starts due ticks and takes over the ticks of schedulers that died.

Correctness does not depend on leadership, which only saves the other schedulers work: a tick is claimed by compare and
set in the store, so that one scheduler at a time runs it, and a job starts at most one run per tick (``--run-key``), so
that taking a tick over resumes its run.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

from skitter.app.frontiers import default_frontier
from skitter.app.job_situation import job_situation, stop_job
from skitter.app.node_metrics import served_metrics
from skitter.app.scheduled_run import CLAIM_SECONDS, ScheduledRun
from skitter.app.views.metrics import build_info
from skitter.cluster.process_identity import resident_bytes
from skitter.delivery.job_sinks import OnEvent
from skitter.errors import BackendError, ScheduleStoreError, SkitterError
from skitter.model.audit import Actor
from skitter.model.schedule import HistoryRow, JobSituation, Overlap, ScheduleRecord, Tick
from skitter.model.secrets import shown_frontier
from skitter.node.node import Node
from skitter.observe import events, metrics
from skitter.observe.metrics import SCHEDULER_METRICS, Sample
from skitter.policy import schedule_ticks as ticks
from skitter.policy.schedule_times import next_time
from skitter.schedule_store.records import Change, Kept, ScheduleRecords
from skitter.schedule_store.store_urls import open_schedule_store
from skitter.settings import Run
from skitter.stop_request import StopRequest

LEAD_SECONDS = 6.0
"""A leader that has not renewed its claim for this long is replaced."""
LEAD_RENEWAL_SECONDS = 2.0
POLL_SECONDS = 1.0
"""Interval at which schedules are read, because commands change them. The wait is shorter if a tick is due sooner."""
AWAY_SECONDS = 1.0


def make_scheduler_node(
    *, frontier: str, owner: str, program: Sequence[str], on_event: OnEvent, run: Run | None = None
) -> Node[None]:
    """Return a node that runs the schedules of a frontier until it is stopped.

    An empty ``frontier`` means the current folder. ``program`` is the command-line prefix that starts a command as a
    child process. Only the metrics settings of ``run`` are used.
    """

    async def work(stop: StopRequest) -> None:
        scheduler = _Scheduler(frontier, owner, program, on_event)
        async with served_metrics(run or Run(), scheduler.samples, SCHEDULER_METRICS, on_event):
            await scheduler.run(stop)

    return Node(work)


class _Scheduler:
    """One run of a scheduler."""

    def __init__(self, frontier: str, owner: str, program: Sequence[str], on_event: OnEvent) -> None:
        self._frontier = frontier
        self._owner = owner
        self._program = program
        self._on_event = on_event
        self._records = ScheduleRecords(open_schedule_store(frontier, create=True))
        self._started = self._taken_over = self._not_run = 0
        self._started_at = time.time()
        self._outcomes: Counter[str] = Counter()
        self._runs: dict[tuple[str, float], ScheduledRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._leader = ""
        self._lead_renewed_at = -LEAD_SECONDS
        self._unavailable_since = 0.0
        self._failure: BaseException | None = None
        self._next: dict[str, tuple[str, float]] = {}
        """Version of the record and next nominal time, by schedule name."""

    def samples(self) -> Iterator[Sample]:
        """Yield the metrics of this scheduler."""
        yield build_info()
        yield Sample(metrics.SCHEDULER_STARTED, (), self._started_at)
        yield Sample(metrics.SCHEDULER_MEMORY, (), resident_bytes())
        yield Sample(metrics.SCHEDULER_LEADS, (), int(self._leader == self._owner and not self._unavailable_since))
        yield Sample(metrics.SCHEDULER_STORE_UP, (), int(not self._unavailable_since))
        yield Sample(metrics.SCHEDULER_COMMANDS, (), len(self._runs))
        yield Sample(metrics.SCHEDULER_TAKEN_OVER, (), self._taken_over)
        for outcome in metrics.TICK_OUTCOMES:
            yield Sample(metrics.SCHEDULER_TICKS, (outcome,), self._outcomes[outcome])

    async def run(self, stop: StopRequest) -> None:
        stopped = asyncio.Event()

        def end() -> None:
            stopped.set()
            self._wake.set()

        try:
            # A store that is unavailable at the start is an error; later the scheduler waits for it.
            known = await self._records.all()
            shown = shown_frontier(self._frontier or ".skitter")
            self._on_event(events.SCHEDULER_STARTED(owner=self._owner, schedules=len(known), store=shown))
            stop.set_handlers(end, end)
            while not stopped.is_set():
                self._wake.clear()
                pause = await self._step()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
                if self._failure is not None:
                    raise self._failure
            await self._finish(stop)
        finally:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
            await self._records.close()
        self._on_event(
            events.SCHEDULER_STOPPED(
                owner=self._owner, started=self._started, taken_over=self._taken_over, not_run=self._not_run
            )
        )

    async def _finish(self, stop: StopRequest) -> None:
        """Stop commands gracefully; another scheduler can take over unfinished ticks at once."""
        with contextlib.suppress(ScheduleStoreError):
            await self._records.resign(self._owner)

        def kill() -> None:
            for run in self._runs.values():
                run.kill()

        for run in self._runs.values():
            run.stop()
        stop.set_handlers(lambda: None, kill)
        if self._tasks:
            await asyncio.wait(self._tasks)
        stop.hold()

    async def _step(self) -> float:
        """Process all schedules once; return the seconds until the next step."""
        try:
            leads = await self._lead()
            pause = await self._look_at_all() if leads else POLL_SECONDS
        except ScheduleStoreError as error:
            if not self._unavailable_since:
                self._unavailable_since = time.monotonic()
                self._on_event(events.SCHEDULER_STORE_AWAY(error=str(error)))
            return AWAY_SECONDS
        if self._unavailable_since:
            seconds = round(time.monotonic() - self._unavailable_since, 1)
            self._on_event(events.SCHEDULER_STORE_BACK(seconds=seconds))
            self._unavailable_since = 0.0
        return pause

    async def _lead(self) -> bool:
        """Acquire or renew leadership; return whether this scheduler is the leader."""
        now = time.monotonic()
        if self._leader == self._owner and now - self._lead_renewed_at < LEAD_RENEWAL_SECONDS:
            return True
        leader = (await self._records.lead(self._owner, LEAD_SECONDS)).owner
        self._lead_renewed_at = now
        if leader != self._leader:
            self._leader = leader
            leads = leader == self._owner
            self._on_event(events.SCHEDULER_LEADS(owner=leader) if leads else events.SCHEDULER_FOLLOWS(leader=leader))
        return leader == self._owner

    async def _look_at_all(self) -> float:
        kept, now = await self._records.all(), await self._records.time()
        self._next = {name: known for name, known in self._next.items() if name in kept}
        dues = [POLL_SECONDS]
        for one in kept.values():
            due = await self._look_at(one, now)
            dues.append(due - now.now)
        return max(0.01, min(dues))

    async def _look_at(self, kept: Kept, now: ticks.StoreTime) -> float:
        """Decide about the ticks of one schedule; return when the next one is due."""
        record, name = kept.record, kept.record.schedule.name
        claim = now.claim(self._owner, CLAIM_SECONDS)
        own = [at for schedule, at in self._runs if schedule == name]
        taken = ticks.take_over(record, now, claim, own)
        upcoming = self._next_time(kept)
        # Also if the clock was set back: times then occur again, and the record lists the ticks that have already run.
        is_expected = upcoming <= now.now or now.now < record.cursor
        expected = ticks.expect(taken.record, now.now) if is_expected else taken
        situation = JobSituation.STARTABLE
        runs = any(tick.is_running for tick in expected.record.ticks)
        if not runs and ticks.is_due(expected.record, now.now):
            situation = await self._situation(expected.record)
        started = ticks.start(expected.record, now, claim, situation)
        rows = [*(expected.rows if is_expected else ()), *started.rows]
        if rows or started.record.ticks != record.ticks or now.now < record.cursor:
            if not await self._records.swap(kept, Change(started.record, rows)):
                return now.now  # another process changed the record first: process it again
            self._tell_not_run(rows)
            for tick in (*taken.begun, *started.begun):
                self._start(started.record, tick, taken_over=tick in taken.begun)
        await self._stop_replaced(started.record, situation)
        waiting = [tick.start_at for tick in started.record.ticks if not tick.is_running and tick.start_at > now.now]
        return min([*waiting, upcoming if upcoming > now.now else now.now + POLL_SECONDS])

    def _next_time(self, kept: Kept) -> float:
        name = kept.record.schedule.name
        version, at = self._next.get(name, ("", 0.0))
        if version != kept.version:
            found = next_time(kept.record.schedule, kept.record.cursor)
            at = found if found is not None else float("inf")
            self._next[name] = (kept.version, at)
        return at

    async def _situation(self, record: ScheduleRecord) -> JobSituation:
        """Return the situation of the schedule's job, or STARTABLE if its store is unavailable.

        The command is tried in that case: it reports the error, which is then in the history.
        """
        schedule = record.schedule
        if not schedule.job or schedule.overlap is Overlap.ALLOW:
            return JobSituation.STARTABLE
        try:
            return await job_situation(self._job_frontier(record), schedule.job)
        except SkitterError:
            return JobSituation.STARTABLE

    def _job_frontier(self, record: ScheduleRecord) -> str:
        schedule = record.schedule
        return schedule.frontier or self._frontier or default_frontier(schedule.job)

    async def _stop_replaced(self, record: ScheduleRecord, situation: JobSituation) -> None:
        """Stop a job of other processes if a waiting tick replaces it. A running tick is stopped by its owner."""
        waits = any(tick.replaces and not tick.is_running for tick in record.ticks)
        if waits and situation is JobSituation.WORKING:
            with contextlib.suppress(BackendError):
                actor = Actor(f"schedule:{record.schedule.name}")
                await stop_job(self._job_frontier(record), record.schedule.job, actor)

    def _tell_not_run(self, rows: Sequence[HistoryRow]) -> None:
        self._not_run += len(rows)
        self._outcomes.update(row.outcome for row in rows)
        for row in rows:
            at = ticks.shown_time(row.scheduled_at)
            self._on_event(
                events.TICK_NOT_RUN(schedule=row.schedule, scheduled_at=at, outcome=str(row.outcome), reason=row.reason)
            )

    def _start(self, record: ScheduleRecord, tick: Tick, *, taken_over: bool) -> None:
        key = (record.schedule.name, tick.scheduled_at)
        run = ScheduledRun(
            self._records,
            record,
            tick,
            owner=self._owner,
            frontier=self._frontier,
            job_frontier=self._job_frontier(record),
            program=self._program,
            taken_over=taken_over,
            on_event=self._on_event,
        )
        self._started += 1
        self._taken_over += taken_over
        self._runs[key] = run

        def forget(task: asyncio.Task[None]) -> None:
            self._runs.pop(key, None)
            if run.outcome is not None:
                self._outcomes[run.outcome] += 1
            if not task.cancelled() and task.exception() is not None:
                self._failure = task.exception()
            self._wake.set()

        self._spawn(run.run()).add_done_callback(forget)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
