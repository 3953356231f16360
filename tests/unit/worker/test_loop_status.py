"""What a supervisor reads of a worker's loop: which page is on it, and whether it moves."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from skitter.model.lease import Lease, Work
from skitter.worker.loop_status import STATUS_BYTES, LoopStatus, is_ticking, lease_of, new_status

PAGE = Lease(work=Work.PAGE, id=-5, epoch=7, host_key="http://a.example", payload=b"the request")
OTHER = Lease(work=Work.PAGE, id=6, epoch=8, host_key="http://bücher.example:8080")
NAMED = {7: (Work.PAGE, -5, 7, "http://a.example"), 8: (Work.PAGE, 6, 8, "http://bücher.example:8080")}


class Pair:
    """A worker's view and its supervisor's."""

    def __init__(self) -> None:
        descriptor = new_status()
        self.worker, self.supervisor = LoopStatus(descriptor), LoopStatus(descriptor)
        os.close(descriptor)
        self.seen: list[bytes] = []

    def look(self) -> None:
        self.seen.append(self.supervisor.read())

    def named(self) -> list[tuple[Any, ...] | None]:
        leases = [lease_of(record) for record in self.seen]
        return [lease and (lease.work, lease.id, lease.epoch, lease.host_key) for lease in leases]

    def start(self, lease: Lease, *steps: Any) -> asyncio.Task[Any]:
        """A task of the lease takes these steps: functions, and what is to be waited for."""

        async def read() -> str:
            for step in steps:
                if callable(step):
                    step()
                else:
                    await step
            return "done"

        return self.noted(read(), lease)

    def noted(self, work: Coroutine[Any, Any, Any], lease: Lease) -> asyncio.Task[Any]:
        async def task() -> Any:
            return await self.worker.noted(work, lease)

        return asyncio.create_task(task())


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.worker.close()
    pair.supervisor.close()


async def test_a_page_is_named_while_its_step_lasts_and_not_after(pair: Pair) -> None:
    pair.look()
    assert await pair.start(PAGE, pair.look, pair.look) == "done"
    pair.look()
    assert pair.named() == [None, NAMED[7], NAMED[7], None]
    assert pair.seen[1] == pair.seen[2], "the loop has not moved"


async def test_a_page_that_waited_is_named_again_although_others_ran_meanwhile(pair: Pair) -> None:
    go = asyncio.Event()
    task = pair.start(PAGE, pair.look, go.wait(), pair.look)
    await asyncio.sleep(0)
    await pair.start(OTHER, pair.look, go.set)
    await task
    assert pair.named() == [NAMED[7], NAMED[8], NAMED[7]]
    assert pair.seen[0] != pair.seen[2], "another step of the same page"


async def test_no_page_is_named_between_the_steps(pair: Pair) -> None:
    go = asyncio.Event()
    task = pair.start(PAGE, go.wait())
    await asyncio.sleep(0)
    pair.look()
    go.set()
    await task
    assert pair.named() == [None]


async def test_what_a_step_raises_passes_through(pair: Pair) -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await pair.noted(fail(), PAGE)
    pair.look()
    assert pair.named() == [None]


async def test_what_is_thrown_in_may_be_caught_and_work_goes_on(pair: Pair) -> None:
    async def patient() -> str:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        pair.look()
        await asyncio.sleep(0)
        return "went on"

    assert await pair.noted(patient(), PAGE) == "went on"
    assert pair.named() == [NAMED[7]]


async def test_a_task_that_is_cancelled_is_named_while_it_cleans_up(pair: Pair) -> None:
    async def stubborn(clean_up: Callable[[], None]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            clean_up()

    task = pair.noted(stubborn(pair.look), PAGE)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert pair.named() == [NAMED[7]]


async def test_a_loop_that_turns_ticks_and_one_that_has_ended_does_not(pair: Pair) -> None:
    pair.look()
    ticking = asyncio.create_task(pair.worker.tick())
    await asyncio.sleep(0)
    pair.look()
    ticking.cancel()
    await asyncio.wait([ticking])
    pair.look()
    assert [is_ticking(record) for record in pair.seen] == [False, True, False]


async def test_a_host_key_that_is_too_long_is_cut(pair: Pair) -> None:
    long = Lease(work=Work.PAGE, id=1, epoch=2, host_key="http://" + "a" * 2 * STATUS_BYTES)
    await pair.start(long, pair.look)
    lease = lease_of(pair.seen[0])
    assert lease is not None
    assert long.host_key.startswith(lease.host_key)


def test_a_torn_record_names_nobody() -> None:
    torn = bytearray(STATUS_BYTES)
    torn[16:24] = torn[32:40] = b"\1" * 8
    assert lease_of(bytes(torn)) is None


def test_without_a_supervisor_it_needs_no_file() -> None:
    status = LoopStatus()
    assert lease_of(status.read()) is None
    status.close()
