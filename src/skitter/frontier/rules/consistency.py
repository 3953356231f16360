"""The consistency check of a job's records, and their repair: counts, hosts, leases, items, sequences, the state.

Records are compared in the order in which they follow from each other: requests and leases are what is there, hosts
and addresses are counted from them, the job's record from all of it. So with ``repair`` each fault is mended when it is
found, and what comes after sees it mended. Everything happens in one transaction, and hosts are read in batches.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

from skitter.frontier.contract import BATCH
from skitter.frontier.rules.hosts import HostRules
from skitter.frontier.rules.requests import COUNTER
from skitter.frontier.rules.transaction import Transaction
from skitter.frontier.tables import Fault, LeaseRow, RequestState, Row, fault
from skitter.model.consistency import Consistency, unreadable, with_mended
from skitter.model.host import Halt, Host, Phase
from skitter.model.job import State
from skitter.model.lease import Work
from skitter.model.proxy import ProxyRecord
from skitter.model.session import SessionRecord
from skitter.policy import politeness

_WHERE_LEASED = (RequestState.QUEUED, RequestState.SUSPECT, RequestState.LEASED)
"""A store may leave the row of a leased request where it was."""
_QUEUED_PHASES = (Phase.READY, Phase.WAITING, Phase.FULL, Phase.PARKED)
_PASSES = 3
"""What was mended may show something else; after these, what is left cannot be mended."""


def check(transaction: Transaction, *, repair: bool) -> Consistency:
    """Compare everything; with ``repair``, mend what can be mended, and look again."""
    if damage := transaction.tables.find_damage():
        report = Consistency()
        report.add(unreadable(damage))
        return report
    report = _pass(transaction, repair=repair)
    if not (repair and report.counts):
        return report
    left = report
    for _ in range(_PASSES):
        left = _pass(transaction, repair=True)
        if not any(finding.mendable for finding in left.findings):
            break
    return with_mended(report, left)


def _pass(transaction: Transaction, *, repair: bool) -> Consistency:
    report = Consistency()
    for found in _Comparison(transaction, report).faults():
        report.add(found.finding)
        if repair and found.mend is not None:
            found.mend()
    return report


class _Comparison:
    """One pass over a job's records."""

    def __init__(self, transaction: Transaction, report: Consistency) -> None:
        self._transaction = transaction
        self._tables = transaction.tables
        self._job = transaction.record
        self._now = transaction.now
        self._report = report
        self._in_flight: Counter[str] = Counter()
        self._gates: set[str] = set()

    def faults(self) -> Iterator[Fault]:
        yield from self._tables.index_faults(self._job)
        yield from self._leases()
        yield from self._staged()
        yield from self._addresses()
        yield from self._proxies()
        yield from self._hosts()
        yield from self._counts()
        yield from self._outbox()
        yield from self._intakes()
        yield from self._jars()
        yield from self._state()

    # ---- jars

    def _jars(self) -> Iterator[Fault]:
        held = Counter(lease.session.rpartition(" ")[0] for lease in self._tables.all_leases() if lease.session)
        for name, session in self._tables.all_sessions().items():
            if session.in_flight != held[name]:
                mend = self._session_setter(name, session, held[name])
                yield fault("session_in_flight", name, "requests in flight", held[name], session.in_flight, mend)
        jars, job = self._tables.all_jars(), self._job
        if len(jars) != job.jars:
            mend = _setter(job, "jars", len(jars))
            yield fault("jars_count", "job", "jars of cookies", len(jars), job.jars, mend)
        newest = max((jar.version for jar in jars), default=0)
        if newest > job.jar_version:
            mend = _setter(job, "jar_version", newest)
            yield fault("sequence", "job", "jar_version", f"{newest} at least", job.jar_version, mend)

    def _session_setter(self, name: str, session: SessionRecord, in_flight: int) -> Callable[[], None]:
        def save() -> None:
            session.in_flight = in_flight
            self._tables.save_session(name, session)

        return save

    # ---- leases

    def _leases(self) -> Iterator[Fault]:
        tables, job = self._tables, self._job
        leases = tables.all_leases()
        self._report.look_at("leases", len(leases))
        for first in range(0, len(leases), BATCH):
            batch = leases[first : first + BATCH]
            rows = tables.rows([lease.id for lease in batch if lease.work is Work.PAGE])
            for lease in batch:
                yield from self._lease(lease, rows.get(lease.id) if lease.work is Work.PAGE else None)
        leases = tables.all_leases()
        last, held = max((lease.epoch for lease in leases), default=0), Counter(lease.worker for lease in leases)
        if last >= job.next_epoch:
            mend = _setter(job, "next_epoch", last + 1)
            yield fault("sequence", "job", "next_epoch", f"more than {last}", job.next_epoch, mend)
        known: set[int] = set()
        for lease in leases:
            if lease.epoch in known:
                yield fault(
                    "lease_epoch", _named(lease), "its epoch", "one of its own", lease.epoch, self._renumber(lease)
                )
            known.add(lease.epoch)
            if lease.alone and held[lease.worker] > 1:
                yield fault(
                    "lease_alone", lease.worker, "leases beside one that is alone", 0, held[lease.worker] - 1, None
                )
        first_deadline = min((lease.deadline for lease in leases), default=math.inf)
        if first_deadline < job.reap_at:
            mend = _setter(job, "reap_at", first_deadline)
            yield fault("lease_deadline", "job", "reap_at", f"{first_deadline} at most", job.reap_at, mend)
        for lease in leases:
            if lease.work is not Work.SEED:
                self._in_flight[lease.host_key] += 1
            if lease.work is Work.ROBOTS:
                self._gates.add(lease.host_key)

    def _lease(self, lease: LeaseRow, row: Row | None) -> Iterator[Fault]:
        name = _named(lease)
        if lease.work is Work.SEED:
            if not self._job.seeding:
                yield fault("lease_work", name, "a lease of the seeding", "none: it is over", "one", self._drop(lease))
            return
        if lease.work is Work.ROBOTS:
            return
        if row is None:
            yield fault("no_request", name, "the request of a lease", "stored", "missing", None)
        elif row.state not in _WHERE_LEASED:
            places = f"{row.state.name.lower()} and leased"
            yield fault("two_places", name, "places of a request", row.state.name.lower(), places, self._drop(lease))
        elif lease.row is None or lease.row.seq != row.seq or lease.host_key != row.host_key:
            was = f"{lease.host_key}, {lease.row.seq if lease.row else 0}"
            expected, mend = f"{row.host_key}, {row.seq}", self._row_setter(lease, row)
            yield fault("lease_work", name, "host and number of its request", expected, was, mend)

    def _row_setter(self, lease: LeaseRow, row: Row) -> Callable[[], None]:
        def save() -> None:
            lease.host_key, lease.row = row.host_key, row
            self._tables.save_leases([lease])

        return save

    def _drop(self, lease: LeaseRow) -> Callable[[], None]:
        def drop() -> None:
            # What it has staged was never seen by anyone.
            self._tables.publish(lease.id, lease.epoch, 0, keep=False)
            self._tables.drop_leases([lease])

        return drop

    def _renumber(self, lease: LeaseRow) -> Callable[[], None]:
        def renumber() -> None:
            self._tables.drop_leases([lease])
            lease.epoch, self._job.next_epoch = self._job.next_epoch, self._job.next_epoch + 1
            self._tables.save_leases([lease])

        return renumber

    def _staged(self) -> Iterator[Fault]:
        leases = {(lease.id, lease.epoch): lease for lease in self._tables.all_leases()}
        for request_id, epoch in self._tables.staged_epochs():
            lease = leases.get((request_id, epoch))
            place = f"request {request_id}, epoch {epoch}"
            if lease is None:
                mend = self._unstage(request_id, epoch)
                yield fault("staged", place, "the lease of staged items", "current", "none", mend)
            elif not lease.staged:
                yield fault("staged", place, "the mark of a lease that has staged", "set", "not set", self._mark(lease))

    def _unstage(self, request_id: int, epoch: int) -> Callable[[], object]:
        return lambda: self._tables.publish(request_id, epoch, 0, keep=False)

    def _mark(self, lease: LeaseRow) -> Callable[[], None]:
        def mark() -> None:
            lease.staged = True
            self._tables.save_leases([lease])

        return mark

    def _addresses(self) -> Iterator[Fault]:
        counted = Counter(lease.address for lease in self._tables.all_leases() if lease.address)
        stored = self._tables.all_loads()
        for address in sorted(counted.keys() | stored.keys()):
            if (expected := counted[address]) != stored.get(address, 0):
                mend = self._load_setter(address, expected)
                yield fault("address_count", address, "leases in flight", expected, stored.get(address, 0), mend)

    def _load_setter(self, address: str, load: int) -> Callable[[], None]:
        return lambda: self._tables.save_loads({address: load})

    def _proxies(self) -> Iterator[Fault]:
        counted = Counter(lease.proxy for lease in self._tables.all_leases() if lease.proxy)
        for proxy in self._tables.proxies():
            if (expected := counted[proxy.id]) != proxy.in_flight:
                mend = self._proxy_setter(proxy, expected)
                yield fault("proxy_count", proxy.id, "leases in flight", expected, proxy.in_flight, mend)
        found, told = len(self._tables.host_proxies(None)), self._job.proxy_hosts
        if found != told:
            mend = _setter(self._job, "proxy_hosts", found)
            yield fault("proxy_count", "job", "hosts that remember proxies", found, told, mend)

    def _proxy_setter(self, proxy: ProxyRecord, in_flight: int) -> Callable[[], None]:
        def save() -> None:
            proxy.in_flight = in_flight
            self._tables.save_proxies([proxy])

        return save

    # ---- hosts

    def _hosts(self) -> Iterator[Fault]:
        tables, job = self._tables, self._job
        permits = Counter(tables.permitted(0))
        unknown = set(permits)
        pages = parked = 0
        halts: Counter[Halt] = Counter()
        after = ""
        while hosts := tables.hosts_after(after, BATCH):
            after = hosts[-1].key
            self._report.look_at("hosts", len(hosts))
            current = [host for host in hosts if host.run == job.run]
            heads = tables.heads([host.key for host in current], 1)
            needy = tables.need_tops([host.key for host in current])
            for host in hosts:
                yield from self._robots(host)
            for host in current:
                head = heads[host.key]
                unknown.discard(host.key)
                yield from self._host(host, head[0][0] if head else None)
                yield from self._needs_of(host, needy.get(host.key, {}))
                yield from self._phase(host)
                yield from self._permit(host, permits[host.key])
                pages += host.pages
                parked += host.phase is Phase.PARKED
                halts[host.halt] += 1
        for key in sorted(unknown):
            mend = self._host_setter(Host(key, run=job.run, public=politeness.is_public(key)), permitted=True)
            yield fault("permit", key, "the record of a permitted host", "there", "none in this run", mend)
        if parked != job.parked:
            yield fault("parked_count", "job", "parked", parked, job.parked, _setter(job, "parked", parked))
        for name, halt in (("paused_hosts", Halt.PAUSED), ("given_up_hosts", Halt.GIVEN_UP)):
            if halts[halt] != getattr(job, name):
                yield fault(
                    "halted_count", "job", name, halts[halt], getattr(job, name), _setter(job, name, halts[halt])
                )
        self._pages = pages

    def _host(self, host: Host, top: int | None) -> Iterator[Fault]:
        key, in_flight = host.key, self._in_flight[host.key]
        if host.waiting != (top is not None):
            mend = self._host_setter(host, waiting=top is not None, top=host.top if top is None else top)
            yield fault("host_queue", key, "whether something waits", top is not None, host.waiting, mend)
        elif top is not None and host.top != top:
            yield fault("host_queue", key, "its highest priority", top, host.top, self._host_setter(host, top=top))
        if host.in_flight != in_flight:
            mend = self._host_setter(host, in_flight=in_flight)
            yield fault("host_in_flight", key, "requests in flight", in_flight, host.in_flight, mend)
        if host.gate != (key in self._gates):
            mend = self._host_setter(host, gate=key in self._gates)
            yield fault("host_in_flight", key, "whether its robots.txt is read", key in self._gates, host.gate, mend)
        if host.given_up is not None and not self._tables.waiting(key, 1):
            mend = self._host_setter(host, given_up=None)
            yield fault("host_reason", key, "given up, with a queue to bury", "not given up", "nothing waits", mend)
        elif host.given_up is not None and host.phase is not Phase.GIVEN_UP:
            # Nothing dies by a mark that nobody has acted on: a host that is down is given up again.
            mend = self._host_setter(host, given_up=None)
            yield fault("host_reason", key, "a reason for being given up", "none", host.given_up[0], mend)

    def _needs_of(self, host: Host, tops: dict[str, int]) -> Iterator[Fault]:
        if host.needs != tops:
            mend = self._host_setter(host, needs=tops)
            yield fault("host_queue", host.key, "the highest priority of each need", tops, host.needs, mend)

    def _phase(self, host: Host) -> Iterator[Fault]:
        if expected := self._wrong_phase(host):
            found = host.phase.name.lower()
            yield fault("host_phase", host.key, "its phase", expected, found, self._host_setter(host))

    def _wrong_phase(self, host: Host) -> str:
        """What the phase of a host has to be; empty: it is possible. It was decided when the host was last written."""
        phase = host.phase
        if phase is Phase.GIVEN_UP:
            return "" if host.given_up is not None else "not given up"
        waits = host.waiting or bool(host.needs)
        if (phase in _QUEUED_PHASES) != waits:
            return "one with a queue" if waits else "idle"
        if phase is Phase.FULL and not host.in_flight and host.halt is not Halt.PAUSED:
            return "not full: nothing is in flight"
        if phase in (Phase.READY, Phase.PARKED) and politeness.due_at(host) > self._now:
            return "waiting"
        return ""

    def _permit(self, host: Host, listed: int) -> Iterator[Fault]:
        if listed > 1 or (listed == 1) != host.permitted:
            if listed:
                mend = None if listed > 1 else self._host_setter(host, permitted=True)
            else:
                mend = lambda: self._tables.permit(host.key)  # noqa: E731
            yield fault("permit", host.key, "entries in the list of permitted hosts", int(host.permitted), listed, mend)

    def _robots(self, host: Host) -> Iterator[Fault]:
        if not host.robots_version:
            return
        record = self._tables.robots(host.key)
        if record is None or record.version != host.robots_version:
            found = "missing" if record is None else record.version
            # It is read again before the next page.
            mend = self._host_setter(host, robots_version=0, robots_until=0.0)
            yield fault("robots", host.key, "version of its robots.txt", host.robots_version, found, mend)

    def _host_setter(self, host: Host, **fields: object) -> Callable[[], None]:
        def save() -> None:
            for name, value in fields.items():
                setattr(host, name, value)
            if host.run != self._job.run:
                self._tables.save_hosts([host])
                return
            # Wherever it stood: it is put down anew.
            self._tables.unpark([host.key])
            rules = HostRules(self._tables, self._job, self._now, self._transaction.settings)
            rules.loaded[host.key] = host
            rules.host(host.key)
            rules.flush()

        return save

    # ---- counts, sequences, items, state

    def _counts(self) -> Iterator[Fault]:
        job, counted = self._job, Counter[str]()
        for state, number in self._tables.count_rows().items():
            counted[COUNTER[state]] += number
        self._report.look_at("requests", counted.total())
        remembered = self._tables.count_ended()
        if remembered is not None:
            # Of what is done or redirected no row is kept, but ids at most; some are forgotten, or come again.
            counted["done"], counted["redirected"] = job.done, job.redirected
            if remembered > job.done + job.redirected:
                most = f"{job.done + job.redirected} at most"
                yield fault("remembered", "job", "ids of what is done or redirected", most, remembered, None)
        for name in dict.fromkeys(COUNTER.values()):
            if counted[name] != getattr(job, name):
                mend = _setter(job, name, counted[name])
                yield fault("count", "job", name, counted[name], getattr(job, name), mend)
        if self._pages != counted["done"]:
            recount = self._recount_pages if remembered is None else None
            yield fault("pages_count", "hosts", "pages done", counted["done"], self._pages, recount)
        yield from self._need_counts()
        failed = self._tables.count_failed()
        if {name: number for name, number in failed.items() if number} != job.errors:
            mend = _setter(job, "errors", dict(failed))
            yield fault("errors_count", "job", "failed of each class", dict(failed), job.errors, mend)
        if (last := self._tables.last_seq()) >= job.next_seq:
            mend = _setter(job, "next_seq", last + 1)
            yield fault("sequence", "job", "next_seq", f"more than {last}", job.next_seq, mend)

    def _need_counts(self) -> Iterator[Fault]:
        job, counted, stored = self._job, self._tables.count_needs(), dict(self._tables.needs(2**31))
        for need in sorted(counted.keys() | stored.keys()):
            if (expected := counted.get(need, 0)) != (found := stored.get(need, 0)):
                mend = self._need_setter(need, expected - found)
                yield fault("need_count", f"need {need}", "requests that are queued", expected, found, mend)
        if (needy := sum(counted.values())) != job.needy:
            yield fault("need_count", "job", "needy", needy, job.needy, _setter(job, "needy", needy))

    def _need_setter(self, need: str, step: int) -> Callable[[], None]:
        return lambda: self._tables.add_to_needs({need: step})

    def _recount_pages(self) -> None:
        done = self._tables.done_by_host()
        after = ""
        while hosts := self._tables.hosts_after(after, BATCH):
            after = hosts[-1].key
            for host in hosts:
                if host.run == self._job.run and host.pages != done.get(host.key, 0):
                    self._host_setter(host, pages=done.get(host.key, 0))()

    def _outbox(self) -> Iterator[Fault]:
        job, (first, last, number), sinks = self._job, self._tables.item_range(), self._tables.sinks()
        self._report.look_at("items", number)
        if last > job.position:
            yield fault("sequence", "job", "position", last, job.position, _setter(job, "position", last))
        if number and (number != last - first + 1 or last < job.position):
            expected = max(last, job.position) - first + 1
            yield fault("outbox", "outbox", f"items from position {first} on", expected, number, None)
        for sink in sinks:
            position = sink.progress.position
            if position > job.position:
                yield fault("sink_position", sink.target, "its position", f"{job.position} at most", position, None)
            elif position < (first if number else job.position + 1) - 1:
                gone = f"items after position {position}"
                yield fault("sink_position", sink.target, gone, "in the outbox", "gone", None)
        held = min((sink.progress.position for sink in sinks), default=0)
        if number and (first <= held or not sinks):
            # Without any sink it may be the sink's record that is missing.
            mend = (lambda: self._tables.drop_items(held)) if sinks else None
            yield fault("outbox_leftover", "outbox", "the first position", held + 1, first, mend)

    def _intakes(self) -> Iterator[Fault]:
        opened = sum(not row.record.closed for row in self._tables.intakes())
        if opened != self._job.intakes:
            mend = _setter(self._job, "intakes", opened)
            yield fault("intakes_count", "job", "open intakes", opened, self._job.intakes, mend)

    def _state(self) -> Iterator[Fault]:
        job = self._job
        is_over = not job.seeding and not job.intakes and job.queued + job.delayed + job.leased == 0
        if is_over != (job.state is State.FINISHED):

            def mend() -> None:
                if is_over:
                    self._transaction.job.settle()
                else:
                    self._transaction.job.reopen()

            yield fault("state", "job", "its state", "finished" if is_over else "not finished", job.state.value, mend)


def _setter(record: object, name: str, value: object) -> Callable[[], None]:
    return lambda: setattr(record, name, value)


def _named(lease: LeaseRow) -> str:
    return f"lease of {lease.work.name.lower()} {lease.id}"
