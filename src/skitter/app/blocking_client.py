"""``skitter.connect``: the client for a program without an event loop."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from skitter.app.client import BATCH, AsyncClient, SpiderLike, Urls
from skitter.app.views.jobs import JobView
from skitter.concurrency import LoopThread
from skitter.model.job import Counts, JobState, Trace
from skitter.model.request import Request
from skitter.model.worker import WorkerSeen

T = TypeVar("T")


class Client:
    """A connection to the jobs of a frontier, made by ``skitter.connect``; ``AsyncClient`` describes each method."""

    def __init__(self, frontier: str) -> None:
        self._client = AsyncClient(frontier)
        self._thread = LoopThread("skitter-client")
        self._wait_for = self._thread.wait_for

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; jobs go on. May be called again."""
        if self._thread.is_stopped:
            return
        self._wait_for(self._client.close())
        self._thread.stop()

    def submit(
        self,
        urls: Urls,
        *,
        job: str | None = None,
        spider: SpiderLike | None = None,
        priority: int = 0,
        meta: Mapping[str, Any] | None = None,
        output: str | Path | Sequence[str | Path] | None = None,
        settings: Mapping[str, Any] | None = None,
        arguments: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Add URLs or Requests to a job, which is begun if it is not there, and return an id for each."""
        ids: list[str] = []
        for batch in _batches(urls):
            ids += self._wait_for(
                self._client.submit(
                    batch,
                    job=job,
                    spider=spider,
                    priority=priority,
                    meta=meta,
                    output=output,
                    settings=settings,
                    arguments=arguments,
                )
            )
            # The rest goes where the first ones went.
            job = job or ids[0].rpartition("/")[0]
        return ids

    def add(self, urls: Urls, *, job: str, priority: int = 0, meta: Mapping[str, Any] | None = None) -> int:
        """Add any number of URLs to a job that is there, and return how many were new to it."""
        added = (
            self._wait_for(self._client.add(batch, job=job, priority=priority, meta=meta)) for batch in _batches(urls)
        )
        return sum(added)

    def change_settings(self, job: str, values: Mapping[str, Any]) -> None:
        """Change settings of a job while it runs, for all its workers, as ``skitter set`` does."""
        self._wait_for(self._client.change_settings(job, values))

    def state(self, request_id: str, url: str = "") -> Trace | None:
        """What is known of a request; None: nothing."""
        return self._wait_for(self._client.state(request_id, url))

    def items(self, request_id: str) -> list[dict[str, Any]]:
        """The items of a request's page which the job's outbox holds."""
        return self._wait_for(self._client.items(request_id))

    def results(self, job: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Give out each item once, with the id of its request, as they come, until the job is over."""
        stream = self._client.results(job)

        async def take() -> tuple[str, dict[str, Any]] | None:
            return await anext(stream, None)

        try:
            while (result := self._wait_for(take())) is not None:
                yield result
        finally:
            self._wait_for(stream.aclose())

    def counts(self, job: str) -> Counts:
        """How many requests of a job are queued, delayed, leased, done, redirected, dead and excluded."""
        return self._wait_for(self._client.counts(job))

    def workers(self, job: str) -> list[WorkerSeen]:
        """The workers that were heard from, with what each is doing."""
        return self._wait_for(self._client.workers(job))

    def jobs(self) -> list[JobView]:
        """All jobs of the frontier, and how they stand."""
        return self._wait_for(self._client.jobs())

    def wait(self, job: str, *, timeout_seconds: float | None = None) -> JobState:
        """Wait until a job is finished or stopped; TimeoutError: it was not, in that time."""
        return self._wait_for(self._client.wait(job, timeout_seconds=timeout_seconds))


def _batches(urls: Urls) -> Iterator[list[str | Request]]:
    """Take URLs in the thread of the caller, whose generator may use the client or take its time."""
    stream = iter([urls] if isinstance(urls, (str, Request)) else urls)
    while batch := list(itertools.islice(stream, BATCH)):
        yield batch


def connect(frontier: str) -> Client:
    """Connect to the jobs of a frontier: submit URLs, and ask for states, items, counts and workers.

    ``AsyncClient(frontier)`` is the same for a program with an event loop.
    """
    return Client(frontier)
