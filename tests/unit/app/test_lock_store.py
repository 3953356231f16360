"""The locks of a job's spiders: at the coordinator, else in the job's own store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from skitter.app.lock_store import lock_cluster, locks_given
from skitter.errors import UsageError
from skitter.settings import Run
from skitter.spiders.base import Spider


@pytest.mark.parametrize(
    ("coordinator", "frontier", "address"),
    [
        ("", "sqlite:.skitter/j.db", ".skitter/j.db-locks"),
        ("", "sqlite:/x/j.db?shared=yes", "/x/j.db-locks"),
        ("", "redis://:secret@h:6380/2", "redis://h:6380/2"),
        ("", "redis+cluster://h:6380?shards=4", "redis+cluster://h:6380"),
        ("", "memory:", "memory:"),
        ("redis://c:6379", "https://master:8601", "redis://c:6379/0"),
        ("sqlite:c.db", "memory:", "c.db"),
    ],
)
def test_which_store_has_them(coordinator: str, frontier: str, address: str) -> None:
    assert lock_cluster(Run(coordinator=coordinator), frontier).coordinator.address.endswith(address)


def test_a_frontier_without_locks_says_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"no locks for spiders: https://\*\*\*@master:8601") as caught:
        lock_cluster(Run(), "https://:secret@master:8601")
    assert "--coordinator" in caught.value.hint
    assert "secret" not in str(caught.value)


async def test_spiders_of_one_job_exclude_each_other_and_those_of_others_do_not(tmp_path: Path) -> None:
    frontier = f"sqlite:{tmp_path / 'j.db'}"
    one, same, other = Spider(), Spider(), Spider()
    async with (
        locks_given(one, Run(), frontier, "j"),
        locks_given(same, Run(), frontier, "j"),
        locks_given(other, Run(), frontier, "k"),
    ):
        async with one.lock("x") as held, other.lock("x"), same.lock("y"):
            assert held.token is not None
            with pytest.raises(TimeoutError):
                async with same.lock("x", timeout_seconds=0.2):
                    pass
        async with same.lock("x") as later:
            assert later.token is not None
            assert later.token > held.token


async def test_a_lock_that_is_held_in_the_end_is_released(tmp_path: Path) -> None:
    frontier, holds = f"sqlite:{tmp_path / 'j.db'}", asyncio.Event()
    one, other = Spider(), Spider()

    async def hold_on() -> None:
        async with one.lock("x", lifetime_seconds=1000):
            holds.set()
            await asyncio.Event().wait()

    async with locks_given(other, Run(), frontier, "j"):
        async with locks_given(one, Run(), frontier, "j"):
            task = asyncio.create_task(hold_on())
            await holds.wait()
        async with other.lock("x", timeout_seconds=60):
            pass
    task.cancel()
    await asyncio.wait([task])


async def test_a_spider_without_a_job_has_locks_of_its_own() -> None:
    spider = Spider()
    async with spider.lock("x"):
        # From Python 3.12 on, wait_for runs a coroutine in the task that calls it, and that task has the lock.
        waiting = asyncio.create_task(spider.lock("x").__aenter__())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(waiting, 0.2)
