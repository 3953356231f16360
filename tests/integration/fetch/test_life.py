"""Handles and slots come back, whatever ends a fetch."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rig.web_faults import silent, stalled
from skitter.errors import FetchError
from skitter.fetch.contract import Fetcher
from skitter.fetch.engine import CurlFetcher
from skitter.fetch.poller import LoopPoller, SystemPoller
from skitter.settings import Fetch

POLLERS = [SystemPoller, LoopPoller]


def test_it_keeps_the_contract() -> None:
    fetcher: Fetcher = CurlFetcher(Fetch())
    assert fetcher is not None


@pytest.mark.parametrize("poller", POLLERS)
async def test_cancelling_frees_the_slot_at_once(poller: Any, serve: Any, make_client: Any) -> None:
    site = serve(silent)
    client = make_client(poller=poller)
    tasks = [asyncio.create_task(client.get(site.url())) for _ in range(10)]
    await site.until(lambda: len(site.seen) == 10)
    assert client.fetcher.in_flight == 10
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)
    assert client.fetcher.in_flight == 0
    good = serve(serve.answer(b"fine"))
    pages = await asyncio.gather(*(client.get(good.url()) for _ in range(10)))
    assert {page.body for page in pages} == {b"fine"}
    assert len(client.fetcher._idle) == 10


async def test_cancelling_before_anything_was_sent(serve: Any, client: Any) -> None:
    site = serve(serve.answer())
    task = asyncio.create_task(client.get(site.url()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert client.fetcher.in_flight == 0
    assert (await client.get(site.url())).status == 200


async def test_cancelling_in_the_middle_of_a_body(serve: Any, client: Any) -> None:
    site = serve(stalled(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await client.get(site.url())
    good = serve(serve.answer(b"whole"))
    assert (await client.get(good.url())).body == b"whole"


async def test_cancelling_a_name_lookup_does_not_block_the_loop(client: Any) -> None:
    task = asyncio.create_task(client.get("http://nonexistent.invalid/"))
    await asyncio.sleep(0)
    task.cancel()
    async with asyncio.timeout(60):
        await asyncio.wait([task])


@pytest.mark.parametrize("poller", POLLERS)
async def test_closing_ends_what_is_in_flight(poller: Any, serve: Any, make_client: Any) -> None:
    site = serve(silent)
    client = make_client(poller=poller)
    tasks = [asyncio.create_task(client.get(site.url())) for _ in range(5)]
    await site.until(lambda: len(site.seen) == 5)
    await client.fetcher.close()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, FetchError) and "closed" in str(result) for result in results)
    assert client.fetcher.in_flight == 0
    await client.fetcher.close()
    assert await client.kind(site.url()) == "protocol"


async def test_closing_without_a_fetch() -> None:
    fetcher = CurlFetcher(Fetch())
    await fetcher.close()
    await fetcher.close()


async def test_closing_leaves_nothing_in_the_loop(serve: Any, make_client: Any) -> None:
    site = serve(serve.answer())
    for poller in POLLERS:
        client = make_client(poller=poller)
        await client.get(site.url())
        await client.fetcher.close()
    await site.until(lambda: site.open == 0)


async def test_failures_do_not_use_up_handles(serve: Any, client: Any) -> None:
    bad = serve(b"", keep=False)
    for _ in range(30):
        assert await client.kind(bad.url()) == "protocol"
        assert await client.kind(bad.url(), method="G ET") == "protocol"
    assert client.fetcher.in_flight == 0
    assert len(client.fetcher._idle) == 1


async def test_a_late_timer_does_not_delay_the_next_start(serve: Any, client: Any) -> None:
    # Requests one after the other: each start is a timer of 0 that a far deadline replaces at once.
    site = serve(serve.answer())
    async with asyncio.timeout(60):
        for _ in range(300):
            await client.get(site.url())


async def test_timeouts_fire_while_others_go_on(serve: Any, client: Any) -> None:
    unheard, good = serve(silent), serve(serve.answer())
    late = asyncio.create_task(client.kind(unheard.url(), timeout_seconds=0.3))
    later = asyncio.create_task(client.kind(unheard.url(), timeout_seconds=0.6))
    async with asyncio.timeout(60):
        while not late.done():
            await client.get(good.url())
        assert await late == "timeout"
        assert await later == "timeout"
