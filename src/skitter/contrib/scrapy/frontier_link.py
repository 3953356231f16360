"""Connection of the scheduler to the frontier: leasing ahead, commits in batches, renewal, and the end of the job.

It runs in Scrapy's event loop and never blocks it. Requests that end during a call are committed with the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from skitter.app.audit import local_actor
from skitter.app.frontiers import open_frontier
from skitter.cluster.process_identity import heartbeat_of, live_workers, worker_id
from skitter.contrib.scrapy.held_page import PART_LINKS, HeldPage
from skitter.contrib.scrapy.redis_spiders import SpiderIntake
from skitter.contrib.scrapy.scheduler_settings import SchedulerSettings
from skitter.contrib.scrapy.sink_delivery import SinkDelivery
from skitter.errors import FrontierError, JobError, LateError
from skitter.frontier.contract import Frontier, acting_for
from skitter.model.job import State
from skitter.model.lease import Grant, Lease, Work
from skitter.model.outcome import Ending, Outcome
from skitter.model.request import Entry, Fingerprinter
from skitter.model.worker import Doing, WorkerHeartbeat
from skitter.node.dead_workers import dead_worker_recovery, recover_dead_workers
from skitter.observe import events
from skitter.policy.polling import pause_seconds
from skitter.sinks.targets import sink_of
from skitter.worker.commit_queue import CommitQueue, Ended
from skitter.worker.distinct_urls import DistinctUrls
from skitter.worker.host_pace import HostPace
from skitter.worker.known_urls import KnownUrls
from skitter.worker.lease_renewal import RenewalThread
from skitter.worker.loop import latest_start
from skitter.worker.url_table import UrlTable

log = logging.getLogger("skitter.scrapy")
RETRY_SECONDS = 1.0
"""Pause between retries of an unavailable store."""
CALL_SECONDS = 60.0
"""A call that takes longer is cancelled and repeated."""
OpenIntake = Callable[[Frontier, SchedulerSettings], Awaitable[SpiderIntake]]
_ENDED = (State.FINISHED, State.STOPPED)


class FrontierLink:
    """Part of a job in one process: the leases that it holds, and those that are ready for Scrapy's engine."""

    def __init__(
        self,
        settings: SchedulerSettings,
        *,
        seed: Callable[[Lease], Coroutine[Any, Any, None]],
        wake_engine: Callable[[], None],
    ) -> None:
        """``seed`` runs the start requests under a lease. ``wake_engine`` tells the engine that a lease is ready."""
        self._settings = settings
        self._seed = seed
        self._wake_engine = wake_engine
        self.id = worker_id()
        self.keeps_items = bool(settings.outputs)
        self.is_over = False
        """Whether the job has ended and this process holds nothing of it."""
        self.waiting = 0
        self.distinct_urls = DistinctUrls()
        self.counters = None
        self._ready: deque[tuple[Lease, float | None]] = deque()
        self._added: list[Entry] = []
        self._sending: set[int] = set()
        """Epochs of the leases that are being committed."""
        self._pace = HostPace()
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._ask_at = 0.0
        self._state = State.RUNNING
        self._is_closing = self._is_superseded = False
        self._calls = itertools.count()
        self._call = secrets.randbits(62)
        self._loop_task: asyncio.Task[None] | None = None
        self._intake: SpiderIntake | None = None
        self._exits = contextlib.AsyncExitStack()

    async def open(self, open_intake: OpenIntake | None = None) -> None:
        """Start, resume or join the job."""
        settings = self._settings
        self._frontier: Frontier = open_frontier(settings.frontier, settings.spec.name, create=True)
        self._exits.push_async_callback(self._frontier.close)
        await recover_dead_workers(self._frontier, _tell)
        is_joined = await self._has_live_workers()
        if settings.fresh and is_joined:
            log.warning(
                "SCHEDULER_FLUSH_ON_START has no effect: other processes are working on job %s", settings.spec.name
            )
        targets = [sink_of(target).target for target in settings.outputs]
        begun = await acting_for(self._frontier, local_actor("program")).begin(
            settings.spec, fresh=settings.fresh and not is_joined, sinks=targets
        )
        job = await self._frontier.job()
        self._run, self._state = job.run, job.state
        log.info("job %s: run %d is %s", settings.spec.name, job.run, "joined" if is_joined else begun)
        self.fingerprinter = Fingerprinter.of_job(job)
        self.known = KnownUrls(UrlTable.alone(settings.settings.limits.max_known_urls, job.secret, job.run))
        self._queue = CommitQueue(self.id, self._frontier, self.known, slots=settings.slots)
        self.held = self._queue.held
        self._heartbeat = heartbeat_of(settings.spec.spider)
        renewal = RenewalThread(self, self._open_source, settings.lease_seconds)
        self._exits.enter_context(renewal)
        await self._exits.enter_async_context(dead_worker_recovery(self._frontier, _tell))
        self._delivery = SinkDelivery(settings, self._frontier, _tell)
        self._delivery.start()
        self._intake = await open_intake(self._frontier, settings) if open_intake is not None else None
        self._loop_task = asyncio.create_task(self._run_loop())

    async def _has_live_workers(self) -> bool:
        try:
            return bool(live_workers(await self._frontier.report(0)))
        except JobError:
            return False

    def _open_source(self) -> Frontier:
        return open_frontier(self._settings.frontier, self._settings.spec.name, create=False, patient=True)

    # ---- for the scheduler; these methods do not block

    def take(self) -> Lease | None:
        """Return a lease that may start now, or None."""
        while self._ready:
            lease, start_by = self._ready.popleft()
            if lease.epoch not in self.held:
                continue
            if start_by is not None and time.monotonic() > start_by:
                self._queue.late.append(lease)
                self._wake.set()
                continue
            return lease
        self._wake.set()
        return None

    def end(self, outcome: Outcome, urls: list[str]) -> None:
        """Commit an outcome with the next call."""
        self._queue.outcomes.append((outcome, urls))
        if outcome.ending is Ending.DONE and outcome.lease.work is Work.PAGE:
            self.distinct_urls.add(outcome.lease.request.url)
        self._wake.set()

    def give_back(self, lease: Lease) -> None:
        """Return a lease that was started but has not ended."""
        self._queue.broken_off.append(lease)

    def add(self, entry: Entry) -> None:
        """Add a request that belongs to no page, with the next call."""
        self._added.append(entry)
        self.is_over = False
        self._wake.set()

    def next_parent(self) -> int:
        """Return a number that distinguishes unfiltered requests that belong to no page."""
        return self._call + next(self._calls)

    async def commit_part(self, page: HeldPage) -> None:
        """Commit the links so far, before the rest of a page or of the start requests."""
        links, page.links = page.links, []
        urls, page.urls = page.urls, []
        part = Outcome(lease=page.lease, ending=Ending.DONE, links=links, more=True, after=0)
        if links and not await self._queue.commit_part(part, urls):
            log.warning("another process has taken over the start requests")
        self._ask_at = 0.0
        self._wake.set()

    # ---- for the renewal thread

    def heartbeat(self) -> WorkerHeartbeat:
        """Return the identity and current activity of this process."""
        held, slots = len(self.held), self._settings.slots
        doing = Doing.FETCHING if held else Doing.PAUSED if self._state is State.PAUSED else Doing.WAITING
        return msgspec.structs.replace(self._heartbeat, doing=doing, in_flight=held, slots=slots)

    def lost(self, leases: list[Lease]) -> None:
        """Drop leases that other workers now have; their outcomes are not committed."""
        for lease in leases:
            # A lease that is being committed is not lost yet: the reply to the commit decides.
            if lease.epoch not in self._sending:
                self._queue.drop(lease)

    def fail(self, error: Exception) -> None:
        """Log that leases cannot be renewed; other workers fetch again what is lost."""
        log.error("leases cannot be renewed: %s", error)

    # ---- the loop

    async def _run_loop(self) -> None:
        while not self._is_closing:
            try:
                await self._turn()
            except (FrontierError, TimeoutError) as error:
                log.warning("the frontier does not answer; will try again: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except Exception:
                log.exception("a defect in skitter; will try again")
                await asyncio.sleep(RETRY_SECONDS)
                continue
            await self._rest()

    async def _turn(self) -> None:
        """Exchange data with the frontier once: add requests, release leases, commit outcomes, lease requests."""
        async with asyncio.timeout(CALL_SECONDS):
            await self._send_added()
            if await self._queue.release():
                self._ask_at = 0.0
            batch = await self._in_parts(self._queue.take_outcomes())
        wants_more = not self._is_closing and not self._is_superseded
        want = max(0, self._settings.slots - len(self.held) + len(batch)) if wants_more else 0
        asked_at = time.monotonic()
        grant: Grant | None = None
        self._sending = {outcome.lease.epoch for outcome, _ in batch}
        try:
            async with asyncio.timeout(CALL_SECONDS):
                if batch:
                    grant = await self._queue.commit(batch, want)
                elif want and asked_at >= self._ask_at:
                    grant = await self._queue.lease(want)
        except BaseException:
            # Outcomes that were accepted despite the error are refused the second time.
            self._queue.outcomes = [*batch, *self._queue.outcomes]
            raise
        finally:
            self._sending = set()
        if grant is not None:
            pause = pause_seconds(grant.ask_again_seconds, grant.workers, random.random())
            self._ask_at = 0.0 if len(grant.leases) >= want else time.monotonic() + pause
            self._meet(grant, asked_at)

    async def _send_added(self) -> None:
        while self._added:
            batch = self._added[:PART_LINKS]
            await self._frontier.add(batch)
            del self._added[: len(batch)]
            self._ask_at = 0.0

    async def _in_parts(self, batch: list[Ended]) -> list[Ended]:
        """Commit links of large pages in parts; return the batch with the remaining links."""
        for outcome, _ in batch:
            while len(outcome.links) > PART_LINKS:
                links, outcome.links = outcome.links[:PART_LINKS], outcome.links[PART_LINKS:]
                part = Outcome(lease=outcome.lease, ending=Ending.DONE, links=links, more=True, after=0)
                await self._queue.commit_part(part, [])
        return batch

    def _meet(self, grant: Grant, asked_at: float) -> None:
        self._queue.meet(grant)
        self._state = State(grant.state)
        if grant.run != self._run:
            log.warning("another run of job %s has begun: this process ends", self._settings.spec.name)
            self._is_superseded, self._state = True, State.STOPPED
            self._ready.clear()
            self._queue.unstarted.extend(grant.leases)
        for lease in grant.leases:
            self.held[lease.epoch] = lease
            if self._is_superseded:
                continue
            start_by = latest_start(lease, asked_at, asked_at)
            if lease.work is Work.SEED:
                self._begin(self._seed(lease))
            elif lease.pace_seconds:
                self._begin(self._wait_for_pace(lease, start_by))
            else:
                self._ready.append((lease, start_by))
        # Leases of an older run can no longer be committed, so they do not keep this process open.
        is_free = not self.held or self._is_superseded
        was_over, self.is_over = self.is_over, self._state in _ENDED and is_free and not self._added
        if grant.leases or self.is_over != was_over:
            self._wake_engine()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wait_for_pace(self, lease: Lease, start_by: float | None) -> None:
        """Make a lease ready after the host's delay, if the worker has to keep that delay itself."""
        try:
            sent = await self._pace.wait(lease, start_by)
        except LateError:
            self._queue.late.append(lease)
            self._wake.set()
            return
        self._ready.append((lease, start_by))
        self._wake_engine()
        sent()

    async def _rest(self) -> None:
        """Wait until there is something to commit, or until it is time to ask for leases again."""
        free = self._settings.slots > len(self.held)
        timeout = max(0.0, self._ask_at - time.monotonic()) if free else None
        if not self._queue.waiting and not self._added:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
        self._wake.clear()

    # ---- the end

    async def close(self, *, is_shutdown: bool) -> None:
        """Commit what has ended, return the other leases, and write the outputs of a finished job."""
        if self._loop_task is None:
            # ``open`` failed.
            await self._exits.aclose()
            return
        self._is_closing = True
        self._wake.set()
        if self._intake is not None:
            await self._intake.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.wait([self._loop_task, *self._tasks], timeout=CALL_SECONDS)
        try:
            await self._hand_in()
            state = (await self._frontier.state()).state
            await self._delivery.close(complete=state is State.FINISHED and not is_shutdown)
            await self._frontier.tell(self.id, None)
        except (FrontierError, TimeoutError) as error:
            log.warning("the frontier does not answer; requests in flight will be fetched again: %s", error)
        finally:
            await self._exits.aclose()

    async def _hand_in(self) -> None:
        async with asyncio.timeout(CALL_SECONDS):
            await self._send_added()
            if batch := await self._in_parts(self._queue.take_outcomes()):
                await self._queue.commit(batch, 0)
            ended = {lease.epoch for lease, _ in self._ready}
            self._queue.unstarted.extend(lease for lease in self.held.values() if lease.epoch in ended)
            others = [lease for lease in self.held.values() if lease.epoch not in ended]
            self._queue.broken_off.extend(lease for lease in others if lease not in self._queue.broken_off)
            await self._queue.release()


def _tell(event: events.Event) -> None:
    log.log(event.level, "%s", event.text)
