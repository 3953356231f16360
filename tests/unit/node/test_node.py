"""A node runs until its work ends or it is stopped, however early that is."""

from __future__ import annotations

import asyncio

import pytest

from skitter.node.node import Node
from skitter.stop_request import StopRequest


async def test_the_result_of_the_work_is_that_of_the_node() -> None:
    async def work(stop: StopRequest) -> int:
        stop.hold()
        return 7

    assert await Node(work).run() == 7


async def test_a_node_that_is_stopped_before_it_can_be_stopped_in_order_ends_with_nothing() -> None:
    begun, closed = asyncio.Event(), asyncio.Event()

    async def work(stop: StopRequest) -> int:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            closed.set()
        return 7

    node = Node(work)
    running = asyncio.create_task(node.run())
    await begun.wait()
    node.stop()
    assert await running is None
    assert closed.is_set()


async def test_a_node_that_is_stopped_before_it_runs_does_nothing() -> None:
    async def work(stop: StopRequest) -> int:
        pytest.fail("it was stopped")

    node = Node(work)
    node.stop()
    assert await node.run() is None


async def test_work_that_can_be_stopped_in_order_is_asked_and_not_cancelled() -> None:
    asked, begun = asyncio.Event(), asyncio.Event()

    async def work(stop: StopRequest) -> str:
        stop.set_handlers(asked.set, lambda: None)
        begun.set()
        await asked.wait()
        return "in order"

    node = Node(work)
    running = asyncio.create_task(node.run())
    await begun.wait()
    node.stop()
    assert await running == "in order"


async def test_cancelling_whoever_runs_it_ends_the_work_before_the_node() -> None:
    begun, closed = asyncio.Event(), asyncio.Event()

    async def work(stop: StopRequest) -> None:
        stop.hold()
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            closed.set()

    running = asyncio.create_task(Node(work).run())
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert closed.is_set()


async def test_what_the_work_raises_the_node_raises() -> None:
    async def work(stop: StopRequest) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await Node(work).run()
