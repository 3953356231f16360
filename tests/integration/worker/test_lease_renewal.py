"""Renewals beside the loop: a callback may block it for longer than a lease, and no lease is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skitter.errors import FrontierError
from skitter.fetch.engine import CurlFetcher
from skitter.frontier.clock import StoreClock
from skitter.frontier.sqlite import sqlite_frontier
from skitter.model.job import JobSpec, State
from skitter.model.lease import Lease
from skitter.model.url import host_key
from skitter.settings import Settings
from skitter.spiders.base import Spider
from skitter.testing.web import SyntheticWeb, WebSpec, served
from skitter.worker import lease_renewal as module
from skitter.worker.lease_renewal import RenewalThread
from skitter.worker.loop import Worker
from skitter.worker.loop_status import lease_of

RENEWED_SECONDS = 1.2
"""Leases are renewed at a third of this, and last much longer."""
LEASE_SECONDS = 60.0


class Blocking(Spider):
    """Its first page blocks the loop for as long as the test says."""

    block: Callable[[], None] | None = None

    def parse(self, response: Any) -> Any:
        if self.block is not None:
            block, self.block = self.block, None
            block()
        return {"url": response.url}


class Bench:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.ahead_seconds = 0.0
        """How far the clock of the store has been set ahead."""
        self.settings = Settings.from_layers([("test", {"obey_robots": False, "lease_seconds": LEASE_SECONDS})])

    def open(self) -> Any:
        clock = StoreClock(lambda: time.time() + self.ahead_seconds, lambda: time.monotonic() + self.ahead_seconds)
        return sqlite_frontier(self.path, "job", clock=clock)

    async def begin(self, spider: Spider, seeds: list[str]) -> None:
        spider.start_urls = seeds
        self.frontier = self.open()
        await self.frontier.begin(JobSpec(name="job", spider="", settings=self.settings.job_wide()))
        self.fetcher = CurlFetcher(self.settings.fetch)
        self.worker = Worker(
            "w1",
            source=self.frontier,
            fetcher=self.fetcher,
            spider=spider,
            job=await self.frontier.job(),
            settings=self.settings,
        )

    async def close(self) -> None:
        await self.fetcher.close()
        await self.frontier.close()


@pytest.fixture
async def bench(tmp_path: Path) -> Any:
    bench = Bench(tmp_path / "job.db")
    yield bench
    await bench.close()


async def test_a_callback_longer_than_a_lease_costs_none(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    # The web is a process of its own: this one's loop stands still.
    with served(WebSpec.plain(hosts=1, pages_per_host=20)) as web:
        spider = Blocking()
        await bench.begin(spider, [f"{web.urls[0]}p/{n}" for n in range(1, 13)])
        taken: list[int] = []
        over, looked, renewed = threading.Event(), threading.Event(), threading.Event()

        def outlive_a_lease() -> None:
            for _ in range(5):
                bench.ahead_seconds += 0.6 * LEASE_SECONDS
                # The first renewal may have begun before.
                for event in (renewed, renewed, looked, looked):
                    event.clear()
                    assert event.wait(60)

        spider.block = outlive_a_lease

        def thief() -> None:
            """Another worker, which takes whatever expires."""

            async def steal() -> None:
                other = bench.open()
                while not over.wait(0.02):
                    await other.reap()
                    taken.append(len((await other.lease("w2", 10)).leases) if bench.worker.held else 0)
                    looked.set()
                await other.close()

            asyncio.run(steal())

        stealing = threading.Thread(target=thief)
        with RenewalThread(bench.worker, lambda: Unwilling(bench.open(), renewed=renewed), RENEWED_SECONDS / 4):
            running = asyncio.create_task(bench.worker.run())
            while not bench.worker.held:  # noqa: ASYNC110  the worker has no event for it
                await asyncio.sleep(0.001)
            stealing.start()
            try:
                assert await running is State.FINISHED
            finally:
                over.set()
                stealing.join()
        assert (await bench.frontier.counts()).done == 12
        assert len(taken) > 3
        assert sum(taken) == 0
        assert "lost" not in caplog.text


async def test_a_lost_lease_is_told_to_the_worker(bench: Bench) -> None:
    async with SyntheticWeb(WebSpec.plain(hosts=1, pages_per_host=2, latency_seconds=60)) as web:
        await bench.begin(Blocking(), [web.urls[0]])
        with RenewalThread(bench.worker, bench.open, RENEWED_SECONDS):
            running = asyncio.create_task(bench.worker.run())
            while not web.log():  # noqa: ASYNC110  the web has no event for it
                await asyncio.sleep(0.001)
            assert await bench.frontier.release_worker("w1") == 1
            (lease,) = (await bench.frontier.lease("w2", 1)).leases
            async with asyncio.timeout(60):
                while bench.worker.held:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert bench.fetcher.in_flight == 0
            # It stays alive, and waits for more.
            assert not running.done()
            await bench.frontier.renew("w2", [lease])
            bench.worker.stop()
            await running


class Unwilling:
    """A source that fails as often as it is told, and then works."""

    def __init__(
        self,
        source: Any,
        failures: int = 0,
        error: Exception | None = None,
        renewed: threading.Event | None = None,
    ) -> None:
        self._source = source
        self.failures = failures
        self.error = error
        self.renewed = renewed or threading.Event()

    async def renew(self, worker: str, leases: Any) -> Any:
        if self.failures:
            self.failures -= 1
            assert self.error is not None
            raise self.error
        kept = await self._source.renew(worker, leases)
        self.renewed.set()
        return kept

    async def tell(self, worker: str, heartbeat: Any) -> None:
        await self._source.tell(worker, heartbeat)

    async def close(self) -> None:
        await self._source.close()


async def hold(bench: Bench, web: SyntheticWeb) -> asyncio.Task[State]:
    await bench.begin(Blocking(), [web.urls[0]])
    return asyncio.create_task(bench.worker.run())


SLOW = WebSpec.plain(hosts=1, pages_per_host=1, latency_seconds=60)


@pytest.mark.parametrize("where", ["open", "renew"])
async def test_a_store_that_fails_for_a_moment_is_asked_again(bench: Bench, where: str) -> None:
    async with SyntheticWeb(SLOW) as web:
        running = await hold(bench, web)
        failures = [FrontierError("the disk is full")] * 2
        source: list[Unwilling] = []

        def open_source() -> Any:
            if where == "open" and failures:
                raise failures.pop()
            source.append(Unwilling(bench.open(), 2 if where == "renew" else 0, FrontierError("the disk is full")))
            return source[0]

        with RenewalThread(bench.worker, open_source, 0.15):
            async with asyncio.timeout(60):
                while not source or not source[0].renewed.is_set():  # noqa: ASYNC110  it happens in a thread
                    await asyncio.sleep(0.01)
            assert not running.done()
            bench.worker._settings = Settings.from_layers([("test", {"shutdown_seconds": 0})])
            bench.worker.stop()
            await running


@pytest.mark.parametrize("where", ["open", "renew"])
async def test_a_renewal_that_breaks_ends_the_worker_with_its_error(bench: Bench, where: str) -> None:
    async with SyntheticWeb(SLOW) as web:
        running = await hold(bench, web)

        def open_source() -> Any:
            if where == "open":
                raise RuntimeError("a defect")
            return Unwilling(bench.open(), 1, RuntimeError("a defect"))

        with RenewalThread(bench.worker, open_source, 0.05):
            async with asyncio.timeout(60):
                with pytest.raises(RuntimeError, match="a defect"):
                    await running


async def test_it_beats_while_the_loop_is_blocked_and_the_page_is_noted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.05)
    noted: list[Lease | None] = []
    blamed = threading.Event()

    class Stuck(Spider):
        def parse(self, response: Any) -> Any:
            assert blamed.wait(60)

    def beat() -> None:
        noted.append(lease_of(bench.worker._loop_status.read()))
        if noted.count(noted[-1]) > 3 and noted[-1] is not None:
            blamed.set()

    with served(WebSpec.plain(hosts=1, pages_per_host=1)) as web:
        await bench.begin(Stuck(), [web.urls[0]])
        with RenewalThread(bench.worker, bench.open, RENEWED_SECONDS, beat):
            assert await bench.worker.run() is State.FINISHED
    assert {lease.host_key for lease in noted if lease} == {host_key(web.urls[0])}


async def test_it_ends_at_once_when_it_was_never_needed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT_SECONDS", 100.0)
    await bench.begin(Spider(), [])
    began = time.monotonic()
    with RenewalThread(bench.worker, lambda: pytest.fail("nothing to renew"), 30):
        assert await bench.worker.run() is State.FINISHED
    assert time.monotonic() - began < 60
