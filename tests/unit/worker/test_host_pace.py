"""A worker keeps a short delay between its own requests to a host: in order, and from the real start."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

from skitter.errors import LateError
from skitter.model.lease import Lease, Work
from skitter.worker.host_pace import HostPace

DELAY = 0.02


def lease(number: int = 1, host: str = "http://a.example", seconds: float = DELAY) -> Lease:
    return Lease(work=Work.PAGE, id=number, epoch=number, host_key=host, pace_seconds=seconds)


async def started(pace: HostPace, some: Lease, starts: list[tuple[int, float]], start_by: float | None = None) -> None:
    on_start = await pace.wait(some, start_by)
    on_start()
    starts.append((some.id, time.monotonic()))


async def test_requests_start_a_delay_apart_in_the_order_they_came() -> None:
    pace, starts = HostPace(), list[tuple[int, float]]()
    await asyncio.gather(*(started(pace, lease(number), starts) for number in range(5)))
    assert [number for number, _ in starts] == list(range(5))
    assert all(later - earlier >= DELAY for (_, earlier), (_, later) in itertools.pairwise(starts))


async def test_the_delay_counts_from_when_a_request_was_really_sent() -> None:
    pace = HostPace()
    on_start = await pace.wait(lease(), None)
    await asyncio.sleep(DELAY / 2)  # a handshake
    on_start()
    sent_at = time.monotonic()
    await pace.wait(lease(2), None)
    assert time.monotonic() - sent_at >= DELAY


async def test_hosts_do_not_wait_for_each_other() -> None:
    pace = HostPace()
    await pace.wait(lease(seconds=60.0), None)
    async with asyncio.timeout(5):
        await pace.wait(lease(host="http://b.example", seconds=60.0), None)


async def test_a_turn_that_comes_too_late_is_not_waited_for() -> None:
    pace = HostPace()
    await pace.wait(lease(seconds=60.0), None)
    with pytest.raises(LateError):
        await pace.wait(lease(2, seconds=60.0), time.monotonic() + 1)


async def test_what_waits_is_cancelled_when_its_host_asks_for_a_pause() -> None:
    pace = HostPace()
    await pace.wait(lease(seconds=60.0), None)
    await pace.wait(lease(host="http://b.example", seconds=60.0), None)
    waiting = [asyncio.create_task(pace.wait(lease(number, seconds=60.0), None)) for number in (2, 3)]
    other = asyncio.create_task(pace.wait(lease(4, "http://b.example", seconds=60.0), None))
    await asyncio.sleep(0)
    pace.stop("http://a.example")
    await asyncio.wait(waiting)
    assert all(task.cancelled() for task in waiting)
    assert not other.done()
    other.cancel()


async def test_idle_hosts_are_forgotten_and_those_in_use_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skitter.worker.host_pace._MAX_HOSTS", 2)
    monkeypatch.setattr("skitter.worker.host_pace._FORGET_SECONDS", 0.0)
    pace = HostPace()
    for host in "abcd":
        await pace.wait(lease(host=f"http://{host}.example"), None)
    assert len(pace._hosts) <= 2
