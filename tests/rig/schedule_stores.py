"""Stores of schedules that several clients open, on every server that keeps schedules."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

from skitter.schedule_store.contract import ScheduleStore, Stored
from skitter.testing.frontiers import open_schedule_store

SERVERS = ["sqlite", "redis", "redis-6.2", "redis-sentinel", "redis-cluster"]

Open = Callable[[], ScheduleStore]


@contextlib.asynccontextmanager
async def empty_schedule_stores(url: str) -> AsyncIterator[Open]:
    """A function that opens another client of the store, which is empty."""
    opened: list[ScheduleStore] = []

    def make() -> ScheduleStore:
        opened.append(open_schedule_store(url, create=True))
        return opened[-1]

    # A server is shared by the tests of this process.
    store = make()
    for name, found in (await store.read_all()).items():
        await store.remove(name, found.version)
    yield make
    for store in opened:
        await store.close()


def stored(number: int, data: bytes = b"data") -> Stored:
    """A document with a version that is a number."""
    return Stored(f"{number:016}", data)
