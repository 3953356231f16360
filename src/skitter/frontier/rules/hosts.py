"""Rules of hosts: their records in one transaction, where each stands, and the limit of their IP addresses.

*Parking*: many host keys may be one machine. A host whose address has ``per_ip`` requests in flight is put down as
PARKED instead of READY, and is called when a request to its address ends, so that nobody looks for it in vain.
The phases are decided in ``HostRules.flush``, the counts are in ``IpLimits``.

*Stopped hosts*: ``mark_stopped`` gives up a host whose budget is spent, or that an operator gave up. What then becomes
of its queue is in ``requests``.

Decisions that need nothing but the host's record are in ``policy.politeness`` and ``policy.host_budgets``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skitter.frontier.contract import BATCH, NOTABLE_HOSTS
from skitter.frontier.tables import JobRow, ShortenedDelay, Tables
from skitter.model.host import Halt, Host, Phase
from skitter.policy import host_budgets, lost_leases, politeness
from skitter.settings import Settings

_CALLED = (Phase.READY, Phase.PARKED)
_BY_OPERATOR = (politeness.GIVEN_UP_CLASS, politeness.GIVEN_UP_REASON)


def _is_of_budget(host: Host) -> bool:
    return host.given_up is not None and host.given_up[0] == host_budgets.HOST_BUDGET


class HostRules:
    """The hosts that one transaction touches. Each is written once per transaction, not once per change."""

    def __init__(self, tables: Tables, record: JobRow, now: float, settings: Settings) -> None:
        self._tables = tables
        self._record = record
        self._now = now
        self._politeness = settings.politeness
        self.budgets = host_budgets.of_job(settings)
        self.addresses = IpLimits(tables, settings.politeness.per_ip)
        self.loaded: dict[str, Host] = {}
        """The hosts that were read, by their keys."""
        self.touched: dict[str, Host] = {}
        """Those of them that will be written back."""
        self.paced: dict[str, None] = {}
        """Keys of hosts that the worker of this call has just worked for, or was granted, and whose delay it keeps."""
        self.burying = False
        """A host that was given up, or whose budget is spent, has more than this call may bury."""
        self._least_notable: float | None = None

    def host(self, key: str) -> Host:
        """The host's record, to be changed: it will be written back."""
        host = self.touched.get(key)
        if host is None:
            if key not in self.loaded:
                self.load([key])
            host = self.touched[key] = self.loaded[key]
        return host

    def load(self, keys: Iterable[str]) -> None:
        """Read many at once; those that were read before are left as they are."""
        missing = [key for key in dict.fromkeys(keys) if key not in self.loaded]
        if missing:
            found = self._tables.hosts(missing)
            for key in missing:
                self.loaded[key] = self._of_this_run(found.get(key) or Host(key))

    def _of_this_run(self, host: Host) -> Host:
        """A new run begins with an empty queue and forgiven troubles; delays, blocks and robots.txt stay."""
        if host.run != self._record.run:
            host.run = self._record.run
            host.in_flight = host.strikes = host.blocks = host.backoff = host.gate_losses = 0
            host.waiting = host.gate = host.trusted = host.permitted = False
            host.given_up = None
            host.pages = host.signs = host.burst_left = 0
            host.pacer, host.needs, host.halt = "", {}, Halt.NONE
            host.phase = Phase.IDLE
            host.public = politeness.is_public(host.key)
        return host

    def join_queue(self, key: str, priority: int, need: str) -> None:
        """Most links join a queue of which the host knows already, and then its record is not written."""
        if key not in self.loaded:
            self.load([key])
        host = self.loaded[key]
        if need:
            if need not in host.needs or priority > host.needs[need]:
                self.host(key).needs[need] = priority
        elif not host.waiting or priority > host.top:
            host = self.host(key)
            host.waiting, host.top = True, priority

    def note_pacer(self, host: Host, worker: str) -> None:
        """The worker of this call worked for the host, or was granted it: more may be granted ahead of its delay."""
        if host.pacer == worker:
            self.paced[host.key] = None

    def wake(self) -> None:
        """Waiting hosts whose time has come are put down anew."""
        due = self._tables.due_hosts(self._now, BATCH)
        self.load(due)
        for key in due:
            self.host(key)
        if self._record.parked and self._politeness.per_ip is None:
            # The limit was lifted.
            for key in self._tables.parked_hosts(None, BATCH):
                self.host(key)
        if self._record.reschedule_after is not None:
            self._reschedule(self._record.reschedule_after)

    def _reschedule(self, after: float) -> None:
        """Write some of the hosts that wait, whose delays may have been shortened since they were put down."""
        # Those that are due by now were put down anew.
        found = self._tables.waiting_hosts(max(after, self._now), BATCH)
        self.load(key for _, key in found)
        for _, key in found:
            self.host(key)
        self._record.reschedule_after = found[-1][0] if len(found) >= BATCH else None

    # ---- phases

    def room_of(self, host: Host) -> int:
        """How many requests to a host that is ready may start at once, at most."""
        return politeness.room_of(host, self._now, self._politeness)

    def phase_of(self, host: Host) -> Phase:
        """Where the host stands at this moment, its address considered."""
        phase = politeness.phase_of(host, self._now, self._politeness, self.budgets)
        return Phase.PARKED if phase is Phase.READY and self.addresses.is_full(host.address) else phase

    def flush(self) -> None:
        """Write each host that was touched, with its new phase."""
        while self.touched:
            self._mark_stopped()
            hosts, self.touched = list(self.touched.values()), {}
            self._set_phases(hosts)
            self._tables.save_hosts(hosts)
            self._call_parked()
        self.addresses.flush()

    def _set_phases(self, hosts: Sequence[Host]) -> None:
        parked: list[Host] = []
        gone: list[str] = []
        if self._record.shortened is not None:
            self._shorten_waits(hosts, self._record.shortened)
        for host in hosts:
            before, host.phase = host.phase, self.phase_of(host)
            if host.phase is Phase.PARKED:
                parked.append(host)
                self._record.parked += before is not Phase.PARKED
            elif before is Phase.PARKED:
                gone.append(host.key)
                self._record.parked -= 1
            if before in _CALLED and host.phase not in _CALLED and host.key not in self.addresses.granted:
                # It was to use the room that its address has, and does not: others may.
                self.addresses.look_at(host.address)
        if parked:
            self._tables.park(parked)
        if gone:
            self._tables.unpark(gone)

    def _shorten_waits(self, hosts: Sequence[Host], shortened: ShortenedDelay) -> None:
        if shortened.until <= self._now:
            self._record.shortened = None
            return
        for host in hosts:
            if host.served < shortened.epoch:
                politeness.shorten_wait(host, shortened.at, self._politeness)

    def _call_parked(self) -> None:
        """As many hosts of an address as it has room for are put down as ready, in the order of promise 5.

        So many for each need: it may be that nobody serves the others.
        """
        for address, room in self.addresses.with_room():
            for need in ("", *(self._tables.parked_needs(address) if self._record.needy else ())):
                self._call_parked_for(need, address, room)

    def _call_parked_for(self, need: str, address: str, room: int) -> None:
        limit = room
        while True:
            keys = self._tables.parked_hosts(address, limit, need)
            self.load(keys)
            # Whose robots.txt is to be read alone may be passed over for long.
            passed_over = sum(lost_leases.is_suspect(self.loaded[key].gate_losses) for key in keys)
            if len(keys) < limit or limit >= room + passed_over:
                break
            limit = room + passed_over
        for key in keys:
            self.host(key)

    # ---- orders of an operator

    def halt(self, host: Host, halt: Halt) -> None:
        """Give a host another order.

        Requests that a give-up has not buried yet stay queued after any other order. A pause also keeps those of a host
        that is down.
        """
        record = self._record
        record.paused_hosts += (halt is Halt.PAUSED) - (host.halt is Halt.PAUSED)
        record.given_up_hosts += (halt is Halt.GIVEN_UP) - (host.halt is Halt.GIVEN_UP)
        if host.given_up == _BY_OPERATOR or (halt is Halt.PAUSED and not _is_of_budget(host)):
            host.given_up = None
        host.halt = halt

    def new_chance(self, host: Host) -> None:
        """A request of the host is revived."""
        self._record.given_up_hosts -= host.halt is Halt.GIVEN_UP
        politeness.new_chance(host)

    # ---- hosts that are stopped: by their budgets, or by an operator

    @property
    def may_be_stopped(self) -> bool:
        """Some host may be stopped: there are budgets, or an operator has given one up."""
        return self.budgets is not None or self._record.given_up_hosts > 0

    def is_spent(self, host: Host) -> bool:
        """The host's budget is spent."""
        return self.budgets is not None and self.budgets.is_spent(host)

    def is_stopped(self, host: Host) -> bool:
        """What waits for the host is to be buried, whatever it answers."""
        return host.halt is Halt.GIVEN_UP or self.is_spent(host)

    def mark_stopped(self, host: Host) -> None:
        """Give up a host that is stopped: the next call that buries finds it."""
        if host.given_up is None and host.halt is Halt.GIVEN_UP:
            host.given_up = _BY_OPERATOR
        elif host.given_up is None and self.budgets is not None:
            host.given_up = (host_budgets.HOST_BUDGET, self.budgets.reason(host))

    def mark_if_stopped(self, key: str) -> None:
        """Something came back to a host: if that is stopped, the next call that buries finds it."""
        if self.may_be_stopped and self.is_stopped(host := self.host(key)):
            self.mark_stopped(host)
            self.burying = True

    def _mark_stopped(self) -> None:
        """Something was added, or came back, to a host that is stopped."""
        if not self.may_be_stopped:
            return
        for host in self.touched.values():
            waits = host.waiting or host.needs
            if waits and host.given_up is None and self.is_stopped(host):
                self.mark_stopped(host)
                self.burying = True

    def note(self, host: Host) -> None:
        """Remember a few slow and troubled hosts for people: an index of all would cost more than the crawl."""
        notable = self._record.notable
        score = (host.strikes + host.blocks) * politeness.MAX_PAUSE_SECONDS + host.latency_seconds
        score += host_budgets.STOPPED_SCORE * self.is_spent(host)
        if host.key not in notable and len(notable) >= NOTABLE_HOSTS:
            if self._least_notable is None:
                self._least_notable = min(notable.values())
            if score <= self._least_notable:
                return
            del notable[min(notable, key=lambda key: notable[key])]
        notable[host.key] = score
        self._least_notable = min(notable.values())


class IpLimits:
    """How many requests each IP address has in flight, and which addresses may have room for a host that is parked.

    Each lease remembers the address that it was counted under: its host may have moved to another one when it ends.
    Where the setting ``per_ip`` is off, none does, and nothing here reads or writes anything.
    """

    def __init__(self, tables: Tables, per_ip: int | None) -> None:
        self._tables = tables
        self.limit = per_ip
        self._loads: dict[str, int] = {}
        self._changed: set[str] = set()
        self._looked_at: dict[str, None] = {}
        self.granted: set[str] = set()
        """Keys of hosts that were granted something under their address in this transaction."""

    def load(self, addresses: Iterable[str]) -> None:
        """Read the counts of many at once."""
        if self.limit is not None:
            missing = [address for address in dict.fromkeys(addresses) if address and address not in self._loads]
            if missing:
                self._loads.update(dict.fromkeys(missing, 0) | self._tables.loads(missing))

    def is_full(self, address: str) -> bool:
        """No other request may be sent there. An address that is not known yet is never full."""
        return self.limit is not None and address != "" and self._load_of(address) >= self.limit

    def take(self, host_key: str, address: str) -> str:
        """One more is in flight; the address to remember, if it is counted."""
        if self.limit is None or not address:
            return ""
        self._loads[address] = self._load_of(address) + 1
        self._changed.add(address)
        self.granted.add(host_key)
        return address

    def give_back(self, address: str) -> None:
        """A lease that was counted under this address has ended."""
        if address:
            self._loads[address] = self._load_of(address) - 1
            self._changed.add(address)
            self.look_at(address)

    def look_at(self, address: str) -> None:
        """It may have room that nobody is about to use: a request ended there, or a host that was ready has gone."""
        if self.limit is not None and address:
            self._looked_at[address] = None

    def with_room(self) -> list[tuple[str, int]]:
        """Of the addresses to look at, those with room, and how much of it."""
        looked_at, self._looked_at = self._looked_at, {}
        limit = self.limit or 0
        return [(address, limit - self._loads[address]) for address in looked_at if self._load_of(address) < limit]

    def flush(self) -> None:
        """Write the counts that changed."""
        if self._changed:
            self._tables.save_loads({address: self._loads[address] for address in sorted(self._changed)})
            self._changed = set()

    def _load_of(self, address: str) -> int:
        if address not in self._loads:
            self._loads[address] = self._tables.loads([address]).get(address, 0)
        return self._loads[address]
