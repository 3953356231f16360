"""The Redis frontier, whose rules are Lua, against the memory frontier, whose rules are Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import settings

from skitter.frontier.contract import Frontier
from skitter.model.job import Trace
from skitter.testing.agreement import FrontiersAgree
from skitter.testing.frontiers import open_frontier
from skitter.testing.redis_jobs import all_hosts_in_shard, empty_redis

ENDED = Trace(
    state="ended",
    url="",
    depth=0,
    priority=0,
    attempts=0,
    losses=0,
    referrer=None,
    added_at=0.0,
    ended_at=0.0,
    status=0,
    error_class="",
    error="",
    ready_in_seconds=0.0,
    worker="",
    host=None,
)
"""What is known of a request of which nothing is kept but its identity."""


class RedisAgrees(FrontiersAgree):
    """Nothing is kept of what is done, nor when a request was added; everything else is compared exactly."""

    url = ""
    options = ""

    def make_other(self, folder: Path) -> Frontier:
        self.loop.run_until_complete(empty_redis(self.url))
        return open_frontier(self.url + self.options, "job", self.oracle_time)

    def comparable_trace(self, trace: Trace) -> Trace:
        if trace.state in ("done", "redirected", "ended"):
            return ENDED
        return msgspec.structs.replace(trace, added_at=0.0)


class FollowerAgrees(RedisAgrees):
    """A job in three shards whose hosts all belong to one that is not the lead: everything is compared exactly.

    But for a limit of pages: a shard that is given more of it is asked again, and a gate takes nobody's place. And for
    the rate of now: a shard takes its samples at the commits that concern it. And for how much one call buries: it may
    be several calls of a shard.
    """

    options = "?shards=3"
    same_limit = False
    same_rate_samples = False
    same_pieces = False


class ShardsAgree(RedisAgrees):
    """A job in three shards: exact inside each host, priorities among all of them; requests are never lost."""

    options = "?shards=3"
    same_choice = False
    same_rate_samples = False
    same_pieces = False
    order_across_hosts = False


class BloomAgrees(RedisAgrees):
    """Both keep what is done in a Bloom filter: their bits are the same, and so is the state of the filter."""

    adds_seeds = False
    more_settings: ClassVar = {"dedup": "bloom", "dedup_capacity": 8, "dedup_error_rate": 1e-6}


class GenerationsAgree(RedisAgrees):
    """Both keep what is done in generations."""

    more_settings: ClassVar = {"dedup_seconds": 1e6}


TestRedisAgrees = RedisAgrees.TestCase
TestBloomAgrees = BloomAgrees.TestCase
TestGenerationsAgree = GenerationsAgree.TestCase
TestFollowerAgrees = FollowerAgrees.TestCase
TestShardsAgree = ShardsAgree.TestCase
# A step on Redis takes three times as long as one on SQLite: half of the examples in a slice, all of them in a soak.
EXAMPLES = settings().max_examples // (2 if settings().derandomize else 1)
TestRedisAgrees.settings = settings(max_examples=EXAMPLES)
# The rules of requests are the same; what differs is how they are remembered.
TestBloomAgrees.settings = TestGenerationsAgree.settings = settings(max_examples=EXAMPLES // 5)
# Every look at three shards takes three times as long.
TestFollowerAgrees.settings = TestShardsAgree.settings = settings(max_examples=EXAMPLES // 4)


@pytest.fixture(scope="module")
def _server(services: Any) -> None:
    RedisAgrees.url = services.need("redis")["url"]


@pytest.fixture(scope="class")
def _one_follower() -> Iterator[None]:
    with all_hosts_in_shard(1):
        yield


pytest.mark.usefixtures("_server")(TestRedisAgrees)
pytest.mark.usefixtures("_server", "_one_follower")(TestFollowerAgrees)
pytest.mark.usefixtures("_server")(TestShardsAgree)
pytest.mark.usefixtures("_server")(TestBloomAgrees)
pytest.mark.usefixtures("_server")(TestGenerationsAgree)
