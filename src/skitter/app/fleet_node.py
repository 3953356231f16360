"""The node of ``skitter worker --every-job``: serves every job of its stores, by priority and in turns.

Each job that is served has a node of its own in this process (``worker_node``) with worker processes of its own, so
that a spider meets no other, and nothing that happens to one job reaches another. How many workers each gets is decided
anew every second (``policy.fleet_turns``). What a job's node writes to is what every node can open; files are written
by the node that the job names, whether it works for the job at the moment or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
import zlib
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any

import msgspec

from skitter.app.fleet_jobs import FleetJob, FleetJobs, JobKey
from skitter.app.job_items import Written, make_delivery_node
from skitter.app.node_coordinator import check_coordinator
from skitter.app.node_metrics import node_metrics
from skitter.app.summary import Summary
from skitter.app.worker_node import make_worker_node
from skitter.cluster.process_identity import heartbeat_of, is_child, worker_id
from skitter.delivery.job_sinks import OnEvent
from skitter.errors import BackendError, FrontierError, JobError, SkitterError
from skitter.model.job import State
from skitter.model.worker import Doing
from skitter.node.node import Node
from skitter.node.node_metrics import NodeMetrics
from skitter.observe import events
from skitter.policy.fleet_turns import Contender, allot
from skitter.settings import Run
from skitter.sinks.targets import parse_target
from skitter.stop_request import StopRequest

POLL_SECONDS = 1.0
UNOWNED_SECONDS = 2.0
"""So long a shared target has no owner before a node of a fleet takes it: a crawl that begins is about to open it."""
IDLE_SECONDS = 5.0
"""A job of which nothing was leased and nothing ended for so long lets others have its workers. Starting a worker takes
half a second of CPU time: it must not be done for every request of a host with a delay of seconds."""
MAX_REST_SECONDS = 30.0
START_SECONDS = 30.0
"""A turn is counted from when the job's first worker is at work, which must be within this time or the turn's."""
SKIP_SECONDS = 60.0
"""Before a job that this node cannot serve is tried again: its file may have come meanwhile."""
AWAY_SECONDS = 5.0
"""The same for one that failed because of its store or its target, doubling up to ``SKIP_SECONDS``."""


class FleetSummary(msgspec.Struct, kw_only=True):
    """What a node of a fleet has done."""

    served: dict[str, int] = {}
    """How often each job was given workers."""
    skipped: dict[str, str] = {}
    """Jobs that it could not serve at the end, with the reason."""


class _Service:
    """A job that is being served."""

    def __init__(self, node: Node[Summary | None], workers: int) -> None:
        self.node = node
        self.workers = workers
        self.turn_began = self.active_at = time.monotonic()
        self.at_work = False
        """Its first worker is listed."""
        self.ended_requests = -1
        self.leaving = ""
        """Why it was asked to stop."""


class _Rest(msgspec.Struct):
    """When a job is served again that gave cause to wait."""

    until: float = 0.0
    seconds: float = 0.0
    reason: str = ""

    def extend(self, first: float, longest: float) -> None:
        self.seconds = min(longest, max(first, 2 * self.seconds))
        self.until = time.monotonic() + self.seconds


def make_fleet_node(
    *,
    stores: Callable[[], Iterable[str]],
    name: str,
    run: Run,
    on_event: OnEvent,
    verbosity: int = 0,
    event_level: int = events.Level.INFO,
    print_fd: int = 2,
    sink_password: str | None = None,
) -> Node[FleetSummary]:
    """A node that serves all jobs of ``stores`` (URLs of frontiers, asked for again and again) until it is stopped.

    ``name``: the node's, by which a job says who writes its files. ``run``: this node's own settings, of which
    ``workers`` is the number for all jobs together.
    """
    check_coordinator(run)
    options: dict[str, Any] = {"verbosity": verbosity, "event_level": event_level, "print_fd": print_fd}
    return Node(lambda stop: _Fleet(stores, name, run, on_event, sink_password, options).run(stop))


class _Fleet:
    """One run of a fleet's node."""

    def __init__(
        self,
        stores: Callable[[], Iterable[str]],
        name: str,
        run: Run,
        on_event: OnEvent,
        sink_password: str | None,
        options: dict[str, Any],
    ) -> None:
        self._name = name
        self._run = run
        self._on_event = on_event
        self._sink_password = sink_password
        self._options = options
        self._jobs = FleetJobs(stores, name, on_event)
        self._summary = FleetSummary()
        self._services: dict[JobKey, _Service] = {}
        self._deliveries: dict[JobKey, Node[Written]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._served_at: dict[JobKey, float] = {}
        self._idle: dict[JobKey, _Rest] = {}
        self._skipped: dict[JobKey, _Rest] = {}
        self._undelivered: dict[JobKey, _Rest] = {}
        self._told: set[tuple[JobKey, str]] = set()
        self._wake = asyncio.Event()
        self._metrics: NodeMetrics | None = None

    async def run(self, stop: StopRequest) -> FleetSummary:
        async with node_metrics(self._run, self._on_event) as self._metrics:
            return await self._serve_all(stop)

    async def _serve_all(self, stop: StopRequest) -> FleetSummary:
        stopped = asyncio.Event()

        def end() -> None:
            stopped.set()
            self._wake.set()

        stop.set_handlers(end, end)
        try:
            while not stopped.is_set():
                self._wake.clear()
                await self._assign()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._wake.wait()
            await self._finish(stop)
        finally:
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
            await self._jobs.close()
        self._summary.skipped = {key.job: rest.reason for key, rest in self._skipped.items()}
        return self._summary

    async def _finish(self, stop: StopRequest) -> None:
        """Stop the work first, and then what delivers it."""
        for service in self._services.values():
            service.leaving = service.leaving or "this node stops"
        await self._stop_all([service.node for service in self._services.values()], self._services, stop)
        await self._stop_all(list(self._deliveries.values()), self._deliveries, stop)
        stop.hold()
        for key in list(self._skipped):
            await self._tell_heartbeat(key, "")

    async def _stop_all(self, nodes: Sequence[Node[Any]], running: Collection[JobKey], stop: StopRequest) -> None:
        def each(end: Callable[[Node[Any]], None]) -> None:
            for node in nodes:
                end(node)

        stop.set_handlers(lambda: each(Node.stop), lambda: each(Node.kill))
        while running:
            await asyncio.wait(list(self._tasks), return_when=asyncio.FIRST_COMPLETED)

    async def _assign(self) -> None:
        """Look at all jobs, and give workers to some of them."""
        looked_at = time.monotonic()
        found, unreadable = await self._jobs.look()
        self._forget_dropped()
        for key, error in unreadable.items():
            await self._skip(key, error)
        await self._deliver(found)
        contenders = [self._contender(job) for job in found.values() if self._is_to_serve(job)]
        allotted = {JobKey(*key): n for key, n in allot(contenders, self._run.workers).items()}
        others_wait = len(contenders) > len(allotted) or any(key not in self._services for key in allotted)
        for key, service in list(self._services.items()):
            await self._adjust(service, found.get(key), allotted.get(key, 0), others_wait=others_wait)
        for key, workers in allotted.items():
            free = self._run.workers - sum(service.workers for service in self._services.values())
            # One that was left meanwhile may be over by now.
            if key not in self._services and free > 0 and self._served_at.get(key, 0.0) < looked_at:
                self._serve(found[key], min(workers, free))

    # ---- which jobs

    def _is_to_serve(self, job: FleetJob) -> bool:
        now = time.monotonic()
        if job.key in self._services:
            return job.state is not State.PAUSED
        if (skipped := self._skipped.get(job.key)) is not None and skipped.until > now:
            return False
        if job.undelivered:
            return not self._rests(self._undelivered, job.key)
        return job.state is State.RUNNING

    def _contender(self, job: FleetJob) -> Contender:
        service = self._services.get(job.key)
        return Contender(
            key=job.key,
            priority=job.fleet.job_priority,
            in_turn=service is not None and not self._turn_is_over(service),
            rests=self._rests(self._idle, job.key),
            workers_elsewhere=sum(worker.id != worker_id() and not is_child(worker.id) for worker in job.workers),
            served_at=time.monotonic() if service is not None else self._served_at.get(job.key, 0.0),
            tie=zlib.crc32(f"{worker_id()} {job.key.job}".encode()),
        )

    @staticmethod
    def _rests(rests: dict[JobKey, _Rest], key: JobKey) -> bool:
        return key in rests and rests[key].until > time.monotonic()

    def _turn_is_over(self, service: _Service) -> bool:
        least = 0.0 if service.at_work else START_SECONDS
        return time.monotonic() - service.turn_began >= max(least, self._run.turn_seconds)

    # ---- serving

    async def _adjust(self, service: _Service, job: FleetJob | None, workers: int, *, others_wait: bool) -> None:
        """Stop a service that is to have fewer workers or none, or more now that its turn is over."""
        if job is None or service.leaving:
            return  # it has ended, and so will its node
        if not service.at_work and any(is_child(worker.id) for worker in job.workers):
            service.at_work, service.turn_began = True, time.monotonic()
            await self._tell_heartbeat(job.key, "")
        over = self._turn_is_over(service)
        if others_wait:
            await self._note_idleness(service, job)
        if not workers:
            paused = job.state is State.PAUSED
            service.leaving = (
                "the job is paused" if paused else "its turn is over" if over else "another job goes first"
            )
        elif (workers < service.workers and others_wait) or (workers > service.workers and over):
            service.leaving = "its number of workers changes"
        elif over:
            service.turn_began = time.monotonic()
        if service.leaving:
            service.node.stop()

    async def _note_idleness(self, service: _Service, job: FleetJob) -> None:
        """Let a job rest of which nothing was ready for a while; longer each time, until something of it ends."""
        try:
            counts = await (await self._jobs.frontier(job.key)).counts()
        except (FrontierError, JobError):
            return  # its own workers will say so
        ended, now = counts.seen - counts.unfinished, time.monotonic()
        own = [worker.leased for worker in job.workers if is_child(worker.id)]
        if sum(own) or ended != service.ended_requests or not own:
            if service.ended_requests >= 0 and ended != service.ended_requests:
                self._idle.pop(job.key, None)
            service.ended_requests, service.active_at = ended, now
        elif now - service.active_at > IDLE_SECONDS and not self._rests(self._idle, job.key):
            self._idle.setdefault(job.key, _Rest()).extend(IDLE_SECONDS, MAX_REST_SECONDS)

    def _serve(self, job: FleetJob, workers: int) -> None:
        key = job.key
        run = msgspec.structs.replace(self._run, workers=workers, metrics="")
        node = make_worker_node(
            frontier=key.frontier,
            job=key.job,
            settings_overrides=msgspec.to_builtins(run),
            stay=False,
            on_report=lambda _: None,
            on_event=functools.partial(self._pass_on, key),
            sink_password=self._sink_password,
            same_code=True,
            unowned_seconds=UNOWNED_SECONDS,
            metrics=self._metrics,
            **self._options,
        )
        service = self._services[key] = _Service(node, workers)
        self._summary.served[key.job] = self._summary.served.get(key.job, 0) + 1
        self._tell(key, events.FLEET_SERVES(workers=workers, priority=job.fleet.job_priority))
        self._start(self._run_service(key, service, had_ended=job.state is not State.RUNNING))

    async def _run_service(self, key: JobKey, service: _Service, *, had_ended: bool) -> None:
        # Until its workers are there: so that other nodes do not all turn to the same job.
        await self._tell_heartbeat(key, Doing.STARTING)
        try:
            summary = await service.node.run()
        except Exception as error:  # noqa: BLE001  whatever one job does, the others go on
            await self._skip(key, error)
        else:
            if summary is not None:
                self._skipped.pop(key, None)
            await self._tell_heartbeat(key, "")
            self._tell(key, events.FLEET_LEAVES(reason=service.leaving or "the job is over"))
        finally:
            del self._services[key]
            self._served_at[key] = time.monotonic()
            if had_ended:
                # If its target is still unavailable, others are not kept waiting.
                self._undelivered.setdefault(key, _Rest()).extend(AWAY_SECONDS, SKIP_SECONDS)
            self._wake.set()

    async def _skip(self, key: JobKey, error: Exception) -> None:
        """Leave a job alone for a while, and say why: once, unless it is another reason the next time."""
        reason = str(error) or type(error).__name__
        if not isinstance(error, SkitterError):
            reason = f"{type(error).__name__}: {reason}"
        skipped = self._skipped.setdefault(key, _Rest())
        passes = isinstance(error, BackendError)
        skipped.extend(AWAY_SECONDS if passes else SKIP_SECONDS, SKIP_SECONDS)
        if skipped.reason != reason:
            skipped.reason = reason
            self._tell(key, events.FLEET_SKIPS(reason=reason, hint=getattr(error, "hint", "")))
        await self._tell_heartbeat(key, Doing.SKIPPED, reason)

    async def _tell_heartbeat(self, key: JobKey, doing: str, problem: str = "") -> None:
        """What this node, which is no worker, has to do with the job; empty: nothing any more."""
        heartbeat = msgspec.structs.replace(heartbeat_of(""), doing=doing, problem=problem) if doing else None
        # A job that was dropped, or a store that is unavailable, shows nothing.
        with contextlib.suppress(SkitterError):
            await (await self._jobs.frontier(key)).tell(worker_id(), heartbeat)

    # ---- delivering files

    async def _deliver(self, found: dict[JobKey, FleetJob]) -> None:
        for key, job in found.items():
            if not job.files or key in self._deliveries or self._rests(self._undelivered, key):
                continue
            try:
                outputs = [
                    parse_target(target, job=key.job, password=self._sink_password, trusted=self._run.trusted)
                    for target in job.files
                ]
            except SkitterError as error:
                self._leave_files(job, error)
                continue
            node = self._deliveries[key] = make_delivery_node(
                frontier=key.frontier,
                job=key.job,
                outputs=outputs,
                on_event=functools.partial(self._pass_on, key),
                stay=True,
            )
            self._start(self._run_delivery(job, node))

    async def _run_delivery(self, job: FleetJob, node: Node[Written]) -> None:
        try:
            await node.run()
        except Exception as error:  # noqa: BLE001  as above
            self._leave_files(job, error)
        finally:
            del self._deliveries[job.key]
            self._wake.set()

    def _leave_files(self, job: FleetJob, error: Exception) -> None:
        self._undelivered.setdefault(job.key, _Rest()).extend(AWAY_SECONDS, SKIP_SECONDS)
        self._tell(job.key, events.SINK_LEFT(target=", ".join(job.files), reason=str(error)), once=True)

    # ---- small change

    def _forget_dropped(self) -> None:
        """A node runs for months, and jobs come and go."""
        remembered: tuple[dict[JobKey, Any], ...] = (self._served_at, self._idle, self._skipped, self._undelivered)
        for by_job in remembered:
            for key in by_job.keys() - self._jobs.listed:
                del by_job[key]
        self._told = {(key, text) for key, text in self._told if key in self._jobs.listed}

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _pass_on(self, key: JobKey, event: events.Event) -> None:
        self._tell(key, event, once=event.kind in (events.JOB_OTHER_VERSION, events.SINK_LEFT))

    def _tell(self, key: JobKey, event: events.Event, *, once: bool = False) -> None:
        """``once``: not again with every turn of the job."""
        if once and (key, event.text) in self._told:
            return
        if once:
            self._told.add((key, event.text))
        self._on_event(msgspec.structs.replace(event, job=key.job))
