"""Tests of keys: versions, transactions, children, recursive deletion, and notifications of changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from skitter.cluster.cluster import Cluster
from skitter.cluster.contract import Check, Delete, Put, SessionState, Snapshot
from skitter.errors import ClusterConflictError, UsageError
from skitter.testing.coordinator.place import WAIT_SECONDS, CoordinatorPlace, until


class KeySteps:
    """Tests of ``Cluster.read``, ``put``, ``delete``, ``children`` and ``transaction``."""

    async def test_what_is_put_is_read_with_a_version_that_grows(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as one:
            assert await one.read("a/b") is None
            first = await one.put("a/b", b"\x00\xff")
            second = await one.put("/a/b/", b"")
            assert 1 <= first < second
        async with place.cluster() as other:
            entry = await other.read("a/b")
            assert entry is not None
            assert (entry.path, entry.value, entry.version) == ("a/b", b"", second)

    async def test_parents_are_made_and_children_are_listed(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as one:
            assert await one.children() == []
            for path in ("a/b/c", "a/ä {x}", "a/b/d", "z"):
                await one.put(path, b"1")
            assert await one.children() == ["a", "z"]
            assert await one.children("a") == ["b", "ä {x}"]
            assert await one.children("a/b") == ["c", "d"]
            assert await one.children("a/b/c") == []
            assert await one.children("missing") == []
            parent = await one.read("a/b")
            assert parent is not None
            assert parent.value == b""

    async def test_a_put_with_another_version_is_refused(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as one:
            version = await one.put("key", b"1", version=0)
            with pytest.raises(ClusterConflictError) as caught:
                await one.put("key", b"2", version=0)
            assert caught.value.path == "key"
            newer = await one.put("key", b"2", version=version)
            with pytest.raises(ClusterConflictError):
                await one.put("key", b"3", version=version)
            with pytest.raises(ClusterConflictError):
                await one.put("missing", b"3", version=version)
            entry = await one.read("key")
            assert entry is not None
            assert (entry.value, entry.version) == (b"2", newer)
            assert await one.read("missing") is None

    async def test_counting_with_versions_loses_nothing(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as one, place.cluster() as other:
            await one.put("count", b"0")

            async def add(cluster: Cluster) -> None:
                for _ in range(10):
                    while True:
                        entry = await cluster.read("count")
                        assert entry is not None
                        try:
                            await cluster.put("count", b"%d" % (int(entry.value) + 1), version=entry.version)
                            break
                        except ClusterConflictError:
                            continue

            await asyncio.gather(add(one), add(other), add(one))
            entry = await one.read("count")
            assert entry is not None
            assert entry.value == b"30"

    async def test_a_transaction_is_done_as_a_whole_or_not_at_all(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as one:
            guard = await one.put("guard", b"")
            await one.put("old", b"")
            versions = await one.transaction(
                [Check("guard", guard), Put("new/one", b"1"), Put("new/two", b"2", 0), Delete("old"), Check("none", 0)]
            )
            assert versions[0] == guard
            assert versions[3:] == [0, 0]
            entry = await one.read("new/two")
            assert entry is not None
            assert (entry.value, entry.version) == (b"2", versions[2])
            assert await one.read("old") is None
            for refused in (
                Check("guard", guard + 1),
                Check("guard", 0),
                Delete("old"),
                Delete("new"),
                Put("x", b"", 1),
            ):
                with pytest.raises(ClusterConflictError) as caught:
                    await one.transaction([Put("new/three", b"3"), Put("new/one", b"9"), refused])
                assert caught.value.path == refused.path
            assert await one.children("new") == ["one", "two"]
            entry = await one.read("new/one")
            assert entry is not None
            assert entry.value == b"1"

    async def test_a_key_is_deleted_with_all_below_it_on_request_only(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as one:
            for path in ("a/b/c", "a/b/d/e", "a0", "a b", "ab/c"):
                await one.put(path, b"")
            with pytest.raises(ClusterConflictError, match="below it"):
                await one.delete("a")
            assert await one.delete("a/b/c")
            assert not await one.delete("a/b/c")
            assert await one.delete("a", recursive=True)
            assert not await one.delete("a", recursive=True)
            assert await one.read("a/b/d/e") is None
            assert await one.children() == ["a b", "a0", "ab"]
            entry = await one.read("a0")
            assert entry is not None
            with pytest.raises(ClusterConflictError):
                await one.delete("a0", version=entry.version + 1)
            assert await one.delete("a0", version=entry.version)
            await one.delete("", recursive=True)
            assert await one.children() == []

    async def test_paths_that_mean_nothing_are_refused(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as one:
            for path in ("", "/", "a//b", "a/../b", "a/\n"):
                with pytest.raises(UsageError):
                    await one.put(path, b"")
            with pytest.raises(UsageError, match="twice"):
                await one.transaction([Put("a", b""), Delete("/a")])


async def following(snapshots: AsyncIterator[Snapshot]) -> tuple[bytes | None, tuple[str, ...]]:
    async with asyncio.timeout(WAIT_SECONDS):
        found = await anext(snapshots)
    return (found.entry.value if found.entry is not None else None, found.children)


class WatchedKeys:
    """Tests of ``Cluster.watch``."""

    async def test_a_watch_gives_the_present_state_and_every_change(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as one, place.cluster() as other:
            watch = other.watch("a")
            assert await following(watch) == (None, ())
            await one.put("a", b"1")
            assert await following(watch) == (b"1", ())
            await one.put("a/b", b"2")
            assert await following(watch) == (b"1", ("b",))
            await one.put("a/b/c", b"3")
            await one.put("a", b"4")
            assert await following(watch) == (b"4", ("b",))
            await one.delete("a/b", recursive=True)
            assert await following(watch) == (b"4", ())
            await one.delete("a")
            assert await following(watch) == (None, ())
            await watch.aclose()

    async def test_a_watch_goes_on_after_an_outage(self, place: CoordinatorPlace) -> None:
        place.needs_cutting()
        async with place.cluster() as one, place.cluster(session_seconds=2.0) as other:
            watch = other.watch("a")
            assert await following(watch) == (None, ())
            waiting = asyncio.create_task(following(watch))
            states = other.states()
            place.cut()
            async with asyncio.timeout(WAIT_SECONDS):
                while await anext(states) != SessionState.LOST:
                    pass
            place.mend()

            async def is_connected() -> bool:
                return one.state == SessionState.CONNECTED

            await until(is_connected)
            await one.put("a", b"1")
            assert await waiting == (b"1", ())
            await watch.aclose()
