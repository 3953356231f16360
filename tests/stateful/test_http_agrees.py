"""The frontier behind a master answers as the memory frontier does, whatever is asked of it."""

from __future__ import annotations

from pathlib import Path

from hypothesis import settings

from skitter.frontier.contract import Frontier
from skitter.testing.agreement import FrontiersAgree
from skitter.testing.frontiers import open_frontier, serve


class HttpAgrees(FrontiersAgree):
    def make_other(self, folder: Path) -> Frontier:
        master = serve(f"sqlite:{folder / 'frontier.db'}", self.clock)
        frontier = open_frontier(self.loop.run_until_complete(master.__aenter__()), "job")
        close = frontier.close

        async def close_both() -> None:
            await close()
            await master.__aexit__(None, None, None)

        frontier.close = close_both  # type: ignore[method-assign]
        return frontier


TestHttpAgrees = HttpAgrees.TestCase
# The rules are those of SQLite, which have more examples; here it is the wire that is looked at.
TestHttpAgrees.settings = settings(max_examples=max(1, settings.default.max_examples // 40))
