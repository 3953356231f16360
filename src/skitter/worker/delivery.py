"""Delivery: takes committed items from the outbox to sinks, each at its own pace.

Every sink has a feed of its own (``feed.py``), and what happens to one does not hold up the others: a target that is
away is waited for, and one that fails is left, and said, while the rest is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from skitter.errors import SinkAwayError, SinkError
from skitter.frontier.contract import Outbox
from skitter.observe import events
from skitter.sinks.contract import Rejects, Sink
from skitter.worker.feed import Feed

T = TypeVar("T")


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
        on_event: Callable[[events.Event], None] = events.tell,
    ) -> None:
        """``rejects``: where the items go that a sink will not take; without, such an item ends the delivery."""
        self._feeds = [
            Feed(outbox, sink, owner, batch, rejects(sink) if rejects is not None else None, on_event) for sink in sinks
        ]
        self.failed = asyncio.Event()
        """Since ``run`` began, a sink has failed: ``failure`` says how."""
        self.failure: SinkError | None = None
        self._hurry = asyncio.Event()

    @property
    def delivered(self) -> int:
        """Items made durable since ``open``, of all sinks."""
        return sum(feed.delivered for feed in self._feeds)

    @property
    def rejected(self) -> int:
        """Items put into rejects files since ``open``, of all sinks."""
        return sum(feed.rejected for feed in self._feeds)

    async def take(self) -> None:
        """Take every target for this process; it stays as it is. So a run does not begin that could not be written."""
        async with self._closed_on_error():
            await self._each(Feed.take)

    async def open(self, *, anew: bool = False) -> None:
        """Become the owner of every sink and bring each target back to what is committed; takes it if need be.

        ``anew``: what an earlier owner has written is out of reach, and is not looked for.
        """
        async with self._closed_on_error():
            await self._each(lambda feed: feed.open(anew=anew))

    async def step(self) -> bool:
        """At most one batch for each sink; False: nothing was there."""
        async with self._closed_on_error():
            return any(await self._each(Feed.deliver))

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
                await self._each(lambda feed: self._left_if_it_fails(feed, lambda: feed.run(stop)))
            await stop.wait()
        finally:
            waker.cancel()

    def nudge(self) -> None:
        """Look into the outbox now instead of at the next poll."""
        for feed in self._feeds:
            feed.nudged.set()

    def hurry(self) -> None:
        """Wait no longer for targets that are away: their items stay in the outbox."""
        self._hurry.set()
        self.nudge()

    async def drain(self) -> None:
        """Deliver everything that is there now. Raises SinkAwayError only in a hurry."""
        async with self._closed_on_error():
            await self._each(lambda feed: feed.drain(self._hurry))

    async def finish(self, *, complete: bool = True) -> None:
        """Deliver the rest, make every target readable, and let go. Then raises the error of a sink that has failed.

        ``complete`` records that the run has nothing more for it; without, a run goes on from here another time.
        """

        async def finish(feed: Feed) -> None:
            try:
                await feed.finish(complete=complete, hurry=self._hurry)
            except SinkAwayError:
                # In a hurry. It was said when the target went away.
                await feed.close()

        async with self._closed_on_error():
            living = [feed for feed in self._feeds if not feed.is_closed]
            await self._each(lambda feed: self._left_if_it_fails(feed, lambda: finish(feed)), living)
        if self.failure is not None:
            raise self.failure

    async def close(self) -> None:
        """Let go of targets and ownership; a run goes on from here another time. May be called again."""
        for feed in self._feeds:
            await feed.close()

    async def _left_if_it_fails(self, feed: Feed, call: Callable[[], Awaitable[None]]) -> None:
        try:
            await call()
        except SinkError as error:
            await feed.close()
            self.failure = self.failure or error
            self.failed.set()

    async def _each(self, call: Callable[[Feed], Awaitable[T]], feeds: Sequence[Feed] | None = None) -> list[T]:
        tasks = [asyncio.ensure_future(call(feed)) for feed in (self._feeds if feeds is None else feeds)]
        try:
            return await asyncio.gather(*tasks)
        except BaseException:
            # gather leaves the others running when one fails.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    @asynccontextmanager
    async def _closed_on_error(self) -> AsyncIterator[None]:
        try:
            yield
        except Exception:
            await self.close()
            raise
