"""Tests of rate limits that processes share."""

from __future__ import annotations

import asyncio
import time

import pytest

from skitter.errors import UsageError
from skitter.testing.coordinator.place import CoordinatorPlace


class RateLimits:
    """Tests of ``Cluster.rate``."""

    async def test_all_processes_together_keep_the_limit(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as one, place.cluster() as other:
            begun = time.monotonic()
            limits = [cluster.rate("site", per_second=20.0, burst=2) for cluster in (one, other)]
            await asyncio.gather(*(limit.wait() for limit in limits for _ in range(10)))
            # Twenty events, of which two may come at once; the clocks of several machines may be read in between.
            assert time.monotonic() - begun >= 18 / 20 - 0.05

    async def test_what_cannot_wait_is_told_at_once(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as one:
            limit = one.rate("site", per_second=0.01, burst=2)
            assert await limit.take()
            assert await limit.take()
            assert not await limit.take()
            with pytest.raises(TimeoutError):
                await limit.wait(timeout_seconds=5.0)
            assert await one.rate("another site", per_second=0.01).take()

    async def test_an_impossible_limit_is_refused(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as one:
            for per_second, burst in ((0.0, 1), (-1.0, 1), (1.0, 0)):
                with pytest.raises(UsageError):
                    one.rate("site", per_second=per_second, burst=burst)
