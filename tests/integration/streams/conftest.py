"""Runs of a job that write to a stream; what the frontier would remember is in ``progress``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.sinks.contract import Sink
from skitter.sinks.targets import parse_target, sink_of


class Run:
    """One run of a job with one target."""

    def __init__(self, target: str, *, job: str = "books", **options: Any) -> None:
        self.target = parse_target(target, job=job, **options)
        self.progress = SinkProgress()
        self.sink: Sink = sink_of(self.target)

    def open(self) -> Run:
        """As after a kill: another process, which knows what is recorded."""
        self.sink.close()
        self.sink = sink_of(self.target)
        try:
            self.sink.take()
            self.progress = SinkProgress(self.progress.position, self.sink.open(self.progress))
        except BaseException:
            self.sink.close()
            raise
        return self

    def items(self, *records: Any, page: int = 7) -> list[Item]:
        first = self.progress.position + 1
        return [Item(first + n, page, n, msgspec.msgpack.encode(record)) for n, record in enumerate(records)]

    def write(self, *records: Any, page: int = 7, recorded: bool = True) -> Run:
        items = self.items(*records, page=page)
        mark = self.sink.write(items)
        if recorded:
            self.progress = SinkProgress(items[-1].position, mark)
        return self

    def finish(self) -> Run:
        self.sink.finish()
        self.progress = SinkProgress(self.progress.position, self.progress.mark, closed=True)
        self.sink.close(complete=True)
        return self


@pytest.fixture
def run() -> Iterator[Callable[..., Run]]:
    """Makes runs, and lets their connections go at the end."""
    made: list[Run] = []

    def make(target: str, **options: Any) -> Run:
        made.append(Run(target, **options))
        return made[-1]

    yield make
    for each in made:
        each.sink.close()
