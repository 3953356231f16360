"""Delivery: takes committed items from the outbox to sinks, each at its own pace.

Every sink has a ``SinkRunner`` of its own, and what happens to one does not hold up the others: a target that is
unavailable is waited for, and one that fails is left, and said, while the rest is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from skitter.concurrency import gather_or_cancel
from skitter.delivery.sink_runner import SinkRunner
from skitter.errors import SinkError, SinkUnavailableError
from skitter.frontier.contract import Outbox
from skitter.observe import events
from skitter.sinks.contract import Rejects, Sink

T = TypeVar("T")


class Runner(Protocol):
    """What takes items from the outbox to one target: a ``SinkRunner``, or a ``StreamRunner`` for a program."""

    nudged: asyncio.Event
    delivered: int
    rejected: int
    is_closed: bool

    async def take(self) -> None: ...

    async def open(self, *, anew: bool) -> None: ...

    async def run(self, stop: asyncio.Event) -> None: ...

    async def deliver(self) -> int: ...

    async def drain(self, hurry: asyncio.Event) -> None: ...

    async def finish(self, *, complete: bool, hurry: asyncio.Event) -> None: ...

    async def close(self) -> None: ...


class Delivery:
    """Delivers a job's outbox to its sinks. An error that is raised has closed everything before.

    Of two runs the later one's ``batch`` may be larger, but not smaller: a sink knows what a killed
    writer has left by seeing it come again.
    """

    def __init__(
        self,
        outbox: Outbox,
        sinks: Sequence[Sink],
        owner: str,
        batch: int = 1000,
        *,
        rejects: Callable[[Sink], Rejects] | None = None,
        on_event: Callable[[events.Event], None] = events.emit,
        others: Sequence[Runner] = (),
    ) -> None:
        """``rejects``: where the items go that a sink will not take; without, such an item ends the delivery.

        ``others``: runners of targets that are no sinks.
        """
        self._runners: list[Runner] = [
            SinkRunner(outbox, sink, owner, batch, rejects(sink) if rejects is not None else None, on_event)
            for sink in sinks
        ]
        self._runners += others
        self.failed = asyncio.Event()
        """Since ``run`` began, a sink has failed: ``failure`` says how."""
        self.failure: SinkError | None = None
        self._hurry = asyncio.Event()

    @property
    def delivered(self) -> int:
        """Items made durable since ``open``, of all sinks."""
        return sum(runner.delivered for runner in self._runners)

    @property
    def rejected(self) -> int:
        """Items put into rejects files since ``open``, of all sinks."""
        return sum(runner.rejected for runner in self._runners)

    async def take(self) -> None:
        """Take every target for this process; it stays as it is. So a run does not begin that could not be written."""
        async with self._closed_unless_done():
            await self._each(lambda runner: runner.take())

    async def open(self, *, anew: bool = False) -> None:
        """Become the owner of every sink and bring each target back to what is committed; takes it if need be.

        ``anew``: what an earlier owner has written is out of reach, and is not looked for.
        """
        async with self._closed_unless_done():
            await self._each(lambda runner: runner.open(anew=anew))

    async def step(self) -> bool:
        """At most one batch for each sink; False: nothing was there."""
        async with self._closed_on_error():
            return any(await self._each(lambda runner: runner.deliver()))

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver as items come, until ``stop`` is set. What is left is for ``drain`` or ``finish``.

        A sink that fails is left (``failed``), and the others go on; ``finish`` raises its error.
        """

        async def wake() -> None:
            await stop.wait()
            self.nudge()

        waker = asyncio.create_task(wake())
        try:
            async with self._closed_on_error():
                await self._each(lambda runner: self._left_if_it_fails(runner, lambda: runner.run(stop)))
            await stop.wait()
        finally:
            waker.cancel()

    def nudge(self) -> None:
        """Poll the outbox now."""
        for runner in self._runners:
            runner.nudged.set()

    def hurry(self) -> None:
        """Wait no longer for targets that are unavailable: their items stay in the outbox."""
        self._hurry.set()
        self.nudge()

    async def drain(self) -> None:
        """Deliver everything that is there now. Raises SinkUnavailableError only in a hurry."""
        async with self._closed_on_error():
            await self._each(lambda runner: runner.drain(self._hurry))

    async def finish(self, *, complete: bool = True) -> None:
        """Deliver the rest, make every target readable, and let go. Then raises the error of a sink that has failed.

        ``complete`` records that the run has nothing more for it; without, a run goes on from here another time.
        """

        async def finish(runner: Runner) -> None:
            try:
                await runner.finish(complete=complete, hurry=self._hurry)
            except SinkUnavailableError:
                # In a hurry. It was said when the target became unavailable.
                await runner.close()

        async with self._closed_on_error():
            living = [runner for runner in self._runners if not runner.is_closed]
            await self._each(lambda runner: self._left_if_it_fails(runner, lambda: finish(runner)), living)
        if self.failure is not None:
            raise self.failure

    async def close(self) -> None:
        """Let go of targets and ownership; a run goes on from here another time. May be called again."""
        for runner in self._runners:
            await runner.close()

    async def _left_if_it_fails(self, runner: Runner, call: Callable[[], Awaitable[None]]) -> None:
        try:
            await call()
        except SinkError as error:
            await runner.close()
            self.failure = self.failure or error
            self.failed.set()

    async def _each(self, call: Callable[[Runner], Awaitable[T]], runners: Sequence[Runner] | None = None) -> list[T]:
        return await gather_or_cancel(call(runner) for runner in (self._runners if runners is None else runners))

    @asynccontextmanager
    async def _closed_on_error(self) -> AsyncIterator[None]:
        try:
            yield
        except Exception:
            await self.close()
            raise

    @asynccontextmanager
    async def _closed_unless_done(self) -> AsyncIterator[None]:
        """Also when it is cancelled: until a target is taken or open, nobody else would let it go."""
        try:
            yield
        except BaseException:
            await self.close()
            raise
