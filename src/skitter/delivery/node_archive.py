"""The archive of a node that only works: what its machine has written ahead, nobody else can deliver.

It is served while the job goes on, and completed when the job is finished, also by a node that stays: a job whose
archive is not complete on every machine does not begin anew.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from skitter.delivery.archive import archives_here
from skitter.delivery.job_sinks import OnEvent, delivery_of
from skitter.delivery.runner import Delivery
from skitter.errors import FrontierError, JobError, SinkError
from skitter.frontier.contract import Frontier
from skitter.model.job import Report, State
from skitter.node.shutdown_signals import ShutdownSignals
from skitter.observe import events
from skitter.sinks.targets import parse_target, sink_of

LOOK_SECONDS = 0.5


class _Archive:
    """Serves this machine's archive of a job, whenever there is something to serve."""

    def __init__(self, frontier: Frontier, job: str, on_event: OnEvent) -> None:
        self._frontier = frontier
        self._job = job
        self._on_event = on_event
        self._serving: tuple[Delivery, asyncio.Task[None], asyncio.Event] | None = None
        self._given_up: set[str] = set()

    async def watch(self) -> None:
        """Until it is cancelled; raises what keeps the archive from being written."""
        while True:
            # If the store is in trouble, the workers will say so.
            with contextlib.suppress(FrontierError, JobError):
                await self._look(await self._frontier.report(0))
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, report: Report) -> None:
        is_over = report.job.state is State.FINISHED
        if self._serving is None:
            for name in archives_here(report):
                seen = next((sink for sink in report.sinks if sink.target == name), None)
                is_served = seen is not None and seen.owner
                lacks = not is_over or (seen is not None and seen.undelivered)
                if lacks and not is_served and name not in self._given_up:
                    await self._serve(name)
        elif is_over or self._serving[0].failed.is_set():
            await self.finish(complete=is_over)

    async def _serve(self, name: str) -> None:
        try:
            sink = sink_of(parse_target(name, job=self._job))
            delivery = delivery_of(self._frontier, [sink], self._job, self._on_event)
            await delivery.open()
        except SinkError as error:
            # Another command of this machine may have begun it in another folder. What was written ahead stays.
            self._given_up.add(name)
            self._on_event(events.SINK_LEFT(target=name, reason=str(error)))
            return
        over = asyncio.Event()
        self._serving = (delivery, asyncio.create_task(delivery.run(over)), over)

    async def finish(self, *, complete: bool) -> None:
        """Write the rest and let go; SinkError: it cannot be written."""
        if self._serving is None:
            return
        delivery, running, over = self._serving
        self._serving = None
        over.set()
        try:
            await running
            await delivery.finish(complete=complete)
        finally:
            running.cancel()
            await asyncio.wait([running])
            await delivery.close()

    async def close(self) -> None:
        """Let go at once; may be called again."""
        if self._serving is not None:
            delivery, running, _ = self._serving
            self._serving = None
            running.cancel()
            await asyncio.wait([running])
            await delivery.close()


@contextlib.asynccontextmanager
async def archiving(frontier: Frontier, job: str, stop: ShutdownSignals, on_event: OnEvent) -> AsyncIterator[None]:
    """While the body works for the job. An archive that cannot be written ends the work, gently, and is raised."""
    archive = _Archive(frontier, job, on_event)

    async def watch() -> None:
        try:
            await archive.watch()
        except SinkError as error:
            on_event(events.SINK_FAILED(reason=str(error)))
            stop.now()
            raise

    watching = asyncio.create_task(watch())
    try:
        yield
        watching.cancel()
        await asyncio.wait([watching])
        if not watching.cancelled():
            watching.result()
        if not stop.forced:
            report = await frontier.report(0)
            await archive.finish(complete=report.job.state is State.FINISHED)
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        await archive.close()
