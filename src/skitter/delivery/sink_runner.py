"""The runner of one sink: its thread, its ownership and its progress.

The order inside one batch keeps the promise: rejects are made durable, then the sink makes the rest durable, then the
frontier records position and mark at once. Whoever dies between the last two leaves a target that is ahead of its mark,
and the sink takes that back when it is opened again. Sinks block, so each has one thread of its own.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from skitter.delivery.repeated_items import RecentItems
from skitter.errors import BadItemsError, FormatError, FrontierError, SinkError, SinkUnavailableError
from skitter.extract.items import decode_item
from skitter.extract.rejected_items import decode_reject
from skitter.frontier.contract import Outbox
from skitter.model.item import Item, ItemKind
from skitter.model.job import SinkProgress
from skitter.observe import events
from skitter.sinks.contract import PageSink, Rejected, Rejects, Sink

T = TypeVar("T")

POLL_SECONDS = 0.2
"""Between two polls of an outbox that had less than a batch: each batch costs the frontier two
transactions and the target a sync, so a few hundred items go together while a crawl runs."""
IDLE_SECONDS = 1.0
"""The longest pause, when nothing comes for a while."""
KEEP_SECONDS = 10.0
"""While a sink works or is unavailable for longer than this, the ownership is renewed: a third of its time."""
AWAY_SECONDS = 0.5
LONGEST_AWAY_SECONDS = 30.0
"""Between two tries of a target that is unavailable: doubling from the first to the second, with jitter."""


STALE_SECONDS = 15.0
"""Before a batch is written, the ownership was renewed at most this long ago: a process that stood still meanwhile asks
again, because another one may have the target now. Half of its time."""


class _StaleError(Exception):
    """Too long since the ownership was renewed."""


class _Batch:
    """Items on their way to the target. Kept until they are recorded: whoever waits for them may be cancelled, and a
    target that was unavailable gets the same ones again."""

    def __init__(self, items: Sequence[Item], lacking: Sequence[Item], kind: ItemKind) -> None:
        """``lacking``: those that the target has not had yet. ``kind``: what the target takes."""
        self.position = items[-1].position
        self.size = len(items)
        self.foreign = sum(item.kind not in (kind, ItemKind.REJECT) for item in items)
        """What is not for this target."""
        self.items = [item for item in lacking if item.kind is kind]
        self.unstored = [item for item in lacking if item.kind is ItemKind.REJECT]
        """Rejected by a worker already, and not yet in the rejects file."""
        self.rejected = 0
        """In the rejects file."""
        self.refused = 0
        """Of those, the ones that the target would not take."""
        self.reason = ""
        """Of the first one."""
        self.writing: asyncio.Future[bytes] | None = None
        """The mark to come."""


class SinkRunner:
    """Takes items to one sink, batch by batch."""

    def __init__(
        self,
        outbox: Outbox,
        sink: Sink,
        owner: str,
        batch: int,
        rejects: Rejects | None,
        on_event: Callable[[events.Event], None],
    ) -> None:
        self.nudged = asyncio.Event()
        self.delivered = 0
        self.rejected = 0
        self.is_closed = False
        self._outbox = outbox
        self._sink = sink
        self._owner = owner
        self._size = batch
        self._rejects = rejects
        self._on_event = on_event
        self._progress = SinkProgress()
        self._thread: ThreadPoolExecutor | None = None
        self._owns = False
        self._kept_at = 0.0
        """When the ownership was certain for the last time, by this process's clock."""
        # Two batches at a time would be written out of order.
        self._turn = asyncio.Lock()
        self._batch: _Batch | None = None
        self._repeats = RecentItems()
        self._unavailable: SinkUnavailableError | None = None
        self._unavailable_since = 0.0
        self._tries = 0

    async def take(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sink")
        await self._in_thread(self._sink.take)

    async def open(self, *, anew: bool) -> None:
        if self._thread is None:
            await self.take()
        # After the target: the ownership may be this machine's, and so another process's that is at work.
        asked_at = time.monotonic()
        progress = await self._outbox.open_sink(self._sink.target, self._owner)
        if progress is None:
            raise SinkError(
                f"another process is writing to this output: {self._sink.target}",
                hint="wait until it ends (30 seconds if it was killed), or choose another output with -o",
            )
        self._owns, self._kept_at = True, asked_at
        opened = SinkProgress(progress.position) if anew else progress
        mark = await self._in_thread(lambda: self._sink.open(opened))
        # Recorded before the first write: what a crash leaves behind this mark is known to be ours.
        await self._record(SinkProgress(progress.position, mark, rejected=progress.rejected))

    async def run(self, stop: asyncio.Event) -> None:
        pause = POLL_SECONDS
        while not stop.is_set():
            # Cleared before the poll: a nudge that comes during it is not missed.
            self.nudged.clear()
            delivered = await self.deliver()
            if self._unavailable is not None:
                await self._wait_for_target()
                continue
            if delivered == self._size:
                continue
            pause = POLL_SECONDS if delivered else min(pause * 1.5, IDLE_SECONDS)
            await self._rest(pause)

    async def deliver(self) -> int:
        """One batch, if the target takes it now; how many items."""
        async with self._turn:
            batch = self._batch or await self._next()
            if batch is None:
                return 0
            self._batch = batch
            if batch.writing is None:
                batch.writing = self._submit(lambda: self._write(batch))
            try:
                mark = await self._result(batch.writing)
            except _StaleError:
                batch.writing = None
                await self._items(0)
                return 0
            except SinkUnavailableError as error:
                batch.writing = None
                await self._becomes_unavailable(error)
                return 0
            except Exception:
                self._batch = None
                raise
            self._comes_back()
            await self._record(SinkProgress(batch.position, mark, rejected=self._progress.rejected + batch.refused))
            self._batch = None
            self.delivered += batch.size - batch.foreign - batch.rejected
            self.rejected += batch.rejected
            if batch.rejected:
                told = {"target": self._sink.target, "items": batch.rejected, "reason": batch.reason}
                self._on_event(events.ITEMS_REJECTED(**told))
            return batch.size

    async def _next(self) -> _Batch | None:
        items = await self._items(self._size)
        if not items:
            return None
        lacking = self._repeats.without(items, self._progress.position)
        self._repeats.wrote(lacking)
        return _Batch(items, lacking, ItemKind.PAGE if isinstance(self._sink, PageSink) else ItemKind.RECORD)

    def _write(self, batch: _Batch) -> bytes:
        """Write in the sink's thread. What cannot be written goes to the rejects first, so that it is never nowhere."""
        if batch.unstored:
            self._reject(batch, [self._never_stored(item) for item in batch.unstored])
            batch.unstored = []
        while batch.items:
            if time.monotonic() - self._kept_at > STALE_SECONDS:
                raise _StaleError
            try:
                return self._sink.write(batch.items)
            except BadItemsError as error:
                bad = [item for item in batch.items if item.position in error.reasons]
                if not bad or self._rejects is None:
                    raise
                self._reject(batch, [self._refused(item, error.reasons[item.position]) for item in bad])
                batch.refused += len(bad)
                batch.items = [item for item in batch.items if item.position not in error.reasons]
        return self._progress.mark

    def _reject(self, batch: _Batch, rejected: Sequence[Rejected]) -> None:
        if self._rejects is None:
            raise SinkError(f"an item cannot be written: {self._sink.target}: {rejected[0].reason}")
        self._rejects.add(rejected)
        batch.rejected += len(rejected)
        batch.reason = batch.reason or rejected[0].reason

    def _never_stored(self, item: Item) -> Rejected:
        reject = decode_reject(item.record)
        return Rejected(
            reason=reject.reason, target=self._sink.target, key=item.key, url=reject.url, record=reject.record
        )

    def _refused(self, item: Item, reason: str) -> Rejected:
        try:
            record = decode_item(item.record)
        except FormatError:
            return Rejected(reason=reason, target=self._sink.target, key=item.key, record=item.record)
        url = record.get("url")
        return Rejected(
            reason=reason,
            target=self._sink.target,
            key=item.key,
            url=url if isinstance(url, str) else "",
            record=record,
        )

    async def drain(self, hurry: asyncio.Event) -> None:
        while await self.deliver() or self._unavailable is not None or self._batch is not None:
            if self._unavailable is not None:
                await self._wait_for_target(hurry)

    async def finish(self, *, complete: bool, hurry: asyncio.Event) -> None:
        await self.drain(hurry)
        while True:
            try:
                await self._in_thread(self._sink.finish)
                break
            except SinkUnavailableError as error:
                await self._becomes_unavailable(error)
                await self._wait_for_target(hurry)
        self._comes_back()
        if complete:
            position, mark, rejected = self._progress.position, self._progress.mark, self._progress.rejected
            await self._record(SinkProgress(position, mark, closed=True, rejected=rejected))
        await self._let_go(complete=complete)

    async def close(self) -> None:
        await self._let_go(complete=False)

    async def _let_go(self, *, complete: bool) -> None:
        self.is_closed = True
        if self._thread is None:
            return
        # Behind a write that a cancelled task has left running.
        await self._in_thread(lambda: self._sink.close(complete=complete))
        self._thread.shutdown(wait=False)
        self._thread = None
        if self._owns:
            self._owns = False
            # If the store is unavailable, the ownership runs out by itself.
            with suppress(FrontierError):
                await self._outbox.close_sink(self._sink.target, self._owner)

    # ---- a target that is unavailable

    async def _becomes_unavailable(self, error: SinkUnavailableError) -> None:
        """Record that the target is unavailable; reported once, as an event and in the frontier, however often it is
        tried."""
        self._tries += 1
        if self._unavailable is None:
            self._unavailable_since = time.monotonic()
            self._on_event(events.SINK_AWAY(target=self._sink.target, reason=str(error)))
            position, mark, rejected = self._progress.position, self._progress.mark, self._progress.rejected
            await self._record(SinkProgress(position, mark, rejected=rejected, trouble=str(error)))
        self._unavailable = error

    def _comes_back(self) -> None:
        if self._unavailable is not None:
            seconds = round(time.monotonic() - self._unavailable_since, 1)
            self._on_event(events.SINK_BACK(target=self._sink.target, seconds=seconds))
        self._unavailable, self._tries = None, 0

    async def _wait_for_target(self, hurry: asyncio.Event | None = None) -> None:
        """Sleep until it is time to try again; in a hurry, raise why the target is unavailable."""
        pause = min(AWAY_SECONDS * 2 ** min(self._tries - 1, 16), LONGEST_AWAY_SECONDS) * random.uniform(0.5, 1.0)
        until = time.monotonic() + pause
        while (left := until - time.monotonic()) > 0:
            if hurry is not None and hurry.is_set():
                assert self._unavailable is not None
                raise self._unavailable
            if await self._rest(min(left, KEEP_SECONDS)):
                self.nudged.clear()
                if hurry is None:
                    return
            else:
                await self._items(0)

    # ---- outbox and thread

    async def _rest(self, seconds: float) -> bool:
        """Sleep; whether it was nudged meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.nudged.wait()
        return self.nudged.is_set()

    async def _items(self, limit: int) -> list[Item]:
        """The next items; the call renews the ownership, or finds it lost."""
        asked_at = time.monotonic()
        items = await self._outbox.items(self._sink.target, self._owner, limit)
        if items is None:
            raise self._lost()
        self._kept_at = asked_at
        return items

    async def _record(self, progress: SinkProgress) -> None:
        asked_at = time.monotonic()
        if not await self._outbox.items_done(self._sink.target, self._owner, progress):
            raise self._lost()
        self._progress, self._kept_at = progress, asked_at

    def _lost(self) -> SinkError:
        return SinkError(
            f"another process has taken over this output: {self._sink.target}",
            hint="this process did not respond for too long; nothing is lost, the other one writes the items",
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
            asked_at = time.monotonic()
            if await self._outbox.items(self._sink.target, self._owner, 0) is not None:
                self._kept_at = asked_at
