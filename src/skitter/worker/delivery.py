"""Delivery: takes committed items from the outbox to sinks, each at its own pace.

The order inside one batch keeps the promise: the sink makes it durable, then the frontier records
position and mark at once. Whoever dies between the two leaves a target that is ahead of its mark,
and the sink takes that back when it is opened again. Sinks block, so each has one thread of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from skitter.errors import FrontierError, SinkError
from skitter.frontier.contract import Outbox
from skitter.model.job import Item, SinkProgress
from skitter.sinks.contract import Sink
from skitter.worker.repeats import Repeats

T = TypeVar("T")

POLL_SECONDS = 0.2
"""Between two looks into an outbox that had less than a batch: each batch costs the frontier two
transactions and the target a sync, so a few hundred items go together while a crawl runs."""
IDLE_SECONDS = 1.0
"""The longest pause, when nothing comes for a while."""
KEEP_SECONDS = 10.0
"""While a sink works longer than this, the ownership is renewed: a third of its time."""


class Delivery:
    """Delivers a job's outbox to its sinks. An error closes everything before it is raised.

    Of two runs the later one's ``batch`` may be larger, but not smaller: a sink knows what a killed
    writer has left by seeing it come again.
    """

    def __init__(self, outbox: Outbox, sinks: Sequence[Sink], owner: str, batch: int = 1000) -> None:
        self._feeds = [_Feed(outbox, sink, owner, batch) for sink in sinks]

    @property
    def delivered(self) -> int:
        """Items made durable since ``open``, of all sinks."""
        return sum(feed.delivered for feed in self._feeds)

    async def take(self) -> None:
        """Take every target for this process; it stays as it is. So a run does not begin that could not be written."""
        async with self._closed_on_error():
            await self._each(_Feed.take)

    async def open(self, *, anew: bool = False) -> None:
        """Become the owner of every sink and bring each target back to what is committed; takes it if need be.

        ``anew``: what an earlier owner has written is out of reach, and is not looked for.
        """
        async with self._closed_on_error():
            await self._each(lambda feed: feed.open(anew=anew))

    async def step(self) -> bool:
        """At most one batch for each sink; False: nothing was there."""
        async with self._closed_on_error():
            return any(await self._each(_Feed.deliver))

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver as items come, until ``stop`` is set. What is left is for ``drain`` or ``finish``."""

        async def wake() -> None:
            await stop.wait()
            self.nudge()

        waker = asyncio.create_task(wake())
        try:
            async with self._closed_on_error():
                await self._each(lambda feed: feed.run(stop))
            await stop.wait()
        finally:
            waker.cancel()

    def nudge(self) -> None:
        """Look into the outbox now instead of at the next poll."""
        for feed in self._feeds:
            feed.nudged.set()

    async def drain(self) -> None:
        """Deliver everything that is there now."""
        async with self._closed_on_error():
            await self._each(_Feed.drain)

    async def finish(self, *, complete: bool = True) -> None:
        """Deliver the rest, make every target readable, and let go.

        ``complete`` records that the run has nothing more for it; without, a run goes on from here another time.
        """
        async with self._closed_on_error():
            await self._each(lambda feed: feed.finish(complete=complete))

    async def close(self) -> None:
        """Let go of targets and ownership; a run goes on from here another time. May be called again."""
        for feed in self._feeds:
            await feed.close()

    async def _each(self, call: Callable[[_Feed], Awaitable[T]]) -> list[T]:
        tasks = [asyncio.ensure_future(call(feed)) for feed in self._feeds]
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


class _Feed:
    """One sink: its thread, its ownership, its progress."""

    def __init__(self, outbox: Outbox, sink: Sink, owner: str, batch: int) -> None:
        self.nudged = asyncio.Event()
        self.delivered = 0
        self._outbox = outbox
        self._sink = sink
        self._owner = owner
        self._batch = batch
        self._progress = SinkProgress()
        self._thread: ThreadPoolExecutor | None = None
        self._owns = False
        # Two batches at a time would be written out of order.
        self._turn = asyncio.Lock()
        # A batch handed to the sink and not yet recorded: (the mark to come, last position, size). Kept
        # here because the task that waits for it may be cancelled; a second write would double the batch.
        self._pending: tuple[asyncio.Future[bytes], int, int] | None = None
        self._repeats = Repeats()

    async def take(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sink")
        await self._in_thread(self._sink.take)

    async def open(self, *, anew: bool) -> None:
        if self._thread is None:
            await self.take()
        # After the target: the ownership may be this machine's, and so another process's that is at work.
        progress = await self._outbox.open_sink(self._sink.target, self._owner)
        if progress is None:
            raise SinkError(
                f"another process delivers to this target: {self._sink.target}",
                hint="wait until it ends (30 seconds if it was killed), or give another target with -o",
            )
        self._owns = True
        if anew:
            progress = SinkProgress(progress.position)
        mark = await self._in_thread(lambda: self._sink.open(progress))
        # Recorded before the first write: what a crash leaves behind this mark is known to be ours.
        await self._record(SinkProgress(progress.position, mark))

    async def run(self, stop: asyncio.Event) -> None:
        pause = POLL_SECONDS
        while not stop.is_set():
            # Cleared before the look: a nudge that comes during it is not missed.
            self.nudged.clear()
            delivered = await self.deliver()
            if delivered == self._batch:
                continue
            pause = POLL_SECONDS if delivered else min(pause * 1.5, IDLE_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self.nudged.wait()

    async def deliver(self) -> int:
        """One batch; how many items."""
        async with self._turn:
            if self._pending is None:
                items = await self._outbox.items(self._sink.target, self._owner, self._batch)
                if items is None:
                    raise self._lost()
                if not items:
                    return 0
                self._pending = (self._writing(items), items[-1].position, len(items))
            writing, position, size = self._pending
            try:
                mark = await self._result(writing)
            except Exception:
                self._pending = None
                raise
            await self._record(SinkProgress(position, mark))
            self._pending = None
            self.delivered += size
            return size

    def _writing(self, items: Sequence[Item]) -> asyncio.Future[bytes]:
        """The mark to come, of those items that the target lacks."""
        lacking = self._repeats.without(items, self._progress.position)
        self._repeats.wrote(lacking)
        mark = self._progress.mark
        return self._submit(lambda: self._sink.write(lacking) if lacking else mark)

    async def drain(self) -> None:
        while await self.deliver():
            pass

    async def finish(self, *, complete: bool) -> None:
        await self.drain()
        await self._in_thread(self._sink.finish)
        if complete:
            await self._record(SinkProgress(self._progress.position, self._progress.mark, closed=True))
        await self._let_go(complete=complete)

    async def close(self) -> None:
        await self._let_go(complete=False)

    async def _let_go(self, *, complete: bool) -> None:
        if self._thread is None:
            return
        # Behind a write that a cancelled task has left running.
        await self._in_thread(lambda: self._sink.close(complete=complete))
        self._thread.shutdown(wait=False)
        self._thread = None
        if self._owns:
            self._owns = False
            # If the store is away, the ownership runs out by itself.
            with suppress(FrontierError):
                await self._outbox.close_sink(self._sink.target, self._owner)

    async def _record(self, progress: SinkProgress) -> None:
        if not await self._outbox.items_done(self._sink.target, self._owner, progress):
            raise self._lost()
        self._progress = progress

    def _lost(self) -> SinkError:
        return SinkError(
            f"another process has taken over this target: {self._sink.target}",
            hint="this one was silent for too long; nothing is lost, the other one delivers",
        )

    def _submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        assert self._thread is not None, "open() comes first"
        return asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await self._result(self._submit(call))

    async def _result(self, working: asyncio.Future[T]) -> T:
        """Wait, and stay the owner meanwhile. Being cancelled does not cancel the work."""
        while True:
            done, _ = await asyncio.wait({working}, timeout=KEEP_SECONDS)
            if done:
                return working.result()
            await self._outbox.items(self._sink.target, self._owner, 0)
