"""The worker: one event loop that leases, fetches, parses and commits.

It knows a WorkSource and a Fetcher, never a backend. Every lease it is granted starts at once and
has a task of its own; what the tasks bring is committed in batches, and each commit asks for as
many new leases as there are free slots. Nothing is kept back: a lease that cannot start in time
is released.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import traceback
from typing import Final

from skitter.fetch.contract import Fetcher
from skitter.frontier.contract import WorkSource
from skitter.model.job import Job, State
from skitter.model.lease import Grant, Lease, Work
from skitter.model.outcome import Ending, Outcome
from skitter.model.request import Fingerprinter
from skitter.policy.scope import Scope
from skitter.settings import Settings
from skitter.spiders.base import Spider
from skitter.worker.gate import Gatekeeper
from skitter.worker.harvest import Rules
from skitter.worker.known import KnownUrls
from skitter.worker.seeding import Seeder
from skitter.worker.visit import LeaseLostError, Visitor
from skitter.worker.watch import Watch

FLUSH_OUTCOMES: Final = 64
FLUSH_SECONDS: Final = 0.05
_TICK_SECONDS: Final = 0.5
_ENDED = (State.FINISHED, State.STOPPED)

log = logging.getLogger("skitter.worker")


class Worker:
    """Works for one job until it ends, or until ``stop``."""

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
    ) -> None:
        """``by_seeds``: links stay within the host keys of the seeds. ``stay``: wait for more work after the end."""
        self.id = worker_id
        self.watch = Watch()
        self.held: dict[tuple[Work, int], Lease] = {}
        """Every lease that is not committed or released yet."""
        self._source = source
        self._settings = settings
        self._stay = stay
        self._run = job.run
        self._known = KnownUrls(settings.limits.max_known_urls)
        self._scope = Scope(domains=spider.allowed_domains, by_seeds=by_seeds, max_depth=settings.limits.max_depth)
        rules = Rules(spider=spider, fingerprinter=Fingerprinter(job.secret), scope=self._scope, known=self._known)
        self._gatekeeper = Gatekeeper(source=source, fetcher=fetcher, settings=settings)
        self._visitor = Visitor(
            rules=rules, fetcher=fetcher, settings=settings, watch=self.watch, commit_part=self._commit_part
        )
        self._seeder = Seeder(rules=rules, watch=self.watch, commit_part=self._commit_part)
        self._tasks: dict[tuple[Work, int], asyncio.Task[None]] = {}
        self._pending: list[tuple[Outcome, list[str]]] = []
        self._to_release: list[Lease] = []
        self._late: list[Lease] = []
        self._wake = asyncio.Event()
        self._flush_timer: asyncio.TimerHandle | None = None
        self._ask_at = 0.0
        self._state = job.state
        self._stopping = False

    # ---- from outside

    def stop(self) -> None:
        """Lease nothing more; finish what is in flight, for a while; release the rest."""
        self._stopping = True
        self._wake.set()

    def lost(self, leases: list[Lease]) -> None:
        """These belong to others now: drop the work, and never commit it."""
        for lease in leases:
            key = (lease.work, lease.id)
            task = self._tasks.get(key)
            # Without a task it is being handed in, and the commit itself will tell.
            if task is not None and self.held.get(key) is lease:
                log.warning("lost the lease of %s", lease.host_key or "the seeding")
                del self.held[key]
                task.cancel()

    # ---- the loop

    async def run(self) -> State:
        """Until the job ends or ``stop``; the job's last known state."""
        ticker = asyncio.create_task(self._tick())
        try:
            state = State.RUNNING
            while not self._stopping:
                state = await self._turn()
                if state in _ENDED and not self._stay and not self.held:
                    return state
                if state is State.DRAINING:
                    self._give_up_seeding()
                await self._rest()
            await self._finish()
            return state
        finally:
            ticker.cancel()
            for task in self._tasks.values():
                task.cancel()

    async def _turn(self) -> State:
        """One exchange with the frontier: hand in what is done, take what is free."""
        batch, self._pending = self._pending, []
        self._stop_timer()
        await self._release()
        want = max(0, self._settings.run.concurrency - len(self._tasks))
        asked_at = time.monotonic()
        grant: Grant | None = None
        if batch:
            grant = await self._commit(batch, want)
        elif want and asked_at >= self._ask_at:
            grant = await self._source.lease(self.id, want)
        if grant is not None:
            await self._start(grant, asked_at)
            full = len(grant.leases) >= want
            self._ask_at = 0.0 if full else time.monotonic() + grant.ask_again_seconds
            self._state = State(grant.state)
        return self._state

    async def _rest(self) -> None:
        """Until there is something to commit, or it is time to ask again."""
        if self._stopping or self._wake.is_set():
            self._wake.clear()
            return
        timeout = None
        if len(self._tasks) < self._settings.run.concurrency:
            timeout = max(0.0, self._ask_at - time.monotonic())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        self._wake.clear()

    async def _finish(self) -> None:
        """The way out: give what is in flight some time, then release it."""
        self._give_up_seeding()
        deadline = time.monotonic() + self._settings.run.shutdown_seconds
        while self._tasks and (left := deadline - time.monotonic()) > 0:
            await asyncio.wait(self._tasks.values(), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            await self._hand_in()
        for task in list(self._tasks.values()):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        await self._hand_in()
        if self.held:
            await self._source.release(list(self.held.values()))
            self.held.clear()

    async def _hand_in(self) -> None:
        batch, self._pending = self._pending, []
        await self._release()
        if batch:
            await self._commit(batch, 0)

    def _give_up_seeding(self) -> None:
        for (work, _), task in self._tasks.items():
            if work is Work.SEED:
                task.cancel()

    # ---- work

    async def _start(self, grant: Grant, asked_at: float) -> None:
        if grant.run != self._run:
            self._run = grant.run
            self._known.clear()
        self._scope.permit(grant.permitted)
        for lease in grant.leases:
            self.held[lease.work, lease.id] = lease
        await self._gatekeeper.load(grant.leases)
        for lease in grant.leases:
            key = (lease.work, lease.id)
            self._tasks[key] = asyncio.create_task(self._work(lease, asked_at))

    async def _work(self, lease: Lease, asked_at: float) -> None:
        """One lease from start to outcome. Ends with an outcome, a release or nothing (lost)."""
        key = (lease.work, lease.id)
        try:
            if lease.start_seconds is not None and time.monotonic() - asked_at > lease.start_seconds:
                # The grant happened after we asked: measured from there, the promise is kept or not made.
                self._late.append(lease)
                return
            outcome, urls = await self._outcome_of(lease)
        except asyncio.CancelledError:
            self._to_release.append(lease)
            return
        except LeaseLostError:
            self.held.pop(key, None)
            return
        except Exception:
            log.exception("internal error at %s", lease.host_key)
            outcome, urls = (
                Outcome(lease=lease, ending=Ending.DEAD, error_class="internal", error=traceback.format_exc()),
                [],
            )
        finally:
            self._tasks.pop(key, None)
            self._nudge()
        self._pending.append((outcome, urls))
        self._nudge()

    async def _outcome_of(self, lease: Lease) -> tuple[Outcome, list[str]]:
        if lease.work is Work.SEED:
            return await self._seeder.seed(lease)
        if lease.work is Work.ROBOTS:
            return await self._gatekeeper.read(lease, time.time()), []
        request = lease.request
        if not self._gatekeeper.allows(lease, request.url):
            outcome = Outcome(
                lease=lease, ending=Ending.EXCLUDED, error_class="robots", error="robots.txt", touched=False
            )
            return outcome, []
        self.watch.pages += 1
        return await self._visitor.visit(lease, request)

    def _nudge(self) -> None:
        """Wake the loop when half of what was granted is done, or soon."""
        waiting = len(self._pending) + len(self._late) + len(self._to_release)
        if waiting >= FLUSH_OUTCOMES or waiting >= len(self._tasks):
            self._wake.set()
        elif self._flush_timer is None and waiting:
            self._flush_timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._wake.set)

    def _stop_timer(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None

    # ---- commits

    async def _commit(self, batch: list[tuple[Outcome, list[str]]], want: int) -> Grant | None:
        batch = [pair for pair in batch if self.held.get((pair[0].lease.work, pair[0].lease.id)) is pair[0].lease]
        outcomes = [outcome for outcome, _ in batch]
        answer = await self._source.commit(self.id, outcomes, want)
        for (outcome, urls), accepted in zip(batch, answer.accepted, strict=True):
            self.held.pop((outcome.lease.work, outcome.lease.id), None)
            if accepted:
                self._known.learn(urls)
                if outcome.error_class in ("callback", "internal"):
                    log.error("%s failed in its callback; see: skitter failed", outcome.lease.host_key)
            else:
                log.warning("a commit came too late and was refused: %s", outcome.lease.host_key)
        return answer.grant

    async def _commit_part(self, part: Outcome, urls: list[str]) -> bool:
        answer = await self._source.commit(self.id, [part])
        if answer.accepted[0]:
            self._known.learn(urls)
        return answer.accepted[0]

    async def _release(self) -> None:
        late, self._late = self._late, []
        back, self._to_release = self._to_release, []
        for leases, is_late in ((late, True), (back, False)):
            current = [lease for lease in leases if self.held.get((lease.work, lease.id)) is lease]
            if current:
                await self._source.release(current, late=is_late)
                for lease in current:
                    del self.held[lease.work, lease.id]
                self._ask_at = 0.0

    async def _tick(self) -> None:
        while True:
            self.watch.ticked_at = time.monotonic()
            await asyncio.sleep(_TICK_SECONDS)
