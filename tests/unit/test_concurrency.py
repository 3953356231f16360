"""Concurrent calls end together."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

from skitter.concurrency import gather_or_cancel, open_in_thread, wait_shielded


async def test_results_come_in_the_order_of_the_calls() -> None:
    first_may_end = asyncio.Event()

    async def first() -> int:
        await first_may_end.wait()
        return 1

    async def second() -> int:
        first_may_end.set()
        return 2

    assert await gather_or_cancel([first(), second()]) == [1, 2]


async def test_when_one_fails_the_others_have_ended_before_it_is_raised() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def goes_on() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            # An end that takes a turn of the loop: it must be awaited.
            await asyncio.sleep(0)
            ended.set()

    async def fails() -> None:
        await started.wait()
        raise LookupError

    with pytest.raises(LookupError):
        await gather_or_cancel([goes_on(), fails()])
    assert ended.is_set()


async def test_the_error_of_a_future_whose_waiter_was_cancelled_is_not_logged() -> None:
    logged: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: logged.append(context))
    future = loop.create_future()
    waiter = asyncio.create_task(wait_shielded(future))
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert not future.done()
    future.set_exception(LookupError())
    await asyncio.sleep(0)
    del future, waiter
    gc.collect()
    assert logged == []


@pytest.mark.parametrize("fails", [False, True])
async def test_what_a_thread_opens_for_a_caller_that_was_cancelled_is_closed(fails: bool) -> None:
    opens, may_open = threading.Event(), threading.Event()
    closed: list[str] = []

    class Store:
        async def close(self) -> None:
            closed.append("closed")

    def open_store() -> Store:
        opens.set()
        may_open.wait()
        if fails:
            raise LookupError
        return Store()

    caller = asyncio.create_task(open_in_thread(open_store))
    await asyncio.to_thread(opens.wait)
    caller.cancel()
    may_open.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert closed == ([] if fails else ["closed"])
