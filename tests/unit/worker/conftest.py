"""Parts for a worker without a network: pages come from a table, time from a clock that the test moves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from skitter.extract.items import decode_item
from skitter.fetch.contract import FetchRequest
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.frontier.transactional import TransactionalFrontier
from skitter.model.job import Command, FailedRequest, Job, JobSpec, State
from skitter.model.page import Page
from skitter.model.request import Fingerprinter, Request
from skitter.settings import Settings
from skitter.spiders.base import Spider
from skitter.testing.clock import FakeClock
from skitter.worker.loop import Worker

BASE = "http://a.example"
SINK = "out.jsonl"


class Answers:
    """A Fetcher. ``answers[path]`` is a status, ``(status, headers, body)``, an error to raise, or a function of the
    request that gives one of those, and may be async. What has no answer is 404."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.requests: list[FetchRequest] = []
        self.in_flight = 0
        self.slow_ones = 0

    @property
    def paths(self) -> list[str]:
        """Of every request so far, without robots.txt."""
        return [path for request in self.requests if (path := urlsplit(request.url).path) != "/robots.txt"]

    async def fetch(self, request: FetchRequest) -> Page:
        self.requests.append(request)
        parts = urlsplit(request.url)
        answer = self.answers.get(request.url, self.answers.get(parts.path, 404))
        self.in_flight += 1
        try:
            if callable(answer):
                answer = answer(request)
                if isinstance(answer, Awaitable):
                    answer = await answer
        finally:
            self.in_flight -= 1
        if isinstance(answer, Exception):
            raise answer
        status, headers, body = (answer, {}, b"") if isinstance(answer, int) else answer
        return Page(
            url=request.url,
            status=status,
            headers=[("content-type", "text/html"), *((name.lower(), value) for name, value in headers.items())],
            body=body,
            address="192.0.2.1",
            seconds=0.25,
            wire_bytes=len(body),
        )

    def slow_transfers(self, most: int) -> int:
        return min(self.slow_ones, most)

    async def close(self) -> None:
        pass


def links(*targets: str) -> tuple[int, dict[str, str], bytes]:
    """A page that links to these."""
    return 200, {}, "".join(f'<a href="{target}">x</a>' for target in targets).encode()


class Crawl:
    """A job on a memory frontier, and workers on a table of answers."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock.of_store())
        self.frontier: TransactionalFrontier = memory_frontier("job", self.store)
        self.fetcher = Answers()
        self.workers: list[Worker] = []
        self._tasks: list[asyncio.Task[State]] = []

    async def begin(self, spider: Spider | None = None, *, fresh: bool = False, **values: Any) -> Job:
        """``values`` are settings; robots.txt is not read unless they say so."""
        self.spider = spider or Spider()
        self.settings = Settings.from_layers([("test", {"obey_robots": False, "per_host": 64, **values})])
        spec = JobSpec(name="job", spider="", settings=self.settings.job_wide())
        await self.frontier.begin(spec, fresh=fresh, sinks=[SINK])
        self.job = await self.frontier.job()
        return self.job

    async def add(self, *paths: str, **fields: Any) -> None:
        """Requests beside those of start()."""
        entry = Fingerprinter(self.job.secret).entry
        await self.frontier.add([entry(Request(BASE + path, **fields)) for path in paths])

    def worker(self, name: str = "w1", source: Any = None, **options: Any) -> Worker:
        """Not started yet."""
        worker = Worker(
            name,
            source=source or self.frontier,
            fetcher=self.fetcher,
            spider=self.spider,
            job=self.job,
            settings=self.settings,
            **options,
        )
        self.workers.append(worker)
        return worker

    def start(self, worker: Worker) -> asyncio.Task[State]:
        """Run it beside the test."""
        task = asyncio.create_task(worker.run())
        self._tasks.append(task)
        return task

    async def run(self, worker: Worker | None = None) -> State:
        """To the end."""
        async with asyncio.timeout(60):
            return await (worker or self.worker()).run()

    async def elapse(self, seconds: float) -> None:
        """Time passes, and the workers look again at once."""
        self.clock.advance(seconds)
        for worker in self.workers:
            worker._ask_at = 0.0
            worker._wake.set()
        await asyncio.sleep(0)

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait for something that the workers are about to do."""
        deadline = time.monotonic() + 60
        while True:
            result = condition()
            if isinstance(result, Awaitable):
                result = await result
            if result:
                return
            assert time.monotonic() < deadline, "it never happened"
            await asyncio.sleep(0.001)

    async def run_through(self, worker: Worker | None = None) -> State:
        """To the end, with time passing whenever nothing is in flight."""
        worker = worker or self.worker()
        running = self.start(worker)
        while not running.done():
            await self.until(lambda: running.done() or not worker.held)
            await self.elapse(5)
        return running.result()

    async def command(self, command: Command) -> None:
        await self.frontier.command(command)
        await self.elapse(0)

    # ---- what came of it

    async def state(self) -> State:
        return (await self.frontier.job()).state

    async def items(self) -> list[dict[str, Any]]:
        assert await self.frontier.open_sink(SINK, "test") is not None
        return [decode_item(item.record) for item in await self.frontier.items(SINK, "test", 100_000) or []]

    async def failures(self) -> dict[str, FailedRequest]:
        """By path."""
        return {urlsplit(failed.url).path: failed for failed in await self.frontier.failures()}

    async def places(self) -> dict[str, int]:
        """The counts that are not 0."""
        return {name: n for name, n in msgspec.to_builtins(await self.frontier.counts()).items() if n}

    async def tally(self) -> dict[str, int]:
        return (await self.frontier.report()).tally

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def crawl() -> Any:
    crawl = Crawl()
    yield crawl
    await crawl.close()
