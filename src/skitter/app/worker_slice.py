"""Process of one slice: ``python -m skitter.app.worker_slice`` works on a job for a limited time.

An external scheduler starts it, such as a Celery task. The first line of its standard input is its configuration.
Standard input then stays open: when it is closed, on purpose or because the scheduler was killed, the slice shuts down
in an orderly way and returns its leases. It reports progress, events and its end as lines of JSON on standard output.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
from typing import Any

import msgspec

from skitter.app.crawl_node import opened
from skitter.app.event_loop import new_loop
from skitter.app.fleet_jobs import is_node_file
from skitter.app.job_items import Written, make_delivery_node
from skitter.app.worker_node import make_worker_node
from skitter.cluster.process_identity import live_workers
from skitter.delivery.stream_runner import CLIENT
from skitter.errors import BackendError, JobError, SinkError, SkitterError
from skitter.model.job import Counts, Report, State
from skitter.node.node import Node
from skitter.observe import events
from skitter.settings import Run
from skitter.sinks.targets import is_on_one_machine, parse_target

UNOWNED_SECONDS = 2.0
"""Time without an owner after which the slice takes over a shared target, as for a node of a fleet."""
START_SECONDS = 10.0
"""Maximum startup time of workers that is not counted; on a busy machine, a short slice would do nothing but start."""
END_SECONDS = 60.0
"""Time beyond ``shutdown_seconds`` for the last deliveries. After that the process exits as if it were killed."""
FILES_SECONDS = 5.0
"""Interval between attempts to write the job's files, which another slice on this machine may be writing."""


class SliceConfig(msgspec.Struct, kw_only=True):
    """Configuration of a slice."""

    frontier: str
    job: str
    seconds: float
    """Time for which the slice leases, from the start of its first worker; then it finishes the requests in flight."""
    crawl: str = ""
    """Id that the consecutive slices of one crawl share; empty if there is only this slice."""
    number: int = 0
    token: str = ""
    """Of two slices of a crawl that run at the same time, the one with the larger (number, token) continues."""
    node: str = ""
    """Name of this machine; it writes the files of jobs whose ``deliver_node`` has this name."""
    run: dict[str, Any] = {}
    """Settings of the group ``run``."""
    sink_password: str | None = None
    progress_seconds: float = 5.0

    @property
    def task(self) -> str:
        """Return the task that its workers report in their heartbeats (``WorkerHeartbeat.task``)."""
        return f"{self.crawl} {self.number} {self.token}" if self.crawl else ""


class Progress(msgspec.Struct, tag=True, kw_only=True):
    """Progress of the job."""

    state: State
    run: int
    items: int
    undelivered: int
    counts: Counts
    pages_per_second: float


class Told(msgspec.Struct, tag=True):
    """Event for a log."""

    level: int
    text: str


class Failed(msgspec.Struct, tag=True):
    """Error because of which the slice could not work."""

    message: str
    hint: str
    passes: bool
    """Whether the store or a target was unavailable, so that the next slice may succeed."""


class Ended(msgspec.Struct, tag=True, kw_only=True):
    """Orderly end of the slice."""

    over: bool
    """Whether nothing is left to do for the job here: it has ended, and this machine has delivered all it can."""
    superseded: bool = False
    """Whether a later slice of the same crawl is running, so that no other slice has to follow this one."""
    idle: bool = False
    """Whether nothing can be done for the job now: it is paused, or it is finished and an output is unavailable."""


Line = Progress | Told | Failed | Ended


def is_later(task: str, config: SliceConfig) -> bool:
    """Return whether a heartbeat is from a slice of the same crawl that takes precedence over this one."""
    crawl, _, rest = task.partition(" ")
    number, _, token = rest.partition(" ")
    return crawl == config.crawl and number.isdecimal() and (int(number), token) > (config.number, config.token)


class Slice:
    """Run of one slice in its process."""

    def __init__(self, config: SliceConfig) -> None:
        self._config = config
        self._last: Report | None = None
        self._told_at = 0.0
        self._at_work = self._superseded = self._paused = False
        self._files: Node[Written] | None = None
        self._stopping = asyncio.Event()
        self._node = make_worker_node(
            frontier=config.frontier,
            job=config.job,
            settings_overrides=config.run,
            stay=False,
            on_report=self._report,
            on_event=_tell_event,
            sink_password=config.sink_password,
            same_code=True,
            unowned_seconds=UNOWNED_SECONDS,
            task=config.task,
        )

    async def run(self) -> Ended:
        loop = asyncio.get_running_loop()
        loop.call_later(self._config.seconds + START_SECONDS, self.stop)
        threading.Thread(target=self._watch_parent, args=(loop,), name="skitter-parent", daemon=True).start()
        writing = asyncio.create_task(self._write_files())
        try:
            await self._node.run()
            self.stop()
            await writing
        finally:
            writing.cancel()
            await asyncio.wait([writing])
        state, over = await self._state_and_over()
        idle = not over and (self._paused or state is State.FINISHED)
        return Ended(over=over, superseded=self._superseded, idle=idle)

    def stop(self) -> None:
        """Stop leasing and finish the requests in flight; may be called again."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._node.stop()
        if self._files is not None:
            self._files.stop()
        shutdown_seconds = msgspec.convert(self._config.run, Run, strict=False).shutdown_seconds
        asyncio.get_running_loop().call_later(shutdown_seconds + END_SECONDS, os._exit, 1)

    def _watch_parent(self, loop: asyncio.AbstractEventLoop) -> None:
        # Not sys.stdin: a thread that blocks in it keeps the interpreter from exiting.
        while os.read(0, 1024):
            pass
        with contextlib.suppress(RuntimeError):  # the loop is closed because it has already ended
            loop.call_soon_threadsafe(self.stop)

    def _report(self, report: Report) -> None:
        self._last = report
        tasks = [worker.heartbeat.task for worker in live_workers(report) if worker.heartbeat]
        if not self._at_work and self._config.task in tasks:
            self._at_work = True
            asyncio.get_running_loop().call_later(self._config.seconds, self.stop)
        if any(is_later(task, self._config) for task in tasks):
            self._superseded = True
            self.stop()
        if report.job.state is State.PAUSED and not report.counts.leased:
            self._paused = True
            self.stop()
        now = time.monotonic()
        if now - self._told_at >= self._config.progress_seconds:
            self._told_at = now
            _tell_progress(report)

    async def _state_and_over(self) -> tuple[State, bool]:
        async with opened(self._config.frontier, self._config.job, create=False) as frontier:
            report = await frontier.report(0)
        _tell_progress(report)
        if (state := report.job.state) is not State.FINISHED:
            return state, state is State.STOPPED
        own_files = set(_files_of(report, self._config.node))
        return state, not any(
            sink.is_incomplete and (sink.target in own_files or _is_shared(sink.target)) for sink in report.sinks
        )

    # ---- files of this machine

    async def _write_files(self) -> None:
        """Deliver to the job's files while this node works, if the job assigns its files to this machine."""
        while not self._stopping.is_set():
            if self._last is not None:
                files = _files_of(self._last, self._config.node)
                if not files:
                    return
                await self._write(files)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FILES_SECONDS if self._last else 0.1):
                    await self._stopping.wait()
        # The job may have ended while another slice was writing its files, and that slice may be gone.
        if self._last is not None and self._last.job.state is State.FINISHED:
            await self._write(_files_of(self._last, self._config.node))

    async def _write(self, files: list[str]) -> None:
        if not files:
            return
        config = self._config
        outputs = [parse_target(target, job=config.job, password=config.sink_password) for target in files]
        self._files = make_delivery_node(
            frontier=config.frontier, job=config.job, outputs=outputs, on_event=_tell_event, stay=True
        )
        # Another slice owns the files, or they cannot be written: an event has reported this, and the items are kept.
        with contextlib.suppress(SinkError, JobError):
            await self._files.run()
        self._files = None


def _files_of(report: Report, node: str) -> list[str]:
    if report.job.spec.settings.get("deliver_node", "") != node or not node:
        return []
    return [sink.target for sink in report.sinks if is_node_file(sink.target)]


def _is_shared(target: str) -> bool:
    return target != CLIENT and not is_on_one_machine(target)


# ---- lines


def _write_line(line: Line) -> None:
    # If the scheduler is gone, nobody reads the line; the slice then stops because its standard input is closed.
    with contextlib.suppress(OSError):
        os.write(1, msgspec.json.encode(line) + b"\n")


def _tell_event(event: events.Event) -> None:
    if event.level >= events.Level.INFO:
        _write_line(Told(event.level, event.text))


def _tell_progress(report: Report) -> None:
    _write_line(
        Progress(
            state=report.job.state,
            run=report.job.run,
            items=report.items,
            undelivered=report.undelivered,
            counts=report.counts,
            pages_per_second=round(report.pages_per_second, 1),
        )
    )


def _first_line() -> bytes:
    line = b""
    while not line.endswith(b"\n") and (piece := os.read(0, 1 << 16)):
        line += piece
    return line


def main() -> int:
    config = msgspec.json.decode(_first_line(), type=SliceConfig)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)

    async def work() -> Ended:
        return await Slice(config).run()

    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            _write_line(runner.run(work()))
    except SkitterError as error:
        _write_line(Failed(str(error), error.hint, isinstance(error, BackendError)))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
