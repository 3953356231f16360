"""Tests of several locks together, and of elections."""

from __future__ import annotations

import asyncio

import pytest

from skitter.cluster.cluster import Cluster
from skitter.errors import LockLostError
from skitter.testing.coordinator.place import WAIT_SECONDS, CoordinatorPlace


class LockSets:
    """Tests of ``Cluster.locks``."""

    async def test_locks_in_opposite_orders_do_not_wait_for_each_other(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as cluster, place.cluster() as other:

            async def take(names: list[str]) -> int:
                for _ in range(5):
                    async with (cluster if names[0] == "a" else other).locks(names, retry_seconds=0.01) as held:
                        assert set(held.tokens) == {"a", "b", "c"}
                        held.check()
                return 5

            async with asyncio.timeout(WAIT_SECONDS):
                taken = await asyncio.gather(take(["a", "b", "c"]), take(["c", "b", "a"]))
            assert sum(taken) == 10

    async def test_a_set_of_locks_that_cannot_be_had_leaves_none_taken(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as cluster, place.cluster() as other:
            async with other.lock("b"):
                with pytest.raises(TimeoutError):
                    async with cluster.locks(["a", "b"], timeout_seconds=0.2):
                        pass
            async with other.locks(["a", "b"], timeout_seconds=WAIT_SECONDS):
                pass

    async def test_names_that_share_a_stripe_share_a_lock(self, place: CoordinatorPlace) -> None:
        names = [f"page {number}" for number in range(20)]
        async with place.cluster() as cluster, place.cluster() as other, cluster.locks(names, stripes=2) as held:
            assert len({held[name].name for name in names}) == 2
            with pytest.raises(TimeoutError):
                async with other.locks(["any"], stripes=2, timeout_seconds=0.1):
                    pass


class Elections:
    """Tests of ``Cluster.lead``."""

    async def test_one_leads_and_the_next_begins_when_it_has_ended(self, place: CoordinatorPlace) -> None:
        terms: list[str] = []
        async with place.cluster() as one, place.cluster() as other, place.cluster() as third:

            async def stand(name: str, cluster: Cluster) -> None:
                async with cluster.lead("work", retry_seconds=0.02):
                    terms.append(f"{name} begins")
                    await asyncio.sleep(0.1)
                    terms.append(f"{name} ends")

            async with asyncio.timeout(WAIT_SECONDS):
                await asyncio.gather(stand("1", one), stand("2", other), stand("3", third))
        assert len(terms) == 6
        for begin, end in zip(terms[::2], terms[1::2], strict=True):
            assert (begin.split()[1], end.split()[1], begin[0]) == ("begins", "ends", end[0])

    async def test_a_leader_that_is_cut_off_stops_before_another_begins(self, place: CoordinatorPlace) -> None:
        place.needs_cutting()
        events: list[str] = []
        begun = asyncio.Event()
        async with place.cluster() as one, place.cluster() as other:

            async def lead_until_stopped() -> None:
                async with one.lead("work", lifetime_seconds=4.0):
                    events.append("first begins")
                    begun.set()
                    try:
                        await asyncio.sleep(WAIT_SECONDS * 2)
                    finally:
                        events.append("first ends")

            async def lead_next() -> None:
                async with other.lead("work", retry_seconds=0.05):
                    events.append("second begins")

            first = asyncio.create_task(lead_until_stopped())
            await begun.wait()
            second = asyncio.create_task(lead_next())
            place.cut()
            async with asyncio.timeout(WAIT_SECONDS):
                with pytest.raises(LockLostError):
                    await first
            place.mend()
            async with asyncio.timeout(WAIT_SECONDS):
                await second
        assert events == ["first begins", "first ends", "second begins"]
