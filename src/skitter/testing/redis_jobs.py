"""A look at a job in Redis that no frontier offers: commands, the names of its keys, and the shards of its hosts.

Suites cause faults with it, and find out what is stored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

from skitter.frontier.contract import Frontier
from skitter.frontier.redis import scripts
from skitter.frontier.redis.client import RedisServer
from skitter.frontier.redis.jobs import JOBS_KEY, prefixes_of
from skitter.frontier.redis.scripts import script
from skitter.frontier.redis.shards.frontier import ShardedFrontier
from skitter.frontier.redis.shards.shard import Shard
from skitter.frontier.redis.shards.shard_set import shard_number
from skitter.redis_driver.address import Address, parse_address

__all__ = [
    "JOBS_KEY",
    "RawRedis",
    "all_hosts_in_shard",
    "empty_redis",
    "open_spread_frontier",
    "prefixes_of",
    "script",
    "script_on_job",
    "shard_number",
]


class RawRedis:
    """Connection to the Redis of a URL, for single commands. In a cluster it follows the key to its node."""

    def __init__(self, url: str, host: tuple[str, int] | None = None) -> None:
        """``host``: that node of the cluster."""
        address = parse_address(url)
        self.hosts = address.hosts
        self.is_cluster = address.cluster
        self._server = RedisServer(Address(hosts=(host,)) if host is not None else address)

    async def command(self, *words: Any) -> Any:
        """Send one command."""
        return await self._server.command(*words)

    async def close(self) -> None:
        """Close the connection."""
        await self._server.close()


async def empty_redis(url: str) -> None:
    """Remove everything from a Redis, on every node."""
    whole = RawRedis(url)
    for host in whole.hosts if whole.is_cluster else [None]:
        node = RawRedis(url, host)
        await node.command("FLUSHALL")
        await node.close()
    await whole.close()


@contextlib.contextmanager
def all_hosts_in_shard(number: int) -> Iterator[None]:
    """Have all hosts of jobs in shards belong to this shard."""
    with mock.patch("skitter.frontier.redis.shards.shard_set.shard_number", return_value=number):
        yield


def open_spread_frontier(urls: Sequence[str], job: str) -> Frontier:
    """Open a job in shards, each on a server of its own."""
    prefixes = prefixes_of(job, len(urls))
    return ShardedFrontier(
        [
            Shard(RedisServer(parse_address(url)), job, None, prefix, number)
            for number, (url, prefix) in enumerate(zip(urls, prefixes, strict=True))
        ]
    )


def script_on_job(body: str) -> str:
    """Return a script that runs ``body`` after it has loaded the job, with all that the frontier's scripts share."""
    shared, values = scripts._shared()  # noqa: SLF001
    return shared + scripts.inline(f"load_job();\n(function()\n{body}\nend)()\nreturn 1", dict(values))
