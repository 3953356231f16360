"""The books of one transaction: the job's record, the hosts and leases it touches, and how rows move.

Everything that the rules change goes through here, so that counters, host queues and indexes always
agree, and each host is written once. The rules themselves are in ``ledger``, ``granting`` and ``committing``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skitter.errors import JobError
from skitter.frontier.ip_limits import IpLimits
from skitter.frontier.tables import JobRow, LeaseRow, RequestState, Row, Tables
from skitter.model.host import Host, Phase
from skitter.model.job import Counts, Job, State
from skitter.model.lease import Lease, Work
from skitter.policy import host_budgets, lost_leases, politeness
from skitter.settings import Settings

BATCH = 1000
"""Rows that one call moves at most on behalf of others: expired leases, delayed rows, woken hosts, the buried."""
MAX_ERROR_CHARS = 8000
"""Of an error's text, its beginning and its end together: a traceback may quote a whole page."""
PACE_SECONDS = 5.0
_CALLED = (Phase.READY, Phase.PARKED)
_COUNTER = {
    RequestState.QUEUED: "queued",
    RequestState.SUSPECT: "queued",
    RequestState.DELAYED: "delayed",
    RequestState.LEASED: "leased",
    RequestState.DONE: "done",
    RequestState.REDIRECTED: "redirected",
    RequestState.DEAD: "dead",
    RequestState.EXCLUDED: "excluded",
}


class Books:
    """One transaction's view of the job."""

    def __init__(self, tables: Tables, job: JobRow, settings: Settings) -> None:
        self.tables = tables
        self.job = job
        self.now = tables.clock()
        self.settings = settings
        self.politeness = settings.politeness
        self.budgets = host_budgets.of_job(settings)
        self.addresses = IpLimits(tables, settings.politeness.per_ip)
        self.hosts: dict[str, Host] = {}
        self.touched: dict[str, Host] = {}
        self.new_holds: list[LeaseRow] = []
        self._ended_holds: list[LeaseRow] = []
        self._may_bury = BATCH
        self.burying = False
        """A host that was given up, or whose budget is spent, has more than this call may bury."""

    def close(self) -> None:
        """Write back what changed; settle what it means for the job's state."""
        self.flush()
        self.settle()
        self.tables.save_job(self.job)

    def flush(self) -> None:
        """Hosts are written once per transaction, not once per change."""
        self.flush_holds()
        while self.touched:
            self._stop_spent()
            hosts, self.touched = list(self.touched.values()), {}
            self._put_down(hosts)
            self.tables.save_hosts(hosts)
            self._call_parked()
        self.addresses.flush()

    def phase_of(self, host: Host) -> Phase:
        """Where the host stands at this moment, its address considered."""
        phase = politeness.phase_of(host, self.now, self.politeness, self.budgets)
        return Phase.PARKED if phase is Phase.READY and self.addresses.is_full(host.address) else phase

    def _put_down(self, hosts: Sequence[Host]) -> None:
        """Each host's new phase."""
        parked: list[Host] = []
        gone: list[str] = []
        for host in hosts:
            before, host.phase = host.phase, self.phase_of(host)
            if host.phase is Phase.PARKED:
                parked.append(host)
                self.job.parked += before is not Phase.PARKED
            elif before is Phase.PARKED:
                gone.append(host.key)
                self.job.parked -= 1
            if before in _CALLED and host.phase not in _CALLED and host.key not in self.addresses.granted:
                # It was to use the room that its address has, and does not: others may.
                self.addresses.look_at(host.address)
        if parked:
            self.tables.park(parked)
        if gone:
            self.tables.unpark(gone)

    def _call_parked(self) -> None:
        """As many hosts of an address as it has room for are put down as ready, in the order of promise 5."""
        for address, room in self.addresses.with_room():
            limit = room
            while True:
                keys = self.tables.parked_hosts(address, limit)
                self.load_hosts(keys)
                # Whose robots.txt is to be read alone may be passed over for long.
                passed_over = sum(lost_leases.is_suspect(self.hosts[key].gate_losses) for key in keys)
                if len(keys) < limit or limit >= room + passed_over:
                    break
                limit = room + passed_over
            for key in keys:
                self.host(key)

    def sample_pace(self) -> None:
        """Two samples, of which the older is five to ten seconds old while pages are committed."""
        job = self.job
        if self.now - job.paced_at[1] >= PACE_SECONDS:
            job.paced_at, job.paced_done = (job.paced_at[1], self.now), (job.paced_done[1], job.done)

    def flush_holds(self) -> None:
        # Saved before dropped: a lease that staged and ended in one batch is in both lists.
        if self.new_holds:
            self.tables.save_holds(self.new_holds)
            self.new_holds = []
        if self._ended_holds:
            self.tables.drop_holds(self._ended_holds)
            self._ended_holds = []

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
            host.in_flight = host.strikes = host.blocks = host.backoff = host.gate_losses = 0
            host.waiting = host.gate = host.trusted = host.permitted = False
            host.given_up = None
            host.pages = host.signs = 0
            host.phase = Phase.IDLE
        return host

    def joined_queue(self, host_key: str, priority: int) -> None:
        """Most links join a queue of which the host knows already, and then its record is not written."""
        if host_key not in self.hosts:
            self.load_hosts([host_key])
        host = self.hosts[host_key]
        if not host.waiting or priority > host.top:
            host = self.host(host_key)
            host.waiting, host.top = True, priority

    def requeue(self, row: Row) -> None:
        """Back to its old place in the queue: seq does not change."""
        if lost_leases.is_suspect(row.losses):
            self.move(row, RequestState.SUSPECT)
        else:
            self.move(row, RequestState.QUEUED)
            self.joined_queue(row.host_key, row.priority)

    def die(self, row: Row, error_class: str, error: str) -> None:
        row.error_class, row.error, row.ended_at = error_class, error, self.now
        self.count_error(error_class, 1)
        self.move(row, RequestState.DEAD)

    def exclude(self, row: Row, rule: str, reason: str) -> None:
        row.error_class, row.error, row.ended_at = rule, reason, self.now
        self.move(row, RequestState.EXCLUDED)

    def move(self, row: Row, place: RequestState) -> None:
        job, old, new = self.job, _COUNTER[row.place], _COUNTER[place]
        setattr(job, old, getattr(job, old) - 1)
        setattr(job, new, getattr(job, new) + 1)
        row.place = place

    def current(self, leases: Iterable[Lease]) -> list[LeaseRow | None]:
        """The fence: only the newest epoch may act."""
        leases = list(leases)
        holds = self.tables.holds([(lease.work, lease.id) for lease in leases])
        found = (holds.get((lease.work, lease.id)) for lease in leases)
        return [
            hold if hold is not None and hold.epoch == lease.epoch else None
            for lease, hold in zip(leases, found, strict=True)
        ]

    def end_hold(self, hold: LeaseRow) -> None:
        self._ended_holds.append(hold)
        if hold.staged:
            # What a lost or released lease has staged was never seen by anyone.
            self.tables.publish(hold.id, hold.epoch, 0, keep=False)
        if hold.work is not Work.SEED:
            host = self.host(hold.host_key)
            host.in_flight -= 1
            self.addresses.give_back(hold.address)
            if hold.work is Work.ROBOTS:
                host.gate = False

    def give_up(self, host: Host, error_class: str, error: str) -> None:
        """A host that is given up takes what waits for it along: a piece now, the rest with calls to come."""
        if host.given_up is None:
            host.given_up = (error_class, f"the host is down: {error}")
        self._bury_piece(host)

    def is_spent(self, host: Host) -> bool:
        return self.budgets is not None and self.budgets.is_spent(host)

    def stop(self, host: Host) -> None:
        """A host whose budget is spent takes what waits for it along, as one that is down does; but excluded."""
        self.mark_stopped(host)
        self._bury_piece(host)

    def mark_stopped(self, host: Host) -> None:
        """The next call that buries finds it."""
        if host.given_up is None and self.budgets is not None:
            host.given_up = (host_budgets.HOST_BUDGET, self.budgets.reason(host))

    def _stop_spent(self) -> None:
        """Something was added, or came back, to a host that has no budget left."""
        if self.budgets is None:
            return
        for host in self.touched.values():
            if host.waiting and host.given_up is None and self.budgets.is_spent(host):
                self.mark_stopped(host)
                self.burying = True

    def bury(self) -> None:
        """The next piece of what hosts have left that were given up."""
        if self.budgets is not None:
            # What came back in this call may have come to a host that has no budget left, or have made room for one.
            self.flush()
        self.burying = False
        # Each has at least one request: one host more than may be buried tells that there are more.
        stored = self.tables.given_up_hosts(self._may_bury + 1 + len(self.touched))
        of_this_call = [key for key, host in self.touched.items() if host.given_up is not None]
        keys = sorted({*of_this_call, *(key for key in stored if key not in self.touched)})[: self._may_bury + 1]
        self.load_hosts(keys)
        for key in keys:
            if not self._may_bury:
                self.burying = True
                return
            self._bury_piece(self.host(key))

    def _bury_piece(self, host: Host) -> None:
        if host.given_up is None:
            return
        error_class, error = host.given_up
        of_budget = error_class == host_budgets.HOST_BUDGET
        if of_budget and not self.is_spent(host):
            # The job goes on with a larger one.
            host.given_up = None
            return
        # One more than may be buried tells whether that was all, and which priority waits next.
        waiting = self.tables.waiting(host.key, self._may_bury + 1)
        rows, left = waiting[: self._may_bury], waiting[self._may_bury :]
        for row in rows:
            if of_budget:
                self.exclude(row, error_class, error)
            else:
                self.die(row, error_class, error)
        self.tables.save_rows(rows)
        self._may_bury -= len(rows)
        host.waiting = bool(left) and left[0].place is RequestState.QUEUED
        if not left:
            host.given_up = None
            return
        self.burying = True
        if host.waiting:
            host.top = left[0].priority

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


def no_such_job(name: str) -> JobError:
    return JobError(f"no such job: {name}", hint="start it with: skitter crawl … --job " + name)


def require_job(row: JobRow | None, name: str) -> Job:
    """The public view of a job's record."""
    if row is None:
        raise no_such_job(name)
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
