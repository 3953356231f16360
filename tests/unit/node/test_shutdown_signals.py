"""Ctrl-C: the first stops, the second kills, the third raises KeyboardInterrupt."""

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


def ignoring(stop: Any = lambda: None, kill: Any = lambda: None) -> ShutdownSignals:
    return ShutdownSignals(lambda _: None, stop=stop, kill=kill)


def run(scenario: Any, new_loop: Any = asyncio.new_event_loop) -> Any:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(scenario)


@LOOPS
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_stops_and_the_second_ctrl_c_kills(new_loop: Any, number: int) -> None:
    async def scenario() -> None:
        stopped, killed, told = asyncio.Event(), asyncio.Event(), []
        signals = ShutdownSignals(told.append, stop=stopped.set, kill=killed.set)
        with signals.listening():
            send(number)
            await asyncio.wait_for(stopped.wait(), 60)
            assert (signals.signal, killed.is_set(), len(told)) == (number, False, 1)
            send(signal.SIGINT)
            await asyncio.wait_for(killed.wait(), 60)
            assert (signals.signal, len(told)) == (number, 1)

    run(scenario(), new_loop)


def test_a_second_sigterm_is_not_impatience() -> None:
    async def scenario() -> None:
        calls: list[str] = []
        signals = ignoring(stop=lambda: calls.append("stop"), kill=lambda: calls.append("kill"))
        with signals.listening():
            for _ in range(4):
                send(signal.SIGTERM)
                await asyncio.sleep(0)
            await asyncio.sleep(0.01)
        assert (signals.signal, calls) == (signal.SIGTERM, ["stop"])

    run(scenario())


@LOOPS
def test_the_third_ctrl_c_ends_also_a_loop_that_is_blocked(new_loop: Any) -> None:
    async def scenario() -> None:
        with ignoring().listening():
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
        with ignoring().listening():
            assert signal.getsignal(signal.SIGINT) is not before[0]
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before

    run(scenario())


async def test_outside_the_main_thread_there_is_nothing_to_listen_to() -> None:
    async def scenario() -> None:
        with ignoring().listening():
            pass

    await asyncio.to_thread(lambda: run(scenario()))
