"""``skitter.connect``: the client for a program without an event loop."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from skitter.app.client import BATCH, AsyncClient, SpiderLike, Urls
from skitter.app.views.jobs import JobView
from skitter.concurrency import LoopThread
from skitter.errors import UsageError
from skitter.model.job import Counts, FailedRequest, HostSeen, JobState, Trace
from skitter.model.request import Request
from skitter.model.worker import WorkerSeen

T = TypeVar("T")


class Client:
    """A connection to the jobs of a frontier, made by ``skitter.connect``; ``AsyncClient`` describes each method."""

    def __init__(self, frontier: str) -> None:
        self._client = AsyncClient(frontier)
        self._thread = LoopThread("skitter-client")

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread.is_stopped:
            work.close()
            raise UsageError("the client is closed", hint="open another one")
        return self._thread.wait_for(work)

    def __repr__(self) -> str:
        return repr(self._client).replace("AsyncClient", "Client")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; jobs continue. May be called again."""
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
        """Add URLs or Requests to a job, and return an id for each. Creates the job if it does not exist."""
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
        """Add any number of URLs to an existing job, and return how many were new."""
        added = (
            self._wait_for(self._client.add(batch, job=job, priority=priority, meta=meta)) for batch in _batches(urls)
        )
        return sum(added)

    def change_settings(self, job: str, values: Mapping[str, Any]) -> None:
        """Change settings of a job while it runs, for all its workers, as ``skitter set`` does."""
        self._wait_for(self._client.change_settings(job, values))

    def pause(self, job: str) -> JobState:
        """Start no new requests until ``resume``; requests in flight end, and workers wait. Returns the new state."""
        return self._wait_for(self._client.pause(job))

    def resume(self, job: str) -> JobState:
        """Continue a paused or stopped job, if a worker is there. Returns the new state."""
        return self._wait_for(self._client.resume(job))

    def stop(self, job: str) -> JobState:
        """Stop a job: requests in flight end, and its workers leave. Returns the new state."""
        return self._wait_for(self._client.stop(job))

    def retry(self, job: str, urls: str | Iterable[str] | None = None, *, error_class: str = "") -> int:
        """Queue failed requests again, and return how many: all, those with the URLs, or those of an error class."""
        return self._wait_for(self._client.retry(job, urls, error_class=error_class))

    def pause_host(self, job: str, host: str) -> None:
        """Request nothing more of a host (``https://shop.example``) until ``resume_host``. UsageError if unknown."""
        self._wait_for(self._client.pause_host(job, host))

    def resume_host(self, job: str, host: str) -> None:
        """Request from a host again that was paused or given up. UsageError if unknown."""
        self._wait_for(self._client.resume_host(job, host))

    def give_up_host(self, job: str, host: str) -> None:
        """Fail all requests of a host, with class ``given_up``, until ``resume_host``. UsageError if unknown."""
        self._wait_for(self._client.give_up_host(job, host))

    def state(self, request_id: str, url: str = "") -> Trace | None:
        """Return the state of a request; None if it is unknown."""
        return self._wait_for(self._client.state(request_id, url))

    def items(self, request_id: str) -> list[dict[str, Any]]:
        """Return the items of a request's page that are still in the job's outbox."""
        return self._wait_for(self._client.items(request_id))

    def results(self, job: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each item once, with the id of its request, as they arrive, until the job is over."""
        return self._iterate(self._client.results(job))

    def failures(self, job: str, *, error_class: str = "") -> Iterator[FailedRequest]:
        """Yield the failed requests of a job, or those of an error class, in the order they were added."""
        return self._iterate(self._client.failures(job, error_class=error_class))

    def hosts(self, job: str, state: str = "all") -> list[HostSeen]:
        """Return the hosts of a job, ordered by key: all, or those that are paused, blocked or given_up."""
        return self._wait_for(self._client.hosts(job, state))

    def counts(self, job: str) -> Counts:
        """Return how many requests of a job are queued, delayed, leased, done, redirected, failed and excluded."""
        return self._wait_for(self._client.counts(job))

    def workers(self, job: str) -> list[WorkerSeen]:
        """Return the workers that have reported, with their activity."""
        return self._wait_for(self._client.workers(job))

    def jobs(self) -> list[JobView]:
        """Return all jobs of the frontier, with their states and counts."""
        return self._wait_for(self._client.jobs())

    def wait(self, job: str, *, timeout_seconds: float | None = None) -> JobState:
        """Wait until a job is finished or stopped. Raises TimeoutError after ``timeout_seconds``."""
        return self._wait_for(self._client.wait(job, timeout_seconds=timeout_seconds))

    def _iterate(self, stream: AsyncGenerator[T, None]) -> Iterator[T]:
        async def take() -> T | None:
            return await anext(stream, None)

        try:
            while (found := self._wait_for(take())) is not None:
                yield found
        finally:
            self._wait_for(stream.aclose())


def _batches(urls: Urls) -> Iterator[list[str | Request]]:
    """Take URLs in the thread of the caller, whose generator may use the client or take its time."""
    stream = iter([urls] if isinstance(urls, (str, Request)) else urls)
    while batch := list(itertools.islice(stream, BATCH)):
        yield batch


def connect(frontier: str) -> Client:
    """Connect to the jobs of a frontier, to submit URLs, to read states, items and failures, and to steer the jobs.

    ``AsyncClient(frontier)`` is the same for a program with an event loop.
    """
    return Client(frontier)
