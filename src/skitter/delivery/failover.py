"""Sink failover: a node that works for a job delivers to those of its sinks that no process delivers to.

- A database, an object store or a stream is the same from everywhere. When the process that delivers to it is gone,
  another node of the job takes over. One that was given the same target knows its password; a ``skitter worker`` has
  the one of its environment. Files, and databases that are files, stay with the node that began them, and standard
  output with its process.
- The archive of this machine (``delivery.archive``), where the node has none among its own sinks: at once, and its
  failure ends the work.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Collection, Sequence

from skitter.delivery.archive import unserved_archives
from skitter.delivery.job_sinks import OnEvent, make_delivery
from skitter.delivery.runner import Delivery
from skitter.errors import FrontierError, JobError, SinkError, SkitterError
from skitter.frontier.contract import Frontier
from skitter.model.job import SinkSeen, State
from skitter.observe import events
from skitter.sinks.targets import Target, is_on_one_machine, parse_target, sink_of
from skitter.stop_request import StopRequest

POLL_SECONDS = 5.0
ARCHIVE_POLL_SECONDS = 0.5
"""With archives: a node that stays completes one soon after the job is finished, and a new run waits for that."""
UNOWNED_SECONDS = 15.0
"""So long a shared target has no owner before it is taken over: a crawl that begins is about to open it."""


class _ActiveDelivery:
    """A delivery to one sink, and the task that runs it."""

    def __init__(self, delivery: Delivery, *, is_archive: bool) -> None:
        self.delivery = delivery
        self.is_archive = is_archive
        self._over = asyncio.Event()
        self._running = asyncio.create_task(delivery.run(self._over))

    async def finish(self, *, complete: bool) -> None:
        """Write the rest and let go; SinkError: it cannot be written."""
        self._over.set()
        try:
            await asyncio.wait([self._running])
            if self.is_archive:
                self._running.result()
            await self.delivery.finish(complete=complete)
        finally:
            await self.close()

    async def close(self) -> None:
        """Let go at once; may be called again."""
        self._running.cancel()
        await asyncio.wait([self._running])
        await self.delivery.close()


class SinkFailover:
    """Watches the sinks of a job and delivers to those without an owner."""

    def __init__(
        self,
        frontier: Frontier,
        job: str,
        *,
        password: str | None,
        on_event: OnEvent,
        trusted: tuple[str, ...] = (),
        named: Sequence[Target] = (),
        excluded: Collection[str] = (),
        archives: bool = False,
        unowned_seconds: float | None = None,
    ) -> None:
        """``named``: targets that are known here with their passwords. ``excluded``: the node's own sinks.

        ``trusted``: code outside the project folder that targets may name. ``archives``: see above.
        ``unowned_seconds``: another time than ``UNOWNED_SECONDS``.
        """
        self._frontier = frontier
        self._job = job
        self._password = password
        self._on_event = on_event
        self._trusted = trusted
        self._named = {target.name: target for target in named}
        self._excluded = frozenset(excluded)
        self._archives = archives
        self._unowned_seconds = UNOWNED_SECONDS if unowned_seconds is None else unowned_seconds
        self._unowned_since: dict[str, float] = {}
        self._given_up: set[str] = set()
        self._active: dict[str, _ActiveDelivery] = {}
        self._finishing: list[_ActiveDelivery] = []
        self._work_is_over = asyncio.Event()

    async def watch(self) -> None:
        """Poll until ``stop_watching``; SinkError: an archive cannot be written."""
        seconds = ARCHIVE_POLL_SECONDS if self._archives else POLL_SECONDS
        while not self._work_is_over.is_set():
            # If the store is in trouble, the workers will say so.
            with contextlib.suppress(FrontierError, JobError):
                await self._check()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._work_is_over.wait()

    def stop_watching(self) -> None:
        """End ``watch`` between two checks: one that opens or completes a target is not broken off."""
        self._work_is_over.set()

    def hurry(self) -> None:
        """Do not wait for targets that are unavailable."""
        for active in [*self._active.values(), *self._finishing]:
            active.delivery.hurry()

    async def _check(self) -> None:
        # In this order: a job that is finished gets no more items, so that its sinks lack no more than is seen.
        finished = await self._is_finished()
        sinks = await self._frontier.sinks()
        for name, active in list(self._active.items()):
            if active.is_archive and (finished or active.delivery.failed.is_set()):
                del self._active[name]
                self._finishing = [active]
                await active.finish(complete=finished)
                self._finishing = []
        for name in unserved_archives(sinks, finished=finished) if self._archives else ():
            if name not in self._given_up and name not in self._active:
                await self._start(name, is_archive=True)
        for sink in sinks:
            if self._is_left(sink):
                await self._start(sink.target)

    async def finish(self, stop: StopRequest) -> None:
        """The work is over: write the rest of what is delivered here, and of what no process delivers, and let go."""
        finished = await self._is_finished()
        for sink in await self._frontier.sinks():
            is_left = sink.is_incomplete if finished else sink.undelivered
            if is_left and not sink.owner and sink.target not in self._active and self._is_shared(sink):
                await self._start(sink.target)
        # Archives first: their errors are raised.
        for name, active in sorted(self._active.items(), key=lambda named: not named[1].is_archive):
            del self._active[name]
            stop.set_handlers(active.delivery.hurry, active.delivery.hurry)
            try:
                await active.finish(complete=finished)
            except SinkError:
                # It was said when the sink failed; what it lacks stays in the outbox.
                if active.is_archive:
                    raise

    async def close(self) -> None:
        """Let go at once; may be called again."""
        while self._active:
            _, active = self._active.popitem()
            await active.close()

    async def _is_finished(self) -> bool:
        return (await self._frontier.state()).state is State.FINISHED

    def _is_shared(self, sink: SinkSeen) -> bool:
        """Whether it could be served from here."""
        is_other = sink.target in self._given_up or sink.target in self._excluded
        return not is_other and not is_on_one_machine(sink.target)

    def _is_left(self, sink: SinkSeen) -> bool:
        if sink.owner or not self._is_shared(sink):
            self._unowned_since.pop(sink.target, None)
            return False
        now = time.monotonic()
        return now - self._unowned_since.setdefault(sink.target, now) >= self._unowned_seconds

    async def _start(self, name: str, *, is_archive: bool = False) -> None:
        if name in self._active:
            # It was lost to a process that is gone too.
            await self._active.pop(name).close()
        try:
            target = self._named.get(name) or parse_target(
                name, job=self._job, password=self._password, trusted=self._trusted
            )
            delivery = make_delivery(self._frontier, [sink_of(target)], self._job, self._on_event)
            await delivery.open()
        except (FrontierError, JobError):
            raise
        except SkitterError as error:
            if any(sink.target == name and sink.owner for sink in await self._frontier.sinks()):
                # Another node was faster. If that one is gone some day, this one tries again.
                return
            # Without its password, its driver or its module: another node may have them. Or, of an archive, another
            # command of this machine has begun it in another folder: what was written ahead stays.
            self._given_up.add(name)
            self._on_event(events.SINK_LEFT(target=name, reason=str(error)))
            return
        if not is_archive:
            self._on_event(events.SINK_TAKEN_OVER(target=name))
        self._active[name] = _ActiveDelivery(delivery, is_archive=is_archive)


@contextlib.asynccontextmanager
async def sink_failover(failover: SinkFailover, stop: StopRequest, on_event: OnEvent) -> AsyncIterator[None]:
    """While the body works for the job; then the rest is written, unless the node is killed.

    An archive that cannot be written stops the work, and its error is raised at the end.
    """

    async def watch() -> None:
        try:
            await failover.watch()
        except SinkError as error:
            on_event(events.SINK_FAILED(reason=str(error)))
            stop.stop_current()
            raise

    watching = asyncio.create_task(watch())
    try:
        yield
        failover.stop_watching()
        stop.set_handlers(failover.hurry, watching.cancel)
        await asyncio.wait([watching])
        if not watching.cancelled():
            watching.result()
        if not stop.forced:
            await failover.finish(stop)
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        await failover.close()
