"""Tests of groups: their members, the data of members, and members that join and leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from skitter.cluster.membership import MemberChange, MemberEvent
from skitter.errors import ClusterError
from skitter.testing.coordinator.place import WAIT_SECONDS, CoordinatorPlace, until


async def following(events: AsyncIterator[MemberEvent]) -> MemberEvent:
    async with asyncio.timeout(WAIT_SECONDS):
        return await anext(events)


class Groups:
    """Tests of ``Members`` of the contract, and of ``Cluster.join``, ``members`` and ``watch_members``."""

    async def test_members_are_there_until_they_leave(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as one, place.cluster() as other:
            assert await one.members("group") == {}
            first = await one.join("group", "a/1", b"first")
            await other.join("group", "ü {2}", b"second")
            await other.join("another group", "a/1", b"")
            assert await other.members("group") == {"a/1": b"first", "ü {2}": b"second"}
            await first.set_data(b"\x00new")
            assert await other.members("group") == {"a/1": b"\x00new", "ü {2}": b"second"}
            await first.leave()
            await first.leave()
            assert await one.members("group") == {"ü {2}": b"second"}
            assert await one.members("another group") == {"a/1": b""}

    async def test_a_name_is_one_members_at_a_time(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as one, place.cluster() as other:
            async with await one.join("group", "name", b"first"):
                with pytest.raises(ClusterError, match="already has a member"):
                    await other.join("group", "name", b"second")
                waiting = asyncio.create_task(other.join("group", "name", b"second", timeout_seconds=WAIT_SECONDS))
                assert await one.members("group") == {"name": b"first"}
            await waiting
            assert await one.members("group") == {"name": b"second"}

    async def test_close_leaves_every_group_at_once(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as one:
            async with place.cluster(session_seconds=60.0) as other:
                await other.join("group", "name")
                assert await one.members("group") == {"name": b""}
            assert await one.members("group") == {}

    async def test_a_member_that_is_not_renewed_leaves(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as one:
            gone = place.coordinator(2.0)
            await gone.open()
            assert gone.members is not None
            lasts = await gone.members.join("group", "name", b"", lifetime_seconds=2.0)
            assert lasts is not None
            assert lasts <= gone.session_seconds
            # If membership depends on the session, it ends here; otherwise it ends with the lifetime.
            await gone.close()

            async def is_empty() -> bool:
                return await one.members("group") == {}

            await until(is_empty)

    async def test_a_living_member_stays_beyond_the_session_time(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as one, place.cluster(session_seconds=4.0) as other:
            events = one.watch_members("group")
            await other.join("group", "name", b"data")
            assert await following(events) == MemberEvent(MemberChange.JOINED, "name", b"data")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5.0):
                    await anext(events)
            assert await one.members("group") == {"name": b"data"}

    async def test_joins_leaves_and_changes_are_events(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as one, place.cluster() as other:
            before = await one.join("group", "a", b"1")
            events = other.watch_members("group")
            seen = [await following(events)]
            later = await one.join("group", "b", b"2")
            seen.append(await following(events))
            await before.leave()
            seen.append(await following(events))
            await later.set_data(b"3")
            seen.append(await following(events))
        assert [(event.change.value, event.name, event.data) for event in seen] == [
            ("joined", "a", b"1"),
            ("joined", "b", b"2"),
            ("left", "a", b"1"),
            ("changed", "b", b"3"),
        ]
