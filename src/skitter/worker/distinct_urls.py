"""Count of the distinct URLs that a worker has done, which its job adds up over all workers and runs."""

from __future__ import annotations

from collections import deque

from skitter.dedup.hyperloglog import REGISTERS, HyperLogLog, changes_since, with_changes
from skitter.frontier.contract import BATCH, WorkSource
from skitter.model.url import canonical


class DistinctUrls:
    """A HyperLogLog of URLs, and what of it the frontier has been told."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        """URLs that are not hashed yet: a batch costs half as much as one by one. The lease renewal takes them, every
        few seconds and in a thread of its own."""
        self._count = HyperLogLog()
        self._told = bytes(REGISTERS)

    def add(self, url: str) -> None:
        """Count a URL."""
        self._waiting.append(url)

    async def tell(self, source: WorkSource) -> None:
        """Send what has changed since the last time, a batch a call. After an error it is sent again."""
        self._count.add_many([canonical(self._waiting.popleft()) for _ in range(len(self._waiting))])
        while changes := changes_since(self._told, self._count.registers, BATCH):
            await source.count_distinct(changes)
            self._told = with_changes(self._told, changes)
