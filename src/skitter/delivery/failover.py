"""Any worker delivers: targets that nobody serves any more are served by a node that works for the job.

A file belongs to the node that began with it, and standard output to its process. A database, an object store or a
stream is the same from everywhere: when the process that serves it is gone, another node of the job takes its place.
One that was given the same target knows its password; a ``skitter worker`` has the one of its environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Collection, Sequence

from skitter.delivery.job_sinks import OnEvent, delivery_of
from skitter.delivery.runner import Delivery
from skitter.errors import FrontierError, JobError, SinkError, SkitterError
from skitter.frontier.contract import Frontier
from skitter.model.job import SinkSeen, State
from skitter.node.shutdown_signals import ShutdownSignals
from skitter.observe import events
from skitter.sinks.targets import Target, parse_target, sink_of

LOOK_SECONDS = 5.0
ALONE_SECONDS = 15.0
"""So long nobody serves a target before somebody else does: a crawl that begins is about to."""


class SinkFailover:
    """Watches a job's targets, and serves those that were left."""

    def __init__(
        self,
        frontier: Frontier,
        job: str,
        password: str | None,
        on_event: OnEvent,
        *,
        trusted: tuple[str, ...] = (),
        named: Sequence[Target] = (),
        but_not: Collection[str] = (),
    ) -> None:
        """``named``: targets that are known here with all that belongs to them. ``but_not``: served already.

        ``trusted``: code outside the project folder that the others may name.
        """
        self._frontier = frontier
        self._job = job
        self._password = password
        self._on_event = on_event
        self._trusted = trusted
        self._named = {target.name: target for target in named}
        self._but_not = frozenset(but_not)
        self._alone_since: dict[str, float] = {}
        self._given_up: set[str] = set()
        self._serving: dict[str, tuple[Delivery, asyncio.Task[None]]] = {}
        self._over = asyncio.Event()

    async def watch(self) -> None:
        """Until it is cancelled."""
        while True:
            # If the store is in trouble, the workers will say so.
            with contextlib.suppress(FrontierError, JobError):
                for sink in (await self._frontier.report(0)).sinks:
                    if self._is_left(sink):
                        await self._serve(sink.target)
            await asyncio.sleep(LOOK_SECONDS)

    async def finish(self, stop: ShutdownSignals) -> None:
        """The work is over: write the rest of what is served here, and of what nobody serves, and let go."""
        for sink in (await self._frontier.report(0)).sinks:
            if sink.undelivered and not sink.owner and sink.target not in self._serving and self._is_ours(sink):
                await self._serve(sink.target)
        self._over.set()
        serving = list(self._serving.values())
        await asyncio.gather(*(task for _, task in serving), return_exceptions=True)
        report = await self._frontier.report(0)
        for delivery, _ in serving:
            stop.aim(delivery.hurry, delivery.hurry)
            with contextlib.suppress(SinkError):
                await delivery.finish(complete=report.job.state is State.FINISHED)
            await delivery.close()

    async def close(self) -> None:
        """Let go at once; may be called again."""
        for delivery, task in self._serving.values():
            task.cancel()
            await asyncio.wait([task])
            await delivery.close()
        self._serving.clear()

    def _is_ours(self, sink: SinkSeen) -> bool:
        """Whether it could be served from here. Files, and databases that are files, are where they were begun; so is
        what waits for a bucket."""
        apart = sink.target in self._given_up or sink.target in self._but_not
        return not apart and parse_target(sink.target).scheme not in ("", "sqlite", "s3")

    def _is_left(self, sink: SinkSeen) -> bool:
        if sink.owner or not self._is_ours(sink):
            self._alone_since.pop(sink.target, None)
            return False
        return time.monotonic() - self._alone_since.setdefault(sink.target, time.monotonic()) >= ALONE_SECONDS

    async def _serve(self, name: str) -> None:
        if name in self._serving:
            # It was lost to somebody who is gone too.
            delivery, task = self._serving.pop(name)
            task.cancel()
            await asyncio.wait([task])
            await delivery.close()
        try:
            target = self._named.get(name) or parse_target(
                name, job=self._job, password=self._password, trusted=self._trusted
            )
            sink = sink_of(target)
            delivery = delivery_of(self._frontier, [sink], self._job, self._on_event)
            await delivery.open()
        except (FrontierError, JobError):
            raise
        except SkitterError as error:
            # Without its password, its driver or its module: another node may have them.
            self._given_up.add(name)
            self._on_event(events.SINK_LEFT(target=name, reason=str(error)))
            return
        self._on_event(events.SINK_TAKEN_OVER(target=name))
        self._serving[name] = (delivery, asyncio.create_task(delivery.run(self._over)))


@contextlib.asynccontextmanager
async def relieving(relief: SinkFailover, stop: ShutdownSignals) -> AsyncIterator[None]:
    """While the body works for the job; what is served then is written to its end, unless it is forced to leave."""
    watching = asyncio.create_task(relief.watch())
    try:
        yield
        watching.cancel()
        await asyncio.wait([watching])
        if not stop.forced:
            await relief.finish(stop)
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        await relief.close()
