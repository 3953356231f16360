"""The runner of a program that takes items as they come (``skitter.stream``): from the outbox to its buffer.

Its target is ``client:``, as of every program that takes items. The frontier is told how far the program is a few times
a second and when it leaves, never further than what is confirmed. Nothing is read ahead of the one batch
in the buffer: while a program takes its time, items wait in the outbox.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from skitter.delivery.item_buffer import ItemBuffer
from skitter.delivery.repeated_items import RecentItems
from skitter.errors import FrontierError, SinkError
from skitter.extract.items import YieldedRecord, decode_item
from skitter.extract.rejected_items import decode_reject
from skitter.frontier.contract import Outbox
from skitter.model.item import Item, ItemKind
from skitter.model.job import SinkProgress
from skitter.observe.events import ITEMS_REJECTED, emit
from skitter.sinks.contract import Rejected, Rejects

CLIENT = "client:"
"""The target of items that a program takes: they wait in the outbox until it does."""
BATCH = 200
"""Items in the buffer: enough that their two transactions cost nothing beside them."""
RECORD_SECONDS = 0.2
"""Between two words to the frontier on what is confirmed, while a program takes items."""
POLL_SECONDS = 0.05
IDLE_SECONDS = 0.5
"""Between two polls of an outbox that has nothing: from the first to the second."""
KEEP_SECONDS = 10.0
"""The ownership is renewed at least this often: a third of its time."""


class StreamRunner:
    """Takes items to the buffer of a program, batch by batch."""

    def __init__(self, outbox: Outbox, owner: str, buffer: ItemBuffer, rejects: Rejects) -> None:
        self.nudged = asyncio.Event()
        self.delivered = 0
        self.rejected = 0
        self.is_closed = False
        self._outbox = outbox
        self._owner = owner
        self._buffer = buffer
        self._rejects = rejects
        self._progress = SinkProgress()
        self._repeats = RecentItems()
        self._owns = False
        self._kept_at = 0.0

    async def take(self) -> None:
        """Do nothing: a program is its own target."""

    async def open(self, *, anew: bool) -> None:  # noqa: ARG002  nothing that was written is read again
        progress = await self._outbox.open_sink(CLIENT, self._owner)
        if progress is None:
            raise SinkError(
                "another program is reading the items of this job",
                hint="wait until it ends (30 seconds if it was killed), or give the job another name",
            )
        self._owns = True
        loop = asyncio.get_running_loop()
        self._buffer.connect(lambda: loop.call_soon_threadsafe(self.nudged.set), progress.position)
        # It was complete, perhaps; it is not any more.
        await self._record(progress.position)

    async def run(self, stop: asyncio.Event) -> None:
        pause = POLL_SECONDS
        while not stop.is_set() and not self._buffer.has_left:
            self.nudged.clear()
            if await self.deliver():
                pause = POLL_SECONDS
            else:
                pause = RECORD_SECONDS if not self._buffer.is_through else min(pause * 1.5, IDLE_SECONDS)
                await self._rest(pause)

    async def deliver(self) -> int:
        """One batch, if the last one is through; how many items of the outbox."""
        await self._keep()
        if not self._buffer.is_through:
            return 0
        items = await self._outbox.items(CLIENT, self._owner, BATCH)
        if items is None:
            raise _lost()
        self._kept_at = time.monotonic()
        if not items:
            return 0
        lacking = self._repeats.without(items, self._progress.position)
        self._repeats.wrote(lacking)
        # Less than it was told, where a store has forgotten its newest words (``RecentItems``).
        self._progress = SinkProgress(items[0].position - 1)
        await self._reject([item for item in lacking if item.kind is ItemKind.REJECT])
        records = [(item.position, _object_of(item.record)) for item in lacking if item.kind is ItemKind.RECORD]
        self._buffer.put(records, items[0].position - 1, items[-1].position)
        self.delivered += len(records)
        return len(items)

    async def drain(self, hurry: asyncio.Event) -> None:
        """Until the program has taken everything that is there, or leaves."""
        while not (self._buffer.has_left or hurry.is_set()):
            self.nudged.clear()
            if not await self.deliver():
                if self._buffer.is_through:
                    return
                await self._rest(RECORD_SECONDS)

    async def finish(self, *, complete: bool, hurry: asyncio.Event) -> None:
        await self.drain(hurry)
        await self._keep()
        if complete and self._buffer.is_through and not await self._outbox.items(CLIENT, self._owner, 1):
            await self._record(self._progress.position, closed=True)
        await self.close()

    async def close(self) -> None:
        self.is_closed = True
        if self._owns:
            self._owns = False
            # If the store is unavailable, the ownership runs out by itself, and what was confirmed lately comes again.
            with suppress(FrontierError, SinkError):
                await self._keep()
            with suppress(FrontierError):
                await self._outbox.close_sink(CLIENT, self._owner)

    async def _keep(self) -> None:
        """Tell the frontier what is confirmed, or at least that the program is there."""
        if (confirmed := self._buffer.confirmed) != self._progress.position:
            await self._record(confirmed)
        elif time.monotonic() - self._kept_at > KEEP_SECONDS:
            if await self._outbox.items(CLIENT, self._owner, 0) is None:
                raise _lost()
            self._kept_at = time.monotonic()

    async def _record(self, position: int, *, closed: bool = False) -> None:
        progress = SinkProgress(position, closed=closed)
        if not await self._outbox.items_done(CLIENT, self._owner, progress):
            raise _lost()
        self._progress, self._kept_at = progress, time.monotonic()

    async def _reject(self, items: Sequence[Item]) -> None:
        """Write down what a worker could not store, before the position moves past it."""
        if not items:
            return
        found = [(item, decode_reject(item.record)) for item in items]
        lines = [
            Rejected(reason=reject.reason, target=CLIENT, key=item.key, url=reject.url, record=reject.record)
            for item, reject in found
        ]
        await asyncio.to_thread(self._rejects.add, lines)
        emit(ITEMS_REJECTED(target=CLIENT, items=len(lines), reason=lines[0].reason))
        self.rejected += len(lines)

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.nudged.wait()


def _object_of(record: bytes) -> Any:
    return record.item if isinstance(record, YieldedRecord) else decode_item(record)


def _lost() -> SinkError:
    return SinkError(
        "another program has taken over the items of this job",
        hint="this program did not respond for too long; nothing is lost, the other one has the items",
    )
