"""Who is short, and what share of the ready requests a worker may be granted meanwhile (``policy.shares``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skitter.frontier.contract import POLL_SECONDS
from skitter.frontier.tables import JobRow
from skitter.model.lease import Work
from skitter.model.outcome import Ending, Outcome
from skitter.policy import shares

_FAILED = (Ending.RETRY, Ending.FAILED)


def note_outcomes(
    record: JobRow, now: float, worker: str, outcomes: Sequence[Outcome], accepted: Sequence[bool]
) -> None:
    """While others are short: how long pages were held, and how much the slots of this worker are worth.

    One that fails fast gets no more for it, and its failures do not make pages look fast.
    """
    if len(record.short_workers) == (worker in record.short_workers):
        return
    pairs = zip(outcomes, accepted, strict=True)
    ended = [outcome for outcome, was_accepted in pairs if was_accepted and not outcome.more]
    good = [outcome for outcome in ended if outcome.ending not in _FAILED]
    held = [now - outcome.lease.leased_at for outcome in good if outcome.lease.work is not Work.SEED]
    record.held_seconds = shares.held_after(record.held_seconds, held)
    if (short := record.short_workers.get(worker)) is not None:
        short.quality = shares.quality_after(short.quality, len(good), len(ended))


class ShareRules:
    """The share of one worker, in one transaction."""

    def __init__(self, record: JobRow, now: float, worker: str, slots: int) -> None:
        """``slots``: how many leases the worker works on at a time; 0: it gets all there is."""
        self._record = record
        self._now = now
        self._worker = worker
        self._slots = slots
        self._quality = 1.0
        self._is_short = False

    def forget(self) -> None:
        """The worker asks again: whether it is short will be seen."""
        short = self._record.short_workers
        if short and (before := short.pop(self._worker, None)) is not None:
            self._quality = before.quality

    def share(self, wanted: int, count_ready: Callable[[], int]) -> int:
        """How many of the requests that are ready the worker may be granted, of those it wants."""
        short = self._record.short_workers
        if not short or not self._slots:
            return wanted
        others = shares.claimants(short.values(), self._record.held_seconds, self._now)
        if not others:
            return wanted
        ready = count_ready()
        worker = shares.ShortWorker(self._slots, wanted, self._now, self._quality)
        share = shares.share_of(worker, others, ready, self._now)
        if share < min(wanted, ready):
            self._record.shared_at = self._now
        return share

    def note_missing(self, missing: int) -> None:
        """The worker was granted so many fewer than it wanted."""
        if not self._slots:
            return
        self._is_short = True
        short = self._record.short_workers
        if len(short) >= shares.SHORT_WORKERS:
            for name in [name for name, other in short.items() if not self._is_recent(other.asks_at)]:
                del short[name]
        if len(short) < shares.SHORT_WORKERS:
            asks_at = self._now + self.poll_seconds()
            short[self._worker] = shares.ShortWorker(self._slots, missing, asks_at, self._quality)

    def poll_seconds(self) -> float:
        """When the worker asks again if nothing is scheduled: what others have left for it shall not lie for long."""
        is_shared = self._is_short and self._is_recent(self._record.shared_at)
        return shares.SHARED_POLL_SECONDS if is_shared else POLL_SECONDS

    def _is_recent(self, time: float) -> bool:
        return time > self._now - shares.SHORT_SECONDS
