"""The hosts that may be served now, in the order of promise 5, and the heads of their queues."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from itertools import islice

from skitter.frontier.books import Books
from skitter.model.host import Host, Phase

MOST_PASSED_OVER = 1000
"""Hosts that one call puts down as parked at most on its way to one that is ready."""


class ReadyHosts:
    """Hosts come out of it one by one, at most ``limit`` that were not served yet: each grant uses up one of them.

    A host whose address another one has filled meanwhile uses one up as well. Then there are too few of them, and
    before a host is served that comes after all candidates, the store is asked for more.
    """

    def __init__(self, books: Books, limit: int) -> None:
        self._books = books
        self._heads: dict[str, deque[tuple[int, int]]] = {}
        self._read_to_the_end: set[str] = set()
        self._taken: defaultdict[str, int] = defaultdict(int)
        self._last, self._too_few = (0, 0, ""), False
        self.in_haste = False
        """So many hosts were passed over that others, which are ready, were not reached."""
        self._ready = self._best(limit)
        # Each host's queue is read in chunks of its fair share; one more tells the priority that waits next.
        self._chunk = limit // max(1, len(self._ready)) + 1
        self._read_heads()

    def next(self, limit: int) -> Host | None:
        """The host to be served next, out of the line; ``limit``: how many grants may still be made."""
        while True:
            if self._too_few and (not self._ready or self._ready[0] > self._last):
                self._ready = self._best(limit)
                self._read_heads()
            if not self._ready:
                return None
            host = self._books.host(heapq.heappop(self._ready)[2])
            if self._books.addresses.limit is None or self._is_ready(host):
                return host
            self._too_few = True

    def take_head(self, host: Host) -> int:
        """The seq of the first request in its queue."""
        self._taken[host.key] += 1
        return self._heads[host.key].popleft()[1]

    def back(self, host: Host) -> None:
        """After a grant: what waits next, and the host to its new place in the line if it is still ready."""
        queue, taken = self._heads[host.key], self._taken[host.key]
        if not queue and host.key not in self._read_to_the_end:
            # What was chosen is not held yet, and comes first again.
            more = self._books.tables.heads([host.key], taken + self._chunk)[host.key]
            queue.extend(islice(more, taken, None))
            if len(queue) < self._chunk:
                self._read_to_the_end.add(host.key)
        host.waiting = bool(queue)
        if queue:
            host.top = queue[0][0]
        if self._is_ready(host):
            heapq.heappush(self._ready, (-host.top, host.served, host.key))

    def _best(self, limit: int) -> list[tuple[int, int, str]]:
        """The best ``limit`` candidates, as a heap: of the store's, and of those this transaction has changed."""
        books, passed_over = self._books, 0
        while True:
            stored = books.tables.ready_hosts(limit + len(books.touched))
            found = [(-top, served, key) for top, served, key in stored if key not in books.touched]
            found += [(-host.top, host.served, host.key) for host in books.touched.values() if self._is_ready(host)]
            best = heapq.nsmallest(limit, found)
            books.load_hosts(key for _, _, key in best)
            books.addresses.load(books.hosts[key].address for _, _, key in best)
            # The limits may have been lowered, or the address have been filled, since the store put a host down as
            # ready; asked for, it is put down anew.
            ready = [candidate for candidate in best if self._is_ready(books.host(candidate[2]))]
            passed_over += len(best) - len(ready)
            self.in_haste = passed_over >= MOST_PASSED_OVER
            if len(ready) == len(best) or books.addresses.limit is None or self.in_haste:
                self._last, self._too_few = max(ready, default=(0, 0, "")), False
                return ready

    def _read_heads(self) -> None:
        new = self._books.tables.heads([key for _, _, key in self._ready if key not in self._heads], self._chunk)
        self._read_to_the_end |= {key for key, queue in new.items() if len(queue) < self._chunk}
        self._heads |= new

    def _is_ready(self, host: Host) -> bool:
        return self._books.phase_of(host) is Phase.READY
