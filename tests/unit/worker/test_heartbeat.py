"""What a worker tells of itself: who it is, and what it is at."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec
import pytest

from skitter import __version__
from skitter.cluster.process_identity import heartbeat_of, worker_id
from skitter.model.job import Command
from skitter.model.request import Request
from skitter.model.worker import Doing, WaitsFor, WorkerHeartbeat
from skitter.spiders.base import Spider
from skitter.worker import lease_renewal as module
from skitter.worker.lease_renewal import renew_while_running


class Held:
    """An answer that waits until it is told."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.asked = asyncio.Event()

    async def __call__(self, request: Any) -> Any:
        self.asked.set()
        await self.go_on.wait()
        return 200


class Items(Spider):
    start_urls = ("http://a.example/0", "http://a.example/1")

    def parse(self, response: Any) -> Any:
        yield {"url": response.url}


def test_a_process_knows_who_it_is() -> None:
    heartbeat = heartbeat_of("books.py:Books")
    assert (heartbeat.pid, heartbeat.version, heartbeat.spider) == (os.getpid(), __version__, "books.py:Books")
    assert worker_id().startswith(f"{heartbeat.host_name}:{heartbeat.pid}:")


class Needy(Spider):
    def start(self) -> Any:
        yield Request("http://a.example/0")
        yield Request("http://a.example/1", need="browser")

    def parse(self, response: Any) -> Any:
        yield {"url": response.url}


async def test_a_worker_is_given_what_it_can_serve_at_the_moment_and_tells_it(crawl: Any) -> None:
    await crawl.begin(Needy())
    worker = crawl.worker()
    assert worker.heartbeat().needs == ()
    running = crawl.start(worker)
    await crawl.until(lambda: worker.committed == 2)
    assert (await crawl.frontier.counts()).queued == 1, "the seeding and one page are done"
    worker.needs = ["browser"]
    assert worker.heartbeat().needs == ("browser",)
    await running
    assert worker.committed == 3


async def test_it_tells_what_it_is_at(crawl: Any) -> None:
    await crawl.begin(Items())
    held = crawl.fetcher.answers["/0"] = Held()
    worker = crawl.worker(heartbeat=WorkerHeartbeat(host_name="crawl-7", pid=3))
    slots = worker.heartbeat().slots
    heartbeat = msgspec.structs.replace(worker.heartbeat(), memory_bytes=0)
    assert heartbeat == WorkerHeartbeat(host_name="crawl-7", pid=3, doing=Doing.STARTING, slots=slots)
    assert worker.heartbeat().memory_bytes > 1_000_000
    running = crawl.start(worker)
    await held.asked.wait()
    await crawl.until(lambda: worker.heartbeat().in_flight == 1)
    assert worker.heartbeat().doing == Doing.FETCHING
    worker.stop()
    assert worker.heartbeat().doing == Doing.DRAINING
    held.go_on.set()
    await running


async def test_seeding_is_told_also_while_pages_are_fetched(crawl: Any) -> None:
    go_on = asyncio.Event()

    class Slow(Spider):
        async def start(self) -> Any:
            yield Request("http://a.example/0")
            await go_on.wait()

        def parse(self, response: Any) -> None:
            pass

    await crawl.begin(Slow())
    worker = crawl.worker()
    running = crawl.start(worker)
    await crawl.until(lambda: crawl.fetcher.paths)
    assert worker.heartbeat().doing == Doing.SEEDING
    go_on.set()
    await running


async def test_a_pause_and_a_wait_are_told_apart(crawl: Any) -> None:
    await crawl.begin(Items(), delay_seconds=1000)
    worker = crawl.worker()
    crawl.start(worker)
    await crawl.until(lambda: crawl.fetcher.paths and not worker.held)
    assert worker.heartbeat().doing == Doing.WAITING
    await crawl.command(Command.PAUSE)
    await crawl.until(lambda: worker.heartbeat().doing == Doing.PAUSED)


async def test_it_tells_why_its_slots_are_free(crawl: Any) -> None:
    await crawl.begin(Items(), delay_seconds=0.5)
    worker = crawl.worker()
    crawl.start(worker)
    await crawl.until(lambda: worker.heartbeat().waits_for == WaitsFor.DELAY)
    await crawl.command(Command.PAUSE)
    await crawl.until(lambda: worker.heartbeat().waits_for == WaitsFor.RESUME)
    worker.stop()
    assert worker.heartbeat().waits_for == ""


async def test_it_tells_how_fast_it_is_and_what_its_callbacks_took(crawl: Any) -> None:
    class Waits(Items):
        async def parse(self, response: Any) -> Any:
            await asyncio.sleep(0.02)
            yield {"url": response.url}

    await crawl.begin(Waits())
    crawl.fetcher.answers |= {"/0": 200, "/1": 200}
    worker = crawl.worker()
    await crawl.start(worker)
    heartbeat = worker.heartbeat()
    assert heartbeat.pages_per_second > 0
    assert list(heartbeat.longest_calls) == ["parse"]
    assert heartbeat.longest_calls["parse"] >= 0.02
    tally = (await crawl.frontier.report()).tally
    assert tally["calls:parse"] == 2
    assert tally["call_us:parse"] >= 2 * 20_000


async def test_calls_of_workers_that_have_left_and_of_failed_callbacks_are_counted(crawl: Any) -> None:
    class Fails(Items):
        def parse(self, response: Any) -> Any:
            raise ValueError("no")

    await crawl.begin(Fails(), max_pages=100)
    crawl.fetcher.answers |= {"/0": 200, "/1": 200}
    worker = crawl.worker()
    await crawl.start(worker)
    await crawl.frontier.tell(worker.id, None)
    report = await crawl.frontier.report()
    assert (report.counts.failed, report.tally["calls:parse"]) == (2, 2)


async def test_a_full_outbox_is_told(crawl: Any) -> None:
    await crawl.begin(Items(), max_outbox_items=1, per_host=1)
    crawl.fetcher.answers |= {"/0": 200, "/1": 200}
    worker = crawl.worker()
    crawl.start(worker)
    await crawl.until(lambda: worker.heartbeat().doing == Doing.BLOCKED)
    assert worker.heartbeat().waits_for == WaitsFor.SINK


async def test_the_frontier_hears_it_every_few_seconds(crawl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TELL_SECONDS", 0.01)
    await crawl.begin(Items())
    held = crawl.fetcher.answers["/0"] = Held()
    worker = crawl.worker(heartbeat=WorkerHeartbeat(pid=3))
    running = crawl.start(worker)
    # Leases of a year: it is not the renewals that tell.
    telling = asyncio.create_task(renew_while_running(worker, crawl.frontier, 3e7, worker.lost))
    await held.asked.wait()

    async def told() -> bool:
        heartbeats = [seen.heartbeat for seen in await crawl.frontier.workers()]
        return [(heartbeat.pid, heartbeat.doing, heartbeat.in_flight) for heartbeat in heartbeats if heartbeat] == [
            (3, Doing.FETCHING, 1)
        ]

    await crawl.until(told)
    telling.cancel()
    held.go_on.set()
    await running


@pytest.mark.parametrize(("lease", "pause", "rounds"), [(30.0, 5.0, 2), (0.3, 0.1, 1), (20.0, 10 / 3, 2)])
def test_leases_are_renewed_at_a_third_of_their_length(lease: float, pause: float, rounds: int) -> None:
    assert module._rhythm(lease) == (pytest.approx(pause), rounds)


async def test_a_worker_that_stays_with_a_stopped_job_waits(crawl: Any) -> None:
    await crawl.begin(Items(), max_pages=1)
    crawl.fetcher.answers |= {"/0": 200, "/1": 200}
    worker = crawl.worker(stay=True)
    crawl.start(worker)
    await crawl.until(lambda: crawl.fetcher.paths and not worker.held)
    await crawl.elapse(2)
    await crawl.until(lambda: worker.heartbeat().doing == Doing.WAITING)
