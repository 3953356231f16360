"""Client of the jobs of a frontier: submits URLs from a program, reads their results, and steers jobs."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from skitter.app.audit import local_actor
from skitter.app.config import crawl_config
from skitter.app.crawl_source import CrawlSource, seed_url, source_of_spider
from skitter.app.frontiers import is_missing_file, is_shared, open_frontier
from skitter.app.host_list import key_of, sorted_hosts
from skitter.app.script import source_of
from skitter.app.submit import check_submission
from skitter.app.views.failed import check_error_class, find_failed, retry_failed
from skitter.app.views.jobs import JobView, jobs_of_frontier
from skitter.cluster.process_identity import worker_id
from skitter.delivery.stream_runner import CLIENT
from skitter.errors import JobError, SinkError, UsageError
from skitter.extract.items import decode_item
from skitter.frontier.contract import Frontier, acting_for
from skitter.model.audit import Actor
from skitter.model.host import HostCommand, HostFilter
from skitter.model.item import Item, ItemKind
from skitter.model.job import Command, Counts, FailedRequest, HostSeen, JobState, SinkProgress, State, Trace
from skitter.model.request import Entry, Fingerprinter, Request
from skitter.model.secrets import shown_address
from skitter.model.url import host_key
from skitter.model.worker import WorkerSeen
from skitter.settings import Settings
from skitter.sinks.targets import sink_of
from skitter.spiders.base import Spider
from skitter.spiders.loading import full_reference, load_spider
from skitter.spiders.scrapy_settings import translated

BATCH = 1000
"""Requests of one call to the frontier, and the most that are held in memory."""
POLL_SECONDS = 0.5
MAX_HOSTS = 100_000
"""Ids whose hosts a client remembers."""
_ENDED = (State.FINISHED, State.STOPPED)
SpiderLike = type[Spider] | Callable[..., Any] | str
"""A class, a function, or the reference of one of them: ``books.py:Books``."""
Urls = str | Request | Iterable[str | Request]


class AsyncClient:
    """A connection to the jobs of a frontier; ``skitter.connect`` returns the same without ``await``.

    The id of a request is text: the name of its job and its number there. You may store it, and use it in another
    process.
    """

    def __init__(self, frontier: str, *, actor: Actor | None = None) -> None:
        """``actor`` is the name for the audit trail.

        None means this program. Its requests count as a source, like an intake: the audit trail records it when it
        creates or changes a job, and not when it adds to one.
        """
        if not is_shared(frontier):
            raise UsageError(f"cannot be shared with another process: {frontier}", hint='as in "sqlite:jobs.db"')
        self._url = frontier
        self._actor = actor
        self._open: dict[str, Frontier] = {}
        self._is_closed = False
        self._hosts: dict[str, str] = {}
        """Of the ids that were given out last."""

    def __repr__(self) -> str:
        return f"<AsyncClient of {shown_address(self._url)}{', closed' if self._is_closed else ''}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; jobs continue."""
        self._is_closed = True
        while self._open:
            _, frontier = self._open.popitem()
            await frontier.close()

    # ---- submitting

    async def submit(
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
        """Add URLs or Requests to a job, and return an id for each, including duplicates.

        ``job`` is the name of the job; the default is the name of the spider, or the host of the first URL. A job that
        does not exist is created with ``spider`` (None: the built-in one), ``output``, ``settings`` and ``arguments``,
        which otherwise have no effect. Without an ``output``, its items are kept for ``items`` and ``results``.
        ``priority`` and ``meta`` apply to plain URLs; a Request has its own. Requests are added in batches of 1,000. A
        wrong one raises UsageError; the batches before it are added.
        """
        stream = _requests(urls, priority, meta or {})
        first = next(stream, None)
        if first is None:
            return []
        name = await self._begun(job, spider, first, output, settings or {}, arguments or {})
        ids: list[str] = []
        async for entries, _ in _added(self._adding(name), itertools.chain([first], stream)):
            for entry in entries:
                ids.append(_id_of(name, entry.id))
                self._remember(ids[-1], entry.host_key)
        return ids

    async def add(self, urls: Urls, *, job: str, priority: int = 0, meta: Mapping[str, Any] | None = None) -> int:
        """Add any number of URLs or Requests to an existing job, and return how many were new.

        At most one batch of a generator is held in memory.
        """
        return sum([new async for _, new in _added(self._adding(job), _requests(urls, priority, meta or {}))])

    async def change_settings(self, job: str, values: Mapping[str, Any]) -> None:
        """Change settings of a job while it runs, for all its workers, as ``skitter set`` does."""
        await self._recorded(self._frontier(job)).change_settings(values)

    # ---- steering

    async def pause(self, job: str) -> JobState:
        """Start no new requests until ``resume``; requests in flight end, and workers wait. Returns the new state."""
        return await self._command(job, Command.PAUSE)

    async def resume(self, job: str) -> JobState:
        """Continue a paused or stopped job, if a worker is there. Returns the new state."""
        return await self._command(job, Command.RESUME)

    async def stop(self, job: str) -> JobState:
        """Stop a job: requests in flight end, and its workers leave. Returns the new state."""
        return await self._command(job, Command.STOP)

    async def retry(self, job: str, urls: str | Iterable[str] | None = None, *, error_class: str = "") -> int:
        """Queue failed requests again, and return how many: all, those with the URLs, or those of an error class."""
        check_error_class(error_class)
        wanted = [urls] if isinstance(urls, str) else None if urls is None else list(urls)
        return await retry_failed(self._recorded(self._frontier(job)), error_class, wanted)

    async def pause_host(self, job: str, host: str) -> None:
        """Request nothing more of a host (``https://shop.example``) until ``resume_host``. UsageError if unknown."""
        await self._command_host(job, host, HostCommand.PAUSE)

    async def resume_host(self, job: str, host: str) -> None:
        """Request from a host again that was paused or given up. UsageError if unknown."""
        await self._command_host(job, host, HostCommand.RESUME)

    async def give_up_host(self, job: str, host: str) -> None:
        """Fail all requests of a host, with class ``given_up``, until ``resume_host``. UsageError if unknown."""
        await self._command_host(job, host, HostCommand.GIVE_UP)

    # ---- asking

    async def state(self, request_id: str, url: str = "") -> Trace | None:
        """Return the state of a request (queued, leased, done, failed…), its attempts and errors; None if unknown.

        Redis keeps less than SQLite about a request that has ended (``Trace.state``), and needs the host to find a
        queued one: pass its ``url`` too if another client submitted it, or if 100,000 others were submitted since.
        """
        job, number = _parts(request_id)
        host = host_key(seed_url(url)) if url else self._hosts.get(request_id, "")
        return await self._frontier(job).trace(number, host)

    async def items(self, request_id: str) -> list[dict[str, Any]]:
        """Return the items of a request's page that are still in the job's outbox.

        Items stay there until they are written to every output; in a job that ``submit`` created without an output,
        until ``results`` has yielded them. After that, read them from the outputs.
        """
        job, number = _parts(request_id)
        found: list[dict[str, Any]] = []
        after, frontier = 0, self._frontier(job)
        while batch := await frontier.peek(after, BATCH):
            after = batch[-1].position
            found += [decode_item(item.record) for item in batch if item.request_id == number and _is_record(item)]
        return found

    async def results(self, job: str) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """Yield each item once, with the id of its request, as they arrive, until the job is over.

        For a job that ``submit`` created without an output. A batch counts as delivered when the next one is requested,
        so a batch that a killed program was processing is yielded again. Only one program at a time may read the
        results: another one gets SinkError.
        """
        frontier, owner = self._frontier(job), f"{worker_id()}:{secrets.token_hex(4)}"
        if CLIENT not in [sink.target for sink in await frontier.sinks()]:
            raise JobError(f"the job keeps no items for a program: {job}", hint="its items are in its own outputs")
        progress = await frontier.open_sink(CLIENT, owner)
        if progress is None:
            raise SinkError(
                f"another program is reading the results: {job}", hint="wait until it ends, or for 30 seconds"
            )
        try:
            while True:
                # In this order: what has ended gets no more items.
                state = (await frontier.state()).state
                items = await frontier.items(CLIENT, owner, BATCH)
                if items is None:
                    raise SinkError(
                        f"another program took over the results: {job}", hint="only one program at a time can read them"
                    )
                for item in items:
                    if _is_record(item):
                        yield _id_of(job, item.request_id), decode_item(item.record)
                is_over = not items and state in _ENDED
                if items or is_over:
                    position = items[-1].position if items else progress.position
                    progress = SinkProgress(position, closed=is_over and state is State.FINISHED)
                    await frontier.items_done(CLIENT, owner, progress)
                if is_over:
                    return
                if not items:
                    await asyncio.sleep(POLL_SECONDS)
        finally:
            await frontier.close_sink(CLIENT, owner)

    async def failures(self, job: str, *, error_class: str = "") -> AsyncGenerator[FailedRequest, None]:
        """Yield the failed requests of a job, or those of an error class, in the order they were added."""
        check_error_class(error_class)
        async for failed in find_failed(self._frontier(job), error_class):
            yield failed

    async def hosts(self, job: str, state: str = "all") -> list[HostSeen]:
        """Return the hosts of a job, ordered by key: all, or those that are paused, blocked or given_up."""
        known = [kind.value for kind in HostFilter]
        if state not in known:
            raise UsageError(f"no such state of hosts: {state}", hint=f"one of {', '.join(known)}")
        return await sorted_hosts(self._frontier(job), HostFilter(state))

    async def counts(self, job: str) -> Counts:
        """Return how many requests of a job are queued, delayed, leased, done, redirected, failed and excluded."""
        return await self._frontier(job).counts()

    async def workers(self, job: str) -> list[WorkerSeen]:
        """Return the workers that have reported, with their activity."""
        return await self._frontier(job).workers()

    async def jobs(self) -> list[JobView]:
        """Return all jobs of the frontier, with their states and counts."""
        return [] if is_missing_file(self._url) else await jobs_of_frontier(self._url)

    async def wait(self, job: str, *, timeout_seconds: float | None = None) -> JobState:
        """Wait until a job is finished or stopped. Raises TimeoutError after ``timeout_seconds``."""
        frontier = self._frontier(job)
        async with asyncio.timeout(timeout_seconds):
            while True:
                state = await frontier.state()
                if state.state in _ENDED:
                    return state
                await asyncio.sleep(POLL_SECONDS)

    # ---- the parts

    def _frontier(self, job: str, *, create: bool = False) -> Frontier:
        if self._is_closed:
            raise UsageError("the client is closed", hint="open another one")
        if job not in self._open:
            self._open[job] = open_frontier(self._url, job, create=create)
        return self._open[job]

    async def _command(self, job: str, command: Command) -> JobState:
        frontier = self._frontier(job)
        await self._recorded(frontier).command(command)
        return await frontier.state()

    async def _command_host(self, job: str, host: str, command: HostCommand) -> None:
        key = key_of(host)
        if await self._recorded(self._frontier(job)).command_host(key, command) is None:
            raise UsageError(f"no such host in {job}: {key}", hint="hosts(job) returns the existing ones")

    async def _begun(
        self,
        job: str | None,
        spider: SpiderLike | None,
        first: Request,
        output: str | Path | Sequence[str | Path] | None,
        settings: Mapping[str, Any],
        arguments: Mapping[str, str],
    ) -> str:
        """The name of a job, which is begun if it is not there."""
        source = _source(spider, first.url, arguments)
        outputs = [output] if isinstance(output, (str, Path)) else output or []
        own = translated("settings", settings, [])[0][1]
        config = crawl_config(
            source,
            Settings.from_layers([("the spider", source.settings), ("settings", own)]),
            job=job,
            frontier=self._url,
            outputs=[(str(each), False) for each in outputs],
        )
        name = config.spec.name
        frontier = self._frontier(name, create=True)
        try:
            found = await frontier.job()
        except JobError:
            check_submission(config)
            targets = [sink_of(target).target for target in config.outputs]
            await self._recorded(frontier).begin(config.spec, sinks=targets or [CLIENT])
        else:
            if spider is not None and found.spec.spider != config.spec.spider:
                raise JobError(
                    f"job {name} has another spider: {found.spec.spider or 'the built-in one'}",
                    hint="omit the spider, or give the job another name",
                )
        return name

    def _recorded(self, frontier: Frontier) -> Frontier:
        return acting_for(frontier, self._actor or local_actor("program"))

    def _adding(self, job: str) -> Frontier:
        frontier = self._frontier(job)
        return frontier if self._actor is None else self._recorded(frontier)

    def _remember(self, request_id: str, host: str) -> None:
        if len(self._hosts) >= MAX_HOSTS:
            del self._hosts[next(iter(self._hosts))]
        self._hosts[request_id] = host


# ---- requests


def _source(spider: SpiderLike | None, first_url: str, arguments: Mapping[str, str]) -> CrawlSource:
    if spider is None:
        # The built-in spider, whose seeds are what is added.
        return source_of((), first_url, {})._replace(seeds=[])
    if not isinstance(spider, str):
        return source_of(spider, (), arguments, starts_empty=True)
    folder = Path.cwd()
    kind = load_spider(spider, folder)
    return source_of_spider(kind, full_reference(spider, kind, folder), arguments, starts_empty=True)


def _requests(urls: Urls, priority: int, meta: Mapping[str, Any]) -> Iterator[Request]:
    """Requests as seeds, which permit their hosts; UsageError for a URL that cannot be crawled."""
    for each in [urls] if isinstance(urls, (str, Request)) else urls:
        request = each if isinstance(each, Request) else Request(each, priority=priority, meta=dict(meta))
        yield request.replace(
            url=seed_url(request.url),
            callback=getattr(request.callback, "__name__", request.callback),
            errback=getattr(request.errback, "__name__", request.errback),
            seed=True,
        )


async def _added(frontier: Frontier, requests: Iterator[Request]) -> AsyncIterator[tuple[list[Entry], int]]:
    """Add requests batch by batch; each batch, and how many of it were new."""
    # Asked for each time: a job that was dropped and begun anew has another secret.
    fingerprinter = Fingerprinter.of_job(await frontier.job())
    # A number of this call: a request with dont_filter is another one the next time.
    call = secrets.randbits(63)
    place = itertools.count()
    while batch := list(itertools.islice(requests, BATCH)):
        entries = [fingerprinter.entry(request, call, next(place)) for request in batch]
        yield entries, await frontier.add(entries)


def _id_of(job: str, number: int) -> str:
    return f"{job}/{number % 2**64:016x}"


def _parts(request_id: str) -> tuple[str, int]:
    job, _, digits = request_id.rpartition("/")
    try:
        number = int(digits, 16)
    except ValueError:
        number = 2**64
    if not job or number >= 2**64:
        raise UsageError(f"invalid request id: {request_id}", hint="submit returns them: JOB/0123456789abcdef")
    return job, number - 2**64 if number >= 2**63 else number


def _is_record(item: Item) -> bool:
    return item.kind is ItemKind.RECORD
