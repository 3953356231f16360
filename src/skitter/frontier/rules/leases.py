"""Rules of leases: the fence, renewal, release, expiry and loss. How work is chosen and granted is in ``grants``.

A lease ends by a commit (``commit``), a release, its deadline (``reap``) or the death of its worker
(``release_worker``). The last two are losses: after some the request is leased alone, and after more it has failed
(``policy.lost_leases``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from skitter.frontier.contract import BATCH, FORGET_SECONDS
from skitter.frontier.rules.hosts import HostRules
from skitter.frontier.rules.job import JobRules
from skitter.frontier.rules.outbox import OutboxRules
from skitter.frontier.rules.proxies import ProxyRules
from skitter.frontier.rules.requests import RequestRules
from skitter.frontier.rules.sessions import HandedOutSessions
from skitter.frontier.tables import JobRow, LeaseRow, Row, Tables
from skitter.model.host import Halt, Host
from skitter.model.lease import Lease, Work
from skitter.model.worker import WorkerHeartbeat
from skitter.policy import lost_leases, politeness


class LeaseRules:
    """The current leases, in one transaction."""

    def __init__(
        self,
        tables: Tables,
        record: JobRow,
        now: float,
        *,
        lease_seconds: float,
        job: JobRules,
        hosts: HostRules,
        requests: RequestRules,
        outbox: OutboxRules,
        proxies: Callable[[], ProxyRules],
        sessions: HandedOutSessions,
    ) -> None:
        self._sessions = sessions
        self._tables = tables
        self._record = record
        self._now = now
        self._lease_seconds = lease_seconds
        self._job = job
        self._hosts = hosts
        self._requests = requests
        self._outbox = outbox
        self._proxies = proxies
        self.changed: list[LeaseRow] = []
        """New leases, and those that have changed: written by the next flush."""
        self._ended: list[LeaseRow] = []

    def flush(self) -> None:
        """Write what changed, hosts included."""
        self.flush_rows()
        self._hosts.flush()

    def flush_rows(self) -> None:
        """Write the leases that are new, changed or ended, so that the tables know which requests are held."""
        # Saved before dropped: a lease that staged and ended in one batch is in both lists.
        if self.changed:
            self._tables.save_leases(self.changed)
            self.changed = []
        if self._ended:
            self._tables.drop_leases(self._ended)
            self._ended = []

    def current(self, leases: Iterable[Lease]) -> list[LeaseRow | None]:
        """The fence: only the newest epoch may act. None: the lease is not current any more."""
        leases = list(leases)
        rows = self._tables.leases([(lease.work, lease.id) for lease in leases])
        found = (rows.get((lease.work, lease.id)) for lease in leases)
        return [
            row if row is not None and row.epoch == lease.epoch else None
            for lease, row in zip(leases, found, strict=True)
        ]

    def end(self, lease: LeaseRow) -> None:
        """The lease is over: its host, its address and its proxy have one request less in flight."""
        self._ended.append(lease)
        if lease.staged:
            self._outbox.drop_staged(lease)
        if lease.work is not Work.SEED:
            host = self._hosts.host(lease.host_key)
            host.in_flight -= 1
            self._hosts.addresses.give_back(lease.address)
            if lease.proxy:
                self._proxies().give_back(lease.proxy)
            if lease.session:
                self._sessions.ended(lease)
            if lease.work is Work.ROBOTS:
                host.gate = False

    def renew(self, worker: str, leases: Sequence[Lease]) -> list[bool]:
        """Push the deadlines of what is still current, and the worker's own."""
        self._tables.heard_from(worker, self._now)
        rows = [row if row is not None and row.worker == worker else None for row in self.current(leases)]
        for row in rows:
            if row is not None:
                row.deadline = self._now + self._lease_seconds
        self._tables.save_leases([row for row in rows if row is not None])
        return [row is not None for row in rows]

    # ---- handed back: no loss

    def release(self, leases: Sequence[Lease], *, late: bool, touched: bool) -> None:
        """Work goes back as if it had never been leased, but for the delay of a host that it has touched."""
        # By epoch, because a lease that is named twice is handed back once.
        self._hand_back({row.epoch: row for row in self.current(leases) if row is not None}.values(), late, touched)

    def relieve_worker(self, worker: str, page: Lease, pause_seconds: float) -> int:
        """All leases of a worker but that of the page that holds it go back without a loss; how many."""
        rows = self._tables.leases_of(worker)
        self._hosts.load(row.host_key for row in rows if row.host_key)
        others = [row for row in rows if row.epoch != page.epoch]
        for row in rows:
            if row.epoch == page.epoch:
                politeness.held(self._hosts.host(row.host_key), self._now, pause_seconds)
        self._hand_back(others, late=False, touched=True)
        return len(others)

    def _hand_back(self, leases: Iterable[LeaseRow], late: bool, touched: bool) -> None:
        returned = []
        for lease in leases:
            if lease.work is not Work.SEED:
                host = self._hosts.host(lease.host_key)
                if not touched:
                    politeness.given_back(host, lease.epoch, self._now)
                if late:
                    politeness.came_late(host)
                if lease.session and not touched:
                    self._sessions.given_back(lease)
            self.end(lease)
            if lease.row is not None:
                self._requests.requeue(lease.row)
                returned.append(lease.row)
        self._tables.save_rows(returned)

    # ---- lost: expired, or the worker died

    def reap(self) -> Counter[str]:
        """Expired leases go back, each with a loss; how many of which worker.

        The queues of hosts that were given up go on being buried.
        """
        expired: list[LeaseRow] = []
        if self._now >= self._record.reap_at:
            expired = self._tables.expired_leases(self._now, BATCH)
            self._lose(expired)
            self._record.reap_at = self._tables.first_deadline() or math.inf
        if self._hosts.may_be_stopped:
            # What came back in this call may have come to a host that is stopped, or have made room for one.
            self.flush()
        self._requests.bury()
        return Counter(lease.worker for lease in expired)

    def release_worker(self, worker: str) -> int:
        """All leases of a worker that was seen to die go back, each with a loss; how many."""
        lost = self._tables.leases_of(worker)
        self._lose(lost)
        self._forget_worker(worker)
        return len(lost)

    def _lose(self, leases: Sequence[LeaseRow]) -> None:
        self._hosts.load(lease.host_key for lease in leases if lease.host_key)
        returned: list[Row] = []
        given_up: list[Host] = []
        for lease in leases:
            self.end(lease)
            if lease.work is Work.SEED:
                self._job.lose_seeding()
            elif lease.work is Work.ROBOTS:
                # A robots.txt that kills its reader must not do so for ever.
                host = self._hosts.host(lease.host_key)
                host.gate_losses += 1
                if host.gate_losses >= lost_leases.LOSSES_IN_ALL and host.halt is not Halt.PAUSED:
                    given_up.append(host)
            elif (row := lease.row) is not None:
                row.losses += 1
                row.losses_alone += lease.alone
                if lost_leases.is_fatal(row.losses_alone):
                    error = f"lost its worker {row.losses} times, the last ones with this page alone"
                    self._requests.die(row, "lost", error)
                else:
                    self._requests.requeue(row)
                returned.append(row)
        self._tables.save_rows(returned)
        # What has come back is buried too.
        self.flush_rows()
        for host in given_up:
            self._requests.give_up(host, "lost", "the worker was lost every time it read robots.txt")

    # ---- workers

    def tell(self, worker: str, heartbeat: WorkerHeartbeat | None) -> None:
        """Store what a worker says of itself, or that it leaves; and forget whoever has been silent for long."""
        if heartbeat is None:
            self._forget_worker(worker)
        else:
            self._tables.heard_from(worker, self._now)
            self._tables.save_heartbeat(worker, heartbeat)
        for other in self._tables.silent_workers(self._now - FORGET_SECONDS):
            # While it holds something it is somebody: a supervisor that comes back finds its leases by its name.
            if not self._tables.load_of(other)[0]:
                self._forget_worker(other)

    def _forget_worker(self, worker: str) -> None:
        self._tables.forget_worker(worker)
        self._record.answers.pop(worker, None)
        self._record.short_workers.pop(worker, None)
