"""The SQLite frontier answers as the memory frontier does, whatever is asked of it."""

from __future__ import annotations

import asyncio
import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hypothesis import settings

from skitter.frontier.contract import Frontier
from skitter.frontier.sqlite import sqlite_frontier
from skitter.frontier.sqlite.store import SqliteStore
from skitter.frontier.tables import Tables
from skitter.frontier.transactional import TransactionalFrontier
from skitter.testing.agreement import FrontiersAgree

T = TypeVar("T")


@functools.cache
def empty_file() -> bytes:
    """A new frontier file, made once."""
    with tempfile.TemporaryDirectory(prefix="skitter-") as folder:
        path = Path(folder, "frontier.db")
        asyncio.run(sqlite_frontier(path, "job").close())
        return path.read_bytes()


class SqliteAgrees(FrontiersAgree):
    def make_other(self, folder: Path) -> Frontier:
        path = folder / "frontier.db"
        path.write_bytes(empty_file())
        frontier = sqlite_frontier(path, "job", clock=self.clock.of_store())
        assert isinstance(frontier, TransactionalFrontier)
        store = frontier._store
        assert isinstance(store, SqliteStore)
        # Nobody pulls the plug here, and nobody else is waiting: many more steps in the same time.
        store._connection.execute("PRAGMA synchronous=OFF")

        async def run_at_once(call: Callable[[Tables], T], *, write: bool = True, brief: bool = False) -> T:
            return store._transact(call, write=write)

        store.run = run_at_once  # type: ignore[method-assign]
        return frontier


TestSqliteAgrees = SqliteAgrees.TestCase
TestSqliteAgrees.settings = settings()
