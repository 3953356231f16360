"""What a worker holds, and everything on its way back to the frontier: outcomes to commit, leases to release.

A lease that was lost in the meantime is dropped here, whatever became of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from skitter.frontier.contract import WorkSource, distant_source
from skitter.model.lease import Call, Grant, Lease, Work
from skitter.model.outcome import FAILED_ERRBACKS, Committed, Outcome
from skitter.observe import events
from skitter.observe.node_counters import NodeCounters
from skitter.sinks.contract import Archive
from skitter.spiders.stats import Stats
from skitter.worker.call_state import CallState
from skitter.worker.callback_failure_log import CallbackFailures
from skitter.worker.commit_events import tell_commit
from skitter.worker.known_urls import KnownUrls
from skitter.worker.session_jars import SessionJars
from skitter.worker.worker_stats import CallbackStats, PageAverages

log = logging.getLogger("skitter.worker")
Ended = tuple[Outcome, list[str]]
"""An outcome, and the URLs to remember once it is accepted."""


class CommitQueue:
    """Between a worker's tasks and its frontier."""

    def __init__(
        self,
        worker_id: str,
        source: WorkSource,
        known: KnownUrls,
        archive: Archive | None = None,
        callback_stats: CallbackStats | None = None,
        *,
        slots: int = 0,
        generation_seconds: float = 0.0,
        counters: NodeCounters | None = None,
    ) -> None:
        """``slots``: how many leases the worker works on at a time.

        ``generation_seconds``: how often the store forgets pages that are done; 0: never. ``counters``: where the node
        has metrics.
        """
        self.held: dict[int, Lease] = {}
        """Every lease that is not committed or released yet, by its epoch."""
        self.committed = 0
        """Outcomes that were accepted."""
        self.outcomes: list[Ended] = []
        self.late: list[Lease] = []
        """Granted too late to be started."""
        self.unstarted: list[Lease] = []
        self.broken_off: list[Lease] = []
        """They may have been at the socket."""
        self._worker_id = worker_id
        self._source = source
        self._distant = distant_source(source)
        self._known = known
        self._archive = archive
        self.callback_failures = CallbackFailures(worker_id)
        self.page_averages = PageAverages()
        self._callback_stats = callback_stats or CallbackStats()
        self.jars: SessionJars | None = None
        """What the worker knows of cookies."""
        self.stats = Stats()
        """Where hooks count what belongs to no page."""
        self._store: str | None = None
        self._generation_seconds = generation_seconds
        self._generation = 0
        self.calls = CallState(slots)
        self.counters = counters
        self.told_round_trip_seconds = 0.0
        """What the last call said of its way."""
        self._turn = asyncio.Lock()
        """Held by lease and commit: a frontier remembers the last call of a worker, and no more."""

    @property
    def waiting(self) -> int:
        """How much there is to hand over."""
        return len(self.outcomes) + len(self.late) + len(self.unstarted) + len(self.broken_off)

    def drop(self, lease: Lease) -> bool:
        """It belongs to another worker now. False: that was known."""
        if self.held.pop(lease.epoch, None) is None:
            return False
        log.warning("lost the lease of %s", name_of(lease))
        return True

    def meet(self, grant: Grant) -> None:
        """The store that has granted; what is known of an earlier life or generation of it is forgotten."""
        generation = int(grant.now / self._generation_seconds) if self._generation_seconds else 0
        if (self._store, self._generation) == (grant.store, generation):
            return
        if self._store not in (None, grant.store):
            events.emit(events.FRONTIER_REPLACED(worker=self._worker_id))
        self._known.forget(f"{grant.store}/{generation}")
        self._store, self._generation = grant.store, generation

    def _learn(self, urls: Sequence[str], answer: Committed) -> None:
        """Remember URLs that a commit has added, unless another store than the one that grants has taken it: a master
        that was replaced meanwhile answers for a moment."""
        if answer.store in ("", self._store):
            self._known.learn(urls)

    def take_outcomes(self) -> list[Ended]:
        """What is to be committed now."""
        batch, self.outcomes = self.outcomes, []
        return [pair for pair in batch if pair[0].lease.epoch in self.held]

    def _next_call(self) -> Call:
        """The state of the worker, for its next call."""
        call = self.calls.next(self._distant.round_trip_seconds if self._distant is not None else 0.0)
        self.told_round_trip_seconds = call.round_trip_seconds
        return call

    async def lease(self, want: int) -> Grant:
        """Ask for work."""
        async with self._turn:
            began = time.monotonic()
            grant = await self._source.lease(self._worker_id, want, call=self._next_call())
            self.calls.learn(grant)
            if self.counters is not None:
                self.counters.called("lease", time.monotonic() - began)
                self.counters.granted(grant)
            return grant

    async def _commit(self, outcomes: list[Outcome], want: int = 0) -> Committed:
        async with self._turn:
            began = time.monotonic()
            answer = await self._source.commit(self._worker_id, outcomes, want, call=self._next_call())
            if answer.grant is not None:
                self.calls.learn(answer.grant)
            if self.counters is not None:
                self.counters.called("commit", time.monotonic() - began)
                if answer.grant is not None:
                    self.counters.granted(answer.grant)
            return answer

    async def commit(self, batch: list[Ended], want: int) -> Grant | None:
        """Make the outcomes true; new leases, if some are wanted."""
        if self._archive is not None:
            # First the pages, then what refers to them: whoever dies in between leaves pages that nobody refers to.
            await self._archive.sync(self.held)
        outcomes = [outcome for outcome, _ in batch]
        if counted := self._callback_stats.take_tally():
            # Once a commit and not once a page: the store adds up what it is sent name by name.
            outcomes[0].tally = outcomes[0].tally | counted
        if outside := self.stats.take_outside():
            outcomes[0].tally = _sum(outcomes[0].tally, outside)
        jars = self.jars if self.jars is not None and self.jars.has_changes else None
        if jars is not None:
            jars.begin_commit(outcomes)
        answer = await self._commit(outcomes, want)
        if jars is not None:
            jars.end_commit(outcomes, answer.accepted, answer.jars)
        accepted_outcomes = []
        for (outcome, urls), accepted in zip(batch, answer.accepted, strict=True):
            self.held.pop(outcome.lease.epoch, None)
            if not accepted:
                log.warning("a commit came too late and was refused: %s", name_of(outcome.lease))
                continue
            self.committed += 1
            accepted_outcomes.append(outcome)
            if self._archive is not None:
                self._archive.committed(outcome.lease.epoch)
            self._learn(urls, answer)
            if outcome.error_class == "callback" or FAILED_ERRBACKS in outcome.tally:
                self.callback_failures.failed(name_of(outcome.lease), outcome.error)
        self.page_averages.add(accepted_outcomes)
        if self.counters is not None:
            self.counters.committed(outcomes, answer)
        tell_commit(self._worker_id, outcomes, answer)
        return answer.grant

    async def commit_part(self, part: Outcome, urls: list[str]) -> bool:
        """A part of a large page, ahead of the rest; False: its lease is lost."""
        answer = await self._commit([part])
        if answer.accepted[0]:
            self._learn(urls, answer)
            if self.counters is not None:
                self.counters.part_committed(part, answer.new_links)
            tell_commit(self._worker_id, [part], answer)
        return answer.accepted[0]

    async def release(self) -> bool:
        """Hand back what is not to be worked on; whether there was anything."""
        any_released = False
        for back, late, touched in (
            (self.late, True, False),
            (self.unstarted, False, False),
            (self.broken_off, False, True),
        ):
            leases = [lease for lease in back if self.held.pop(lease.epoch, None) is not None]
            back.clear()
            if leases:
                began = time.monotonic()
                await self._source.release(leases, late=late, touched=touched)
                if self.counters is not None:
                    self.counters.called("release", time.monotonic() - began)
                any_released = True
        return any_released


def _sum(tally: dict[str, int], more: dict[str, int]) -> dict[str, int]:
    return tally | {name: tally.get(name, 0) + amount for name, amount in more.items()}


def name_of(lease: Lease) -> str:
    """For messages."""
    if lease.work is not Work.PAGE:
        return f"{lease.host_key}/robots.txt" if lease.work is Work.ROBOTS else "start()"
    try:
        return lease.request.url
    except Exception:  # noqa: BLE001  that it cannot be read may be what the message is about
        return lease.host_key
