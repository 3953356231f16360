"""The Redis frontier, whose rules are Lua, against the memory frontier, whose rules are the ledger's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings

from skitter.frontier.contract import Frontier
from skitter.frontier.redis import redis_frontier
from skitter.frontier.redis.reading import ENDED, forgotten
from skitter.frontier.redis.server import RedisServer
from skitter.model.job import Trace
from skitter.testing.agreement import FrontiersAgree


class RedisAgrees(FrontiersAgree):
    """Nothing is kept of what is done, nor when a request was added; everything else is compared exactly."""

    url = ""

    def make_other(self, folder: Path) -> Frontier:
        # The very clock of the oracle: two that add up the same steps differ in the last digit.
        frontier = redis_frontier(self.url, "job", clock=self.oracle._store._tables._clock.now)
        server: RedisServer = frontier._server
        self.loop.run_until_complete(server.command("FLUSHALL"))
        return frontier

    def comparable_trace(self, trace: Trace) -> Trace:
        if trace.state in ("done", "redirected", ENDED):
            return forgotten(ENDED)
        return msgspec.structs.replace(trace, added_at=0.0)


TestRedisAgrees = RedisAgrees.TestCase
TestRedisAgrees.settings = settings()


@pytest.fixture(scope="module")
def _server(services: Any) -> None:
    RedisAgrees.url = services.need("redis")["url"]


pytest.mark.usefixtures("_server")(TestRedisAgrees)
