"""The frontier behind a master answers as the memory frontier does, whatever is asked of it."""

from __future__ import annotations

from pathlib import Path

from hypothesis import settings

from skitter.frontier.contract import Frontier
from skitter.frontier.http import http_frontier
from skitter.frontier.sqlite import sqlite_frontier
from skitter.testing.agreement import FrontiersAgree
from skitter.web.server import MasterServer, ServerConfig
from skitter.web.stores import Store


class HttpAgrees(FrontiersAgree):
    def make_other(self, folder: Path) -> Frontier:
        path = folder / "frontier.db"
        clock = self.clock.of_store()
        store = Store("main", f"sqlite:{path}", lambda job: sqlite_frontier(path, job, clock=clock))
        master = MasterServer(ServerConfig(port=0), [store])
        listening = master.listening()
        self.loop.run_until_complete(listening.__aenter__())
        frontier = http_frontier(master.url, "job")
        close = frontier.close

        async def close_both() -> None:
            await close()
            await listening.__aexit__(None, None, None)

        frontier.close = close_both  # type: ignore[method-assign]
        return frontier


TestHttpAgrees = HttpAgrees.TestCase
# The rules are those of SQLite, which have more examples; here it is the wire that is looked at.
TestHttpAgrees.settings = settings(max_examples=max(1, settings.default.max_examples // 40))
