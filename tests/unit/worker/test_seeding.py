"""The seeding: every form of start(), in parts, once, and what becomes of it when it fails."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from skitter.errors import FrontierError
from skitter.model.job import Command, State
from skitter.model.lease import Work
from skitter.model.request import Request
from skitter.spiders.base import Spider
from skitter.worker import seeding as module

BASE = "http://a.example"
TWO = [f"{BASE}/1", f"{BASE}/2"]


def spider_of(start: Any) -> Spider:
    return type("Made", (Spider,), {"start": start, "parse": lambda self, response: {"url": response.url}})()


async def agen(self: Any) -> Any:
    for url in TWO:
        yield Request(url)


async def coroutine(self: Any) -> Any:
    return [Request(url) for url in TWO]


async def coroutine_of_agen(self: Any) -> Any:
    return agen(self)


@pytest.mark.parametrize(
    "start",
    [
        lambda self: [Request(url) for url in TWO],
        lambda self: (Request(url) for url in TWO),
        lambda self: map(Request, TWO * 3),
        agen,
        coroutine,
        coroutine_of_agen,
    ],
    ids=["list", "generator", "map", "async generator", "coroutine", "coroutine of an async generator"],
)
async def test_a_start_may_have_any_form(crawl: Any, start: Any) -> None:
    await crawl.begin(spider_of(start))
    crawl.fetcher.answers |= {"/1": 200, "/2": 200}
    assert await crawl.run() is State.FINISHED
    assert sorted(record["url"] for record in await crawl.items()) == TWO


@pytest.mark.parametrize("nothing", [None, [], ()])
async def test_a_start_may_yield_nothing(crawl: Any, nothing: Any) -> None:
    await crawl.begin(spider_of(lambda self: nothing))
    assert await crawl.run() is State.FINISHED
    assert await crawl.places() == {}


async def test_start_urls_are_the_default_and_trusted(crawl: Any) -> None:
    spider = Spider()
    spider.start_urls = TWO
    await crawl.begin(spider)
    await crawl.run()
    assert [request.trusted for request in crawl.fetcher.requests] == [True, True]


async def test_a_start_that_fails_is_over_and_what_it_gave_before_stays(crawl: Any) -> None:
    def start(self: Any) -> Any:
        yield Request(TWO[0])
        raise RuntimeError("the feed is unavailable")

    await crawl.begin(spider_of(start))
    crawl.fetcher.answers["/1"] = 200
    assert await crawl.run() is State.FINISHED
    job = await crawl.frontier.job()
    assert "the feed is unavailable" in job.reason
    assert not job.seeding
    assert await crawl.places() == {"done": 1}


@pytest.mark.parametrize("output", [{"an": "item"}, "http://a.example/", 7])
async def test_a_start_yields_requests_only(crawl: Any, output: Any) -> None:
    await crawl.begin(spider_of(lambda self: [Request(TWO[0]), output]))
    await crawl.run()
    assert (
        type(output).__name__ in (await crawl.frontier.job()).reason or "items" in (await crawl.frontier.job()).reason
    )
    assert await crawl.items() == []
    assert crawl.fetcher.paths == ["/1"]


def exits(self: Any) -> Any:
    sys.exit("on its own")


async def cancels(self: Any) -> Any:
    raise asyncio.CancelledError("on its own")
    yield


@pytest.mark.parametrize("start", [exits, cancels])
async def test_a_start_that_exits_is_not_run_for_ever(crawl: Any, start: Any) -> None:
    await crawl.begin(spider_of(start))
    assert await crawl.run() is State.FINISHED
    assert "on its own" in (await crawl.frontier.job()).reason


async def test_pages_are_crawled_while_a_long_start_goes_on(crawl: Any) -> None:
    go_on = asyncio.Event()

    async def start(self: Any) -> Any:
        for number in range(module.FIRST_PART):
            yield Request(f"{BASE}/{number}")
        await go_on.wait()

    await crawl.begin(spider_of(start))
    running = crawl.start(crawl.worker())
    await crawl.until(lambda: len(crawl.fetcher.paths) == module.FIRST_PART)
    assert await crawl.state() is State.RUNNING
    go_on.set()
    assert await running is State.FINISHED


@pytest.mark.parametrize("seeds", [1, 3])
async def test_a_seed_does_not_wait_for_the_next_one(crawl: Any, seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_SECONDS", 0.01)

    async def start(self: Any) -> Any:
        for number in range(seeds):
            yield Request(f"{BASE}/{number}")
        await asyncio.Event().wait()

    await crawl.begin(spider_of(start), shutdown_seconds=0)
    worker = crawl.worker()
    running = crawl.start(worker)
    await crawl.until(lambda: len(crawl.fetcher.paths) == seeds)
    worker.stop()
    await running
    assert (await crawl.frontier.job()).seeding


async def test_a_slow_start_that_does_not_await_lets_the_loop_turn(crawl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_SECONDS", 0.0)
    fetched_during = []

    def start(self: Any) -> Any:
        for number in range(20):
            fetched_during.append(len(crawl.fetcher.paths))
            yield Request(f"{BASE}/{number}")

    await crawl.begin(spider_of(start))
    await crawl.run()
    assert fetched_during[-1] > 0


async def test_many_seeds_come_in_parts_and_all_arrive(crawl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # By their number alone: on a busy machine half a second may be over before 2,000 are read.
    monkeypatch.setattr(module, "PART_SECONDS", 1000.0)
    await crawl.begin(spider_of(lambda self: (Request(f"{BASE}/{number}") for number in range(5_000))))
    parts = []
    commit = crawl.frontier.commit

    async def counting(worker: str, outcomes: Any, want: int = 0, **call: Any) -> Any:
        parts.extend(len(outcome.links) for outcome in outcomes if outcome.lease.work is Work.SEED)
        return await commit(worker, outcomes, want)

    crawl.frontier.commit = counting
    await crawl.run()
    assert parts == [64, 2000, 2000, 936]
    assert await crawl.places() == {"failed": 5_000}


async def test_a_drain_gives_the_seeding_up_and_it_is_run_again(crawl: Any) -> None:
    runs = []

    async def start(self: Any) -> Any:
        runs.append(True)
        yield Request(f"{BASE}/1")
        if len(runs) == 1:
            await asyncio.Event().wait()
        yield Request(f"{BASE}/2")

    await crawl.begin(spider_of(start))
    running = crawl.start(crawl.worker())
    await crawl.until(lambda: runs)
    await crawl.command(Command.STOP)
    assert await running is State.STOPPED
    await crawl.begin(crawl.spider)
    assert await crawl.run() is State.FINISHED
    assert sorted(set(crawl.fetcher.paths)) == ["/1", "/2"]


async def test_an_endless_start_does_not_outlive_the_limit_of_pages(crawl: Any) -> None:
    async def start(self: Any) -> Any:
        yield Request(f"{BASE}/1")
        await asyncio.Event().wait()

    await crawl.begin(spider_of(start), max_pages=1)
    crawl.fetcher.answers["/1"] = 200
    assert await crawl.run() is State.STOPPED
    assert (await crawl.frontier.job()).seeding


class Flaky:
    """A store whose n-th commit of seeds fails."""

    def __init__(self, frontier: Any, number: int) -> None:
        self._frontier = frontier
        self._left = number
        self.failed = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._frontier, name)

    async def commit(self, worker: str, outcomes: Any, want: int = 0, **call: Any) -> Any:
        if any(outcome.lease.work is Work.SEED for outcome in outcomes):
            self._left -= 1
            if self._left == 0:
                self.failed.set()
                raise FrontierError("the disk is full")
        return await self._frontier.commit(worker, outcomes, want, **call)


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_store_that_fails_costs_no_seed(crawl: Any, number: int) -> None:
    await crawl.begin(spider_of(lambda self: (Request(f"{BASE}/{n}") for n in range(2_100))))
    with pytest.raises(FrontierError, match="disk is full"):
        await crawl.run(crawl.worker(source=Flaky(crawl.frontier, number)))
    assert (await crawl.frontier.job()).seeding
    await crawl.frontier.release_worker("w1")
    assert await crawl.run() is State.FINISHED
    assert len(set(crawl.fetcher.paths)) == 2_100


async def test_a_store_that_fails_while_start_waits_ends_the_worker(
    crawl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART_SECONDS", 0.01)

    async def start(self: Any) -> Any:
        yield Request(f"{BASE}/1")
        await asyncio.Event().wait()

    await crawl.begin(spider_of(start))
    with pytest.raises(FrontierError, match="disk is full"):
        await crawl.run(crawl.worker(source=Flaky(crawl.frontier, 1)))
    assert (await crawl.frontier.job()).seeding


async def test_a_part_under_way_at_the_end_of_start_is_waited_for(crawl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_SECONDS", 0.01)
    # The first seed is not late, however long it takes: it is sent beside start(), and start() goes on.
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 0.0))
    sending, go_on = asyncio.Event(), asyncio.Event()

    class Slow(Flaky):
        async def commit(self, worker: str, outcomes: Any, want: int = 0, **call: Any) -> Any:
            if outcomes and outcomes[0].more:
                sending.set()
                await go_on.wait()
            return await self._frontier.commit(worker, outcomes, want, **call)

    async def start(self: Any) -> Any:
        yield Request(f"{BASE}/1")
        await sending.wait()
        asyncio.get_running_loop().call_later(0.02, go_on.set)
        yield Request(f"{BASE}/2")

    await crawl.begin(spider_of(start))
    assert await crawl.run(crawl.worker(source=Slow(crawl.frontier, 0))) is State.FINISHED
    assert sorted(crawl.fetcher.paths) == ["/1", "/2"]


async def test_a_seeding_that_was_lost_is_dropped_and_run_by_another(crawl: Any) -> None:
    go_on = asyncio.Event()

    async def start(self: Any) -> Any:
        yield Request(f"{BASE}/1")
        await go_on.wait()

    await crawl.begin(spider_of(start), lease_seconds=30)
    first = crawl.worker()
    running = crawl.start(first)
    await crawl.until(lambda: first.held)
    (lease,) = first.held.values()
    crawl.clock.advance(31)
    second = crawl.start(crawl.worker("w2"))
    await crawl.until(lambda: crawl.workers[1].held)
    first.lost([lease])
    go_on.set()
    assert await second is State.FINISHED
    await crawl.elapse(0)
    assert await running is State.FINISHED
    assert await crawl.places() == {"failed": 1}
