"""Renewal of leases in a job in shards, with several workers behind one frontier object."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from skitter.frontier.redis.shards.frontier import ShardedFrontier
from skitter.model.lease import Lease, Work


class SlowShard:
    """Answers when every worker of the test has asked."""

    def __init__(self, number: int, workers: int) -> None:
        self.number = number
        self.asked: list[str] = []
        self._everybody = asyncio.Barrier(workers)

    async def renew(self, worker: str, leases: Sequence[Lease]) -> list[bool]:
        self.asked.append(worker)
        await self._everybody.wait()
        return [False] * len(leases)


def lease(epoch: int) -> Lease:
    return Lease(work=Work.PAGE, id=epoch, epoch=epoch, host_key="https://a.example")


async def test_the_renewals_of_two_workers_at_once_are_both_sent() -> None:
    shards: list[Any] = [SlowShard(number, workers=2) for number in range(2)]
    frontier = ShardedFrontier(shards)
    kept = await asyncio.gather(frontier.renew("w1", [lease(1)]), frontier.renew("w2", [lease(2)]))
    assert kept == [[False], [False]]
    assert sorted(shards[0].asked + shards[1].asked) == ["w1", "w2"]
