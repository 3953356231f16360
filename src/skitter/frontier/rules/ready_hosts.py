"""The hosts that may be served now, in the order of promise 5, and the heads of their queues."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from itertools import islice

from skitter.frontier.contract import BATCH
from skitter.frontier.rules.hosts import HostRules
from skitter.frontier.tables import Tables
from skitter.model.host import Host, Phase

Candidate = tuple[int, int, str]
"""A host in its order: its highest priority, negated, its turn and its key."""


class ReadyHosts:
    """The hosts that may be served now, in the order of promise 5.

    Hosts come out of it one by one, at most ``limit`` that were not served yet: each grant uses up one of them. A host
    whose address another one has filled meanwhile uses one up as well. Then there are too few of them, and
    before a host is served that comes after all candidates, the store is asked for more.

    When none is ready, hosts come whose delay the worker keeps by itself (``may_pace``).

    A host with requests of several needs stands in the order by the best of those that the worker can serve
    (``needs``, and always those without one).
    """

    def __init__(
        self,
        tables: Tables,
        hosts: HostRules,
        limit: int,
        may_pace: Callable[[Host], bool],
        needs: tuple[str, ...] = (),
    ) -> None:
        self._tables = tables
        self._hosts = hosts
        self._needs = needs
        self._serves_plain = True
        self.taken_need = ""
        """Of the request that was taken last."""
        self._last, self._too_few = (0, 0, ""), False
        self._found: list[Host] = []
        """Of the hosts that the store was asked for first, those that are ready."""
        self.in_haste = False
        """So many hosts were passed over that others, which are ready, were not reached."""
        self._may_pace = may_pace
        self._ready = self._best(limit)
        self._paced = deque(key for key in hosts.paced if self._may_go_on(hosts.loaded[key]))
        # Each host's queue is read in chunks of its fair share; one more tells the priority that waits next.
        chunk = limit // max(1, len(self._ready)) + 1
        self._plain = _QueueHeads(tables, chunk)
        self._of_needs = {need: _QueueHeads(tables, chunk, need) for need in needs}
        self._read_heads()
        self._read_heads_of(self._paced)

    def next(self, limit: int) -> Host | None:
        """The host to be served next, taken out of the order; ``limit``: how many more of those that are ready."""
        while limit > 0:
            if self._too_few and (not self._ready or self._ready[0] > self._last):
                self._ready = self._best(limit)
                self._read_heads()
            if not self._ready:
                break
            host = self._hosts.host(heapq.heappop(self._ready)[2])
            if self._hosts.addresses.limit is None or self._is_ready(host):
                return host
            self._too_few = True
        return self._next_paced()

    def _next_paced(self) -> Host | None:
        while self._paced:
            host = self._hosts.host(self._paced.popleft())
            # Its address may have been filled by another host meanwhile.
            if self._may_go_on(host):
                return host
        return None

    def leave_plain(self, limit: int) -> None:
        """From now on nothing comes but ``limit`` hosts with requests of the worker's needs, and these of them."""
        self._serves_plain = False
        self._ready = self._best(limit)
        self._paced = deque(key for key in self._hosts.paced if self._may_go_on(self._hosts.loaded[key]))
        self._read_heads()
        self._read_heads_of(self._paced)

    def leave_needs(self, needs: Iterable[str], limit: int) -> None:
        """From now on nothing comes of these needs: what served them is in use. ``limit``: hosts that are wanted."""
        self._of_needs = {need: heads for need, heads in self._of_needs.items() if need not in set(needs)}
        self._needs = tuple(self._of_needs)
        self._ready = self._best(max(1, limit))
        self._paced = deque(key for key in self._hosts.paced if self._may_go_on(self._hosts.loaded[key]))
        self._read_heads()
        self._read_heads_of(self._paced)

    def count(self) -> int:
        """How many requests without a need are ready, as far as they are wanted; with a limit of addresses, one of each
        host."""
        if self._hosts.addresses.limit is not None:
            return sum(host.waiting for host in self._found)
        return sum(min(self._plain.count(host.key), self._hosts.room_of(host)) for host in self._found)

    def take_head(self, host: Host) -> int:
        """The seq of the first request in its queue, taken out of it."""
        need = self.taken_need = self._best_need_of(host) if host.needs else ""
        if not need:
            seq, top = self._plain.take(host.key)
            host.waiting = top is not None
            if top is not None:
                host.top = top
            return seq
        seq, top = self._of_needs[need].take(host.key)
        if top is None:
            del host.needs[need]
        else:
            host.needs[need] = top
        return seq

    def _best_need_of(self, host: Host) -> str:
        """Of the queues that the worker can serve, the one whose first request goes first."""
        heads = [(need, queues.first(host.key)) for need, queues in self._of_needs.items() if need in host.needs]
        if host.waiting and self._serves_plain:
            heads.append(("", self._plain.first(host.key)))
        return min(heads, key=lambda pair: (-pair[1][0], pair[1][1]))[0]

    def put_back(self, host: Host) -> None:
        """After a grant: give the host its new place in the order, if it is still ready."""
        if self._is_ready(host):
            heapq.heappush(self._ready, self._candidate(host))
        elif self._may_go_on(host):
            self._paced.append(host.key)

    def _best(self, limit: int) -> list[Candidate]:
        """The best ``limit`` candidates, as a heap: of the store's, and of those this transaction has changed."""
        hosts, passed_over = self._hosts, 0
        while True:
            touched = [host for host in hosts.touched.values() if self._is_ready(host)]
            found = self._stored(limit + len(hosts.touched)) + [self._candidate(host) for host in touched]
            best = heapq.nsmallest(limit, found)
            hosts.load(key for _, _, key in best)
            hosts.addresses.load(hosts.loaded[key].address for _, _, key in best)
            # The limits may have been lowered, or the address have been filled, since the store put a host down as
            # ready; asked for, it is put down anew.
            ready = [candidate for candidate in best if self._is_ready(hosts.host(candidate[2]))]
            if not passed_over:
                self._found = [hosts.loaded[key] for _, _, key in ready]
            passed_over += len(best) - len(ready)
            # So many are put down as parked, at most, on the way to one that is ready.
            self.in_haste = passed_over >= BATCH
            if len(ready) == len(best) or hosts.addresses.limit is None or self.in_haste:
                self._last, self._too_few = max(ready, default=(0, 0, "")), False
                return ready

    def _stored(self, limit: int) -> list[Candidate]:
        """The store's candidates, without the hosts that this transaction has changed."""
        touched, stored = self._hosts.touched, self._tables.ready_hosts(limit) if self._serves_plain else []
        found = [(-top, turn, key) for top, turn, key in stored if key not in touched]
        if not self._needs:
            return found
        best = {candidate[2]: candidate for candidate in found}
        for need in self._needs:
            for top, turn, key in self._tables.ready_hosts(limit, need):
                if key not in touched:
                    best[key] = min((-top, turn, key), best.get(key, (-top, turn, key)))
        return list(best.values())

    def _read_heads(self) -> None:
        self._read_heads_of(key for _, _, key in self._ready)

    def _read_heads_of(self, keys: Iterable[str]) -> None:
        keys = list(keys)
        self._plain.read(keys)
        for need, heads in self._of_needs.items():
            heads.read([key for key in keys if need in self._hosts.loaded[key].needs])

    def _is_ready(self, host: Host) -> bool:
        return self._hosts.phase_of(host) is Phase.READY and self._top_of(host) is not None

    def _may_go_on(self, host: Host) -> bool:
        return self._top_of(host) is not None and self._may_pace(host)

    def _top_of(self, host: Host) -> int | None:
        """The highest priority that waits there for this worker; None: nothing does."""
        if host.needs or not self._serves_plain:
            return host.top_for(self._needs, plain=self._serves_plain)
        return host.top if host.waiting else None

    def _candidate(self, host: Host) -> Candidate:
        """Of a host that is ready."""
        top = self._top_of(host)
        assert top is not None
        return -top, host.turn, host.key


class _QueueHeads:
    """The first requests of hosts' queues of one need, read in chunks: (priority, seq) of each."""

    def __init__(self, tables: Tables, chunk: int, need: str = "") -> None:
        self._tables = tables
        self._chunk = chunk
        self._need = need
        self._heads: dict[str, deque[tuple[int, int]]] = {}
        self._read_to_the_end: set[str] = set()
        self._taken: defaultdict[str, int] = defaultdict(int)

    def read(self, keys: Iterable[str]) -> None:
        """Read those of many hosts at once."""
        missing = [key for key in keys if key not in self._heads]
        if missing:
            new = self._tables.heads(missing, self._chunk, self._need)
            self._read_to_the_end |= {key for key, queue in new.items() if len(queue) < self._chunk}
            self._heads |= new

    def first(self, key: str) -> tuple[int, int]:
        return self._heads[key][0]

    def count(self, key: str) -> int:
        """How many were read and not taken."""
        return len(self._heads.get(key, ()))

    def take(self, key: str) -> tuple[int, int | None]:
        """The seq of the first one, taken out, and the priority of the next; None: there is none."""
        queue = self._heads[key]
        seq = queue.popleft()[1]
        self._taken[key] += 1
        if not queue and key not in self._read_to_the_end:
            # What was chosen is not held yet, and comes first again.
            taken = self._taken[key]
            more = self._tables.heads([key], taken + self._chunk, self._need)[key]
            queue.extend(islice(more, taken, None))
            if len(queue) < self._chunk:
                self._read_to_the_end.add(key)
        return seq, queue[0][0] if queue else None
