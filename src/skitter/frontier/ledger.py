"""The rules of the frontier contract, over any store that offers ``Tables``.

A Ledger lives for one transaction: it loads the job's record, applies one contract method, and
``close`` writes back what it changed. Nothing here knows where rows are kept. Decisions that need
no rows are pure functions in ``policy``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from skitter.frontier.books import BATCH, Books
from skitter.frontier.committing import Committing
from skitter.frontier.contract import FORGET_SECONDS
from skitter.frontier.granting import Granting
from skitter.frontier.tables import LeaseRow, Row
from skitter.model.host import Host
from skitter.model.job import State
from skitter.model.lease import Grant, Lease, Work
from skitter.model.outcome import Committed, Outcome
from skitter.model.request import Entry
from skitter.model.worker import WorkerCard
from skitter.policy import lost_leases, politeness


class Ledger(Books):
    """The contract's methods, on the books of one transaction."""

    def add(self, entries: Iterable[Entry]) -> int:
        """Dedup and enqueue (promise 3); how many were new."""
        fresh: dict[int, Entry] = {}
        permits: dict[str, bool] = {}
        for entry in entries:
            fresh.setdefault(entry.id, entry)
            if entry.permits:
                permits[entry.host_key] = entry.trusts or permits.get(entry.host_key, False)
        for known in self.tables.known(list(fresh)):
            del fresh[known]
        self.load_hosts(entry.host_key for entry in fresh.values())
        self._permit(permits)
        rows = []
        for entry in fresh.values():
            rows.append(
                Row(self.job.next_seq, entry.id, entry.host_key, entry.priority, entry.payload, added_at=self.now)
            )
            self.job.next_seq += 1
            self.joined_queue(entry.host_key, entry.priority)
        self.tables.insert(rows)
        self.job.queued += len(rows)
        return len(rows)

    def _permit(self, trusts: Mapping[str, bool]) -> None:
        """Also for a request that was seen before: a link may have led there first, and the user typed it now."""
        for key, trusted in trusts.items():
            host = self.host(key)
            if not (host.trusted or host.permitted):
                self.tables.permit(key)
            host.permitted = True
            host.trusted = host.trusted or trusted

    def reopen(self) -> None:
        """New work for a finished job."""
        if self.job.state is State.FINISHED:
            self.job.state = State.RUNNING
            self.job.ended_at = 0.0

    def revive(self, rows: Sequence[Row]) -> int:
        """Dead rows are queued again with a clean slate."""
        for row in rows:
            self.count_error(row.error_class, -1)
            row.attempts = row.losses = row.losses_alone = row.blocks = row.status = 0
            row.ended_at = row.not_before = 0.0
            row.error_class = row.error = ""
            politeness.new_chance(self.host(row.host_key))
            self.requeue(row)
        self.tables.save_rows(rows)
        return len(rows)

    def lease(self, worker: str, limit: int, permits_known: int) -> Grant:
        """What may start now (promises 4 and 5)."""
        self.tables.heard_from(worker, self.now)
        recovered = self.reap()
        self._wake()
        self.settle()
        if self.politeness.per_ip is not None:
            # Room that has become free at an address is used at once.
            self.flush()
        granting = Granting(self, worker)
        leases: list[Lease] = []
        blocked_by = ""
        if self.job.state is State.RUNNING:
            if granting.outbox_is_full():
                blocked_by = "sink"
            else:
                leases = granting.grant(limit)
        self.flush()
        return Grant(
            leases=leases,
            state=self.job.state,
            run=self.job.run,
            ask_again_seconds=granting.ask_again_seconds(),
            workers=self.tables.number_of_workers(),
            blocked_by=blocked_by,
            recovered=sorted(recovered.items()),
            permitted=self.tables.permitted(permits_known),
        )

    def _wake(self) -> None:
        """Delayed rows and waiting hosts whose time has come."""
        rows = self.tables.due_rows(self.now, BATCH)
        for row in rows:
            self.requeue(row)
        self.tables.save_rows(rows)
        due = self.tables.due_hosts(self.now, BATCH)
        self.load_hosts(due)
        for key in due:
            self.host(key)
        if self.job.parked and self.politeness.per_ip is None:
            # The limit was lifted.
            for key in self.tables.parked_hosts(None, BATCH):
                self.host(key)
        self.flush_holds()

    def renew(self, worker: str, leases: Sequence[Lease]) -> list[bool]:
        """Push the deadlines of what is still current."""
        self.tables.heard_from(worker, self.now)
        holds = self.current(leases)
        for hold in holds:
            if hold is not None:
                hold.deadline = self.now + self.settings.limits.lease_seconds
        self.tables.save_holds([hold for hold in holds if hold is not None])
        return [hold is not None for hold in holds]

    def tell(self, worker: str, card: WorkerCard | None) -> None:
        """A worker says what it is at, or that it leaves; and whoever has been silent for long is forgotten."""
        if card is None:
            self.tables.forget_worker(worker)
        else:
            self.tables.heard_from(worker, self.now)
            self.tables.save_card(worker, card)
        for other, heard_at, _ in self.tables.workers():
            # While it holds something it is somebody: a supervisor that comes back finds its leases by its name.
            if heard_at <= self.now - FORGET_SECONDS and not self.tables.load_of(other)[0]:
                self.tables.forget_worker(other)

    def release(self, leases: Sequence[Lease], *, late: bool, touched: bool) -> None:
        """Work goes back as if it had never been leased, but for the delay of a host that it has touched."""
        # By epoch, because a lease that is named twice is handed back once.
        self._hand_back({hold.epoch: hold for hold in self.current(leases) if hold is not None}.values(), late, touched)

    def _hand_back(self, holds: Iterable[LeaseRow], late: bool, touched: bool) -> None:
        returned = []
        for hold in holds:
            if hold.work is not Work.SEED:
                host = self.host(hold.host_key)
                if not touched:
                    politeness.given_back(host, hold.epoch, self.now)
                if late:
                    politeness.came_late(host)
            self.end_hold(hold)
            if hold.row is not None:
                self.requeue(hold.row)
                returned.append(hold.row)
        self.tables.save_rows(returned)

    def reap(self) -> Counter[str]:
        """Expired leases go back, each with a loss; how many of which worker.

        What a host left that was given up goes on being buried.
        """
        expired: list[LeaseRow] = []
        if self.now >= self.job.reap_at:
            expired = self.tables.expired_holds(self.now, BATCH)
            self._lose(expired)
            self.job.reap_at = self.tables.first_deadline() or math.inf
        self.bury()
        return Counter(hold.worker for hold in expired)

    def relieve_worker(self, worker: str, page: Lease, pause_seconds: float) -> int:
        """All leases of a worker but that of the page that holds it, without a loss."""
        holds = self.tables.holds_of(worker)
        self.load_hosts(hold.host_key for hold in holds if hold.host_key)
        others = [hold for hold in holds if hold.epoch != page.epoch]
        for hold in holds:
            if hold.epoch == page.epoch:
                politeness.held(self.host(hold.host_key), self.now, pause_seconds)
        self._hand_back(others, late=False, touched=True)
        return len(others)

    def release_worker(self, worker: str) -> int:
        """All leases of a worker that was seen to die."""
        lost = self._lose(self.tables.holds_of(worker))
        self.tables.forget_worker(worker)
        return lost

    def _lose(self, holds: Sequence[LeaseRow]) -> int:
        self.load_hosts(hold.host_key for hold in holds if hold.host_key)
        returned: list[Row] = []
        given_up: list[Host] = []
        for hold in holds:
            self.end_hold(hold)
            if hold.work is Work.SEED:
                self.job.seed_losses += 1
                if self.job.seed_losses >= lost_leases.LOSSES_IN_ALL:
                    self.seeding_over("start() lost its worker every time")
            elif hold.work is Work.ROBOTS:
                # A robots.txt that kills its reader must not do so for ever.
                host = self.host(hold.host_key)
                host.gate_losses += 1
                if host.gate_losses >= lost_leases.LOSSES_IN_ALL:
                    given_up.append(host)
            elif (row := hold.row) is not None:
                row.losses += 1
                row.losses_alone += hold.alone
                if lost_leases.is_fatal(row.losses_alone):
                    self.die(row, "lost", f"lost its worker {row.losses} times, the last ones with this page alone")
                else:
                    self.requeue(row)
                returned.append(row)
        self.tables.save_rows(returned)
        # What has come back is buried too.
        self.flush_holds()
        for host in given_up:
            self.give_up(host, "lost", "its robots.txt lost the worker every time")
        return len(holds)

    def commit(self, outcomes: Sequence[Outcome]) -> Committed:
        """Promise 2: each outcome takes effect as a whole, or not at all."""
        committed = Committing(self, self.add).commit(outcomes)
        self.sample_pace()
        return committed
