"""Ctrl-C: the first asks, the second does not ask, the third does not wait."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

import pytest
import uvloop

from skitter.node.shutdown_signals import ShutdownSignals

LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def run(scenario: Any, new_loop: Any = asyncio.new_event_loop) -> Any:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(scenario)


@LOOPS
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_ctrl_c_forces(new_loop: Any, number: int) -> None:
    async def scenario() -> None:
        asked, forced, told = asyncio.Event(), asyncio.Event(), []
        stop = ShutdownSignals(told.append)
        with stop.listening():
            stop.aim(asked.set, forced.set)
            send(number)
            await asyncio.wait_for(asked.wait(), 10)
            assert (stop.signal, stop.forced, len(told)) == (number, False, 1)
            send(signal.SIGINT)
            await asyncio.wait_for(forced.wait(), 10)
            assert (stop.signal, stop.forced, len(told)) == (number, True, 1)

    run(scenario(), new_loop)


def test_a_second_sigterm_is_not_impatience() -> None:
    async def scenario() -> None:
        stop = ShutdownSignals(lambda _: None)
        with stop.listening():
            for _ in range(4):
                send(signal.SIGTERM)
                await asyncio.sleep(0)
            await asyncio.sleep(0.01)
        assert (stop.signal, stop.forced) == (signal.SIGTERM, False)

    run(scenario())


def test_a_signal_that_came_early_hits_what_is_aimed_at_later() -> None:
    async def scenario() -> None:
        asked, forced = asyncio.Event(), asyncio.Event()
        stop = ShutdownSignals(lambda _: None)
        with stop.listening():
            send(signal.SIGINT)
            await asyncio.sleep(0.01)
            stop.aim(asked.set, forced.set)
            assert asked.is_set()
            assert not forced.is_set()

    run(scenario())


@LOOPS
def test_the_third_ctrl_c_ends_also_a_loop_that_is_blocked(new_loop: Any) -> None:
    async def scenario() -> None:
        with ShutdownSignals(lambda _: None).listening():
            for _ in range(2):
                send(signal.SIGINT)
            time.sleep(0)  # noqa: ASYNC251  the loop is meant to stand still
            send(signal.SIGINT)
            time.sleep(10)  # noqa: ASYNC251
            pytest.fail("it was not interrupted")

    with pytest.raises(KeyboardInterrupt):
        run(scenario(), new_loop)


def test_signals_mean_afterwards_what_they_meant_before() -> None:
    async def scenario() -> None:
        before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        with ShutdownSignals(lambda _: None).listening():
            assert signal.getsignal(signal.SIGINT) is not before[0]
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before

    run(scenario())


async def test_outside_the_main_thread_there_is_nothing_to_listen_to() -> None:
    async def scenario() -> None:
        with ShutdownSignals(lambda _: None).listening():
            pass

    await asyncio.to_thread(lambda: run(scenario()))
