"""What the consistency check asks of a file: counts by SQL, hosts in batches, and indexes against records.

Everything is read in one transaction, which is a snapshot: what other processes do meanwhile does not show.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from skitter.frontier.clock import StoreClock
from skitter.frontier.contract import BATCH
from skitter.frontier.sqlite.damage_search import find_damage
from skitter.frontier.sqlite.leases import LeaseTable
from skitter.frontier.sqlite.outbox import OutboxTable
from skitter.frontier.sqlite.requests import RequestTable
from skitter.frontier.sqlite.row_codec import SEQ_BITS, SEQ_MASK
from skitter.frontier.tables import Fault, JobRow, LeaseRow, RequestState, fault
from skitter.model.host import Host, Phase
from skitter.policy import lost_leases
from skitter.policy.politeness import due_at

_decode_host = msgspec.msgpack.Decoder(Host).decode
_HELD = "SELECT place, count(*) FROM holds CROSS JOIN requests ON requests.job = holds.job AND requests.id = holds.id"


class ConsistencyTable(RequestTable, LeaseTable, OutboxTable):
    """All tables of one job, and what the consistency check asks of them."""

    def __init__(self, connection: sqlite3.Connection, job_name: str, clock: StoreClock) -> None:
        super().__init__(connection, job_name, clock)
        self._connection = connection

    def find_damage(self) -> str:
        # Pages, and each entry of each index; quotes what it finds.
        for (told,) in self._execute("PRAGMA integrity_check(1)"):
            if told != "ok":
                return str(told)
        return find_damage(self._connection, self._name, whole=True)

    def count_rows(self) -> dict[RequestState, int]:
        first = self._job << SEQ_BITS
        # Not grouped: that would sort all rows.
        sums = ", ".join(f"coalesce(sum(place = {state.value}), 0)" for state in RequestState)
        query = f"SELECT {sums} FROM requests WHERE number BETWEEN ? AND ?"  # noqa: S608  our own numbers
        found = self._execute(query, (first, first | SEQ_MASK))
        counts = dict(zip(RequestState, found.fetchone(), strict=True))
        # Of a request that is leased, the row stays where it was.
        for place, number in self._execute(f"{_HELD} WHERE holds.job = ? AND work = 0 GROUP BY place", (self._job,)):
            counts[RequestState(place)] -= number
        counts[RequestState.LEASED] = int(self._one("SELECT count(*) FROM holds WHERE job = ? AND work = 0"))
        return counts

    def count_dead(self) -> dict[str, int]:
        return dict(
            self._execute(
                "SELECT error_class, count(*) FROM requests INDEXED BY dead_class WHERE job = ? AND place = 5"
                " GROUP BY error_class",
                (self._job,),
            ).fetchall()
        )

    def done_by_host(self) -> dict[str, int]:
        first = self._job << SEQ_BITS
        done = Counter(
            host
            for (host,) in self._execute(
                "SELECT host FROM requests WHERE number BETWEEN ? AND ? AND place = 3", (first, first | SEQ_MASK)
            )
        )
        found = self._execute("SELECT key, number FROM hosts WHERE job = ?", (self._job,))
        return {key: done[number] for key, number in found if number in done}

    def hosts_after(self, key: str, limit: int) -> list[Host]:
        found = self._execute(
            "SELECT record FROM hosts INDEXED BY by_key WHERE job = ? AND key > ? ORDER BY key LIMIT ?",
            (self._job, key, limit),
        )
        return [_decode_host(record) for (record,) in found]

    def all_leases(self) -> list[LeaseRow]:
        return self._leases("1 ORDER BY epoch")

    def all_loads(self) -> dict[str, int]:
        return dict(self._execute("SELECT address, leases FROM addresses WHERE job = ?", (self._job,)).fetchall())

    def staged_epochs(self) -> list[tuple[int, int]]:
        return self._execute("SELECT DISTINCT id, epoch FROM staged WHERE job = ?", (self._job,)).fetchall()

    def item_range(self) -> tuple[int, int, int]:
        first, last, number = self._execute(
            "SELECT coalesce(min(position), 0), coalesce(max(position), 0), count(*) FROM outbox WHERE job = ?",
            (self._job,),
        ).fetchone()
        return first, last, number

    def last_seq(self) -> int:
        first = self._job << SEQ_BITS
        found = self._execute(
            "SELECT max(number) FROM requests WHERE number BETWEEN ? AND ?", (first, first | SEQ_MASK)
        ).fetchone()[0]
        return 0 if found is None else int(found) & SEQ_MASK

    # ---- columns and tables that are made from records

    def index_faults(self, job: JobRow) -> Iterator[Fault]:
        yield from self._places()
        yield from self._columns(job)
        yield from self._parked(job)
        yield from self._permit_numbers()
        yield from self._cards()

    def _places(self) -> Iterator[Fault]:
        """A request that is leased stands in holds, and its row where it was before."""
        after = 0
        query = "SELECT number, id FROM requests WHERE job = ? AND place = 2 AND number > ? ORDER BY number LIMIT ?"
        while found := self._execute(query, (self._job, after, BATCH)).fetchall():
            after = found[-1][0]
            for number, request_id in found:
                mend = self._requeuer(number)
                yield fault("no_place", f"request {request_id}", "its place", "one of a queue", "leased", mend)

    def _requeuer(self, number: int) -> Callable[[], None]:
        def requeue() -> None:
            (row,) = self.rows_at([number & SEQ_MASK]).values()
            row.state = RequestState.SUSPECT if lost_leases.is_suspect(row.losses) else RequestState.QUEUED
            self.save_rows([row])

        return requeue

    def _columns(self, job: JobRow) -> Iterator[Fault]:
        """Phase, priority, turn and time of a host are columns for the indexes; of an older run, it stands in none."""
        after = ""
        query = "SELECT key, phase, top, turn, due, record FROM hosts WHERE job = ? AND key > ? ORDER BY key LIMIT ?"
        while found := self._execute(query, (self._job, after, BATCH)).fetchall():
            after = found[-1][0]
            for key, *columns, record in found:
                host = _decode_host(record)
                if host.run == job.run:
                    expected = [+host.phase, host.top, host.turn, due_at(host)]
                else:
                    expected = [+Phase.IDLE, *columns[1:]]
                if columns != expected:
                    mend = self._column_setter(host, job.run)
                    yield fault("host_index", key, "phase, priority, turn and time in hosts", expected, columns, mend)

    def _column_setter(self, host: Host, run: int) -> Callable[[], None]:
        def save() -> None:
            self.save_hosts([host])
            if host.run != run:
                self._execute("UPDATE hosts SET phase = 0 WHERE job = ? AND key = ?", (self._job, host.key))

        return save

    def _parked(self, job: JobRow) -> Iterator[Fault]:
        after = ""
        query = "SELECT key, address, top, turn FROM parked WHERE job = ? AND key > ? ORDER BY key LIMIT ?"
        while found := self._execute(query, (self._job, after, BATCH)).fetchall():
            after = found[-1][0]
            hosts = self.hosts([key for key, *_ in found])
            for key, *columns in found:
                host = hosts.get(key)
                if host is None or host.run != job.run or host.phase is not Phase.PARKED:
                    mend = self._unparker(key)
                    yield fault("host_index", key, "a row in parked", "none: it is not parked", columns, mend)
                elif columns != [host.address, host.top, host.turn]:
                    expected = [host.address, host.top, host.turn]
                    yield fault("host_index", key, "its row in parked", expected, columns, self._parker(host))
        lacking = self._execute(
            "SELECT key FROM hosts WHERE job = ?1 AND phase = 5 AND key NOT IN (SELECT key FROM parked WHERE job = ?1)",
            (self._job,),
        ).fetchall()
        for (key,) in lacking:
            host = self.hosts([key])[key]
            yield fault("host_index", key, "its row in parked", "one", "none", self._parker(host))

    def _parker(self, host: Host) -> Callable[[], None]:
        return lambda: self.park([host])

    def _unparker(self, key: str) -> Callable[[], None]:
        return lambda: self.unpark([key])

    def _permit_numbers(self) -> Iterator[Fault]:
        """Workers ask for those after the number that they know."""
        first, last, number = self._execute(
            "SELECT coalesce(min(number), 1), coalesce(max(number), 0), count(*) FROM permits WHERE job = ?",
            (self._job,),
        ).fetchone()
        if first != 1 or last != number:
            yield fault("permit", "permits", "their numbers", f"1 to {number}", f"{first} to {last}", self._renumber)

    def _renumber(self) -> None:
        hosts = self.permitted(0)
        self._execute("DELETE FROM permits WHERE job = ?", (self._job,))
        for host in hosts:
            self.permit(host)

    def _cards(self) -> Iterator[Fault]:
        lost = self._execute(
            "SELECT worker FROM cards WHERE job = ?1 AND worker NOT IN (SELECT worker FROM workers WHERE job = ?1)",
            (self._job,),
        ).fetchall()
        for (worker,) in lost:
            yield fault("worker_card", worker, "the worker of a card", "known", "unknown", self._forgetter(worker))

    def _forgetter(self, worker: str) -> Callable[[], None]:
        return lambda: self.forget_worker(worker)
