"""Workers on real frontiers, fetching from a synthetic web over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from skitter.extract.items import decode_item
from skitter.fetch.engine import CurlFetcher
from skitter.frontier.contract import Frontier
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.frontier.sqlite import sqlite_frontier
from skitter.model.job import FailedRequest, JobSpec, State
from skitter.model.url import canonical
from skitter.settings import Settings
from skitter.spiders.base import Spider
from skitter.spiders.site_spider import SiteSpider
from skitter.worker.lease_renewal import renew_while_running
from skitter.worker.loop import Worker

SINK = "out.jsonl"
Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]
QUICK = {"retry_delay_seconds": 0.05, "host_backoff_seconds": 0.2, "per_host": 32}


class Site:
    """A job on a frontier, with as many workers as a test wants."""

    def __init__(self, frontier: Frontier, reopen: Any) -> None:
        self.frontier = frontier
        self.reopen = reopen
        """Another client of the same job, as another process would have."""

    async def begin(
        self, seeds: Iterable[str], spider: Spider | None = None, *, fresh: bool = False, **values: Any
    ) -> None:
        self.spider = spider or SiteSpider()
        self._by_seeds = spider is None
        self.spider.start_urls = list(seeds)
        self.settings = Settings.from_layers([("test", QUICK | values)])
        spec = JobSpec(name="job", spider="", settings=self.settings.job_wide())
        await self.frontier.begin(spec, fresh=fresh, sinks=[SINK])
        self.job = await self.frontier.job()

    @contextlib.asynccontextmanager
    async def worker(self, name: str = "w1") -> AsyncIterator[Worker]:
        """With a frontier client and a fetcher of its own."""
        source, fetcher = self.reopen(), CurlFetcher(self.settings.fetch)
        worker = Worker(
            name,
            source=source,
            fetcher=fetcher,
            spider=self.spider,
            job=self.job,
            settings=self.settings,
            by_seeds=self._by_seeds,
        )
        lease_seconds = self.settings.limits.lease_seconds
        renewing = asyncio.create_task(renew_while_running(worker, source, lease_seconds, worker.lost))
        try:
            yield worker
        finally:
            renewing.cancel()
            await asyncio.wait([renewing])
            await fetcher.close()
            await source.close()

    async def crawl(self, *names: str) -> set[State]:
        """With these workers, to the end."""

        async def run(name: str) -> State:
            async with self.worker(name) as worker:
                return await worker.run()

        async with asyncio.timeout(60):
            return set(await asyncio.gather(*map(run, names or ("w1",))))

    async def records(self) -> list[dict[str, Any]]:
        assert await self.frontier.open_sink(SINK, "test") is not None
        return [decode_item(item.record) for item in await self.frontier.items(SINK, "test", 100_000) or []]

    async def done(self) -> list[str]:
        """The URLs of all records, in canonical form."""
        return [canonical(record["url"]) for record in await self.records()]

    async def failures(self) -> dict[str, FailedRequest]:
        return {canonical(failed.url): failed for failed in await self.frontier.failures(limit=10_000)}


@pytest.fixture(params=["memory", "sqlite"])
async def site(request: Any, tmp_path: Path) -> AsyncIterator[Site]:
    if request.param == "memory":
        store = MemoryStore()
        frontier: Frontier = memory_frontier("job", store)
        site = Site(frontier, lambda: memory_frontier("job", store))
    else:
        path = tmp_path / "job.db"
        frontier = sqlite_frontier(path, "job")
        site = Site(frontier, lambda: sqlite_frontier(path, "job", create=False))
    yield site
    await frontier.close()


class Host:
    """A server whose every answer a test decides, down to the bytes. What it was not told of is 404."""

    def __init__(self) -> None:
        self.base = ""
        self.hits: list[str] = []
        """The paths that were asked for, in order."""
        self._answers: dict[str, list[Answer]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def on(self, path: str, *answers: Answer) -> None:
        """What this path answers, one after the other; the last one for ever."""
        self._answers[path] = list(answers)

    def page(self, path: str, body: str | bytes = "", *headers: str, status: str = "200 OK") -> None:
        kind = (
            [] if any(header.lower().startswith("content-type") for header in headers) else ["Content-Type: text/html"]
        )
        self.on(path, self.answer(body, *headers, *kind, status=status))

    @staticmethod
    def answer(body: str | bytes = b"", *headers: str, status: str = "200 OK") -> bytes:
        body = body.encode() if isinstance(body, str) else body
        return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]).encode() + body

    def robots_hits(self) -> int:
        return self.hits.count("/robots.txt")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1].decode()
                self.hits.append(path)
                answers = self._answers.get(path, [self.answer(status="404 Not Found")])
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                if callable(answer):
                    await answer(writer)
                    break
                writer.write(answer)
                await writer.drain()

    async def stop(self, server: asyncio.Server) -> None:
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def make_host() -> AsyncIterator[Callable[[], Awaitable[Host]]]:
    async with contextlib.AsyncExitStack() as stack:

        async def make() -> Host:
            host = Host()
            server = await asyncio.start_server(host.serve, "127.0.0.1", 0)
            stack.push_async_callback(host.stop, server)
            host.base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            return host

        yield make


@pytest.fixture
async def host(make_host: Callable[[], Awaitable[Host]]) -> Host:
    return await make_host()
