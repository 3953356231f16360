"""What may be leased now: hosts (``ready_hosts`` has their order), the host gate, suspects and the seeding."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from skitter.frontier.contract import PAUSED_HOSTS, SUSPECTS_TRIED
from skitter.frontier.rules.ready_hosts import ReadyHosts
from skitter.frontier.rules.shares import ShareRules
from skitter.frontier.rules.transaction import Transaction
from skitter.frontier.tables import Answer, LeaseRow, RequestState, Row
from skitter.model.host import FIRST_START_SECONDS, Halt, Host
from skitter.model.job import State
from skitter.model.lease import ONCE, SEED_ID, Call, Grant, Lease, Work, gate_id
from skitter.model.page_record import PageRecord
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
    chooser = _Chooser(transaction, worker, call)
    granted: list[Lease] = []
    blocked_by = ""
    if record.state is State.RUNNING:
        if transaction.outbox.is_full():
            blocked_by = "sink"
        else:
            granted = chooser.grant(transaction.job.pages_left(limit))
    if transaction.is_pooled and not granted and transaction.proxies().is_exhausted:
        blocked_by = "proxy"
    leases.flush()
    if record.paused_hosts and not granted and not blocked_by and _only_paused(transaction):
        blocked_by = PAUSED_HOSTS
    return _grant(transaction, chooser, granted, call, blocked_by, sorted(recovered.items()))


def _only_paused(transaction: Transaction) -> bool:
    """Return whether everything that is left waits at hosts that an operator has paused."""
    record, tables = transaction.record, transaction.tables
    if record.state is not State.RUNNING or record.seeding or record.intakes or not record.queued or record.delayed:
        return False
    # A robots.txt that is being read is a lease too.
    if tables.any_lease() or record.needy or transaction.hosts.burying:
        return False
    if tables.next_host_due() is not None or tables.ready_hosts(1):
        return False
    # Suspects stand in no queue: their hosts may be in a back-off and idle.
    suspects = tables.suspects(SUSPECTS_TRIED)
    return all(transaction.hosts.host(row.host_key).halt is Halt.PAUSED for row in suspects)


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
        logins=transaction.sessions.logins,
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
    proxy: str = ""
    session: str = ""


class _Chooser:
    """Grants leases to one worker, in one transaction.

    First the choice is made, for which priorities are enough; then the requests that were chosen are read, all at once.
    """

    def __init__(self, transaction: Transaction, worker: str, call: Call = ONCE) -> None:
        self._tables = transaction.tables
        self._record = transaction.record
        self._now = transaction.now
        self._politeness = transaction.settings.politeness
        self._lease_seconds = transaction.settings.limits.lease_seconds
        self._recrawl = transaction.settings.recrawl.is_on
        self._jars = transaction.jars
        self._hosts = transaction.hosts
        self._requests = transaction.requests
        self._leases = transaction.leases
        self._proxies = transaction.proxies() if transaction.is_pooled else None
        self._worker = worker
        self._round_trip_seconds = call.round_trip_seconds
        self._shares = ShareRules(self._record, self._now, worker, call.slots)
        self._sessions = transaction.sessions
        self._needs = call.needs if self._record.needy else ()
        self._served = call.needs
        self._chosen: list[_Choice] = []
        self._in_haste = False

    def grant(self, limit: int) -> list[Lease]:
        """Leases that may start now, at most ``limit``."""
        held, alone = self._tables.load_of(self._worker)
        self._shares.forget()
        if self._record.needy and limit > 0:
            self._requests.flush()
            self._needs = self._sessions.serve(self._served)
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
        rows = self._tables.suspects(SUSPECTS_TRIED)
        for need in self._needs:
            rows = sorted([*rows, *self._tables.suspects(SUSPECTS_TRIED, need)], key=lambda row: row.seq)
        for row in rows[:SUSPECTS_TRIED]:
            host = self._hosts.host(row.host_key)
            if self._hosts.is_stopped(host):
                # It stands in no queue, so nothing else would tell that it is not to be leased any more.
                self._hosts.mark_stopped(host)
                self._hosts.burying = True
                continue
            is_due = politeness.due_at(host) <= self._now
            is_full = self._hosts.addresses.is_full(host.address)
            if is_due and politeness.has_room(host, self._politeness, self._hosts.budgets) and not is_full:
                if self._proxies is not None and not self._proxies.can_serve(host):
                    continue
                return row
        return None

    def _choose_suspect(self, row: Row) -> None:
        host = self._hosts.host(row.host_key)
        if politeness.needs_gate(host, self._now, self._politeness):
            self._take_gate(host, alone=lost_leases.is_suspect(host.gate_losses))
        else:
            self._take(Work.PAGE, host, row.seq, alone=True, need=row.need)

    def _choose_hosts(self, limit: int, held: int | None) -> None:
        """Promise 5. ``held`` is what the worker has already; None: it shall get nothing that is to be leased alone."""
        # The seeding, if it was granted, is one of them.
        wanted = limit - len(self._chosen)
        ready = ReadyHosts(self._tables, self._hosts, wanted, self._may_pace, self._needs)
        share = self._shares.share(wanted, ready.count)
        may_go_on = self._serve(ready, limit, share, held)
        if share < wanted and self._needs and may_go_on and len(self._chosen) < limit:
            # Who is short may have nothing that could serve the others.
            ready.leave_plain(limit - len(self._chosen))
            self._serve(ready, limit, limit - len(self._chosen), held)
        self._in_haste = self._in_haste or ready.in_haste
        if len(self._chosen) < limit:
            self._shares.note_missing(limit - len(self._chosen))

    def _serve(self, ready: ReadyHosts, limit: int, share: int, held: int | None) -> bool:
        """Take requests of ready hosts, in their order; False: something is to be leased alone, and goes first."""
        # What is granted ahead of a delay is nobody else's, and no part of the share.
        last = len(self._chosen) + share
        proxies = self._proxies
        while len(self._chosen) < limit and (host := ready.next(last - len(self._chosen))) is not None:
            if proxies is not None and not proxies.can_serve(host):
                if proxies.is_exhausted:
                    break
                # Others, which were not reached, may have one.
                self._in_haste = True
                continue
            if politeness.needs_gate(host, self._now, self._politeness):
                if not lost_leases.is_suspect(host.gate_losses):
                    self._take_gate(host)
                elif held is not None:
                    if not held and not self._chosen:
                        self._take_gate(host, alone=True)
                    return False
                continue
            seq = ready.take_head(host)
            self._take(Work.PAGE, host, seq, need=ready.taken_need)
            if ready.taken_need and self._sessions.rules.is_on:
                # Another request may have taken the last session that serves it, or several needs.
                lost = [need for need in self._needs if not self._sessions.is_served(need, self._served)]
                if lost:
                    self._needs = tuple(need for need in self._needs if need not in lost)
                    ready.leave_needs(lost, limit - len(self._chosen))
                    continue
            ready.put_back(host)
        return True

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

    def _take(self, work: Work, host: Host | None, seq: int = 0, *, alone: bool = False, need: str = "") -> None:
        record = self._record
        epoch, record.next_epoch = record.next_epoch, record.next_epoch + 1
        choice = _Choice(work, epoch, host, seq=seq, alone=alone)
        if host:
            choice.start_seconds = politeness.granted(
                *(host, epoch, self._now, self._politeness, self._worker, self._round_trip_seconds)
            )
            if host.pacer:
                choice.pace_seconds = politeness.delay_of(host, self._politeness)
                self._hosts.note_pacer(host, self._worker)
            choice.address = self._hosts.addresses.take(host.key, host.address)
            if need and self._sessions.rules.is_on:
                choice.session = self._sessions.grant(need, epoch)
            if self._proxies is not None:
                choice.proxy = self._proxies.pick(host.key, self._sessions.proxy_of(choice.session))
                self._sessions.keep_proxy(choice.session, choice.proxy)
        self._chosen.append(choice)

    # ---- the leases

    def _read_leases(self) -> list[Lease]:
        rows = self._tables.rows_at([choice.seq for choice in self._chosen if choice.work is Work.PAGE])
        pages = self._page_records(rows)
        if self._record.jars:
            self._jars.load(row.host_key for row in rows.values())
        leases = [self._lease(choice, rows.get(choice.seq), pages) for choice in self._chosen]
        self._chosen = []
        return leases

    def _page_records(self, rows: dict[int, Row]) -> dict[int, PageRecord]:
        return self._tables.page_records([row.id for row in rows.values()]) if self._recrawl else {}

    def _lease(self, choice: _Choice, row: Row | None, pages: dict[int, PageRecord]) -> Lease:
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
            # By position: keywords behind a tuple of arguments would make a dict.
            LeaseRow(
                work,
                request_id,
                choice.epoch,
                self._worker,
                host_key,
                now,
                deadline,
                choice.alone,
                False,
                row,
                choice.address,
                choice.proxy,
                choice.session,
            )
        )
        return Lease(
            work,
            request_id,
            choice.epoch,
            host_key,
            payload=row.payload if row else b"",
            attempts=row.attempts if row else 0,
            leased_at=now,
            deadline=deadline,
            start_seconds=choice.start_seconds,
            pace_seconds=choice.pace_seconds,
            # An earlier run may have read a file that this one was told to ignore.
            robots_version=host.robots_version if host and self._politeness.obey_robots else 0,
            trusted=host.trusted if host else False,
            page=pages.get(request_id),
            proxy=choice.proxy,
            jar=self._jars.versions.get(host_key, 0) if self._jars.versions else 0,
            session=choice.session,
        )

    def held_since(self, first_epoch: int, granted: int) -> list[Lease]:
        """Those of ``granted`` leases, from ``first_epoch`` on, that the worker still holds."""
        epochs = range(first_epoch, first_epoch + granted)
        held = [lease for lease in self._tables.leases_of(self._worker) if lease.epoch in epochs]
        self._hosts.load(lease.host_key for lease in held if lease.host_key)
        # A lease may come without the payload of its request.
        rows = self._tables.rows_at([lease.row.seq for lease in held if lease.row is not None])
        deadline = min((lease.deadline for lease in held), default=0.0)
        pages = self._page_records(rows)
        if self._record.jars:
            self._jars.load(row.host_key for row in rows.values())
        return [self._held(lease, deadline, rows, pages) for lease in held]

    def _held(self, lease: LeaseRow, deadline: float, rows: dict[int, Row], pages: dict[int, PageRecord]) -> Lease:
        host = self._hosts.loaded[lease.host_key] if lease.host_key else None
        row = lease.row
        delay = politeness.delay_of(host, self._politeness) if host else 0.0
        return Lease(
            lease.work,
            lease.id,
            lease.epoch,
            lease.host_key,
            payload=rows[row.seq].payload if row else b"",
            attempts=row.attempts if row else 0,
            leased_at=lease.leased_at,
            deadline=deadline,
            # The window that was granted was not shorter than this one.
            start_seconds=FIRST_START_SECONDS if delay > 0 else None,
            pace_seconds=delay if host and host.pacer == self._worker else 0.0,
            robots_version=host.robots_version if host and self._politeness.obey_robots else 0,
            trusted=host.trusted if host else False,
            page=pages.get(lease.id),
            proxy=lease.proxy,
            jar=self._jars.versions.get(lease.host_key, 0),
            session=lease.session,
        )

    def ask_again_seconds(self) -> float:
        """When something may have become ready."""
        if self._hosts.burying or self._in_haste or self._record.reschedule_after is not None:
            # Hosts are still being buried, were passed over, or may wait for too long: poll at once. The end of the job
            # may be near.
            return 0.0
        times = [time for time in (self._tables.next_row_due(), self._tables.next_host_due()) if time is not None]
        return min([self._shares.poll_seconds(), *(max(0.0, time - self._now) for time in times)])
