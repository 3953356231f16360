"""Places of each kind, and runs of a job that write there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from rig.places import PLACES, Place
from rig.servers.databases import OwnFerretdb
from rig.services import OwnServers
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.sinks.contract import Sink
from skitter.sinks.targets import parse_target, sink_of


class Run:
    """One run of a job with one target; what the frontier would remember is in ``progress``."""

    def __init__(self, target: str, *, job: str = "books", **options: Any) -> None:
        self.target = parse_target(target, job=job, **options)
        self.progress = SinkProgress()
        self.sink: Sink = sink_of(self.target)

    def open(self) -> Run:
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


@pytest.fixture(params=list(PLACES))
def place(request: pytest.FixtureRequest, tmp_path: Path, services: Any) -> Place:
    """A table of its own on a server that all tests share."""
    return place_of(request.param, tmp_path, services)


def place_of(kind: str, tmp_path: Path, services: Any) -> Place:
    url = f"sqlite:{tmp_path}/items.db" if kind == "sqlite" else services.need(kind)["url"]
    return PLACES[kind](url, f"items_{uuid4().hex[:12]}")


@pytest.fixture
def one_place(tmp_path: Path, services: Any) -> Callable[[str], Place]:
    """Makes a place of one kind."""
    return lambda kind: place_of(kind, tmp_path, services)


@pytest.fixture
def own_mongodb(own_server: OwnServers) -> Callable[[], OwnFerretdb]:
    """Makes servers that a test may kill, or have several of."""
    return lambda: own_server(OwnFerretdb)


@pytest.fixture
def run() -> Iterator[Callable[..., Run]]:
    """Makes runs, and lets their connections go at the end."""
    made: list[Run] = []
    # A target is locked for its job on a machine, and all these tests give the same names to servers of their own.
    job = f"books-{uuid4().hex}"

    def make(target: str, **options: Any) -> Run:
        made.append(Run(target, **{"job": job, **options}))
        return made[-1]

    yield make
    for each in made:
        each.sink.close()
