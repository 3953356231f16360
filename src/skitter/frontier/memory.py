"""The memory frontier: dictionaries. The reference and the test oracle; it dies with its process."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from heapq import nsmallest
from itertools import compress
from typing import TypeVar

import msgspec

from skitter.dedup import BloomFilter, ExpiringSet
from skitter.frontier.clock import StoreClock
from skitter.frontier.dedup_settings import ended_set
from skitter.frontier.sorted_index import Key, SortedIndex
from skitter.frontier.tables import Fault, IntakeRow, JobRow, LeaseRow, RequestState, Row, SinkRow, Tables
from skitter.frontier.transactional import TransactionalFrontier
from skitter.model.bloom_stats import BloomStats
from skitter.model.host import Host, Phase
from skitter.model.item import Item, ItemKind, NewItem
from skitter.model.lease import Work
from skitter.model.outcome import RobotsRecord
from skitter.model.page_record import KnownPage, PageRecord
from skitter.model.proxy import HostProxies, ProxyRecord
from skitter.model.session import Jar, SessionRecord
from skitter.model.store_capacity import StoreCapacity
from skitter.model.worker import WorkerHeartbeat
from skitter.policy.politeness import due_at

T = TypeVar("T")
_OVER = (RequestState.DONE, RequestState.REDIRECTED)


def memory_frontier(job_name: str, store: MemoryStore | None = None) -> TransactionalFrontier:
    """A client of one job: of the one in ``store``, or of one of its own."""
    return TransactionalFrontier(store or MemoryStore(), job_name)


class MemoryStore:
    """One job. Transactions need no lock: every call runs on the loop, and the rules check before they write."""

    def __init__(self, clock: StoreClock | None = None) -> None:
        self.tables = MemoryTables(clock or StoreClock())

    async def run(self, call: Callable[[Tables], T], *, write: bool = True, brief: bool = False) -> T:  # noqa: ARG002
        return call(self.tables)

    async def wait_for_turn(self) -> None:
        pass

    def use_open_file(self) -> bool:
        return False

    async def capacity(self) -> list[StoreCapacity]:
        return []

    async def close(self) -> None:
        pass


class MemoryTables:
    """``Tables`` in dictionaries."""

    can_forget = True

    def __init__(self, clock: StoreClock) -> None:
        self._clock = clock
        self._job: JobRow | None = None
        self._robots: dict[str, RobotsRecord] = {}
        self._hosts: dict[str, Host] = {}
        self._heard: dict[str, float] = {}
        self._heartbeats: dict[str, WorkerHeartbeat] = {}
        self._delivered: set[int] = set()
        self._pages: dict[int, KnownPage] = {}
        self._due = SortedIndex()
        self._page_records: dict[int, PageRecord] = {}
        self._distinct_registers = b""
        self._empty_run()

    def _empty_run(self) -> None:
        self._ended: BloomFilter | ExpiringSet | None = None
        """Ids of requests that are done or redirected; None: their rows are kept."""
        self._kept: set[int] = set()
        self._rows: dict[int, Row] = {}
        self._by_seq: dict[int, Row] = {}
        self._queues: defaultdict[str, SortedIndex] = defaultdict(SortedIndex)
        self._needy: defaultdict[str, defaultdict[str, SortedIndex]] = defaultdict(lambda: defaultdict(SortedIndex))
        """Queues of requests that have a need: by host key, and by need."""
        self._needs: dict[str, int] = {}
        self._delayed = SortedIndex()
        self._suspects: defaultdict[str, SortedIndex] = defaultdict(SortedIndex)
        self._away: defaultdict[str, SortedIndex] = defaultdict(SortedIndex)
        self._ready: defaultdict[str, SortedIndex] = defaultdict(SortedIndex)
        self._stands: dict[str, list[str]] = {}
        """The needs that a host is ready for, by its key."""
        self._waiting = SortedIndex()
        self._given_up = SortedIndex()
        self._parked: defaultdict[str, SortedIndex] = defaultdict(SortedIndex)
        self._loads: dict[str, int] = {}
        self._permits: list[str] = []
        self._leases: dict[tuple[Work, int], LeaseRow] = {}
        self._by_worker: defaultdict[str, set[tuple[Work, int]]] = defaultdict(set)
        self._staged: dict[tuple[int, int], list[NewItem]] = {}
        self._items: dict[int, Item] = {}
        self._sinks: dict[str, SinkRow] = {}
        self._intakes: dict[str, IntakeRow] = {}
        self._proxies: dict[str, ProxyRecord] = {}
        self._host_proxies: dict[str, HostProxies] = {}
        self._jars: dict[tuple[str, str], Jar] = {}
        self._sessions: dict[str, SessionRecord] = {}

    def clock(self) -> float:
        return self._clock.now()

    def load_job(self) -> JobRow | None:
        return self._job

    def save_job(self, job: JobRow) -> None:
        if self._job is None or self._job.run != job.run:
            self._ended = ended_set(job.spec, self.clock)
        self._job = job

    def forget_run(self) -> None:
        self._empty_run()

    def distinct_registers(self) -> bytes:
        return self._distinct_registers

    def save_distinct_registers(self, registers: bytes) -> None:
        self._distinct_registers = registers

    # ---- requests

    def known(self, ids: Sequence[int]) -> set[int]:
        known = self._rows.keys() & set(ids)
        if self._ended is not None:
            known |= self._kept.intersection(ids)
            if not isinstance(self._ended, BloomFilter):
                known.update(compress(ids, self._ended.contains_ids(ids)))
        return known

    def maybe_known(self, ids: Sequence[int]) -> set[int]:
        if not isinstance(self._ended, BloomFilter):
            return set()
        return set(compress(ids, self._ended.contains_ids(ids)))

    def keep(self, ids: Sequence[int]) -> None:
        if isinstance(self._ended, BloomFilter):
            self._kept.update(ids)

    def filter_stats(self) -> BloomStats | None:
        return self._ended.stats() if isinstance(self._ended, BloomFilter) else None

    def insert(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._rows[row.id] = self._by_seq[row.seq] = row
        self.save_rows(rows)

    def row(self, request_id: int) -> Row | None:
        return self._rows.get(request_id)

    def queue_length(self, host_key: str, limit: int) -> int:
        return min(limit, len(self._queues[host_key]) + sum(map(len, self._needy[host_key].values())))

    def longest_queues(self, limit: int) -> list[str]:
        lengths = {key: self.queue_length(key, len(self._rows)) for key in self._queues.keys() | self._needy.keys()}
        return sorted((key for key in lengths if lengths[key]), key=lambda key: (-lengths[key], key))[:limit]

    def rows(self, ids: Sequence[int]) -> dict[int, Row]:
        return {request_id: self._rows[request_id] for request_id in ids if request_id in self._rows}

    def save_rows(self, rows: Sequence[Row]) -> None:
        for row in rows:
            state = row.state
            queue = self._needy[row.host_key][row.need] if row.need else self._queues[row.host_key]
            queue.put(row.id, (-row.priority, row.seq, row.id) if state is RequestState.QUEUED else None)
            away, is_away = self._away[row.host_key], state is RequestState.DELAYED or state is RequestState.SUSPECT
            if is_away or row.id in away:
                self._delayed.put(row.id, (row.not_before, row.seq, row.id) if state is RequestState.DELAYED else None)
                self._suspects[row.need].put(row.id, (row.seq, row.id) if state is RequestState.SUSPECT else None)
                away.put(row.id, (row.seq, row.id) if is_away else None)
            if self._ended is not None and state in _OVER and row.id in self._rows:
                del self._rows[row.id], self._by_seq[row.seq]
                self._ended.add_ids((row.id,))

    def save_priorities(self, rows: Sequence[Row]) -> None:
        """Nothing: a row's place in a queue is made of it when it is queued."""

    def rows_at(self, seqs: Sequence[int]) -> dict[int, Row]:
        return {seq: self._by_seq[seq] for seq in seqs}

    def heads(self, host_keys: Sequence[str], limit: int, need: str = "") -> dict[str, deque[tuple[int, int]]]:
        queues = {key: self._needy[key][need] if need else self._queues[key] for key in host_keys}
        return {
            host_key: deque((-priority, seq) for priority, seq, _ in queue.first(limit))
            for host_key, queue in queues.items()
        }

    def suspects(self, limit: int, need: str = "") -> list[Row]:
        return [self._rows[key[-1]] for key in self._suspects[need].first(limit)]

    def due_rows(self, now: float, limit: int) -> list[Row]:
        return [self._rows[key[-1]] for key in self._delayed.first(limit) if key[0] <= now]

    def next_row_due(self) -> float | None:
        return next((due for due, *_ in self._delayed.first(1)), None)

    def waiting(self, host_key: str, limit: int) -> list[Row]:
        needy = self._needy[host_key]
        keys: list[Key] = []
        for queue in (self._queues[host_key], *(needy[need] for need in sorted(needy)), self._away[host_key]):
            keys += queue.first(limit - len(keys))
        return [self._rows[key[-1]] for key in keys]

    def failed_rows(self, error_class: str, limit: int, after: int, *, newest: bool) -> list[Row]:
        failed = (row for row in self._rows.values() if row.state is RequestState.FAILED)
        chosen = (row for row in failed if error_class in ("", row.error_class))
        beyond = (row for row in chosen if not after or (row.seq < after if newest else row.seq > after))
        return sorted(beyond, key=lambda row: row.seq, reverse=newest)[:limit]

    # ---- needs

    def add_to_needs(self, steps: dict[str, int]) -> None:
        counted = {need: self._needs.get(need, 0) + step for need, step in steps.items()}
        self._needs = {need: queued for need, queued in (self._needs | counted).items() if queued}

    def needs(self, limit: int) -> list[tuple[str, int]]:
        return sorted(self._needs.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]

    # ---- known pages

    def due_times(self, ids: Sequence[int]) -> dict[int, float]:
        return {request_id: self._pages[request_id].due_at for request_id in ids if request_id in self._pages}

    def insert_pages(self, pages: Sequence[KnownPage]) -> None:
        for page in pages:
            if page.id not in self._pages:
                self._save_page(page)

    def _save_page(self, page: KnownPage) -> None:
        self._pages[page.id] = page
        self._due.put(page.id, (page.due_at, page.id))

    def page_records(self, ids: Sequence[int]) -> dict[int, PageRecord]:
        return {request_id: self._page_records[request_id] for request_id in ids if request_id in self._page_records}

    def save_page_records(self, records: dict[int, PageRecord]) -> None:
        for request_id, record in records.items():
            if (page := self._pages.get(request_id)) is not None:
                self._page_records[request_id] = record
                self._save_page(msgspec.structs.replace(page, due_at=record.next_at))

    def known_pages(self, after: float, until: float, limit: int) -> list[KnownPage]:
        first = (math.nextafter(after, math.inf),)
        found = self._due.onwards(first, limit)
        last = min(until, found[-1][0]) if len(found) == limit else until
        return [self._pages[key[-1]] for key in self._due.between(first, (last, math.inf))]

    # ---- jars

    def jars(self, session: str, domains: Sequence[str]) -> list[Jar]:
        return [self._jars[session, domain] for domain in domains if (session, domain) in self._jars]

    def jar_versions(self, domains: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        wanted = set(domains)
        for (_, domain), jar in self._jars.items():
            if domain in wanted:
                found[domain] = max(jar.version, found.get(domain, 0))
        return found

    def save_jar(self, jar: Jar) -> None:
        self._jars[jar.session, jar.domain] = jar

    def drop_oldest_jar(self) -> None:
        del self._jars[min(self._jars, key=lambda key: (key[0] != "", self._jars[key].version))]

    def jars_of(self, session: str) -> list[Jar]:
        return [jar for jar in self._jars.values() if jar.session == session]

    def sessions(self, names: Sequence[str]) -> dict[str, SessionRecord]:
        return {name: self._sessions[name] for name in names if name in self._sessions}

    def save_session(self, name: str, session: SessionRecord) -> None:
        self._sessions[name] = session

    def all_sessions(self) -> dict[str, SessionRecord]:
        return {name: self._sessions[name] for name in sorted(self._sessions)}

    def all_jars(self) -> list[Jar]:
        return [self._jars[key] for key in sorted(self._jars)]

    # ---- hosts

    def hosts(self, keys: Sequence[str]) -> dict[str, Host]:
        return {key: self._hosts[key] for key in keys if key in self._hosts}

    def save_hosts(self, hosts: Sequence[Host]) -> None:
        for host in hosts:
            self._hosts[host.key] = host
            phase = host.phase
            is_ready = phase is Phase.READY
            self._ready[""].put(host.key, (-host.top, host.turn, host.key) if is_ready and host.waiting else None)
            if host.needs or host.key in self._stands:
                self._stand(host, is_ready)
            self._waiting.put(host.key, (due_at(host), host.key) if phase is Phase.WAITING else None)
            self._given_up.put(host.key, (host.key,) if phase is Phase.GIVEN_UP else None)

    def _stand(self, host: Host, is_ready: bool) -> None:
        for need in self._stands.pop(host.key, ()):
            self._ready[need].put(host.key, None)
        if is_ready and host.needs:
            self._stands[host.key] = list(host.needs)
            for need, top in host.needs.items():
                self._ready[need].put(host.key, (-top, host.turn, host.key))

    def ready_hosts(self, limit: int, need: str = "") -> list[tuple[int, int, str]]:
        return [(-top, turn, key) for top, turn, key in self._ready[need].first(limit)]

    def due_hosts(self, now: float, limit: int) -> list[str]:
        return [key for due, key in self._waiting.first(limit) if due <= now]

    def next_host_due(self) -> float | None:
        return next((due for due, *_ in self._waiting.first(1)), None)

    def waiting_hosts(self, after: float, limit: int) -> list[tuple[float, str]]:
        first = (math.nextafter(after, math.inf),)
        found = self._waiting.onwards(first, limit)
        if len(found) < limit:
            return [(due, key) for due, key in found]
        end = (math.nextafter(found[-1][0], math.inf),)
        return [(due, key) for due, key in self._waiting.between(first, end)]

    def given_up_hosts(self, limit: int) -> list[str]:
        return [key for (key,) in self._given_up.first(limit)]

    def loads(self, addresses: Sequence[str]) -> dict[str, int]:
        return {address: self._loads[address] for address in addresses if address in self._loads}

    def save_loads(self, loads: dict[str, int]) -> None:
        self._loads = {address: load for address, load in (self._loads | loads).items() if load}

    def park(self, hosts: Sequence[Host]) -> None:
        self.unpark([host.key for host in hosts])
        for host in hosts:
            for need, top in host.tops().items():
                self._parked[need].put(host.key, (host.address, -top, host.turn, host.key))

    def unpark(self, host_keys: Sequence[str]) -> None:
        for index in self._parked.values():
            for key in host_keys:
                index.put(key, None)

    def parked_hosts(self, address: str | None, limit: int, need: str = "") -> list[str]:
        if address is None:
            return [key[-1] for index in self._parked.values() for key in index.first(limit)][:limit]
        return [key[-1] for key in self._parked[need].onwards((address,), limit) if key[0] == address]

    def parked_needs(self, address: str) -> list[str]:
        return [need for need in sorted(self._parked) if need and self.parked_hosts(address, 1, need)]

    def robots(self, host_key: str) -> RobotsRecord | None:
        return self._robots.get(host_key)

    def save_robots(self, host_key: str, record: RobotsRecord) -> None:
        self._robots[host_key] = record

    def permit(self, host_key: str) -> None:
        self._permits.append(host_key)

    def permitted(self, after: int) -> list[str]:
        return self._permits[after:]

    # ---- leases

    def leases(self, keys: Sequence[tuple[Work, int]]) -> dict[tuple[Work, int], LeaseRow]:
        return {key: self._leases[key] for key in keys if key in self._leases}

    def save_leases(self, leases: Sequence[LeaseRow]) -> None:
        for lease in leases:
            key = (lease.work, lease.id)
            self._leases[key] = lease
            self._by_worker[lease.worker].add(key)
        self.save_rows([lease.row for lease in leases if lease.row is not None])

    def drop_leases(self, leases: Sequence[LeaseRow]) -> None:
        for lease in leases:
            key = (lease.work, lease.id)
            self._leases.pop(key, None)
            self._by_worker[lease.worker].discard(key)

    def expired_leases(self, now: float, limit: int) -> list[LeaseRow]:
        expired = [lease for lease in self._leases.values() if lease.deadline <= now]
        return sorted(expired, key=lambda lease: (lease.deadline, lease.epoch))[:limit]

    def first_deadline(self) -> float | None:
        return min((lease.deadline for lease in self._leases.values()), default=None)

    def leases_of(self, worker: str) -> list[LeaseRow]:
        return sorted((self._leases[key] for key in self._by_worker[worker]), key=lambda lease: lease.epoch)

    def load_of(self, worker: str) -> tuple[int, bool]:
        held = self._by_worker[worker]
        return len(held), any(self._leases[key].alone for key in held)

    def any_lease(self) -> bool:
        return bool(self._leases)

    # ---- workers

    def heard_from(self, worker: str, now: float) -> None:
        self._heard[worker] = now

    def save_heartbeat(self, worker: str, heartbeat: WorkerHeartbeat) -> None:
        self._heartbeats[worker] = heartbeat

    def forget_worker(self, worker: str) -> None:
        self._heard.pop(worker, None)
        self._heartbeats.pop(worker, None)

    def number_of_workers(self) -> int:
        return len(self._heard)

    def silent_workers(self, until: float) -> list[str]:
        return [worker for worker, heard_at in self._heard.items() if heard_at <= until]

    def workers(self) -> list[tuple[str, float, WorkerHeartbeat | None]]:
        return [(worker, self._heard[worker], self._heartbeats.get(worker)) for worker in sorted(self._heard)]

    # ---- outbox

    def stage(self, request_id: int, epoch: int, items: Sequence[NewItem], after: int | None) -> None:
        staged = self._staged.setdefault((request_id, epoch), [])
        if after is None or len(staged) == after:
            staged.extend(items)

    def publish(self, request_id: int, epoch: int, after: int, *, keep: bool) -> list[ItemKind]:
        staged = self._staged.pop((request_id, epoch), [])
        if keep:
            self.save_items([Item(after + 1 + n, request_id, n, i.record, i.kind) for n, i in enumerate(staged)])
        return [item.kind for item in staged]

    def save_items(self, items: Sequence[Item]) -> None:
        self._items.update((item.position, item) for item in items)

    def items(self, after: int, limit: int) -> list[Item]:
        # Positions are dense, and what was dropped is always a prefix.
        first = max(after + 1, min(self._items, default=0))
        return [self._items[position] for position in range(first, first + limit) if position in self._items]

    def drop_items(self, up_to: int, *, delivered: bool = False) -> None:
        dropped = [self._items.pop(position) for position in [*self._items] if position <= up_to]
        if delivered:
            behind = self._items.get(up_to + 1)
            ids = {item.request_id for item in dropped if item.kind is not ItemKind.PAGE}
            self._delivered |= ids - {behind.request_id if behind else None}

    def delivered(self, ids: Sequence[int]) -> set[int]:
        return self._delivered & set(ids)

    def sinks(self) -> list[SinkRow]:
        return list(self._sinks.values())

    def save_sink(self, sink: SinkRow) -> None:
        self._sinks[sink.target] = sink

    def drop_sink(self, target: str) -> None:
        self._sinks.pop(target, None)

    def intakes(self) -> list[IntakeRow]:
        return [self._intakes[source] for source in sorted(self._intakes)]

    def save_intake(self, intake: IntakeRow) -> None:
        self._intakes[intake.source] = intake

    # ---- proxies

    def proxies(self) -> list[ProxyRecord]:
        return [self._proxies[proxy] for proxy in sorted(self._proxies)]

    def save_proxies(self, proxies: Sequence[ProxyRecord]) -> None:
        self._proxies.update((proxy.id, proxy) for proxy in proxies)

    def drop_proxies(self, ids: Sequence[str]) -> None:
        for proxy in ids:
            del self._proxies[proxy]

    def host_proxies(self, host_keys: Sequence[str] | None) -> dict[str, HostProxies]:
        keys = self._host_proxies if host_keys is None else host_keys
        return {key: self._host_proxies[key] for key in keys if key in self._host_proxies}

    def save_host_proxies(self, of_hosts: dict[str, HostProxies]) -> None:
        merged = self._host_proxies | of_hosts
        self._host_proxies = {key: at_host for key, at_host in merged.items() if not at_host.is_empty}

    # ---- the consistency check: dictionaries hold what they were given, and their indexes are made from them

    def find_damage(self) -> str:
        return ""

    def count_rows(self) -> dict[RequestState, int]:
        return Counter(row.state for row in self._rows.values())

    def count_failed(self) -> dict[str, int]:
        return Counter(row.error_class for row in self._rows.values() if row.state is RequestState.FAILED)

    def done_by_host(self) -> dict[str, int]:
        return Counter(row.host_key for row in self._rows.values() if row.state is RequestState.DONE)

    def count_ended(self) -> int | None:
        return None if self._ended is None else len(self._ended)

    def count_needs(self) -> dict[str, int]:
        waiting = (RequestState.QUEUED, RequestState.SUSPECT)
        return Counter(row.need for row in self._rows.values() if row.need and row.state in waiting)

    def need_tops(self, host_keys: Sequence[str]) -> dict[str, dict[str, int]]:
        return {
            key: {need: -queue.first(1)[0][0] for need, queue in self._needy[key].items() if len(queue)}
            for key in host_keys
            if key in self._needy
        }

    def hosts_after(self, key: str, limit: int) -> list[Host]:
        return [self._hosts[other] for other in nsmallest(limit, (other for other in self._hosts if other > key))]

    def all_leases(self) -> list[LeaseRow]:
        return list(self._leases.values())

    def all_loads(self) -> dict[str, int]:
        return dict(self._loads)

    def staged_epochs(self) -> list[tuple[int, int]]:
        return list(self._staged)

    def item_range(self) -> tuple[int, int, int]:
        return min(self._items, default=0), max(self._items, default=0), len(self._items)

    def last_seq(self) -> int:
        return max(self._by_seq, default=0)

    def index_faults(self, job: JobRow) -> Iterator[Fault]:  # noqa: ARG002
        return iter(())
