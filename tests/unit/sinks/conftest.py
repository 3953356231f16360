"""A stand-in for the frontier's record of one sink, and ways to crash between its two halves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.sinks.contract import Sink
from skitter.sinks.file_targets import file_sink


class Run:
    """One run of a job with one target; what the frontier would remember is in ``progress``."""

    def __init__(self, target: Path | str, *, overwrite: bool = False, job: str = "books") -> None:
        self.target, self.overwrite, self.job = str(target), overwrite, job
        self.progress = SinkProgress()
        self.sink: Sink | None = None

    def open(self) -> Run:
        self.sink = file_sink(self.target, overwrite=self.overwrite, job=self.job)
        try:
            self.sink.take()
            self.progress = SinkProgress(self.progress.position, self.sink.open(self.progress))
        except BaseException:
            self.sink.close()
            raise
        return self

    def items(self, records: list[Any]) -> list[Item]:
        first = self.progress.position + 1
        return [Item(first + n, 7, n, msgspec.msgpack.encode(record)) for n, record in enumerate(records)]

    def write(self, *records: Any, recorded: bool = True) -> Run:
        assert self.sink is not None
        items = self.items(list(records))
        mark = self.sink.write(items)
        if recorded:
            self.progress = SinkProgress(items[-1].position, mark)
        return self

    def crash(self) -> Run:
        """As a kill does it: the lock goes, nothing is recorded."""
        assert self.sink is not None
        self.sink.close()
        return self

    def finish(self) -> Run:
        assert self.sink is not None
        self.sink.finish()
        self.progress = SinkProgress(self.progress.position, self.progress.mark, closed=True)
        self.sink.close(complete=True)
        return self


@pytest.fixture
def run() -> Iterator[Callable[..., Run]]:
    """Makes runs, and lets their files go at the end."""
    made: list[Run] = []

    def make(target: Path | str, **options: Any) -> Run:
        made.append(Run(target, **options))
        return made[-1]

    yield make
    for each in made:
        if each.sink is not None:
            each.sink.close()
