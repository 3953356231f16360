"""What may be leased now: the order of promise 5, the host gate, suspects and the seeding."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import msgspec

from skitter.frontier.contract import BATCH, POLL_SECONDS, SUSPECTS_TRIED
from skitter.frontier.rules.hosts import HostRules
from skitter.frontier.rules.transaction import Transaction
from skitter.frontier.tables import Answer, LeaseRow, RequestState, Row, Tables
from skitter.model.host import FIRST_START_SECONDS, Host, Phase
from skitter.model.job import State
from skitter.model.lease import SEED_ID, Call, Grant, Lease, Work, gate_id
from skitter.policy import lost_leases, politeness


def lease(transaction: Transaction, worker: str, limit: int, call: Call) -> Grant:
    """Requests that may start now (promises 4 and 5), after what is due on behalf of others: reaping and waking."""
    tables, record, leases = transaction.tables, transaction.record, transaction.leases
    tables.heard_from(worker, transaction.now)
    recovered = leases.reap()
    transaction.requests.wake()
    transaction.hosts.wake()
    leases.flush_rows()
    transaction.job.settle()
    if transaction.hosts.addresses.limit is not None:
        # Room that has become free at an address is used at once.
        leases.flush()
    chooser = _Chooser(transaction, worker)
    granted: list[Lease] = []
    blocked_by = ""
    if record.state is State.RUNNING:
        if transaction.outbox.is_full():
            blocked_by = "sink"
        else:
            granted = chooser.grant(transaction.job.pages_left(limit))
    leases.flush()
    return _grant(transaction, chooser, granted, call, blocked_by, sorted(recovered.items()))


def lease_again(transaction: Transaction, worker: str, earlier: Answer, call: Call) -> Grant:
    """The leases of an earlier answer, without those that have ended meanwhile."""
    chooser = _Chooser(transaction, worker)
    return _grant(transaction, chooser, chooser.held_since(earlier.first_epoch, earlier.granted), call)


def _grant(
    transaction: Transaction,
    chooser: _Chooser,
    leases: list[Lease],
    call: Call,
    blocked_by: str = "",
    recovered: Sequence[tuple[str, int]] = (),
) -> Grant:
    record = transaction.record
    known = call.permits if call.run == record.run else 0
    permitted = transaction.tables.permitted(known)
    return Grant(
        leases=leases,
        state=record.state,
        run=record.run,
        ask_again_seconds=chooser.ask_again_seconds(),
        workers=transaction.tables.number_of_workers(),
        blocked_by=blocked_by,
        recovered=list(recovered),
        permitted=permitted,
        permits=known + len(permitted),
        now=transaction.now,
    )


class _Choice(msgspec.Struct):
    """What was granted, before its request is read."""

    work: Work
    epoch: int
    host: Host | None
    start_seconds: float | None = None
    pace_seconds: float = 0.0
    seq: int = 0
    alone: bool = False
    address: str = ""


class _Chooser:
    """Grants leases to one worker, in one transaction.

    First the choice is made, for which priorities are enough; then the requests that were chosen are read, all at once.
    """

    def __init__(self, transaction: Transaction, worker: str) -> None:
        self._tables = transaction.tables
        self._record = transaction.record
        self._now = transaction.now
        self._politeness = transaction.settings.politeness
        self._lease_seconds = transaction.settings.limits.lease_seconds
        self._hosts = transaction.hosts
        self._requests = transaction.requests
        self._leases = transaction.leases
        self._worker = worker
        self._chosen: list[_Choice] = []
        self._in_haste = False

    def grant(self, limit: int) -> list[Lease]:
        """Leases that may start now, at most ``limit``."""
        held, alone = self._tables.load_of(self._worker)
        if not alone and limit > 0:
            self._choose(limit, held)
        return self._read_leases()

    # ---- the choice

    def _choose(self, limit: int, held: int) -> None:
        seeder = self._seeder()
        if self._record.seeding and seeder is None:
            # What is to be leased alone waits until a worker holds nothing; until then it gets nothing more.
            if lost_leases.is_suspect(self._record.seed_losses):
                if not held:
                    self._take(Work.SEED, None, alone=True)
                return
            self._take(Work.SEED, None)
            self._choose_hosts(limit, None)
            return
        if seeder == self._worker:
            # A start() may run for hours, and nothing is leased alone beside it: suspects wait, the others do not.
            self._choose_hosts(limit, None)
            return
        suspect = self._suspect()
        if suspect is None:
            self._choose_hosts(limit, held)
        elif not held:
            self._choose_suspect(suspect)

    def _seeder(self) -> str | None:
        """Who holds the seeding."""
        found = self._tables.leases([(Work.SEED, SEED_ID)]) if self._record.seeding else {}
        return found[Work.SEED, SEED_ID].worker if found else None

    def _suspect(self) -> Row | None:
        """The first suspect that could start now."""
        for row in self._tables.suspects(SUSPECTS_TRIED):
            host = self._hosts.host(row.host_key)
            if self._hosts.is_spent(host):
                # It stands in no queue, so nothing else would tell that it is not to be leased any more.
                self._hosts.mark_stopped(host)
                self._hosts.burying = True
                continue
            is_due = politeness.due_at(host) <= self._now
            is_full = self._hosts.addresses.is_full(host.address)
            if is_due and politeness.has_room(host, self._politeness, self._hosts.budgets) and not is_full:
                return row
        return None

    def _choose_suspect(self, row: Row) -> None:
        host = self._hosts.host(row.host_key)
        if politeness.needs_gate(host, self._now, self._politeness):
            self._take_gate(host, alone=lost_leases.is_suspect(host.gate_losses))
        else:
            self._take(Work.PAGE, host, row.seq, alone=True)

    def _choose_hosts(self, limit: int, held: int | None) -> None:
        """Promise 5. ``held`` is what the worker has already; None: it shall get nothing that is to be leased alone."""
        # The seeding, if it was granted, is one of them.
        ready = ReadyHosts(self._tables, self._hosts, limit - len(self._chosen), self._may_pace)
        while len(self._chosen) < limit and (host := ready.next(limit - len(self._chosen))) is not None:
            if politeness.needs_gate(host, self._now, self._politeness):
                if not lost_leases.is_suspect(host.gate_losses):
                    self._take_gate(host)
                elif held is not None:
                    if not held and not self._chosen:
                        self._take_gate(host, alone=True)
                    break
                continue
            self._take(Work.PAGE, host, ready.take_head(host))
            ready.put_back(host)
        self._in_haste = ready.in_haste

    def _may_pace(self, host: Host) -> bool:
        """Whether this worker may be granted another request of a host that is not due, and keep the delay by itself.

        A commit of the host in this very call, or a grant, shows that the worker remembers its last start: one that was
        killed and started again under the same name does not.
        """
        hosts, now = self._hosts, self._now
        return (
            host.key in hosts.paced
            and politeness.may_pace(host, now, self._politeness, self._worker)
            and politeness.has_room(host, self._politeness, hosts.budgets)
            and not politeness.needs_gate(host, now, self._politeness)
            and not hosts.addresses.is_full(host.address)
        )

    def _take_gate(self, host: Host, *, alone: bool = False) -> None:
        self._take(Work.ROBOTS, host, alone=alone)
        host.gate = True

    def _take(self, work: Work, host: Host | None, seq: int = 0, *, alone: bool = False) -> None:
        record = self._record
        epoch, record.next_epoch = record.next_epoch, record.next_epoch + 1
        choice = _Choice(work, epoch, host, seq=seq, alone=alone)
        if host:
            choice.start_seconds = politeness.granted(host, epoch, self._now, self._politeness, self._worker)
            if host.pacer:
                choice.pace_seconds = politeness.delay_of(host, self._politeness)
                self._hosts.note_pacer(host, self._worker)
            choice.address = self._hosts.addresses.take(host.key, host.address)
        self._chosen.append(choice)

    # ---- the leases

    def _read_leases(self) -> list[Lease]:
        rows = self._tables.rows_at([choice.seq for choice in self._chosen if choice.work is Work.PAGE])
        leases = [self._lease(choice, rows.get(choice.seq)) for choice in self._chosen]
        self._chosen = []
        return leases

    def _lease(self, choice: _Choice, row: Row | None) -> Lease:
        record, host, work, now = self._record, choice.host, choice.work, self._now
        if row is not None:
            self._requests.move(row, RequestState.LEASED)
            request_id = row.id
        else:
            request_id = gate_id(host.key) if host else SEED_ID
        deadline = now + self._lease_seconds
        record.reap_at = min(record.reap_at, deadline)
        host_key = host.key if host else ""
        self._leases.changed.append(
            LeaseRow(
                *(work, request_id, choice.epoch, self._worker, host_key, now, deadline, choice.alone),
                row=row,
                address=choice.address,
            )
        )
        return Lease(
            work=work,
            id=request_id,
            epoch=choice.epoch,
            host_key=host_key,
            payload=row.payload if row else b"",
            attempts=row.attempts if row else 0,
            leased_at=now,
            deadline=deadline,
            start_seconds=choice.start_seconds,
            pace_seconds=choice.pace_seconds,
            # An earlier run may have read a file that this one was told to ignore.
            robots_version=host.robots_version if host and self._politeness.obey_robots else 0,
            trusted=host.trusted if host else False,
        )

    def held_since(self, first_epoch: int, granted: int) -> list[Lease]:
        """Those of ``granted`` leases, from ``first_epoch`` on, that the worker still holds."""
        epochs = range(first_epoch, first_epoch + granted)
        held = [lease for lease in self._tables.leases_of(self._worker) if lease.epoch in epochs]
        self._hosts.load(lease.host_key for lease in held if lease.host_key)
        # A lease may come without the payload of its request.
        rows = self._tables.rows_at([lease.row.seq for lease in held if lease.row is not None])
        deadline = min((lease.deadline for lease in held), default=0.0)
        return [self._held(lease, deadline, rows) for lease in held]

    def _held(self, lease: LeaseRow, deadline: float, rows: dict[int, Row]) -> Lease:
        host = self._hosts.loaded[lease.host_key] if lease.host_key else None
        row = lease.row
        delay = politeness.delay_of(host, self._politeness) if host else 0.0
        return Lease(
            work=lease.work,
            id=lease.id,
            epoch=lease.epoch,
            host_key=lease.host_key,
            payload=rows[row.seq].payload if row else b"",
            attempts=row.attempts if row else 0,
            leased_at=lease.leased_at,
            deadline=deadline,
            # The window that was granted was not shorter than this one.
            start_seconds=FIRST_START_SECONDS if delay > 0 else None,
            pace_seconds=delay if host and host.pacer == self._worker else 0.0,
            robots_version=host.robots_version if host and self._politeness.obey_robots else 0,
            trusted=host.trusted if host else False,
        )

    def ask_again_seconds(self) -> float:
        """When something may have become ready."""
        if self._hosts.burying or self._in_haste:
            # Hosts are still being buried, or were passed over: poll at once. The end of the job may be near.
            return 0.0
        times = [time for time in (self._tables.next_row_due(), self._tables.next_host_due()) if time is not None]
        return min([POLL_SECONDS, *(max(0.0, time - self._now) for time in times)])


class ReadyHosts:
    """The hosts that may be served now, in the order of promise 5, and the heads of their queues.

    Hosts come out of it one by one, at most ``limit`` that were not served yet: each grant uses up one of them. A host
    whose address another one has filled meanwhile uses one up as well. Then there are too few of them, and
    before a host is served that comes after all candidates, the store is asked for more.

    When none is ready, hosts come whose delay the worker keeps by itself (``may_pace``).
    """

    def __init__(self, tables: Tables, hosts: HostRules, limit: int, may_pace: Callable[[Host], bool]) -> None:
        self._tables = tables
        self._hosts = hosts
        self._heads: dict[str, deque[tuple[int, int]]] = {}
        self._read_to_the_end: set[str] = set()
        self._taken: defaultdict[str, int] = defaultdict(int)
        self._last, self._too_few = (0, 0, ""), False
        self.in_haste = False
        """So many hosts were passed over that others, which are ready, were not reached."""
        self._may_pace = may_pace
        self._ready = self._best(limit)
        self._paced = deque(key for key in hosts.paced if may_pace(hosts.loaded[key]))
        # Each host's queue is read in chunks of its fair share; one more tells the priority that waits next.
        self._chunk = limit // max(1, len(self._ready)) + 1
        self._read_heads()
        self._read_heads_of(self._paced)

    def next(self, limit: int) -> Host | None:
        """The host to be served next, taken out of the order; ``limit``: how many grants may still be made."""
        while True:
            if self._too_few and (not self._ready or self._ready[0] > self._last):
                self._ready = self._best(limit)
                self._read_heads()
            if not self._ready:
                return self._next_paced()
            host = self._hosts.host(heapq.heappop(self._ready)[2])
            if self._hosts.addresses.limit is None or self._is_ready(host):
                return host
            self._too_few = True

    def _next_paced(self) -> Host | None:
        while self._paced:
            host = self._hosts.host(self._paced.popleft())
            # Its address may have been filled by another host meanwhile.
            if self._may_pace(host):
                return host
        return None

    def take_head(self, host: Host) -> int:
        """The seq of the first request in its queue."""
        self._taken[host.key] += 1
        return self._heads[host.key].popleft()[1]

    def put_back(self, host: Host) -> None:
        """After a grant: find what waits next, and give the host its new place in the order if it is still ready."""
        queue, taken = self._heads[host.key], self._taken[host.key]
        if not queue and host.key not in self._read_to_the_end:
            # What was chosen is not held yet, and comes first again.
            more = self._tables.heads([host.key], taken + self._chunk)[host.key]
            queue.extend(islice(more, taken, None))
            if len(queue) < self._chunk:
                self._read_to_the_end.add(host.key)
        host.waiting = bool(queue)
        if queue:
            host.top = queue[0][0]
        if self._is_ready(host):
            heapq.heappush(self._ready, (-host.top, host.turn, host.key))
        elif self._may_pace(host):
            self._paced.append(host.key)

    def _best(self, limit: int) -> list[tuple[int, int, str]]:
        """The best ``limit`` candidates, as a heap: of the store's, and of those this transaction has changed."""
        hosts, passed_over = self._hosts, 0
        while True:
            stored = self._tables.ready_hosts(limit + len(hosts.touched))
            found = [(-top, turn, key) for top, turn, key in stored if key not in hosts.touched]
            touched = [host for host in hosts.touched.values() if self._is_ready(host)]
            found += [(-host.top, host.turn, host.key) for host in touched]
            best = heapq.nsmallest(limit, found)
            hosts.load(key for _, _, key in best)
            hosts.addresses.load(hosts.loaded[key].address for _, _, key in best)
            # The limits may have been lowered, or the address have been filled, since the store put a host down as
            # ready; asked for, it is put down anew.
            ready = [candidate for candidate in best if self._is_ready(hosts.host(candidate[2]))]
            passed_over += len(best) - len(ready)
            # So many are put down as parked, at most, on the way to one that is ready.
            self.in_haste = passed_over >= BATCH
            if len(ready) == len(best) or hosts.addresses.limit is None or self.in_haste:
                self._last, self._too_few = max(ready, default=(0, 0, "")), False
                return ready

    def _read_heads(self) -> None:
        self._read_heads_of(key for _, _, key in self._ready)

    def _read_heads_of(self, keys: Iterable[str]) -> None:
        new = self._tables.heads([key for key in keys if key not in self._heads], self._chunk)
        self._read_to_the_end |= {key for key, queue in new.items() if len(queue) < self._chunk}
        self._heads |= new

    def _is_ready(self, host: Host) -> bool:
        return self._hosts.phase_of(host) is Phase.READY
