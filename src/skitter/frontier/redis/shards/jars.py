"""Jars of a job in shards: the lead keeps them all, because hosts of one domain may be in different shards.

Cookies are written before their page is acked, as links to other shards are: the page's own shard is asked first
whether the lease is current. After a grant the lead is asked for the versions of the jars of its hosts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import msgspec

from skitter.frontier.redis import codec
from skitter.frontier.redis.shards.shard import Shard
from skitter.frontier.redis.shards.shard_set import ShardSet
from skitter.model.lease import Lease, Work
from skitter.model.outcome import Outcome
from skitter.model.session import Jar, JarRef


class ShardedJars:
    """The jars at the lead."""

    def __init__(self, shard_set: ShardSet, home_of: Callable[[Lease], Shard]) -> None:
        self._shard_set = shard_set
        self._home_of = home_of

    async def take_cookies(self, outcomes: Sequence[Outcome]) -> tuple[list[Outcome], dict[int, int]]:
        """Write the cookies of outcomes whose leases are current.

        Answers the outcomes without cookies, and the versions of their jars by the index of the outcome.
        """
        homes: dict[Shard, list[int]] = defaultdict(list)
        for index, outcome in enumerate(outcomes):
            if outcome.cookies is not None and not outcome.more:
                homes[self._home_of(outcome.lease)].append(index)
        if not homes:
            return list(outcomes), {}

        async def fence(shard: Shard) -> tuple[str, int]:
            return await shard.fence([outcomes[index].lease for index in homes[shard]])

        current: dict[int, int] = {}
        for mine, (marks, run) in zip(homes.values(), await self._shard_set.call_each(fence, homes), strict=True):
            current.update((index, run) for index, mark in zip(mine, marks, strict=True) if mark == "1")
        versions: dict[int, int] = {}
        for run in sorted(set(current.values())):
            indexes = sorted(index for index in current if current[index] == run)
            news = [codec.pack_cookies(cookies) for index in indexes if (cookies := outcomes[index].cookies)]
            answer = await self._shard_set.lead.ask("take_cookies", run, msgspec.msgpack.encode(news))
            versions.update(zip(indexes, answer, strict=True))
        without = [
            outcome if outcome.cookies is None else msgspec.structs.replace(outcome, cookies=None)
            for outcome in outcomes
        ]
        return without, versions

    async def with_versions(self, leases: list[Lease]) -> list[Lease]:
        """The leases with the versions of their jars."""
        hosts = list(dict.fromkeys(lease.host_key for lease in leases if lease.work is Work.PAGE))
        if not hosts:
            return leases
        found = dict(zip(hosts, await self._shard_set.lead.ask("jar_versions", *hosts), strict=True))
        if not any(found.values()):
            return leases
        return [
            msgspec.structs.replace(lease, jar=found[lease.host_key])
            if lease.work is Work.PAGE and found[lease.host_key]
            else lease
            for lease in leases
        ]

    async def read(self, wanted: Sequence[JarRef]) -> list[Jar]:
        return await self._shard_set.lead.jars(wanted)
