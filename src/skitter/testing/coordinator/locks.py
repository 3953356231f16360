"""Tests of locks: the steps of a coordinator, and the locks that ``Cluster`` provides."""

from __future__ import annotations

import asyncio

import pytest

from skitter.cluster.contract import Hold, Locks
from skitter.errors import LockLostError, UsageError
from skitter.testing.coordinator.place import WAIT_SECONDS, CoordinatorPlace, until

_LONG = 60.0
_NAMES = ["a", "a/b", "/a/b/", "{braces}", "with space", "ünïcode 鎖", "%2F", "..", "x" * 500]


async def taken(locks: Locks, name: str, owner: str, lifetime_seconds: float = _LONG) -> Hold:
    """Take a lock that is free or becomes free."""
    hold: Hold | None = None

    async def attempt() -> bool:
        nonlocal hold
        hold = await locks.acquire(name, owner, lifetime_seconds=lifetime_seconds, wait_seconds=1.0)
        return hold is not None

    await until(attempt)
    assert hold is not None
    return hold


class LockSteps:
    """Tests of ``Locks`` of the contract, without the facade."""

    async def test_a_lock_has_one_owner_at_a_time(self, place: CoordinatorPlace) -> None:
        async with place.opened() as one, place.opened() as other:
            assert await one.locks.acquire("lock", "A", lifetime_seconds=_LONG, wait_seconds=0)
            for coordinator in (one, other):
                assert await coordinator.locks.acquire("lock", "B", lifetime_seconds=_LONG, wait_seconds=0) is None
                await coordinator.locks.release("lock", "B")
            assert await one.locks.release("lock", "A")
            await taken(other.locks, "lock", "C")

    async def test_the_owner_of_a_lock_gets_the_same_hold_again(self, place: CoordinatorPlace) -> None:
        async with place.opened() as one:
            first = await taken(one.locks, "lock", "A")
            again = await one.locks.acquire("lock", "A", lifetime_seconds=_LONG, wait_seconds=0)
            assert again is not None
            assert again.token == first.token

    async def test_tokens_only_grow(self, place: CoordinatorPlace) -> None:
        tokens: list[int] = []
        for number in range(3):
            async with place.opened() as one, place.opened() as other:
                for coordinator in (one, other, one):
                    hold = await taken(coordinator.locks, "lock", f"{number} {len(tokens)}")
                    if not place.has_tokens:
                        assert hold.token is None
                        return
                    assert hold.token is not None
                    tokens.append(hold.token)
                    assert await coordinator.locks.release("lock", f"{number} {len(tokens) - 1}")
        assert tokens == sorted(set(tokens))

    async def test_a_hold_that_is_not_renewed_ends(self, place: CoordinatorPlace) -> None:
        one = place.coordinator(2.0)
        await one.open()
        first = await taken(one.locks, "lock", "A", 0.5)
        assert first.lifetime_seconds <= max(0.5, one.session_seconds)
        # If holds last as long as a session, the end of the session ends this hold.
        await one.close()
        async with place.opened() as other:
            second = await taken(other.locks, "lock", "B")
            if place.has_tokens:
                assert first.token is not None
                assert second.token is not None
                assert second.token > first.token
            assert await other.locks.renew("lock", "A", lifetime_seconds=_LONG) is None
            assert not await other.locks.release("lock", "A")
            assert await other.locks.renew("lock", "B", lifetime_seconds=_LONG)

    async def test_only_the_owner_renews_and_releases(self, place: CoordinatorPlace) -> None:
        async with place.opened() as one, place.opened() as other:
            hold = await taken(one.locks, "lock", "A")
            assert await other.locks.renew("lock", "B", lifetime_seconds=_LONG) is None
            assert not await other.locks.release("lock", "B")
            renewed = await one.locks.renew("lock", "A", lifetime_seconds=_LONG)
            assert renewed is not None
            assert renewed.token == hold.token
            assert await one.locks.release("lock", "A")
            assert not await one.locks.release("lock", "A")
            assert await one.locks.renew("lock", "A", lifetime_seconds=_LONG) is None

    async def test_locks_of_all_names_are_different_ones(self, place: CoordinatorPlace) -> None:
        async with place.opened() as one:
            for name in _NAMES:
                assert await one.locks.acquire(name, "A", lifetime_seconds=_LONG, wait_seconds=0), name
            for name in _NAMES:
                assert await one.locks.release(name, "A"), name


class HeldLocks:
    """Tests of locks as ``Cluster.lock`` provides them."""

    async def test_two_tasks_with_one_lock_object_exclude_each_other(self, place: CoordinatorPlace) -> None:
        inside = most = entered = 0
        async with place.cluster() as cluster:
            lock = cluster.lock("lock", retry_seconds=0.01)

            async def enter() -> None:
                nonlocal inside, most, entered
                async with lock:
                    inside += 1
                    most = max(most, inside)
                    await asyncio.sleep(0.01)
                    entered += 1
                    inside -= 1

            await asyncio.gather(*(enter() for _ in range(10)))
        assert (most, entered) == (1, 10)

    async def test_a_late_release_of_one_task_does_not_free_the_other_ones_lock(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as cluster, place.cluster() as other:
            lock = cluster.lock("lock", retry_seconds=0.01)
            first = await lock.acquire()
            # The lock is taken away from its holder, as by the end of its lifetime.
            first.abandon()
            assert await cluster.coordinator.locks.release("lock", first.owner)

            async def take() -> object:
                async with lock as held:
                    # This is the late release, with the owner of the first hold.
                    assert not await cluster.coordinator.locks.release("lock", first.owner)
                    with pytest.raises(TimeoutError):
                        await other.lock("lock").acquire(timeout_seconds=0)
                    return held

            await asyncio.create_task(take())
            with pytest.raises(LockLostError):
                await lock.release()

    async def test_a_living_holder_keeps_its_lock_beyond_the_lifetime(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as cluster, place.cluster() as other:
            async with cluster.lock("lock", lifetime_seconds=4.0) as held:
                with pytest.raises(TimeoutError):
                    await other.lock("lock", retry_seconds=0.05).acquire(timeout_seconds=4.5)
                held.check()
                assert not held.lost.is_set()
            async with other.lock("lock", timeout_seconds=WAIT_SECONDS) as second:
                assert second.token is None or held.token is None or second.token > held.token

    async def test_a_lock_can_be_extended_and_released_early(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as cluster:
            held = await cluster.lock("lock", lifetime_seconds=5.0).acquire()
            await held.extend(30.0)
            await held.release()
            await held.release()
            with pytest.raises(LockLostError):
                held.check()
            with pytest.raises(LockLostError):
                await held.extend()

    async def test_a_reentrant_lock_is_released_by_the_last_exit(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as cluster, place.cluster() as other:
            lock = cluster.lock("lock", reentrant=True)
            async with lock as outer:
                async with lock as inner:
                    assert inner.token == outer.token
                with pytest.raises(TimeoutError):
                    await other.lock("lock").acquire(timeout_seconds=0)

                async def second_task() -> None:
                    with pytest.raises(TimeoutError):
                        await lock.acquire(timeout_seconds=0)

                await asyncio.create_task(second_task())
            async with other.lock("lock", timeout_seconds=WAIT_SECONDS):
                pass

    async def test_a_lock_that_is_not_reentrant_says_so_instead_of_waiting_for_ever(
        self, place: CoordinatorPlace
    ) -> None:
        async with place.cluster() as cluster:
            lock = cluster.lock("lock")
            async with lock:
                with pytest.raises(UsageError, match="already holds the lock"):
                    await lock.acquire()
                with pytest.raises(TimeoutError):
                    await lock.acquire(timeout_seconds=0.1)

    async def test_one_who_gives_up_waiting_leaves_nothing_behind(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as cluster, place.cluster() as other, place.cluster() as third:
            async with cluster.lock("lock"):
                waiting = [asyncio.create_task(other.lock("lock").acquire()) for _ in range(3)]
                with pytest.raises(TimeoutError):
                    await other.lock("lock").acquire(timeout_seconds=0.5)
                for task in waiting:
                    task.cancel()
                results = await asyncio.gather(*waiting, return_exceptions=True)
                assert all(isinstance(result, asyncio.CancelledError) for result in results)
            async with third.lock("lock", lifetime_seconds=60, timeout_seconds=WAIT_SECONDS):
                pass

    async def test_the_body_is_stopped_when_its_lock_is_lost(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as cluster:
            begun = asyncio.Event()

            async def work() -> None:
                async with cluster.lock("lock", stop_on_loss=True) as held:
                    assert await cluster.coordinator.locks.release("lock", held.owner)
                    begun.set()
                    with pytest.raises(LockLostError):
                        await held.extend()
                    await asyncio.sleep(WAIT_SECONDS)

            with pytest.raises(LockLostError):
                await work()
            assert begun.is_set()

    async def test_a_lost_lock_is_an_error_at_the_end_of_the_body(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as cluster:

            async def work() -> None:
                async with cluster.lock("lock") as held:
                    assert await cluster.coordinator.locks.release("lock", held.owner)

            with pytest.raises(LockLostError):
                await work()

    async def test_close_releases_what_is_held(self, place: CoordinatorPlace) -> None:
        async with place.cluster() as cluster, place.cluster() as other:
            async with place.cluster() as closed:
                await closed.lock("lock", lifetime_seconds=60).acquire()
                with pytest.raises(TimeoutError):
                    await cluster.lock("lock").acquire(timeout_seconds=0)
            async with other.lock("lock", timeout_seconds=WAIT_SECONDS):
                pass
