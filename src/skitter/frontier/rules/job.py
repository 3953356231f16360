"""Rules of the job: how a run begins, what a command or a changed setting does, and when the job ends.

Promise 6 (``finished`` exactly when nothing is left) and the ends by ``max_pages`` and by a stop are in ``settle``; how
many more pages ``max_pages`` lets be leased is in ``pages_left``.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from skitter.errors import JobError
from skitter.frontier.contract import RATE_SAMPLE_SECONDS, SINK_OWNER_SECONDS
from skitter.frontier.damage_errors import settings_of
from skitter.frontier.dedup_settings import check_dedup, refuse_other_dedup
from skitter.frontier.tables import JobRow, ShortenedDelay, SinkRow, Tables
from skitter.model.counters import counted_name
from skitter.model.job import Begun, CloseClaim, Command, JobSpec, SinkProgress, State, StopReason
from skitter.policy import lost_leases, politeness
from skitter.settings import Limits


def begin(tables: Tables, spec: JobSpec, *, fresh: bool, sinks: Sequence[str]) -> Begun:
    """Create, resume or rerun the job, and keep items for ``sinks`` from now on."""
    begun = _begin(tables, spec, fresh)
    record = tables.load_job()
    assert record is not None
    for target in set(sinks) - {sink.target for sink in tables.sinks()}:
        tables.save_sink(SinkRow(target, SinkProgress(position=record.position)))
    return begun


def _begin(tables: Tables, spec: JobSpec, fresh: bool) -> Begun:
    record, now = tables.load_job(), tables.clock()
    check_dedup(spec, can_forget=tables.can_forget)
    if record is None:
        tables.save_job(JobRow(spec=spec, secret=secrets.token_bytes(16), started_at=now))
        return Begun.NEW
    is_begun = record.spec.is_begun(spec)
    spec = spec.after(record.spec)
    # Finished in the store is not finished for the user while a target lacks items, or on_close was not called.
    over = (
        record.state is State.FINISHED
        and not _awaits_close(record)
        and all(sink.progress.closed and sink.progress.position >= record.position for sink in tables.sinks())
    )
    if (fresh or over) and not is_begun:
        tables.forget_run()
        # Epochs and positions go on in a new run, so that nothing of an old one fits.
        row = JobRow(spec=spec, secret=record.secret, run=record.run + 1, started_at=now, position=record.position)
        row.next_epoch = record.next_epoch
        tables.save_job(row)
        return Begun.RERUN
    if not record.spec.same_work(spec):
        raise JobError(
            f"job {spec.name} is unfinished and has another spider, other seeds or other arguments",
            hint="fresh=True (--fresh) discards the unfinished run; job=NAME (--job NAME) keeps both",
        )
    refuse_other_dedup(record.spec, spec)
    use_spec(record, spec.keeping_changes(record.spec), now)
    # Whoever starts the job again vouches for its start(): a few kill -9 must not end the seeding.
    record.seed_losses = 0
    if record.state in (State.STOPPED, State.DRAINING):
        record.state, record.ended_at, record.reason = State.RUNNING, 0.0, ""
    tables.save_job(record)
    return Begun.RESUMED


def _awaits_close(record: JobRow) -> bool:
    return record.state is State.FINISHED and record.spec.on_close and not record.closed


def use_spec(record: JobRow, spec: JobSpec, now: float) -> None:
    """The job goes on with other settings, which hold from the next transaction on."""
    shortened = politeness.shortened_delay(settings_of(record.spec).politeness, settings_of(spec).politeness)
    if shortened:
        until = now + shortened + politeness.MAX_START_SECONDS + politeness.PACE_WINDOW_SECONDS
        earlier = record.shortened.until if record.shortened is not None else 0.0
        record.shortened = ShortenedDelay(now, record.next_epoch, max(until, earlier))
        record.reschedule_after = 0.0
    record.spec = spec


class JobRules:
    """The job's state, in one transaction."""

    def __init__(self, tables: Tables, record: JobRow, now: float, limits: Limits) -> None:
        self._tables = tables
        self._record = record
        self._now = now
        self._max_pages = limits.max_pages
        self._max_in_flight = limits.max_in_flight

    def command(self, command: Command, reason: StopReason = StopReason.COMMAND) -> None:
        """Pause, resume or stop. Telling it twice changes nothing."""
        record = self._record
        if command is Command.PAUSE and record.state is State.RUNNING:
            record.state = State.PAUSED
        elif command is Command.RESUME and record.state in (State.PAUSED, State.STOPPED, State.DRAINING):
            record.state, record.ended_at, record.reason = State.RUNNING, 0.0, ""
        elif command is Command.STOP and record.state in (State.RUNNING, State.PAUSED):
            record.state, record.reason = State.DRAINING, reason.value
        self.settle()

    def settle(self) -> None:
        """Promise 6, and the ends of a drain and of ``max_pages``."""
        record = self._record
        if record.state is State.FINISHED:
            return
        if not record.seeding and not record.intakes and record.queued + record.delayed + record.leased == 0:
            record.state, record.ended_at = State.FINISHED, self._now
            return
        maximum = self._max_pages
        if record.state is State.RUNNING and maximum is not None and record.done >= maximum:
            record.state, record.ended_at, record.reason = State.STOPPED, self._now, "max_pages"
        elif record.state is State.DRAINING and not self._tables.any_lease():
            record.state, record.ended_at = State.STOPPED, self._now

    def pages_left(self, limit: int) -> int:
        """How many of ``limit`` pages may be leased: done and leased together never exceed ``max_pages``, and leased
        ones never ``max_in_flight``."""
        record = self._record
        if self._max_pages is not None:
            limit = min(limit, self._max_pages - record.done - record.leased)
        if self._max_in_flight is not None:
            limit = min(limit, self._max_in_flight - record.leased)
        return limit

    def reopen(self) -> None:
        """A finished job has new work, and runs again."""
        if self._record.state is State.FINISHED:
            self._record.state = State.RUNNING
            self._record.ended_at = 0.0
            self._record.close_owner, self._record.close_owned_until, self._record.closed = "", 0.0, False

    def claim_close(self, owner: str, *, done: bool) -> CloseClaim:
        """Give the call of ``on_close`` to one owner at a time; with ``done`` it is over."""
        record = self._record
        if not _awaits_close(record):
            return CloseClaim.NONE
        if record.close_owner not in ("", owner) and record.close_owned_until > self._now:
            return CloseClaim.OTHERS
        if done:
            record.close_owner, record.close_owned_until, record.closed = "", 0.0, True
            return CloseClaim.NONE
        record.close_owner, record.close_owned_until = owner, self._now + SINK_OWNER_SECONDS
        return CloseClaim.MINE

    def release_close(self, owner: str) -> None:
        """The owner was seen to die: another one may call ``on_close`` at once."""
        if self._record.close_owner == owner:
            self._record.close_owner, self._record.close_owned_until = "", 0.0

    def end_seeding(self, problem: str) -> None:
        """The spider's ``start()`` is over; ``problem``: why it did not come to its end."""
        self._record.seeding = False
        if problem:
            self._record.reason = problem

    def lose_seeding(self) -> None:
        """A worker was lost while it ran ``start()``."""
        self._record.seed_losses += 1
        if self._record.seed_losses >= lost_leases.LOSSES_IN_ALL:
            self.end_seeding("the worker was lost every time it ran start()")

    def sample_rate(self) -> None:
        """Take a sample of what is done. The older of two is five to ten seconds old while pages are committed."""
        record = self._record
        if self._now - record.sampled_at[1] >= RATE_SAMPLE_SECONDS:
            record.sampled_at = (record.sampled_at[1], self._now)
            record.sampled_done = (record.sampled_done[1], record.done)

    def count(self, name: str, amount: int) -> None:
        """Add to one of the counters of accepted commits."""
        tally = self._record.tally
        name = counted_name(name, tally)
        tally[name] = tally.get(name, 0) + amount
