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
    on_send = await pace.wait(some, start_by)
    on_send()
    starts.append((some.id, time.monotonic()))


async def test_requests_start_a_delay_apart_in_the_order_they_came() -> None:
    pace, starts = HostPace(), list[tuple[int, float]]()
    await asyncio.gather(*(started(pace, lease(number), starts) for number in range(5)))
    assert [number for number, _ in starts] == list(range(5))
    assert all(later - earlier >= DELAY for (_, earlier), (_, later) in itertools.pairwise(starts))


async def test_the_delay_counts_from_when_a_request_was_really_sent() -> None:
    pace = HostPace()
    on_send = await pace.wait(lease(), None)
    await asyncio.sleep(DELAY / 2)  # a handshake
    on_send()
    sent_at = time.monotonic()
    await pace.wait(lease(2), None)
    assert time.monotonic() - sent_at >= DELAY


async def test_the_next_one_waits_until_the_one_before_is_at_the_socket() -> None:
    pace, starts = HostPace(), list[tuple[int, float]]()
    on_send = await pace.wait(lease(), None)
    following = asyncio.create_task(started(pace, lease(2), starts))
    await asyncio.sleep(3 * DELAY)  # a look-up of a name, or an event loop that is held
    assert not starts, "or both would start in one instant"
    on_send()
    sent_at = time.monotonic()
    await following
    assert starts[0][1] - sent_at >= DELAY


async def test_a_process_that_stands_still_while_it_sends_sends_the_next_one_a_delay_later() -> None:
    pace = HostPace()
    on_send = await pace.wait(lease(), None)
    on_send()
    time.sleep(2 * DELAY)  # noqa: ASYNC251  between the callback and the writing, others have the CPU
    sent_at = time.monotonic()
    await pace.wait(lease(2), None)
    assert time.monotonic() - sent_at >= DELAY


@pytest.mark.parametrize("ends_by", ["failing", "being cancelled"])
async def test_one_that_never_gets_to_the_socket_lets_the_next_one_through(ends_by: str) -> None:
    pace, has_turn = HostPace(), asyncio.Event()

    async def fail() -> None:
        await pace.wait(lease(), None)
        has_turn.set()
        if ends_by == "being cancelled":
            await asyncio.sleep(60)
        raise OSError("no such host")

    failing = asyncio.create_task(fail())
    await has_turn.wait()
    failing.cancel()
    await asyncio.wait([failing])
    async with asyncio.timeout(60):
        await pace.wait(lease(2), None)


async def test_nobody_waits_for_the_one_before_longer_than_for_its_window() -> None:
    pace, by = HostPace(), time.monotonic() + DELAY
    on_send = await pace.wait(lease(), None)
    with pytest.raises(LateError):
        await pace.wait(lease(2), by)
    on_send()
    async with asyncio.timeout(60):
        await pace.wait(lease(3), None)


async def test_hosts_do_not_wait_for_each_other() -> None:
    pace = HostPace()
    await pace.wait(lease(seconds=60.0), None)
    async with asyncio.timeout(60):
        await pace.wait(lease(host="http://b.example", seconds=60.0), None)


async def test_a_turn_that_comes_too_late_is_not_waited_for() -> None:
    pace = HostPace()
    (await pace.wait(lease(seconds=60.0), None))()
    with pytest.raises(LateError):
        await pace.wait(lease(2, seconds=60.0), time.monotonic() + 1)


async def test_what_waits_is_cancelled_when_its_host_asks_for_a_pause() -> None:
    pace = HostPace()
    (await pace.wait(lease(seconds=60.0), None))()
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
    await pace.wait(lease(host="http://a.example"), None)  # in a handshake, for as long as that may last
    for host in "bcd":
        (await pace.wait(lease(host=f"http://{host}.example"), None))()
        await asyncio.sleep(0)
    assert {"http://a.example"} < set(pace._hosts)
    assert len(pace._hosts) <= 3


async def test_after_one_that_failed_before_it_was_sent_the_delay_counts_from_its_end() -> None:
    """The server may have noticed that a connection was opened."""
    pace = HostPace()

    async def fail() -> float:
        await pace.wait(lease(), None)
        await asyncio.sleep(DELAY)
        return time.monotonic()

    failed_at = await asyncio.create_task(fail())
    await pace.wait(lease(2), None)
    assert time.monotonic() - failed_at >= DELAY
