"""What may be leased now: promise 5, the host gate, suspects and the seeding."""

from __future__ import annotations

import hashlib

import msgspec

from skitter.frontier.books import Books
from skitter.frontier.ready_hosts import ReadyHosts
from skitter.frontier.tables import LeaseRow, RequestState, Row
from skitter.model.host import Host
from skitter.model.lease import Lease, Work
from skitter.policy import lost_leases, politeness

POLL_SECONDS = 1.0
"""When nothing is scheduled, a worker asks again this often: another one's commit may have added work."""
SEED_ID = 0


class _Choice(msgspec.Struct):
    """What was granted, before its request is read."""

    work: Work
    epoch: int
    host: Host | None
    start_seconds: float | None = None
    seq: int = 0
    alone: bool = False
    address: str = ""


class Granting:
    """Grants leases to one worker, on the books of one transaction.

    First the choice is made, for which priorities are enough; then the requests that were chosen are read, all at once.
    """

    def __init__(self, books: Books, worker: str) -> None:
        self._books = books
        self._worker = worker
        self._chosen: list[_Choice] = []
        self._in_haste = False

    def outbox_is_full(self) -> bool:
        bound = self._books.settings.limits.max_outbox_items
        return any(self._books.job.position - sink.progress.position >= bound for sink in self._books.tables.sinks())

    def grant(self, limit: int) -> list[Lease]:
        """Leases that may start now, at most ``limit``."""
        maximum = self._books.settings.limits.max_pages
        if maximum is not None:
            # Done and leased together never exceed it.
            limit = min(limit, maximum - self._books.job.done - self._books.job.leased)
        held, alone = self._books.tables.load_of(self._worker)
        if not alone and limit > 0:
            self._choose(limit, held)
        return self._leases()

    # ---- the choice

    def _choose(self, limit: int, held: int) -> None:
        seeder = self._seeder()
        if self._books.job.seeding and seeder is None:
            # What is to be leased alone waits until a worker holds nothing; until then it gets nothing more.
            if lost_leases.is_suspect(self._books.job.seed_losses):
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
        found = self._books.tables.holds([(Work.SEED, SEED_ID)]) if self._books.job.seeding else {}
        return found[Work.SEED, SEED_ID].worker if found else None

    def _suspect(self) -> Row | None:
        """The first suspect that could start now."""
        for row in self._books.tables.suspects(32):
            host = self._books.host(row.host_key)
            if self._books.is_spent(host):
                # It stands in no queue, so nothing else would tell that it is not to be leased any more.
                self._books.mark_stopped(host)
                self._books.burying = True
                continue
            is_due = politeness.due_at(host) <= self._books.now
            is_full = self._books.addresses.is_full(host.address)
            if is_due and self._has_room(host) and not is_full:
                return row
        return None

    def _has_room(self, host: Host) -> bool:
        return politeness.has_room(host, self._books.politeness, self._books.budgets)

    def _choose_suspect(self, row: Row) -> None:
        host = self._books.host(row.host_key)
        if politeness.needs_gate(host, self._books.now, self._books.politeness):
            self._take_gate(host, alone=lost_leases.is_suspect(host.gate_losses))
        else:
            self._take(Work.PAGE, host, row.seq, alone=True)

    def _choose_hosts(self, limit: int, held: int | None) -> None:
        """Promise 5. ``held`` is what the worker has already; None: it shall get nothing that is to be leased alone."""
        # The seeding, if it was granted, is one of them.
        line = ReadyHosts(self._books, limit - len(self._chosen))
        while len(self._chosen) < limit and (host := line.next(limit - len(self._chosen))) is not None:
            if politeness.needs_gate(host, self._books.now, self._books.politeness):
                if not lost_leases.is_suspect(host.gate_losses):
                    self._take_gate(host)
                elif held is not None:
                    if not held and not self._chosen:
                        self._take_gate(host, alone=True)
                    break
                continue
            self._take(Work.PAGE, host, line.take_head(host))
            line.back(host)
        self._in_haste = line.in_haste

    def _take_gate(self, host: Host, *, alone: bool = False) -> None:
        self._take(Work.ROBOTS, host, alone=alone)
        host.gate = True

    def _take(self, work: Work, host: Host | None, seq: int = 0, *, alone: bool = False) -> None:
        books = self._books
        epoch, books.job.next_epoch = books.job.next_epoch, books.job.next_epoch + 1
        choice = _Choice(work, epoch, host, seq=seq, alone=alone)
        if host:
            choice.start_seconds = politeness.granted(host, epoch, books.now, books.politeness)
            choice.address = books.addresses.take(host.key, host.address)
        self._chosen.append(choice)

    # ---- the leases

    def _leases(self) -> list[Lease]:
        rows = self._books.tables.rows_at([choice.seq for choice in self._chosen if choice.work is Work.PAGE])
        leases = [self._lease(choice, rows.get(choice.seq)) for choice in self._chosen]
        self._chosen = []
        return leases

    def _lease(self, choice: _Choice, row: Row | None) -> Lease:
        books, host, work = self._books, choice.host, choice.work
        if row is not None:
            books.move(row, RequestState.LEASED)
            request_id = row.id
        else:
            request_id = gate_id(host.key) if host else SEED_ID
        deadline = books.now + books.settings.limits.lease_seconds
        books.job.reap_at = min(books.job.reap_at, deadline)
        host_key = host.key if host else ""
        books.new_holds.append(
            LeaseRow(
                *(work, request_id, choice.epoch, self._worker, host_key, books.now, deadline, choice.alone),
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
            leased_at=books.now,
            deadline=deadline,
            start_seconds=choice.start_seconds,
            # An earlier run may have read a file that this one was told to ignore.
            robots_version=host.robots_version if host and books.politeness.obey_robots else 0,
            trusted=host.trusted if host else False,
        )

    def ask_again_seconds(self) -> float:
        """When something may have become ready."""
        if self._books.burying or self._in_haste:
            # The end of the job may be a few pieces away, and nobody else digs.
            return 0.0
        tables, now = self._books.tables, self._books.now
        times = [time for time in (tables.next_row_due(), tables.next_host_due()) if time is not None]
        return min([POLL_SECONDS, *(max(0.0, time - now) for time in times)])


def gate_id(host_key: str) -> int:
    """The lease id of a host's gate: the same in every process, and never stored as a request."""
    return int.from_bytes(hashlib.blake2b(host_key.encode(), digest_size=8).digest(), "big", signed=True)
