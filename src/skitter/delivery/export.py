"""Export: items that are there already, in a job's outbox or in results, written to another target.

They go the way of every item: a delivery takes them to the sinks, with rejects and retries as in a crawl. Only the
outbox is another one: it reads what is there, and forgets nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
from collections.abc import AsyncIterator, Callable, Sequence

from skitter.delivery.job_sinks import OnEvent, finish_delivery
from skitter.delivery.runner import Delivery
from skitter.errors import UsageError
from skitter.extract.items import encode_item
from skitter.frontier.contract import Frontier
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.sinks.contract import PageSink
from skitter.sinks.rejects_file import rejects_of
from skitter.sinks.result_reader import is_database, records_of
from skitter.sinks.targets import Target, shown, sink_of
from skitter.stop_request import StopRequest

_PIECE = 1000
Items = AsyncIterator[list[Item]]
Source = Callable[[], Items]
"""Starts reading from the beginning."""


async def export(source: Source, outputs: Sequence[Target], *, stop: StopRequest, on_event: OnEvent) -> tuple[int, int]:
    """Write all that the source holds. How many items were written, and how many rejected."""
    written = rejected = 0
    # One after the other, each from the beginning: nothing has to be kept for the slower ones.
    for target in outputs:
        sink = sink_of(target)
        if isinstance(sink, PageSink):
            raise UsageError(f"an archive holds pages, not items: {target.name}", hint="choose another format")
        delivery = Delivery(
            _Outbox(source()),
            [sink],
            "export",
            rejects=lambda sink: rejects_of(sink, "export"),
            on_event=on_event,
        )
        stop.hold()
        await delivery.take()
        try:
            await delivery.open()
            await finish_delivery(delivery, stop, complete=True)
        finally:
            await delivery.close()
        written += delivery.delivered
        rejected += delivery.rejected
        if stop.requested:
            break
    return written, rejected


class _Outbox:
    """An outbox that nobody fills: its items come from a source, and it has one reader."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._next: list[Item] = []

    async def open_sink(self, target: str, owner: str) -> SinkProgress | None:  # noqa: ARG002
        return SinkProgress()

    async def items(self, target: str, owner: str, limit: int) -> list[Item] | None:  # noqa: ARG002
        if limit and not self._next:
            self._next = await anext(self._items, [])
        return self._next[:limit]

    async def items_done(self, target: str, owner: str, progress: SinkProgress) -> bool:  # noqa: ARG002
        self._next = [item for item in self._next if item.position > progress.position]
        return True

    async def close_sink(self, target: str, owner: str, *, forget: bool = False) -> None:
        pass


async def outbox_items(frontier: Frontier, most: int) -> Items:
    """Items of a job's outbox, at most so many: a crawl that goes on would never let it end."""
    after = number = 0
    while number < most and (items := await frontier.peek(after, min(_PIECE, most - number))):
        after = items[-1].position
        # Numbered anew: positions of a job in shards are no sequence.
        yield [Item(number + n, item.request_id, item.place, item.record, item.kind) for n, item in enumerate(items, 1)]
        number += len(items)


def _file_number(name: str) -> int:
    """The same number for the same file: written twice to a target with keys, it makes the same records there."""
    place = shown(name) if is_database(name) else os.path.realpath(name)
    return int.from_bytes(hashlib.blake2b(place.encode(), digest_size=8).digest(), "big")


async def file_items(name: str, *, password: str | None = None) -> Items:
    """The records of a file of results, or of a MongoDB, as items."""
    file, numbered = _file_number(name), enumerate(records_of(name, password=password), 1)
    # In a thread: a server may be slow.
    while records := await asyncio.to_thread(lambda: list(itertools.islice(numbered, _PIECE))):
        yield [Item(number, file, number - 1, encode_item(record)) for number, record in records]
