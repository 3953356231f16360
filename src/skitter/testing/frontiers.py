"""Frontiers for suites: each backend by its URL, with a clock that the test moves.

A suite of promises opens its stores here, and so depends on no module of a backend.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from skitter.app import frontiers
from skitter.app.frontiers import drop_job, list_jobs, use_open_file
from skitter.app.views.fsck import check_job
from skitter.frontier.contract import Frontier
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.frontier.sqlite import sqlite_frontier
from skitter.frontier.sqlite.store import SqliteStore
from skitter.frontier.tables import Tables
from skitter.testing.clock import FakeClock

if TYPE_CHECKING:
    from skitter.schedule_store.contract import ScheduleStore

__all__ = [
    "MemoryPlace",
    "check_job",
    "drop_job",
    "list_jobs",
    "name_proxies",
    "open_frontier",
    "open_quick_file",
    "open_schedule_store",
    "serve",
    "use_open_file",
    "wrap_frontiers",
]

T = TypeVar("T")


def open_frontier(url: str, job: str, clock: Callable[[], float] | None = None, *, create: bool = True) -> Frontier:
    """Open the frontier of a job. ``clock`` is that of the store; for a file it has to be a ``FakeClock``."""
    if clock is None:
        return frontiers.open_frontier(url, job, create=create)
    if frontiers.is_redis(url):
        from skitter.frontier.redis import redis_frontier

        return redis_frontier(url, job, clock=clock)
    assert isinstance(clock, FakeClock)
    path, shared = frontiers.sqlite_file(url)
    return sqlite_frontier(path, job, create=create, clock=clock.of_store(), shared=shared)


def open_schedule_store(url: str, *, create: bool) -> ScheduleStore:
    """Open the schedules beside the jobs of a frontier."""
    from skitter.schedule_store import store_urls

    return store_urls.open_schedule_store(url, create=create)


class MemoryPlace:
    """Memory frontier that several clients share, as they would share a file."""

    def __init__(self, clock: FakeClock) -> None:
        self._store = MemoryStore(clock.of_store())

    def open(self, job: str) -> Frontier:
        """Return another client."""
        return memory_frontier(job, self._store)

    def now(self) -> float:
        """Return the time as the frontier reads it: two clocks that add up the same steps differ in the last digit."""
        return self._store.tables.clock()


def open_quick_file(path: Path, job: str, clock: FakeClock) -> Frontier:
    """Open a SQLite file for very many steps of one client: calls run on the loop, and no power failure is survived."""
    frontier = sqlite_frontier(path, job, clock=clock.of_store())
    store = frontier._store  # noqa: SLF001
    assert isinstance(store, SqliteStore)
    store._connection.execute("PRAGMA synchronous=OFF")  # noqa: SLF001

    async def run_at_once(call: Callable[[Tables], T], *, write: bool = True, brief: bool = False) -> T:  # noqa: ARG001
        return store._transact(call, write=write)  # noqa: SLF001

    store.run = run_at_once  # type: ignore[method-assign]
    return frontier


@contextlib.asynccontextmanager
async def serve(url: str, clock: FakeClock) -> AsyncIterator[str]:
    """Serve the jobs of a frontier by a master in this process, and yield the URL of the master."""
    from skitter.web.server import MasterServer, ServerConfig
    from skitter.web.stores import Store

    store = Store("main", url, lambda job: open_frontier(url, job, clock))
    async with MasterServer(ServerConfig(port=0), [store]).listening() as master:
        yield master.url


@contextlib.contextmanager
def name_proxies(name: Callable[[str], str]) -> Iterator[None]:
    """Have the frontiers of this process name a proxy by its URL alone; otherwise the secret of a job counts too."""
    from unittest import mock

    with contextlib.ExitStack() as stack:
        for module in ("redis.frontier", "rules.proxies"):
            stack.enter_context(mock.patch(f"skitter.frontier.{module}.proxy_id", lambda url, _: name(url)))
        yield


def wrap_frontiers(wrap: Callable[[Frontier], Any]) -> None:
    """Have this process use what ``wrap`` returns in place of each frontier that it opens by a URL from now on."""
    backend_of = frontiers._backend_of  # noqa: SLF001

    def wrapped(url: str) -> Any:
        backend = backend_of(url)
        return msgspec.structs.replace(backend, open=lambda *names, **options: wrap(backend.open(*names, **options)))

    frontiers._backend_of = wrapped  # noqa: SLF001
