"""Renewals beside the loop: a callback may block it for longer than a lease, and no lease is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from skitter.errors import FrontierError
from skitter.fetch.engine import CurlFetcher
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

LEASE_SECONDS = 1.2


class Blocking(Spider):
    """Its first page blocks the loop until somebody else has asked for the leases, twice a lease's length."""

    blocked = False

    def parse(self, response: Any) -> Any:
        if not self.blocked:
            self.blocked = True
            deadline = time.monotonic() + 2 * LEASE_SECONDS
            while time.monotonic() < deadline:
                time.sleep(0.05)
        return {"url": response.url}


class Bench:
    def __init__(self, path: Path, **values: Any) -> None:
        self.path = path
        self.settings = Settings.from_layers(
            [("test", {"obey_robots": False, "lease_seconds": LEASE_SECONDS, **values})]
        )

    def open(self) -> Any:
        return sqlite_frontier(self.path, "job")

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
        await bench.begin(Blocking(), [f"{web.urls[0]}p/{n}" for n in range(1, 13)])
        taken: list[int] = []
        over = threading.Event()

        def thief() -> None:
            """Another worker, which takes whatever expires."""

            async def steal() -> None:
                other = bench.open()
                while not over.wait(0.1):
                    await other.reap()
                    taken.append(len((await other.lease("w2", 10)).leases) if bench.worker.held else 0)
                await other.close()

            asyncio.run(steal())

        stealing = threading.Thread(target=thief)
        with RenewalThread(bench.worker, bench.open, LEASE_SECONDS):
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
        with RenewalThread(bench.worker, bench.open, LEASE_SECONDS):
            running = asyncio.create_task(bench.worker.run())
            while not web.log():  # noqa: ASYNC110  the web has no event for it
                await asyncio.sleep(0.001)
            assert await bench.frontier.release_worker("w1") == 1
            (lease,) = (await bench.frontier.lease("w2", 1)).leases
            async with asyncio.timeout(20):
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

    def __init__(self, source: Any, failures: int, error: Exception) -> None:
        self._source = source
        self.failures = failures
        self.error = error
        self.renewed = threading.Event()

    async def renew(self, worker: str, leases: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise self.error
        self.renewed.set()
        return await self._source.renew(worker, leases)

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
            async with asyncio.timeout(20):
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
            async with asyncio.timeout(20):
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
            assert blamed.wait(20)

    def beat() -> None:
        noted.append(lease_of(bench.worker._loop_status.read()))
        if noted.count(noted[-1]) > 3 and noted[-1] is not None:
            blamed.set()

    with served(WebSpec.plain(hosts=1, pages_per_host=1)) as web:
        await bench.begin(Stuck(), [web.urls[0]])
        with RenewalThread(bench.worker, bench.open, LEASE_SECONDS, beat):
            assert await bench.worker.run() is State.FINISHED
    assert {lease.host_key for lease in noted if lease} == {host_key(web.urls[0])}


async def test_it_ends_at_once_when_it_was_never_needed(bench: Bench) -> None:
    await bench.begin(Spider(), [])
    began = time.monotonic()
    with RenewalThread(bench.worker, lambda: pytest.fail("nothing to renew"), 30):
        assert await bench.worker.run() is State.FINISHED
    assert time.monotonic() - began < module.BEAT_SECONDS
