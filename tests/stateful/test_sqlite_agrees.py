"""The SQLite frontier answers as the memory frontier does, whatever is asked of it."""

from __future__ import annotations

import asyncio
import functools
import tempfile
from pathlib import Path

from hypothesis import settings

from skitter.frontier.contract import Frontier
from skitter.testing.agreement import FrontiersAgree
from skitter.testing.frontiers import open_frontier, open_quick_file


@functools.cache
def empty_file() -> bytes:
    """A new frontier file, made once."""
    with tempfile.TemporaryDirectory(prefix="skitter-") as folder:
        path = Path(folder, "frontier.db")
        asyncio.run(open_frontier(f"sqlite:{path}", "job").close())
        return path.read_bytes()


class SqliteAgrees(FrontiersAgree):
    def make_other(self, folder: Path) -> Frontier:
        path = folder / "frontier.db"
        path.write_bytes(empty_file())
        # Nobody pulls the plug here, and nobody else is waiting: many more steps in the same time.
        return open_quick_file(path, "job", self.clock)


TestSqliteAgrees = SqliteAgrees.TestCase
TestSqliteAgrees.settings = settings()
