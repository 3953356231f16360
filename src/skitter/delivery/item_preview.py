"""A preview of items: some of them, and how full their fields are."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from skitter.delivery.export import outbox_items
from skitter.extract.items import decode_item
from skitter.frontier.contract import Frontier
from skitter.model.item import ItemKind
from skitter.sinks.result_reader import is_database, is_readable, records_of
from skitter.sinks.targets import shown

_EMPTY: tuple[Any, ...] = (None, "", [], {})
_NAMES = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "text",
    bytes: "bytes",
    list: "list",
    dict: "object",
}


class ItemPreview:
    """A sample of many records and statistics of their fields; memory does not grow with them."""

    def __init__(self, source: str, sample: int, most: int) -> None:
        self.source = source
        """A file, or ``outbox``."""
        self.sample: list[dict[str, Any]] = []
        self.items = 0
        """How many were read."""
        self.most = most
        self.undelivered = 0
        """Items of the run that some target lacks."""
        self._sample = sample
        self._filled: Counter[str] = Counter()
        self._types: dict[str, Counter[str]] = {}

    def add(self, record: dict[str, Any]) -> None:
        self.items += 1
        if len(self.sample) < self._sample:
            self.sample.append(record)
        for name, value in record.items():
            self._types.setdefault(name, Counter())[_NAMES.get(type(value), type(value).__name__)] += 1
            self._filled[name] += value not in _EMPTY

    @property
    def fields(self) -> dict[str, dict[str, Any]]:
        """For each field, the fullest first: how many items have a value in it, which share of all, and its types."""
        ordered = sorted(self._types, key=lambda name: -self._filled[name])
        return {
            name: {
                "filled": self._filled[name],
                "rate": round(self._filled[name] / self.items, 4),
                "types": dict(self._types[name].most_common()),
            }
            for name in ordered
        }


def preview_file(name: str, *, sample: int, most: int, password: str | None = None) -> ItemPreview:
    """The first items of a file of results, or of a MongoDB."""
    preview = ItemPreview(shown(name) if is_database(name) else name, sample, most)
    for record in records_of(name, password=password):
        if preview.items == most:
            break
        preview.add(record)
    return preview


async def preview_job(frontier: Frontier, *, sample: int, most: int, below: Path | None = None) -> ItemPreview:
    """The first items of a target that is a readable file; without one, of the outbox.

    An item that every target has is forgotten in the outbox. ``below``: files outside of this folder are not read.
    """
    report = await frontier.report()
    targets = [sink.target for sink in report.sinks if is_readable(sink.target)]
    readable = next((name for name in targets if below is None or _is_below(name, below)), None)
    if readable is not None:
        # In a thread: a large file takes its time.
        preview = await asyncio.to_thread(preview_file, readable, sample=sample, most=most)
    else:
        preview = ItemPreview("outbox", sample, most)
        async for items in outbox_items(frontier, most):
            for item in items:
                if item.kind is ItemKind.RECORD:
                    preview.add(decode_item(item.record))
    preview.undelivered = report.undelivered
    return preview


def _is_below(name: str, folder: Path) -> bool:
    return Path(name).resolve().is_relative_to(folder.resolve())
