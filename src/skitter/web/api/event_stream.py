"""Server-sent events: one stream for each tab, with the figures that it shows, whenever they have changed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from aiohttp import web

from skitter.web.access import Access
from skitter.web.api.job_reads import JobDetail, JobReads, JobRow, JobsQuery, Text
from skitter.web.api.live_figures import LiveFigures, Watcher
from skitter.web.api.route import Call, Page, check_scope
from skitter.web.call_limits import BusyError
from skitter.web.credentials import Credential
from skitter.web.frontier_routes import RefusedError, is_gone

HEARTBEAT_SECONDS = 15.0
LOOK_SECONDS = 2.0
"""How often a stream looks whether its client is there."""
WRITE_SECONDS = 10.0
"""A client that does not take what is sent for so long is cut off."""
MAX_STREAMS = 500
MAX_STREAMS_OF_ONE = 50
LISTED_JOBS = 100


class EventsQuery(JobsQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tab shows: a job, the first page of the list of jobs, or both."""

    job: Text = ""
    jobs: bool = False


class EventStreams:
    """All streams of a server."""

    def __init__(self, figures: LiveFigures, reads: JobReads, access: Access) -> None:
        self._figures = figures
        self._reads = reads
        self._access = access
        self._streams: Counter[str] = Counter()
        self._closing = asyncio.Event()
        self._watchers: set[Watcher] = set()

    def close(self) -> None:
        """End all streams: their clients come again when there is a server."""
        self._closing.set()
        for watcher in self._watchers:
            watcher.woken.set()

    async def handle(self, call: Call) -> web.StreamResponse:
        query: EventsQuery = call.query
        if not query.job and not query.jobs:
            raise RefusedError(400, "no job and no list of jobs requested", hint="as in ?job=NAME or ?jobs=true")
        name = f"{call.credential.kind}:{call.credential.name}"
        if self._streams.total() >= MAX_STREAMS or self._streams[name] >= MAX_STREAMS_OF_ONE:
            raise BusyError("too many streams of events are open", hint="close some tabs")
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-store",
                # Proxies such as nginx would hold the events back.
                "X-Accel-Buffering": "no",
            }
        )
        watcher = Watcher()
        endings = self._watch(call, watcher)
        self._streams[name] += 1
        self._watchers.add(watcher)
        try:
            await _write(call.request, response, b"retry: 3000\n\n")
            await self._send(call, response, watcher)
        except ConnectionError:
            pass
        finally:
            ending = [task for end in endings for task in end()]
            self._watchers.discard(watcher)
            self._streams[name] -= 1
            self._streams += Counter()
            if ending:
                await asyncio.wait(ending)
        return response

    async def _send(self, call: Call, response: web.StreamResponse, watcher: Watcher) -> None:
        request, beat_at = call.request, time.monotonic()
        while not self._closing.is_set() and not is_gone(request):
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await watcher.woken.wait()
            except TimeoutError:
                pass
            watcher.woken.clear()
            changed, watcher.changed = watcher.changed, set()
            for topic in sorted(changed, key=lambda topic: topic.event):
                for event, data in topic.messages:
                    await _write(request, response, b"event: %b\ndata: %b\n\n" % (event.encode(), data))
            if time.monotonic() - beat_at >= HEARTBEAT_SECONDS:
                beat_at = time.monotonic()
                if not self._is_still(request, call.credential):
                    break
                await _write(request, response, b": heartbeat\n\n")
        if self._closing.is_set():
            await _write(request, response, b"event: end\ndata: {}\n\n")

    def _is_still(self, request: web.Request, credential: Credential) -> bool:
        """Whether the credential is still one: a user may have logged out, a token be gone."""
        try:
            return self._access.credential_of(request) == credential
        except RefusedError:
            return False

    def _watch(self, call: Call, watcher: Watcher) -> list[Callable[[], list[asyncio.Task[None]]]]:
        """Look at what a call asks for; how to end that."""
        query: EventsQuery = call.query
        watch = partial(self._figures.watch, watcher)
        endings = []
        if query.job:
            check_scope(call.credential, query.job)
            store, job = call.store, query.job

            async def read_job() -> JobDetail:
                return self._reads.detail(store, await self._figures.report(store, job))

            async def read_sample() -> Any:
                return (await self._figures.history(store, job, 0.0))[-1]

            endings.append(watch(("job", store.name, job), "job", read_job))
            endings.append(watch(("sample", store.name, job), "sample", read_sample))
        if query.jobs:
            chosen = [store.name for store in call.chosen_stores()]
            listing = JobsQuery(store=query.store, search=query.search, state=query.state, limit=LISTED_JOBS)
            asked = msgspec.structs.replace(call, query=listing)
            key = ("jobs", tuple(chosen), query.search, query.state, call.credential.jobs)
            endings.append(watch(key, "jobs", _read_jobs(self._reads, asked)))
        return endings


def _read_jobs(reads: JobReads, call: Call) -> Callable[[], Awaitable[Page[JobRow]]]:
    async def read() -> Page[JobRow]:
        return await reads.jobs(call)

    return read


async def _write(request: web.Request, response: web.StreamResponse, data: bytes) -> None:
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            if not response.prepared:
                await response.prepare(request)
            await response.write(data)
    except TimeoutError as error:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the client does not read events") from error
