"""The books of one transaction: the job's record, the hosts and leases it touches, and how rows move.

Everything that the rules change goes through here, so that counters, host queues and indexes always
agree, and each host is written once. The rules themselves are in ``ledger``, ``granting`` and ``committing``.
"""

from __future__ import annotations

from collections.abc import Iterable

from skitter.errors import JobError
from skitter.frontier.tables import Hold, JobRow, Place, Row, Tables
from skitter.model.host import Host
from skitter.model.job import Counts, Job, State
from skitter.model.lease import Lease, Work
from skitter.policy import losses, politeness
from skitter.settings import Settings

BATCH = 1000
"""Rows that one call moves at most on behalf of others: expired leases, delayed rows, woken hosts."""
MAX_ERROR_CHARS = 8000
"""Of an error's text, its beginning and its end together: a traceback may quote a whole page."""
CROWDED_HOSTS = 16
PACE_SECONDS = 5.0
_COUNTER = {
    Place.QUEUED: "queued",
    Place.SUSPECT: "queued",
    Place.DELAYED: "delayed",
    Place.LEASED: "leased",
    Place.DONE: "done",
    Place.REDIRECTED: "redirected",
    Place.DEAD: "dead",
    Place.EXCLUDED: "excluded",
}


class Books:
    """One transaction's view of the job."""

    def __init__(self, tables: Tables, job: JobRow, settings: Settings) -> None:
        self.tables = tables
        self.job = job
        self.now = tables.clock()
        self.settings = settings
        self.politeness = settings.politeness
        self.hosts: dict[str, Host] = {}
        self.touched: dict[str, Host] = {}
        self.new_holds: list[Hold] = []
        self._ended_holds: list[Hold] = []

    def close(self) -> None:
        """Write back what changed; settle what it means for the job's state."""
        self.flush()
        self.settle()
        self.tables.save_job(self.job)

    def flush(self) -> None:
        """Hosts are written once per transaction, not once per change."""
        self.flush_holds()
        for host in self.touched.values():
            self._note_queue(host)
            host.phase = politeness.phase_of(host, self.now, self.politeness)
        self.tables.save_hosts(list(self.touched.values()))
        self.touched = {}

    def _note_queue(self, host: Host) -> None:
        """Remember a few long queues for people. Whoever's queue changes comes by here, so those kept are exact."""
        crowded = self.job.crowded
        if host.key in crowded:
            if host.queued:
                crowded[host.key] = host.queued
            else:
                del crowded[host.key]
        elif host.queued and (len(crowded) < CROWDED_HOSTS or host.queued > min(crowded.values())):
            if len(crowded) >= CROWDED_HOSTS:
                del crowded[min(crowded, key=lambda key: crowded[key])]
            crowded[host.key] = host.queued

    def sample_pace(self) -> None:
        """Two samples, of which the older is five to ten seconds old while pages are committed."""
        job = self.job
        if self.now - job.paced_at[1] >= PACE_SECONDS:
            job.paced_at, job.paced_done = (job.paced_at[1], self.now), (job.paced_done[1], job.done)

    def flush_holds(self) -> None:
        # Saved before dropped: a lease that staged and ended in one batch is in both lists.
        self.tables.save_holds(self.new_holds)
        self.tables.drop_holds(self._ended_holds)
        self.new_holds, self._ended_holds = [], []

    def host(self, key: str) -> Host:
        """The host's record, to be changed: it will be written back."""
        host = self.touched.get(key)
        if host is None:
            if key not in self.hosts:
                self.load_hosts([key])
            host = self.touched[key] = self.hosts[key]
        return host

    def load_hosts(self, keys: Iterable[str]) -> None:
        missing = [key for key in dict.fromkeys(keys) if key not in self.hosts]
        if missing:
            found = self.tables.hosts(missing)
            for key in missing:
                self.hosts[key] = self._of_this_run(found.get(key) or Host(key))

    def _of_this_run(self, host: Host) -> Host:
        """A new run begins with an empty queue and forgiven troubles; delays, blocks and robots.txt stay."""
        if host.run != self.job.run:
            host.run = self.job.run
            host.queued = host.in_flight = host.strikes = host.blocks = host.gate_losses = 0
            host.gate = host.trusted = False
        return host

    def joined_queue(self, host: Host, priority: int) -> None:
        host.top = priority if host.queued == 0 else max(host.top, priority)
        host.queued += 1

    def requeue(self, row: Row) -> None:
        """Back to its old place in the queue: seq does not change."""
        if losses.is_suspect(row.losses):
            self.move(row, Place.SUSPECT)
        else:
            self.move(row, Place.QUEUED)
            self.joined_queue(self.host(row.host_key), row.priority)

    def die(self, row: Row, error_class: str, error: str) -> None:
        row.error_class, row.error, row.ended_at = error_class, error, self.now
        self.count_error(error_class, 1)
        self.move(row, Place.DEAD)

    def move(self, row: Row, place: Place) -> None:
        job = self.job
        for counter, step in ((_COUNTER[row.place], -1), (_COUNTER[place], 1)):
            setattr(job, counter, getattr(job, counter) + step)
        row.place = place

    def current(self, leases: Iterable[Lease]) -> list[Hold | None]:
        """The fence: only the newest epoch may act."""
        leases = list(leases)
        holds = self.tables.holds([(lease.work, lease.id) for lease in leases])
        found = (holds.get((lease.work, lease.id)) for lease in leases)
        return [
            hold if hold is not None and hold.epoch == lease.epoch else None
            for lease, hold in zip(leases, found, strict=True)
        ]

    def end_hold(self, hold: Hold) -> None:
        self._ended_holds.append(hold)
        if hold.staged:
            # What a lost or released lease has staged was never seen by anyone.
            self.tables.publish(hold.id, hold.epoch, 0, keep=False)
        if hold.work is not Work.SEED:
            host = self.host(hold.host_key)
            host.in_flight -= 1
            if hold.work is Work.ROBOTS:
                host.gate = False

    def give_up(self, host: Host, error_class: str, error: str) -> None:
        while rows := self.tables.waiting(host.key, BATCH):
            for row in rows:
                if row.place is Place.QUEUED:
                    host.queued -= 1
                self.die(row, error_class, f"the host is down: {error}")
            self.tables.save_rows(rows)

    def seeding_over(self, problem: str) -> None:
        self.job.seeding = False
        if problem:
            self.job.reason = problem

    def count_error(self, error_class: str, step: int) -> None:
        errors = self.job.errors
        errors[error_class] = errors.get(error_class, 0) + step
        if not errors[error_class]:
            del errors[error_class]

    def bump(self, name: str, amount: int) -> None:
        self.job.tally[name] = self.job.tally.get(name, 0) + amount

    def settle(self) -> None:
        """Promise 6, and the ends of a drain and of a limit."""
        job = self.job
        if job.state is State.FINISHED:
            return
        if not job.seeding and job.queued + job.delayed + job.leased == 0:
            job.state, job.ended_at = State.FINISHED, self.now
            return
        maximum = self.settings.limits.max_pages
        if job.state is State.RUNNING and maximum is not None and job.done >= maximum:
            job.state, job.ended_at, job.reason = State.STOPPED, self.now, "max_pages"
        elif job.state is State.DRAINING and not self.tables.any_hold():
            job.state, job.ended_at = State.STOPPED, self.now

    def counts(self) -> Counts:
        job = self.job
        return Counts(
            queued=job.queued,
            delayed=job.delayed,
            leased=job.leased,
            done=job.done,
            redirected=job.redirected,
            dead=job.dead,
            excluded=job.excluded,
        )


def storable(text: str) -> str:
    """An error as every store can keep it: of bounded length, and without halves of surrogate pairs."""
    if len(text) > MAX_ERROR_CHARS:
        text = text[: MAX_ERROR_CHARS // 2] + "\n…\n" + text[-MAX_ERROR_CHARS // 2 :]
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def pages_per_second(row: JobRow, now: float) -> float:
    """The rate of now, of a job's record. A run that is younger than the samples is measured from its start."""
    if row.ended_at:
        return 0.0
    # Of two samples the older one may be from before a long silence, or be none.
    at, done = row.paced_at[0], row.paced_done[0]
    if at < row.started_at:
        at, done = row.started_at, 0
    return max(0, row.done - done) / (now - at) if now > at else 0.0


def as_job(row: JobRow | None, name: str) -> Job:
    """The public view of a job's record."""
    if row is None:
        raise JobError(f"no such job: {name}", hint="start it with: skitter crawl … --job " + name)
    return Job(
        spec=row.spec,
        state=row.state,
        run=row.run,
        secret=row.secret,
        seeding=row.seeding,
        started_at=row.started_at,
        ended_at=row.ended_at,
        reason=row.reason,
    )
