"""What may be leased now: promise 5, the host gate, suspects and the seeding."""

from __future__ import annotations

import hashlib
import heapq

from skitter.frontier.books import Books
from skitter.frontier.tables import Hold, Place, Row
from skitter.model.host import Host, Phase
from skitter.model.lease import Lease, Work
from skitter.policy import losses, politeness

POLL_SECONDS = 1.0
"""When nothing is scheduled, a worker asks again this often: another one's commit may have added work."""
SEED_ID = 0


class Granting:
    """Grants leases on the books of one transaction."""

    def __init__(self, books: Books) -> None:
        self._books = books

    def outbox_is_full(self) -> bool:
        bound = self._books.settings.limits.max_outbox_items
        return any(self._books.job.position - sink.progress.position >= bound for sink in self._books.tables.sinks())

    def grant(self, worker: str, limit: int) -> list[Lease]:
        """Leases that may start now, at most ``limit``."""
        maximum = self._books.settings.limits.max_pages
        if maximum is not None:
            # Done and leased together never exceed it.
            limit = min(limit, maximum - self._books.job.done - self._books.job.leased)
        held, alone = self._books.tables.load_of(worker)
        if alone or limit <= 0:
            return []
        seeder = self._seeder()
        if self._books.job.seeding and seeder is None:
            # What is to be leased alone waits until a worker holds nothing; until then it gets nothing more.
            if losses.is_suspect(self._books.job.seed_losses):
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
        found = self._books.tables.holds([(Work.SEED, SEED_ID)]) if self._books.job.seeding else {}
        return found[Work.SEED, SEED_ID].worker if found else None

    def _suspect(self) -> Row | None:
        """The first suspect that could start now."""
        for row in self._books.tables.suspects(32):
            host = self._books.host(row.host_key)
            if politeness.has_room(host, self._books.politeness) and politeness.due_at(host) <= self._books.now:
                return row
        return None

    def _grant_suspect(self, worker: str, row: Row) -> list[Lease]:
        host = self._books.host(row.host_key)
        if politeness.needs_gate(host, self._books.now, self._books.politeness):
            return [self._grant_gate(worker, host, alone=losses.is_suspect(host.gate_losses))]
        lease = self._grant_row(worker, host, row, alone=True)
        self._books.tables.save_rows([row])
        return [lease]

    def _grant_hosts(self, worker: str, limit: int, held: int | None) -> list[Lease]:
        """Promise 5. ``limit`` candidates are enough: each grant uses up at most one that was not served yet.

        ``held`` is what the worker has already; None: it shall get nothing that is to be leased alone.
        """
        leases: list[Lease] = []
        changed: list[Row] = []
        ready = self._ready(limit)
        # Each host's queue is read in chunks of its fair share; one more row tells the priority that waits next.
        chunk = limit // max(1, len(ready)) + 1
        heads = self._books.tables.heads([key for _, _, key in ready], chunk)
        while ready and len(leases) < limit:
            host = self._books.host(heapq.heappop(ready)[2])
            if politeness.needs_gate(host, self._books.now, self._books.politeness):
                if not losses.is_suspect(host.gate_losses):
                    leases.append(self._grant_gate(worker, host))
                elif held is not None:
                    if not held and not leases:
                        leases.append(self._grant_gate(worker, host, alone=True))
                    break
                continue
            row = heads[host.key].popleft()
            host.queued -= 1
            leases.append(self._grant_row(worker, host, row))
            changed.append(row)
            if not heads[host.key] and host.queued:
                self._books.tables.save_rows(changed)
                changed = []
                heads |= self._books.tables.heads([host.key], chunk)
            if host.queued:
                host.top = heads[host.key][0].priority
            if self._is_ready(host):
                heapq.heappush(ready, (-host.top, host.served, host.key))
        self._books.tables.save_rows(changed)
        return leases

    def _ready(self, limit: int) -> list[tuple[int, int, str]]:
        """The best ``limit`` candidates, as a heap: of the store's, and of those this transaction has changed."""
        books = self._books
        stored = books.tables.ready_hosts(limit + len(books.touched))
        found = [(-top, served, key) for top, served, key in stored if key not in books.touched]
        found += [(-host.top, host.served, host.key) for host in books.touched.values() if self._is_ready(host)]
        best = heapq.nsmallest(limit, found)
        books.load_hosts(key for _, _, key in best)
        # The limits may have been lowered since the store put a host down as ready; asked for, it is put down anew.
        return [candidate for candidate in best if self._is_ready(books.host(candidate[2]))]

    def _is_ready(self, host: Host) -> bool:
        return politeness.phase_of(host, self._books.now, self._books.politeness) is Phase.READY

    def _grant_row(self, worker: str, host: Host, row: Row, *, alone: bool = False) -> Lease:
        self._books.move(row, Place.LEASED)
        return self._hold(Work.PAGE, row.id, worker, host.key, row=row, alone=alone)

    def _grant_gate(self, worker: str, host: Host, *, alone: bool = False) -> Lease:
        lease = self._hold(Work.ROBOTS, gate_id(host.key), worker, host.key, alone=alone)
        host.gate = True
        return lease

    def _hold(
        self, work: Work, request_id: int, worker: str, host_key: str, *, row: Row | None = None, alone: bool = False
    ) -> Lease:
        deadline = self._books.now + self._books.settings.limits.lease_seconds
        epoch, self._books.job.next_epoch = self._books.job.next_epoch, self._books.job.next_epoch + 1
        self._books.new_holds.append(Hold(work, request_id, epoch, worker, host_key, self._books.now, deadline, alone))
        if work is Work.SEED:
            return Lease(work=work, id=request_id, epoch=epoch, leased_at=self._books.now, deadline=deadline)
        host = self._books.host(host_key)
        start_seconds = politeness.granted(host, epoch, self._books.now, self._books.politeness)
        return Lease(
            work=work,
            id=request_id,
            epoch=epoch,
            host_key=host_key,
            payload=row.payload if row else b"",
            attempts=row.attempts if row else 0,
            leased_at=self._books.now,
            deadline=deadline,
            start_seconds=start_seconds,
            # An earlier run may have read a file that this one was told to ignore.
            robots_version=host.robots_version if self._books.politeness.obey_robots else 0,
            trusted=host.trusted,
        )

    def ask_again_seconds(self) -> float:
        """When something may have become ready."""
        if self._books.burying:
            # The end of the job may be a few pieces away, and nobody else digs.
            return 0.0
        tables, now = self._books.tables, self._books.now
        times = [time for time in (tables.next_row_due(), tables.next_host_due()) if time is not None]
        return min([POLL_SECONDS, *(max(0.0, time - now) for time in times)])


def gate_id(host_key: str) -> int:
    """The lease id of a host's gate: the same in every process, and never stored as a request."""
    return int.from_bytes(hashlib.blake2b(host_key.encode(), digest_size=8).digest(), "big", signed=True)
