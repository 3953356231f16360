"""The rules of the frontier contract, over any store that offers ``Tables``.

A Ledger lives for one transaction: it loads the job's record, applies one contract method, and
``close`` writes back what it changed. Nothing here knows where rows are kept. Decisions that need
no rows are pure functions in ``policy``.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Sequence

from skitter.errors import JobError
from skitter.frontier.tables import Hold, JobRow, Place, Row, Tables
from skitter.model.host import Host, Phase
from skitter.model.job import Counts, Item, Job, State
from skitter.model.lease import Grant, Lease, Work
from skitter.model.outcome import Ending, HostNews, Outcome
from skitter.model.request import Entry
from skitter.policy import losses, politeness
from skitter.settings import Settings

BATCH = 1000
"""Rows that one call moves at most on behalf of others: expired leases, delayed rows, woken hosts."""
POLL_SECONDS = 1.0
"""When nothing is scheduled, a worker asks again this often: another one's commit may have added work."""
SEED_ID = 0
NOTABLE_HOSTS = 16
MAX_ERROR_CHARS = 8000
"""Of an error's text, its beginning and its end together: a traceback may quote a whole page."""
_ENDED = {
    Ending.DONE: Place.DONE,
    Ending.REDIRECTED: Place.REDIRECTED,
    Ending.DEAD: Place.DEAD,
    Ending.EXCLUDED: Place.EXCLUDED,
}
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


class Ledger:
    """One transaction's view of the job."""

    def __init__(self, tables: Tables, job: JobRow, settings: Settings) -> None:
        self.tables = tables
        self.job = job
        self.now = tables.clock()
        self.settings = settings
        self._politeness = settings.politeness
        self._hosts: dict[str, Host] = {}
        self._touched: dict[str, Host] = {}
        self._new_holds: list[Hold] = []
        self._ended_holds: list[Hold] = []

    def close(self) -> None:
        """Write back what changed; settle what it means for the job's state."""
        self._flush()
        self.settle()
        self.tables.save_job(self.job)

    # ---- requests in

    def add(self, entries: Iterable[Entry]) -> int:
        """Dedup and enqueue (promise 3); how many were new."""
        fresh: dict[int, Entry] = {}
        permits: dict[str, None] = {}
        for entry in entries:
            fresh.setdefault(entry.id, entry)
            if entry.permits:
                permits[entry.host_key] = None
        for known in self.tables.known(list(fresh)):
            del fresh[known]
        self._load_hosts(entry.host_key for entry in fresh.values())
        self._permit(permits)
        rows = []
        for entry in fresh.values():
            rows.append(
                Row(self.job.next_seq, entry.id, entry.host_key, entry.priority, entry.payload, added_at=self.now)
            )
            self.job.next_seq += 1
            self._joined_queue(self._host(entry.host_key), entry.priority)
        self.tables.insert(rows)
        self.job.queued += len(rows)
        return len(rows)

    def _permit(self, host_keys: Iterable[str]) -> None:
        """Also for a request that was seen before: a link may have led there first, and the user typed it now."""
        for key in host_keys:
            host = self._host(key)
            if not host.trusted:
                host.trusted = True
                self.tables.permit(key)

    def reopen(self) -> None:
        """New work for a finished job."""
        if self.job.state is State.FINISHED:
            self.job.state = State.RUNNING
            self.job.ended_at = 0.0

    def revive(self, rows: Sequence[Row]) -> int:
        """Dead rows are queued again with a clean slate."""
        for row in rows:
            self._count_error(row.error_class, -1)
            row.attempts = row.losses = row.losses_alone = row.blocks = row.status = 0
            row.ended_at = row.not_before = 0.0
            row.error_class = row.error = ""
            politeness.new_chance(self._host(row.host_key))
            self._requeue(row)
        self.tables.save_rows(rows)
        return len(rows)

    # ---- leasing

    def lease(self, worker: str, limit: int, permits_known: int) -> Grant:
        """What may start now (promises 4 and 5)."""
        self.tables.heard_from(worker, self.now)
        self.reap()
        self._wake()
        self.settle()
        leases: list[Lease] = []
        blocked_by = ""
        if self.job.state is State.RUNNING:
            if self._outbox_is_full():
                blocked_by = "sink"
            else:
                leases = self._grant(worker, self._room(limit))
        self._flush()
        return Grant(
            leases=leases,
            state=self.job.state,
            run=self.job.run,
            ask_again_seconds=self._ask_again(),
            blocked_by=blocked_by,
            permitted=self.tables.permitted(permits_known),
        )

    def _room(self, limit: int) -> int:
        maximum = self.settings.limits.max_pages
        return limit if maximum is None else max(0, min(limit, maximum - self.job.done - self.job.leased))

    def _outbox_is_full(self) -> bool:
        bound = self.settings.limits.max_outbox_items
        return any(self.job.position - sink.progress.position >= bound for sink in self.tables.sinks())

    def _grant(self, worker: str, limit: int) -> list[Lease]:
        held, alone = self.tables.load_of(worker)
        if alone or limit <= 0:
            return []
        seeder = self._seeder()
        if self.job.seeding and seeder is None:
            # What is to be leased alone waits until a worker holds nothing; until then it gets nothing more.
            if losses.is_suspect(self.job.seed_losses):
                return [] if held else [self._hold(Work.SEED, SEED_ID, worker, "", alone=True)]
            seed = self._hold(Work.SEED, SEED_ID, worker, "")
            return [seed, *self._grant_hosts(worker, limit - 1, None)]
        if seeder == worker:
            # A start() may run for hours, and nothing is leased alone beside it: suspects wait, the others do not.
            return self._grant_hosts(worker, limit, None)
        suspect = self._suspect()
        if suspect is not None:
            return [] if held else self._grant_suspect(worker, suspect)
        return self._grant_hosts(worker, limit, held)

    def _seeder(self) -> str | None:
        """Who holds the seeding."""
        found = self.tables.holds([(Work.SEED, SEED_ID)]) if self.job.seeding else {}
        return found[Work.SEED, SEED_ID].worker if found else None

    def _suspect(self) -> Row | None:
        """The first suspect that could start now."""
        for row in self.tables.suspects(32):
            host = self._host(row.host_key)
            if politeness.has_room(host, self._politeness) and politeness.due_at(host) <= self.now:
                return row
        return None

    def _grant_suspect(self, worker: str, row: Row) -> list[Lease]:
        host = self._host(row.host_key)
        if politeness.needs_gate(host, self.now, self._politeness):
            return [self._grant_gate(worker, host, alone=losses.is_suspect(host.gate_losses))]
        lease = self._grant_row(worker, host, row, alone=True)
        self.tables.save_rows([row])
        return [lease]

    def _grant_hosts(self, worker: str, limit: int, held: int | None) -> list[Lease]:
        """Promise 5. ``limit`` candidates are enough: each grant uses up at most one that was not served yet.

        ``held`` is what the worker has already; None: it shall get nothing that is to be leased alone.
        """
        self._flush()
        leases: list[Lease] = []
        changed: list[Row] = []
        heads: dict[str, list[Row]] = {}
        ready = []
        for host in self.tables.ready_hosts(limit):
            self._hosts.setdefault(host.key, host)
            # The limits may have been lowered since the host was put down as ready.
            if politeness.phase_of(host, self.now, self._politeness) is Phase.READY:
                ready.append((-host.top, host.served, host.key))
            else:
                self._host(host.key)
        heapq.heapify(ready)
        # Each host's queue is read in chunks of its fair share; one more row tells the priority that waits next.
        chunk = limit // max(1, len(ready)) + 1
        while ready and len(leases) < limit:
            host = self._host(heapq.heappop(ready)[2])
            if politeness.needs_gate(host, self.now, self._politeness):
                if not losses.is_suspect(host.gate_losses):
                    leases.append(self._grant_gate(worker, host))
                elif held is not None:
                    if not held and not leases:
                        leases.append(self._grant_gate(worker, host, alone=True))
                    break
                continue
            head = heads.get(host.key)
            if head is None:
                head = heads[host.key] = self.tables.head(host.key, chunk + 1)[::-1]
            row = head.pop()
            host.queued -= 1
            leases.append(self._grant_row(worker, host, row))
            changed.append(row)
            if not head and host.queued:
                self.tables.save_rows(changed)
                changed = []
                head = heads[host.key] = self.tables.head(host.key, chunk + 1)[::-1]
            if head:
                host.top = head[-1].priority
            if politeness.phase_of(host, self.now, self._politeness) is Phase.READY:
                heapq.heappush(ready, (-host.top, host.served, host.key))
        self.tables.save_rows(changed)
        return leases

    def _grant_row(self, worker: str, host: Host, row: Row, *, alone: bool = False) -> Lease:
        self._move(row, Place.LEASED)
        return self._hold(Work.PAGE, row.id, worker, host.key, row=row, alone=alone)

    def _grant_gate(self, worker: str, host: Host, *, alone: bool = False) -> Lease:
        lease = self._hold(Work.ROBOTS, gate_id(host.key), worker, host.key, alone=alone)
        host.gate = True
        return lease

    def _hold(
        self, work: Work, request_id: int, worker: str, host_key: str, *, row: Row | None = None, alone: bool = False
    ) -> Lease:
        deadline = self.now + self.settings.limits.lease_seconds
        epoch, self.job.next_epoch = self.job.next_epoch, self.job.next_epoch + 1
        self._new_holds.append(Hold(work, request_id, epoch, worker, host_key, self.now, deadline, alone))
        if work is Work.SEED:
            return Lease(work=work, id=request_id, epoch=epoch, leased_at=self.now, deadline=deadline)
        host = self._host(host_key)
        start_seconds = politeness.granted(host, epoch, self.now, self._politeness)
        return Lease(
            work=work,
            id=request_id,
            epoch=epoch,
            host_key=host_key,
            payload=row.payload if row else b"",
            attempts=row.attempts if row else 0,
            leased_at=self.now,
            deadline=deadline,
            start_seconds=start_seconds,
            # An earlier run may have read a file that this one was told to ignore.
            robots_version=host.robots_version if self._politeness.obey_robots else 0,
            trusted=host.trusted,
        )

    def _ask_again(self) -> float:
        times = [time for time in (self.tables.next_row_due(), self.tables.next_host_due()) if time is not None]
        return min([POLL_SECONDS, *(max(0.0, time - self.now) for time in times)])

    def _wake(self) -> None:
        """Delayed rows and waiting hosts whose time has come."""
        rows = self.tables.due_rows(self.now, BATCH)
        for row in rows:
            self._requeue(row)
        self.tables.save_rows(rows)
        for host in self.tables.due_hosts(self.now, BATCH):
            self._hosts.setdefault(host.key, host)
            self._host(host.key)
        self._flush()

    # ---- leases out and back

    def renew(self, worker: str, leases: Sequence[Lease]) -> list[bool]:
        """Push the deadlines of what is still current."""
        self.tables.heard_from(worker, self.now)
        holds = self._current(leases)
        for hold in holds:
            if hold is not None:
                hold.deadline = self.now + self.settings.limits.lease_seconds
        self.tables.save_holds([hold for hold in holds if hold is not None])
        return [hold is not None for hold in holds]

    def release(self, leases: Sequence[Lease], *, late: bool, touched: bool) -> None:
        """Work goes back as if it had never been leased, but for the delay of a host that it has touched."""
        # By epoch, because a lease that is named twice is handed back once.
        holds = {hold.epoch: hold for hold in self._current(leases) if hold is not None}.values()
        rows = self.tables.rows([hold.id for hold in holds if hold.work is Work.PAGE])
        for hold in holds:
            if hold.work is not Work.SEED:
                host = self._host(hold.host_key)
                if not touched:
                    politeness.given_back(host, hold.epoch, self.now)
                if late:
                    politeness.came_late(host)
            self._end_hold(hold)
            if hold.work is Work.PAGE:
                self._requeue(rows[hold.id])
        self.tables.save_rows(list(rows.values()))

    def reap(self) -> int:
        """Expired leases go back, each with a loss."""
        return self._lose(self.tables.expired_holds(self.now, BATCH))

    def release_worker(self, worker: str) -> int:
        """All leases of a worker that was seen to die."""
        lost = self._lose(self.tables.holds_of(worker))
        self.tables.forget_worker(worker)
        return lost

    def _lose(self, holds: Sequence[Hold]) -> int:
        rows = self.tables.rows([hold.id for hold in holds if hold.work is Work.PAGE])
        self._load_hosts(hold.host_key for hold in holds if hold.host_key)
        given_up: list[Host] = []
        for hold in holds:
            self._end_hold(hold)
            if hold.work is Work.SEED:
                self.job.seed_losses += 1
                if self.job.seed_losses >= losses.LOSSES_IN_ALL:
                    self._seeding_over("start() lost its worker every time")
            elif hold.work is Work.ROBOTS:
                # A robots.txt that kills its reader must not do so for ever.
                host = self._host(hold.host_key)
                host.gate_losses += 1
                if host.gate_losses >= losses.LOSSES_IN_ALL:
                    given_up.append(host)
            else:
                row = rows[hold.id]
                row.losses += 1
                row.losses_alone += hold.alone
                if losses.is_fatal(row.losses_alone):
                    self._die(row, "lost", f"lost its worker {row.losses} times, the last ones with this page alone")
                else:
                    self._requeue(row)
        self.tables.save_rows(list(rows.values()))
        for host in given_up:
            self._give_up(host, "lost", "its robots.txt lost the worker every time")
        return len(holds)

    def _current(self, leases: Iterable[Lease]) -> list[Hold | None]:
        """The fence: only the newest epoch may act."""
        leases = list(leases)
        holds = self.tables.holds([(lease.work, lease.id) for lease in leases])
        found = (holds.get((lease.work, lease.id)) for lease in leases)
        return [
            hold if hold is not None and hold.epoch == lease.epoch else None
            for lease, hold in zip(leases, found, strict=True)
        ]

    def _end_hold(self, hold: Hold) -> None:
        self._ended_holds.append(hold)
        if hold.staged:
            # What a lost or released lease has staged was never seen by anyone.
            self.tables.publish(hold.id, hold.epoch, 0, keep=False)
        if hold.work is not Work.SEED:
            host = self._host(hold.host_key)
            host.in_flight -= 1
            if hold.work is Work.ROBOTS:
                host.gate = False

    # ---- commit

    def commit(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """Promise 2: each outcome takes effect as a whole, or not at all."""
        holds = self._current(outcome.lease for outcome in outcomes)
        rows = self.tables.rows([hold.id for hold in holds if hold is not None and hold.work is Work.PAGE])
        keep_items = bool(self.tables.sinks())
        self._load_hosts(hold.host_key for hold in holds if hold is not None and hold.host_key)
        accepted: list[bool] = []
        ended: set[tuple[Work, int]] = set()
        links: list[Entry] = []
        changed: list[Row] = []
        for outcome, hold in zip(outcomes, holds, strict=True):
            # The same lease may come twice in one batch (a repeated part): only the first end counts.
            if hold is None or (hold.work, hold.id) in ended:
                accepted.append(False)
                continue
            accepted.append(True)
            links.extend(outcome.links)
            self._tally(outcome)
            if outcome.more:
                self._stage(outcome, hold)
                continue
            ended.add((hold.work, hold.id))
            self._publish(outcome, hold, keep_items)
            self._end_hold(hold)
            if hold.work is Work.SEED:
                self._seeding_over(outcome.error if outcome.ending is Ending.DEAD else "")
                continue
            host = self._host(hold.host_key)
            if not outcome.touched:
                politeness.given_back(host, hold.epoch, self.now)
            struck = self._hear(host, hold, outcome)
            if hold.work is Work.PAGE:
                row = rows[hold.id]
                self._end(row, host, outcome, struck=struck)
                changed.append(row)
        self.tables.save_rows(changed)
        self._drop_downed(outcomes, accepted)
        new = self.add(links)
        if len(links) > new:
            self._bump("duplicates", len(links) - new)
        # A lease may follow in this transaction, and its reaper must not find what has just ended.
        self._flush()
        return accepted

    def _end(self, row: Row, host: Host, outcome: Outcome, *, struck: bool) -> None:
        """Where the request goes from here."""
        row.status, row.error_class, row.error = outcome.status, outcome.error_class, storable(outcome.error)
        if outcome.ending is not Ending.RETRY:
            row.attempts += outcome.touched
            row.ended_at = self.now
            if outcome.ending is Ending.DEAD:
                self._count_error(outcome.error_class, 1)
            self._move(row, _ENDED[outcome.ending])
            return
        news = outcome.news
        of_the_host = news is not None and (news.blocked or news.unreachable)
        if news is not None and news.blocked:
            row.blocks += struck
        else:
            row.attempts += struck or not of_the_host
        retry = self.settings.retry
        hopeless = row.blocks >= politeness.BLOCK_LIMIT or row.attempts >= retry.max_attempts
        if hopeless or (of_the_host and politeness.is_down(host, retry)):
            self._die(row, row.error_class, row.error)
        elif of_the_host:
            self._requeue(row)
        else:
            row.not_before = self.now + outcome.retry_seconds
            self._move(row, Place.DELAYED)

    def _hear(self, host: Host, hold: Hold, outcome: Outcome) -> bool:
        """Take in the host news; True if it was a strike."""
        news = outcome.news
        if news is None:
            return False
        struck = self._take_news(host, hold, outcome, news)
        self._note(host)
        return struck

    def _take_news(self, host: Host, hold: Hold, outcome: Outcome, news: HostNews) -> bool:
        if news.address:
            host.address = news.address
        if news.robots is not None:
            self._learn_robots(host, hold, news)
        if news.answered:
            politeness.answered(host, news.latency_seconds)
        if news.blocked:
            host.error_class = outcome.error_class
            first = self._politeness.host_backoff_seconds
            return politeness.blocked(host, self.now, hold.leased_at, news.retry_after_seconds, first)
        if news.unreachable:
            host.error_class = outcome.error_class
            return politeness.unreachable(host, self.now, hold.leased_at, self.settings.retry)
        return False

    def _note(self, host: Host) -> None:
        """Remember a few slow and troubled hosts for people: an index of all would cost more than the crawl."""
        notable = self.job.notable
        notable[host.key] = (host.strikes + host.blocks) * politeness.MAX_PAUSE_SECONDS + host.latency_seconds
        if len(notable) > NOTABLE_HOSTS:
            del notable[min(notable, key=lambda key: notable[key])]

    def _learn_robots(self, host: Host, hold: Hold, news: HostNews) -> None:
        assert news.robots is not None
        record = news.robots
        host.crawl_delay_seconds = record.crawl_delay_seconds
        host.robots_until = self.now + self._politeness.robots_seconds
        host.gate_losses = 0
        # An empty one is written only over an older one: most hosts have none.
        if record.text or host.robots_version:
            stored = type(record)(record.text, record.crawl_delay_seconds, hold.epoch)
            self.tables.save_robots(host.key, stored)
        host.robots_version = hold.epoch if record.text else 0
        # The gate itself was a request to the host: its first page waits for the delay just learnt.
        delay = politeness.delay_of(host, self._politeness)
        if delay:
            host.due = max(host.due, self.now + delay)

    def _drop_downed(self, outcomes: Sequence[Outcome], accepted: Sequence[bool]) -> None:
        """A host that is given up takes its queue with it."""
        for outcome, was_accepted in zip(outcomes, accepted, strict=True):
            news = outcome.news
            if not was_accepted or news is None or not (news.blocked or news.unreachable):
                continue
            host = self._host(outcome.lease.host_key)
            if politeness.is_down(host, self.settings.retry):
                self._give_up(host, outcome.error_class, storable(outcome.error))

    def _give_up(self, host: Host, error_class: str, error: str) -> None:
        while rows := self.tables.waiting(host.key, BATCH):
            for row in rows:
                if row.place is Place.QUEUED:
                    host.queued -= 1
                self._die(row, error_class, f"the host is down: {error}")
            self.tables.save_rows(rows)

    def _stage(self, outcome: Outcome, hold: Hold) -> None:
        if outcome.items:
            self.tables.stage(hold.id, hold.epoch, outcome.items)
            hold.staged = True
            self._new_holds.append(hold)

    def _publish(self, outcome: Outcome, hold: Hold, keep: bool) -> None:
        staged = 0
        if hold.staged:
            # A page that fails in its last part takes the items of the earlier ones with it.
            shown = outcome.ending is Ending.DONE
            staged = self.tables.publish(hold.id, hold.epoch, self.job.position, keep=keep and shown)
            staged *= shown
            hold.staged = False
        total = staged + len(outcome.items)
        if not total:
            return
        if keep:
            first = self.job.position + staged + 1
            self.tables.save_items(
                [Item(first + n, hold.id, staged + n, record) for n, record in enumerate(outcome.items)]
            )
            self.job.position += total
        self._bump("items", total)

    # ---- small change

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

    def _host(self, key: str) -> Host:
        """The host's record, to be changed: it will be written back."""
        host = self._touched.get(key)
        if host is None:
            if key not in self._hosts:
                self._load_hosts([key])
            host = self._touched[key] = self._hosts[key]
        return host

    def _load_hosts(self, keys: Iterable[str]) -> None:
        missing = [key for key in dict.fromkeys(keys) if key not in self._hosts]
        if missing:
            found = self.tables.hosts(missing)
            for key in missing:
                self._hosts[key] = self._of_this_run(found.get(key) or Host(key))

    def _of_this_run(self, host: Host) -> Host:
        """A new run begins with an empty queue and forgiven troubles; delays, blocks and robots.txt stay."""
        if host.run != self.job.run:
            host.run = self.job.run
            host.queued = host.in_flight = host.strikes = host.blocks = host.gate_losses = 0
            host.gate = host.trusted = False
        return host

    def _flush(self) -> None:
        """Hosts and leases are written once per step, not once per change."""
        # Saved before dropped: a lease that staged and ended in one batch is in both lists.
        self.tables.save_holds(self._new_holds)
        self.tables.drop_holds(self._ended_holds)
        self._new_holds, self._ended_holds = [], []
        for host in self._touched.values():
            host.phase = politeness.phase_of(host, self.now, self._politeness)
        self.tables.save_hosts(list(self._touched.values()))
        self._touched = {}

    def _joined_queue(self, host: Host, priority: int) -> None:
        host.top = priority if host.queued == 0 else max(host.top, priority)
        host.queued += 1

    def _requeue(self, row: Row) -> None:
        """Back to its old place in the queue: seq does not change."""
        if losses.is_suspect(row.losses):
            self._move(row, Place.SUSPECT)
        else:
            self._move(row, Place.QUEUED)
            self._joined_queue(self._host(row.host_key), row.priority)

    def _die(self, row: Row, error_class: str, error: str) -> None:
        row.error_class, row.error, row.ended_at = error_class, error, self.now
        self._count_error(error_class, 1)
        self._move(row, Place.DEAD)

    def _move(self, row: Row, place: Place) -> None:
        job = self.job
        for counter, step in ((_COUNTER[row.place], -1), (_COUNTER[place], 1)):
            setattr(job, counter, getattr(job, counter) + step)
        row.place = place

    def _count_error(self, error_class: str, step: int) -> None:
        errors = self.job.errors
        errors[error_class] = errors.get(error_class, 0) + step
        if not errors[error_class]:
            del errors[error_class]

    def _tally(self, outcome: Outcome) -> None:
        for name, amount in outcome.tally.items():
            self._bump(name, amount)

    def _bump(self, name: str, amount: int) -> None:
        self.job.tally[name] = self.job.tally.get(name, 0) + amount

    def _seeding_over(self, problem: str) -> None:
        self.job.seeding = False
        if problem:
            self.job.reason = problem

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


def storable(text: str) -> str:
    """An error as every store can keep it: of bounded length, and without halves of surrogate pairs."""
    if len(text) > MAX_ERROR_CHARS:
        text = text[: MAX_ERROR_CHARS // 2] + "\n…\n" + text[-MAX_ERROR_CHARS // 2 :]
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def gate_id(host_key: str) -> int:
    """The lease id of a host's gate: the same in every process, and never stored as a request."""
    return int.from_bytes(hashlib.blake2b(host_key.encode(), digest_size=8).digest(), "big", signed=True)


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
