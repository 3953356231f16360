"""What the consistency check asks of a file: counts by SQL, hosts in batches, and indexes against records.

Everything is read in one transaction, which is a snapshot: what other processes do meanwhile does not show.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec

from skitter.frontier.clock import StoreClock
from skitter.frontier.contract import BATCH
from skitter.frontier.sqlite.damage_search import find_damage
from skitter.frontier.sqlite.hosts import READY_FOR_NEEDS
from skitter.frontier.sqlite.jars import JarTable
from skitter.frontier.sqlite.leases import LeaseTable
from skitter.frontier.sqlite.outbox import OutboxTable
from skitter.frontier.sqlite.pages import PageTable
from skitter.frontier.sqlite.proxies import ProxyTable
from skitter.frontier.sqlite.requests import NOT_HELD, RequestTable
from skitter.frontier.sqlite.row_codec import NEEDY_PLACE, SEQ_BITS, SEQ_MASK, listed
from skitter.frontier.tables import Fault, JobRow, LeaseRow, RequestState, fault
from skitter.model.host import Host, Phase
from skitter.model.page_record import PageRecord
from skitter.policy import lost_leases
from skitter.policy.politeness import due_at

_decode_host = msgspec.msgpack.Decoder(Host).decode
_decode_page = msgspec.msgpack.Decoder(PageRecord).decode
_HELD = "SELECT place, count(*) FROM holds CROSS JOIN requests ON requests.job = holds.job AND requests.id = holds.id"


class ConsistencyTable(RequestTable, LeaseTable, OutboxTable, PageTable, ProxyTable, JarTable):
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
        sums = ", ".join(f"coalesce(sum(place = {place}), 0)" for place in range(NEEDY_PLACE + 1))
        query = f"SELECT {sums} FROM requests WHERE number BETWEEN ? AND ?"
        *found, needy = self._execute(query, (first, first | SEQ_MASK)).fetchone()
        counts = dict(zip(RequestState, found, strict=True))
        counts[RequestState.QUEUED] += needy
        # Of a request that is leased, the row stays where it was.
        for place, number in self._execute(f"{_HELD} WHERE holds.job = ? AND work = 0 GROUP BY place", (self._job,)):
            counts[RequestState.QUEUED if place == NEEDY_PLACE else RequestState(place)] -= number
        counts[RequestState.LEASED] = int(self._one("SELECT count(*) FROM holds WHERE job = ? AND work = 0"))
        return counts

    def count_failed(self) -> dict[str, int]:
        return dict(
            self._execute(
                "SELECT error_class, count(*) FROM requests INDEXED BY failed_class WHERE job = ? AND place = 5"
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

    def count_ended(self) -> int | None:
        return None

    def count_needs(self) -> dict[str, int]:
        counts = Counter[str]()
        # By their indexes: of nearly all jobs, there is nothing in the first.
        for index, where in (
            ("needy", "place = 8 AND host IN (SELECT number FROM hosts WHERE job = ?1)"),
            ("suspect", "place = 7 AND job = ?1 AND need > ''"),
        ):
            query = f"SELECT need, count(*) FROM requests INDEXED BY {index} WHERE {where} AND {NOT_HELD} GROUP BY need"
            counts.update(dict(self._execute(query, (self._job,)).fetchall()))
        return counts

    def need_tops(self, host_keys: Sequence[str]) -> dict[str, dict[str, int]]:
        tops: dict[str, dict[str, int]] = {}
        found = self._execute(
            "SELECT hosts.key, need, max(priority) FROM hosts CROSS JOIN requests INDEXED BY needy ON place = 8"
            f" AND requests.host = hosts.number AND {NOT_HELD} WHERE hosts.job = ? AND hosts.key IN"
            " (SELECT value FROM json_each(?)) GROUP BY hosts.key, need",
            (self._job, listed(host_keys)),
        )
        for key, need, top in found:
            tops.setdefault(key, {})[need] = top
        return tops

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
        yield from self._stands(job)
        yield from self._pages()
        yield from self._permit_numbers()
        yield from self._heartbeats()

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
                    phase = READY_FOR_NEEDS if host.phase is Phase.READY and not host.waiting else +host.phase
                    expected = [phase, host.top, host.turn, due_at(host)]
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

    def _stands(self, job: JobRow) -> Iterator[Fault]:
        """Who is ready for requests with needs, and who is parked: a row for each queue."""
        after, hosts = "", self.hosts_after("", BATCH)
        while True:
            known = {host.key: host for host in hosts}
            last = hosts[-1].key if hosts else None
            for table, phase in (("ready_for", Phase.READY), ("parked", Phase.PARKED)):
                rows = self._stand_rows(table, after, last)
                for key in sorted(known.keys() | rows.keys()):
                    host = known.get(key, Host(key))
                    stands = host.run == job.run and host.phase is phase
                    expected, found = _rows_of(host) if stands else {}, rows.get(key, {})
                    if found != expected:
                        mend = self._stand_setter(host, stands=stands)
                        yield fault("host_index", key, f"its rows in {table}", expected, found, mend)
            if last is None:
                return
            after, hosts = last, self.hosts_after(last, BATCH)

    def _stand_rows(self, table: str, after: str, last: str | None) -> dict[str, dict[str, list[object]]]:
        """Rows by key and need, of keys behind ``after``, and no further than ``last``."""
        columns = "address, top, turn" if table == "parked" else "top, turn"
        rows: dict[str, dict[str, list[object]]] = {}
        for key, need, *values in self._execute(
            f"SELECT key, need, {columns} FROM {table} WHERE job = ?1 AND key > ?2 AND (?3 IS NULL OR key <= ?3)",
            (self._job, after, last),
        ):
            rows.setdefault(key, {})[need] = values
        return rows

    def _stand_setter(self, host: Host, *, stands: bool) -> Callable[[], None]:
        def save() -> None:
            for table in ("ready_for", "parked"):
                self._execute(f"DELETE FROM {table} WHERE job = ? AND key = ?", (self._job, host.key))
            if stands and host.phase is Phase.PARKED:
                self.park([host])
            elif stands:
                self.save_hosts([host])

        return save

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

    def _pages(self) -> Iterator[Fault]:
        """A known page is due when its record says."""
        after = -(2**63)
        query = "SELECT id, due, record FROM pages WHERE job = ? AND id > ? AND record IS NOT NULL ORDER BY id LIMIT ?"
        while found := self._execute(query, (self._job, after, BATCH)).fetchall():
            after = found[-1][0]
            for page_id, due, stored in found:
                record = _decode_page(stored)
                if due != record.next_at:
                    mend = self._page_setter(page_id, record)
                    yield fault("known_page", f"page {page_id}", "when it is due", record.next_at, due, mend)

    def _page_setter(self, page_id: int, record: PageRecord) -> Callable[[], None]:
        return lambda: self.save_page_records({page_id: record})

    def _heartbeats(self) -> Iterator[Fault]:
        lost = self._execute(
            "SELECT worker FROM heartbeats"
            " WHERE job = ?1 AND worker NOT IN (SELECT worker FROM workers WHERE job = ?1)",
            (self._job,),
        ).fetchall()
        for (worker,) in lost:
            yield fault(
                "worker_heartbeat", worker, "the worker of a heartbeat", "known", "unknown", self._forgetter(worker)
            )

    def _forgetter(self, worker: str) -> Callable[[], None]:
        return lambda: self.forget_worker(worker)


def _rows_of(host: Host) -> dict[str, list[object]]:
    """What stands in ``ready_for`` or in ``parked`` of a host that is ready or parked, by need."""
    if host.phase is Phase.PARKED:
        return {need: [host.address, top, host.turn] for need, top in host.tops().items()}
    return {need: [top, host.turn] for need, top in host.needs.items()}
