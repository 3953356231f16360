"""The worker: one event loop that leases, fetches, parses and commits.

It knows a WorkSource and a Fetcher, never a backend. Every lease it is granted starts at once and
has a task of its own; what the tasks bring is committed in batches, and each commit asks for as
many new leases as there are free slots. Nothing is kept back: a lease that cannot start in time
is released. Leases are told apart by their epochs, which no two of a job share.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import time
import traceback
from collections.abc import Iterable
from typing import Final

import msgspec

from skitter.cluster.process_identity import resident_bytes
from skitter.errors import BrowserLostError, FormatError, FrontierError, LateError, SinkError
from skitter.fetch.contract import Fetcher, RendersPages, slow_transfers_of
from skitter.frontier.contract import POLL_SECONDS, WorkSource, distant_source, wait_for_turn_of
from skitter.model import secrets
from skitter.model.job import Job, State
from skitter.model.lease import Grant, Lease, Work
from skitter.model.outcome import Ending, Outcome
from skitter.model.request import BROWSER_NEED, Fingerprinter
from skitter.model.worker import Doing, WaitsFor, WorkerHeartbeat
from skitter.observe import events
from skitter.observe.node_counters import NodeCounters
from skitter.policy.generations import generation_seconds
from skitter.policy.polling import pause_seconds
from skitter.policy.scope import LinkPatterns, Scope
from skitter.policy.traps import TrapRules
from skitter.settings import Settings
from skitter.sinks.contract import Archive
from skitter.spiders.base import Spider, has_login
from skitter.spiders.hooks import JobInfo
from skitter.spiders.sitemaps import is_robots
from skitter.spiders.stats import Stats
from skitter.worker.batching import Batching
from skitter.worker.callbacks import Callbacks, LeaseLostError
from skitter.worker.commit_queue import CommitQueue, Ended, name_of
from skitter.worker.distinct_urls import DistinctUrls
from skitter.worker.event_hooks import events_seen
from skitter.worker.host_pace import HostPace
from skitter.worker.item_functions import item_functions_of
from skitter.worker.known_urls import KnownUrls
from skitter.worker.leased_proxy import LeasedProxies
from skitter.worker.long_poll import LongPoll
from skitter.worker.loop_status import LoopStatus
from skitter.worker.page_hooks import hooks_of
from skitter.worker.page_visit import Visitor
from skitter.worker.page_yield import LinkContext
from skitter.worker.revisit import RevisitRules
from skitter.worker.robots_gate import RobotsGate
from skitter.worker.seeding import Seeder
from skitter.worker.session_jars import SessionJars
from skitter.worker.session_logins import SessionLogins
from skitter.worker.start_permit import StartPermit
from skitter.worker.url_table import UrlTable
from skitter.worker.worker_stats import CallbackStats

WINDOW_SHARE: Final = 0.5
"""Of its start window a worker uses so much. The rest is for what comes between its last look at the clock and the
wire: on a machine with too much to do that was up to 47 ms."""
SLOW_SLOTS: Final = 7
"""Slots that slow servers may hold, for each that ``concurrency`` grants beyond the first: one means one."""
SLOW_LOOK_SECONDS: Final = 0.1
CANCEL_SECONDS: Final = 2.0
"""A callback that was cancelled has this long to clean up; then it is left behind."""
_ENDED = (State.FINISHED, State.STOPPED)

log = logging.getLogger("skitter.worker")


class Worker:
    """Works for one run of a job until it ends, or until ``stop``."""

    def __init__(
        self,
        worker_id: str,
        *,
        source: WorkSource,
        fetcher: Fetcher,
        spider: Spider,
        job: Job,
        settings: Settings,
        by_seeds: bool = False,
        stay: bool = False,
        heartbeat: WorkerHeartbeat | None = None,
        url_table: int = -1,
        archive: Archive | None = None,
        loop_status: LoopStatus | None = None,
        permit: StartPermit | None = None,
        counters: NodeCounters | None = None,
    ) -> None:
        """``by_seeds``: links stay within the host keys of the seeds. ``stay``: wait for more work after the end.

        ``heartbeat``: who it is, for people; what it is at is added. ``url_table``: a file descriptor of what the
        workers of
        this node know together (``url_table``). ``archive``: where its pages are written before they are committed.
        ``loop_status``: where its supervisor reads what the loop is doing. ``permit``: see ``start_permit``; it has
        begun. ``counters``: where its node has metrics.
        """
        self.id = worker_id
        self.superseded = False
        """A new run of the job has begun: its spider, seeds and settings may be others, so start over."""
        self.cut_off = False
        """Its node has lost the coordinator: others may take this worker for gone, and another one has to go on."""
        self._permit = permit
        self._source = source
        self._wait_for_turn = wait_for_turn_of(source)
        self._long_poll = LongPoll(worker_id, distant_source(source), self._ask_now, self.fail)
        self._slow_transfers = slow_transfers_of(fetcher)
        self._settings = settings
        self._stay = stay
        self._run = job.run
        known = _known_urls(url_table, job, settings.limits.max_known_urls)
        self._callback_stats = CallbackStats()
        dedup_seconds = settings.dedup.dedup_seconds
        self._commit_queue = CommitQueue(
            *(worker_id, source, known, archive, self._callback_stats),
            slots=settings.run.concurrency,
            generation_seconds=generation_seconds(dedup_seconds) if dedup_seconds is not None else 0.0,
            counters=counters,
        )
        self.held = self._commit_queue.held
        """Every lease that is not committed or released yet, by its epoch."""
        self._scope = Scope(
            domains=spider.allowed_domains,
            by_seeds=by_seeds,
            max_depth=settings.limits.max_depth,
            traps=None if settings.traps.traps == "off" else TrapRules(settings.traps, time.gmtime().tm_year),
            patterns=LinkPatterns.of(settings.links),
        )
        rules = LinkContext(spider=spider, fingerprinter=Fingerprinter.of_job(job), scope=self._scope, known=known)
        rules.note_need = self._note_need
        callback_seconds = settings.limits.callback_seconds
        self._stats = self._commit_queue.stats = Stats()
        self.hooks = hooks_of(spider, settings.hooks.hooks, callback_seconds, settings.run.trusted, self._stats)
        self._item_functions = item_functions_of(
            *(spider, settings.items.item_functions, callback_seconds, settings.run.trusted),
            hooks=[(hook.name, hook.call) for hook in self.hooks.on_item],
        )
        callbacks = Callbacks(
            callback_seconds=callback_seconds,
            commit_part=self._commit_part,
            secrets=secrets.of_arguments(job.spec.arguments),
            item_functions=self._item_functions,
            stats=self._callback_stats,
        )
        self.hooks.use_callbacks(callbacks)
        self._job_info = JobInfo(
            name=job.spec.name,
            run=job.run,
            spider=job.spec.spider,
            arguments=job.spec.arguments,
            settings=job.spec.settings,
            worker=worker_id,
        )
        proxies = LeasedProxies(source, settings.proxies)
        self._robots_gate = RobotsGate(source=source, fetcher=fetcher, settings=settings, proxies=proxies)
        self._jars = self._commit_queue.jars = SessionJars(source) if settings.fetch.cookies else None
        self._loop_status = loop_status or LoopStatus()
        self.distinct_urls = DistinctUrls()
        self._visitor = Visitor(
            rules=rules,
            fetcher=fetcher,
            settings=settings,
            callbacks=callbacks,
            archive=archive,
            loop_status=self._loop_status,
            revisits=RevisitRules(settings, job.spec) if settings.recrawl.is_on else None,
            distinct_urls=self.distinct_urls,
            hooks=self.hooks if self.hooks.has_page_hooks else None,
            robots_rule=self._robots_gate.rule_against,
            proxies=proxies,
            jars=self._jars,
        )
        self._logins = (
            SessionLogins(
                worker_id,
                source=source,
                rules=rules,
                callbacks=callbacks,
                seconds=callback_seconds,
                on_begun=self._ask_now,
            )
            if job.spec.login and has_login(spider)
            else None
        )
        self._seeder = Seeder(worker_id, rules=rules, callbacks=callbacks, source=source, recrawl=settings.recrawl)
        self._pace = HostPace()
        self._tasks: dict[asyncio.Task[Ended | None], Lease] = {}
        self._slow = 0
        self._wake = asyncio.Event()
        self._batching = Batching(self._standing, self._wake.set)
        self._ask_at = 0.0
        self._state = job.state
        self._heartbeat = heartbeat or WorkerHeartbeat()
        self._asked = self._stopping = False
        self._blocked_by = self._waits_for = ""
        self._failure: Exception | None = None
        self._renders, self._has_warned = self._can_render(fetcher), False

    @property
    def counters(self) -> NodeCounters | None:
        """Where its node has metrics."""
        return self._commit_queue.counters

    @property
    def committed(self) -> int:
        """Outcomes that were accepted."""
        return self._commit_queue.committed

    @property
    def state(self) -> State:
        """The job's last known state."""
        return self._state

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to stop."""
        return self._stopping

    @property
    def needs(self) -> tuple[str, ...]:
        """What it can serve now, besides requests without a need (``Request.need``); it may change at any time."""
        return self._commit_queue.calls.needs

    @needs.setter
    def needs(self, needs: Iterable[str]) -> None:
        self._commit_queue.calls.needs = needs
        self._ask_now()

    def _can_render(self, fetcher: Fetcher) -> bool:
        """Whether requests with the need ``browser`` may be granted; the fetcher says when it has no room for more."""
        if not isinstance(fetcher, RendersPages):
            return False
        fetcher.watch_room(self._room_changed)
        self.needs = (BROWSER_NEED,)
        return True

    def _note_need(self, need: str) -> None:
        """Say once that what is found has to wait for another worker."""
        if need == BROWSER_NEED and not self._renders and not self._has_warned:
            self._has_warned = True
            log.warning(
                "pages that are to be rendered wait for a worker with a browser: this one has none"
                " (pip install 'skitter[browser]', and a Chromium)"
            )

    def _room_changed(self, has_room: bool, works: bool) -> None:
        """What is rendered takes long: a worker is not given more of it than its browser has room for."""
        self._renders = works
        others = set(self.needs) - {BROWSER_NEED}
        if has_room:
            self.needs = {*others, BROWSER_NEED}
        else:
            self._commit_queue.calls.needs = others

    # ---- from outside; each may be called again, and before run()

    def stop(self) -> None:
        """Lease nothing more; finish what is in flight, for a while; release the rest."""
        self._stopping = True
        self._wake.set()

    def _break_off(self) -> None:
        """Others are soon given what it has in flight, and must not fetch it beside this worker."""
        self.cut_off = True
        for task in self._tasks:
            task.cancel()
        self.stop()

    def fail(self, error: Exception) -> None:
        """Work cannot go on: ``run`` raises this."""
        self._failure = self._failure or error
        self._wake.set()

    def lost(self, leases: list[Lease]) -> None:
        """These belong to others now: drop the work, and never commit it."""
        epochs = {lease.epoch for lease in leases}
        # What has no task is being handed in or given back, and the answer to that will tell.
        for task, lease in self._tasks.items():
            if lease.epoch in epochs and self._commit_queue.drop(lease):
                task.cancel()

    def heartbeat(self) -> WorkerHeartbeat:
        """Who it is and what it is at; may be asked from another thread."""
        averages, slots = self._commit_queue.page_averages, self._settings.run.concurrency
        return msgspec.structs.replace(
            self._heartbeat,
            doing=self._doing(),
            # While every slot is taken nobody is asked, and the last answer is an old one.
            waits_for=self._shown_wait(slots),
            in_flight=len(self._tasks),
            slots=slots,
            pages_per_second=round(averages.pages_per_second, 3),
            latency_seconds=round(averages.latency_seconds, 4),
            needs=tuple(sorted({*self.needs, *((BROWSER_NEED,) if self._renders else ())})),
            memory_bytes=resident_bytes(),
            longest_calls={name: round(s, 6) for name, s in self._callback_stats.longest_seconds.copy().items()},
        )

    def _shown_wait(self, slots: int) -> str:
        if not self._may_start():
            return WaitsFor.COORDINATOR
        return self._waits_for if len(self._tasks) - self._slow < slots and not self._stopping else ""

    def _may_start(self) -> bool:
        return self._permit is None or self._permit.is_valid

    @property
    def waiting(self) -> int:
        """How many workers the job has while this one waits at a master for work; 0: it does not."""
        return self._long_poll.waiting

    def why_it_ended(self) -> str:
        """In words, after ``run``."""
        if self.superseded:
            return "a new run has begun"
        if self.cut_off:
            return "its node has lost the coordinator"
        return f"the job is {self._state}" if self._state in _ENDED else "it was asked to stop"

    def _doing(self) -> Doing:
        held = self.held.copy().values()
        # A worker that stays waits for a stopped job to be resumed.
        if (
            self._stopping
            or self.superseded
            or self._state is State.DRAINING
            or (held and self._state is State.STOPPED)
        ):
            return Doing.DRAINING
        if any(lease.work is Work.SEED for lease in held):
            return Doing.SEEDING
        if held:
            return Doing.FETCHING
        if self._state is State.PAUSED:
            return Doing.PAUSED
        if self._blocked_by:
            doing: dict[str, Doing] = {WaitsFor.PROXY: Doing.NO_PROXY, WaitsFor.PAUSED_HOSTS: Doing.WAITING}
            return doing.get(self._blocked_by, Doing.BLOCKED)
        return Doing.WAITING if self._asked else Doing.STARTING

    # ---- the loop

    async def run(self) -> State:
        """Until the job ends, a new run begins, or ``stop``; the job's last known state. Raises what the store did."""
        beside = [asyncio.create_task(self._loop_status.tick())]
        if self._permit is not None:
            beside.append(asyncio.create_task(self._wait_for_end_of(self._permit)))
        self._item_functions.open()
        try:
            async with events_seen(self.hooks):
                await self.hooks.start(self._job_info)
                while not self._is_over():
                    await self._turn()
                    await self._rest()
                await self._finish()
                self._commit_queue.callback_failures.tell_repeated()
            return self._state
        except BaseException:
            await self._cancel_tasks()
            raise
        finally:
            for task in beside:
                task.cancel()
            if self._logins is not None:
                await self._logins.close()
            await self._long_poll.close()
            self._item_functions.close()

    async def _wait_for_end_of(self, permit: StartPermit) -> None:
        await permit.ended()
        self._break_off()

    def _is_over(self) -> bool:
        ended = self._state in _ENDED and not self._stay and not self.held
        return self._stopping or self.superseded or ended

    async def _turn(self) -> None:
        """One exchange with the frontier: hand in what is done, take what is free."""
        if self._failure is not None:
            raise self._failure
        if self.counters is not None:
            self.counters.holds(len(self.held), self._settings.run.concurrency)
        if self._wait_for_turn is not None and self._commit_queue.waiting:
            # Before the batch is taken: what ends while another worker has the store goes with it.
            await self._wait_for_turn()
        batch = await self._collect()
        want = self._free_slots()
        asked_at = time.monotonic()
        grant: Grant | None = None
        if batch:
            grant = await self._commit_queue.commit(batch, want)
        elif want and asked_at >= self._ask_at:
            grant = await self._commit_queue.lease(want)
        if grant is not None:
            start_from = asked_at + self._commit_queue.told_round_trip_seconds
            pause = pause_seconds(grant.ask_again_seconds, grant.workers, random.random())
            self._ask_at = 0.0 if len(grant.leases) >= want else time.monotonic() + pause
            if self._ask_at and self._long_poll.begin(pause, grant):
                self._ask_at = math.inf
            self._state, self._blocked_by, self._asked = State(grant.state), grant.blocked_by, True
            self._waits_for = "" if len(grant.leases) >= want else waits_for(grant)
            self._commit_queue.meet(grant)
            self._tell(grant)
            if grant.logins and self._logins is not None and not self._stopping:
                self._logins.begin(grant.logins)
            await self._start(grant, asked_at, start_from)
            if len(grant.leases) >= want:
                self._look_around()
        if self._state in (State.DRAINING, State.STOPPED):
            # A start() may go on for hours; it will be run again.
            self._give_up_seeding()

    def _free_slots(self) -> int:
        """How many requests more may be in flight. Those that wait for slow servers hold up the others only so far.

        Without it a few hosts that accept and say nothing would have every slot, until their deadline.
        """
        if not self._may_start():
            return 0
        concurrency = self._settings.run.concurrency
        self._slow = self._slow_transfers(SLOW_SLOTS * (concurrency - 1))
        return max(0, concurrency - (len(self._tasks) - self._slow))

    def _tell(self, grant: Grant) -> None:
        for lost, count in grant.recovered:
            events.emit(events.LEASES_RECOVERED(worker=self.id, lost=lost, leases=count))
        if grant.leases and events.is_logged(events.LEASES_GRANTED):
            hosts = len({lease.host_key for lease in grant.leases})
            events.emit(events.LEASES_GRANTED(worker=self.id, leases=len(grant.leases), hosts=hosts))

    async def _rest(self) -> None:
        """Until there is something to commit, or it is time to ask again."""
        if not self._wake.is_set() and not self._is_over():
            timeout: float | None = SLOW_LOOK_SECONDS
            if self._free_slots():
                timeout = max(0.0, self._ask_at - time.monotonic()) if self._ask_at < math.inf else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
        self._wake.clear()

    async def _finish(self) -> None:
        """The way out: give what is in flight some time, then release it."""
        self._give_up_seeding()
        # What is left of an older run nobody will accept.
        patience = 0.0 if self.superseded or self.cut_off else self._settings.run.shutdown_seconds
        deadline = time.monotonic() + patience
        await self._hand_in()
        await self._drop_lost()
        while self._tasks and (left := deadline - time.monotonic()) > 0:
            await asyncio.wait(list(self._tasks), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            await self._hand_in()
        await self._cancel_tasks()
        self._commit_queue.broken_off.extend(self._tasks.values())
        await self._hand_in()

    async def _drop_lost(self) -> None:
        """What others were given meanwhile, because a page had held this worker, is not to be fetched beside them."""
        leases = list(self.held.values())
        if self._tasks and not self.superseded and not self.cut_off:
            # If the store is unavailable, what is handed in later is refused.
            kept = [True] * len(leases)
            with contextlib.suppress(FrontierError):
                kept = await self._source.renew(self.id, leases)
            self.lost([lease for lease, is_kept in zip(leases, kept, strict=True) if not is_kept])

    async def _hand_in(self) -> None:
        if self._failure is not None:
            raise self._failure
        batch = await self._collect()
        if batch:
            await self._commit_queue.commit(batch, 0)

    async def _collect(self) -> list[Ended]:
        """What is to be committed now; what is not to be worked on goes back first."""
        self._batching.handed_over()
        batch = self._commit_queue.take_outcomes()
        if await self._commit_queue.release():
            self._ask_now()
        return batch

    async def _commit_part(self, part: Outcome, urls: list[str]) -> bool:
        accepted = await self._commit_queue.commit_part(part, urls)
        if accepted:
            # The links of a part can be leased at once: seeds are not kept waiting while start() goes on.
            self._ask_now()
        return accepted

    async def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=CANCEL_SECONDS)
        for lease in self._tasks.values():
            log.warning("a callback cannot be cancelled: %s", name_of(lease))

    def _give_up_seeding(self) -> None:
        for task, lease in self._tasks.items():
            if lease.work is Work.SEED:
                task.cancel()

    # ---- work

    async def _start(self, grant: Grant, asked_at: float, start_from: float) -> None:
        for lease in grant.leases:
            self.held[lease.epoch] = lease
        self.superseded = grant.run != self._run
        if self._stopping or self.superseded or not self._may_start():
            self._commit_queue.unstarted.extend(grant.leases)
            return
        self._scope.permit(grant.permitted)
        await self._robots_gate.load(grant.leases)
        if self._jars is not None:
            await self._jars.load(grant.leases)
        loop = asyncio.get_running_loop()
        for lease in grant.leases:
            task = loop.create_task(self._work(lease, latest_start(lease, asked_at, start_from)))
            self._tasks[task] = lease
            # Not a finally in _work: a task that is cancelled before its first step never gets there.
            task.add_done_callback(self._ended)

    async def _work(self, lease: Lease, start_by: float | None) -> Ended | None:
        """One lease from start to outcome; None: it came too late to be started."""
        if start_by is not None and time.monotonic() > start_by:
            return None
        counts = self._stats.begin_page()
        try:
            ended = await self._worked(lease, start_by)
            if counts:
                # With the last part of a page, whatever was counted before: so a page counts once.
                ended[0].tally = ended[0].tally | counts
            return ended
        except BrowserLostError:
            # As if it had been broken off: it goes back without an attempt, and the host's delay goes on.
            raise asyncio.CancelledError from None
        except LateError:
            # A loop that is busy, or a process that stood still, may reach the socket long after it wanted to.
            return None

    async def _worked(self, lease: Lease, start_by: float | None) -> Ended:
        if lease.work is Work.SEED:
            return await self._seeder.seed(lease)
        if lease.work is Work.ROBOTS:
            on_send = await self._pace.wait(lease, start_by) if lease.pace_seconds else None
            self._check_permit()
            return await self._robots_gate.read(lease, start_by, on_send), []
        try:
            request = lease.request
        except FormatError:
            raise
        except Exception as error:  # noqa: BLE001  whatever a damaged request raises, it costs that page alone
            reason = f"the stored request {lease.id} cannot be read: {type(error).__name__}: {error}"
            log.error("%s: %s", name_of(lease), reason)  # noqa: TRY400  a traceback would tell nothing more
            return Outcome(lease=lease, ending=Ending.FAILED, error_class="internal", error=reason, touched=False), []
        if (rule := self._robots_gate.rule_against(lease, request.url)) is not None:
            return Outcome(
                lease=lease, ending=Ending.EXCLUDED, error_class="robots", error=str(rule), touched=False
            ), []
        if is_robots(request) and (page := await self._robots_gate.copy_of(lease)) is not None:
            return await self._visitor.read(lease, request, page)
        on_send = await self._pace.wait(lease, start_by) if lease.pace_seconds else None
        self._check_permit()
        return await self._visitor.visit(lease, request, start_by, on_send)

    def _check_permit(self) -> None:
        """Look once more before a request is sent: its turn may have come late."""
        if self._permit is not None and not self._permit.is_valid:
            # As if it had been broken off: it goes back, and the host's delay goes on.
            raise asyncio.CancelledError

    def _ended(self, task: asyncio.Task[Ended | None]) -> None:
        """A task is over: an outcome, a release, or nothing (lost)."""
        lease = self._tasks.pop(task)
        if task.cancelled():
            self._commit_queue.broken_off.append(lease)
        elif (error := task.exception()) is not None:
            self._failed(lease, error)
        elif (result := task.result()) is not None:
            self._commit_queue.outcomes.append(result)
            news = result[0].news
            if lease.pace_seconds and news is not None and (news.blocked or news.unreachable):
                self._pace.stop(lease.host_key)
        else:
            self._commit_queue.late.append(lease)
        self._batching.look()

    def _failed(self, lease: Lease, error: BaseException) -> None:
        if isinstance(error, LeaseLostError):
            self._commit_queue.drop(lease)
            # Nothing waits for that; but it may have been the last thing that kept the worker.
            self._wake.set()
        elif isinstance(error, FrontierError | SinkError):
            # The store's fault or the archive's, not the page's: it will be fetched again.
            self.fail(error)
        else:
            text = "".join(traceback.format_exception(error))
            log.error("a defect in skitter at %s:\n%s", name_of(lease), text)
            outcome = Outcome(lease=lease, ending=Ending.FAILED, error_class="internal", error=text)
            self._commit_queue.outcomes.append((outcome, []))

    def _look_around(self) -> None:
        """What has ended meanwhile is judged by what is under way now; and first the loop reads what has come."""
        if self._failure is None and not self._is_over():
            self._wake.clear()
            self._batching.look()

    def _standing(self) -> tuple[int, int]:
        return self._commit_queue.waiting, len(self._tasks) - self._slow

    def _ask_now(self) -> None:
        """There is something to lease."""
        self._ask_at = 0.0
        self._wake.set()


def waits_for(grant: Grant) -> str:
    """Return what keeps a worker's free slots empty after a grant of less than it wanted."""
    if grant.blocked_by:
        return grant.blocked_by
    if grant.state != State.RUNNING:
        return WaitsFor.RESUME if grant.state == State.PAUSED else ""
    return WaitsFor.DELAY if grant.ask_again_seconds < POLL_SECONDS else WaitsFor.READY_HOST


def latest_start(lease: Lease, asked_at: float, start_from: float) -> float | None:
    """After this the lease is not to be started. The grant happened after we asked: from there it is counted.

    ``start_from``: later than that by the round trip that was told, which is a part of the window and all for the way.

    Where there is no window, its own length counts: a process that stood still must not send what others were given
    meanwhile, or more than ``per_host`` would be in flight.
    """
    if lease.start_seconds is not None:
        return start_from + WINDOW_SHARE * max(0.0, lease.start_seconds - (start_from - asked_at))
    return asked_at + lease.deadline - lease.leased_at if lease.deadline else None


def _known_urls(url_table: int, job: Job, max_known_urls: int) -> KnownUrls:
    if url_table >= 0:
        return KnownUrls(UrlTable(url_table, job.secret, job.run), shared=True)
    return KnownUrls(UrlTable.alone(max_known_urls, job.secret, job.run), shared=False)
