"""A package of somebody else's: a frontier, a fetcher, a sink and an intake, of which each call is a line of a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from skitter.app import drop_job, list_jobs
from skitter.errors import FetchError
from skitter.fetch.contract import FetchRequest
from skitter.frontier.contract import Frontier, FrontierBackend
from skitter.frontier.sqlite import sqlite_frontier
from skitter.intakes.contract import Backlog, DeadLetter, Message
from skitter.intakes.sources import Source
from skitter.model.page import Page
from skitter.settings import Settings
from skitter.sinks.targets import Target

PAGES = 40


def note(what: str, name: str) -> None:
    """One line, of which several processes do not break each other's."""
    line = f"{what} {name} {os.getpid()}\n".encode()
    file = os.open(os.environ["TINY_CALLS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(file, line)
    finally:
        os.close(file)


class TinyFrontier:
    """The SQLite frontier, called through somebody who counts."""

    def __init__(self, inner: Frontier) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._inner, name)

        async def counted(*arguments: Any, **options: Any) -> Any:
            note("frontier", name)
            return await method(*arguments, **options)

        return counted


def open_tiny(url: str, job: str, *, create: bool, patient: bool) -> Frontier:
    note("open", "patient" if patient else "at-once")
    frontier: Any = TinyFrontier(sqlite_frontier(path_of(url), job, create=create))
    return frontier


def path_of(url: str) -> Path:
    return Path(url.partition(":")[2])


async def list_tiny(url: str) -> list[str]:
    return await list_jobs(f"sqlite:{path_of(url)}")


async def drop_tiny(url: str, job: str) -> bool:
    return await drop_job(f"sqlite:{path_of(url)}", job)


SHARED = FrontierBackend(open=open_tiny, shared=True, list_jobs=list_tiny, drop_job=drop_tiny)
ALONE = FrontierBackend(open=open_tiny, shared=False)


class TinyFetcher:
    """A web of its own, which is on no network. Less than that a fetcher cannot have."""

    def __init__(self, settings: Settings) -> None:
        note("fetcher", settings.fetch.fetcher)

    async def fetch(self, request: FetchRequest) -> Page:
        path = request.url.removeprefix("http://tiny.example/")
        if path == request.url:
            raise FetchError("dns", f"not of this web: {request.url}")
        if path != "robots.txt":
            note("fetch", f"/{path}")
        number = int(path) if path.isdigit() else 0
        links = "".join(f'<a href="/{link}">x</a>' for link in (2 * number + 1, 2 * number + 2) if link < PAGES)
        status = 404 if path == "robots.txt" else 200
        return Page(
            url=request.url,
            status=status,
            headers=[("content-type", "text/html")],
            body=f"<title>page {number}</title>{links}".encode(),
        )

    async def close(self) -> None:
        note("fetcher", "close")


class TinySink:
    """A line of JSON for each item."""

    def __init__(self, target: Target) -> None:
        self._path = Path(target.path)

    def write(self, batch: list[tuple[str, Any]]) -> None:
        with self._path.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for _, record in batch)


class TinyIntake:
    """The pages with numbers from 1 on, one message each, and one that is none."""

    shared = True

    def __init__(self, source: Source) -> None:
        self.source = source.name
        self._bodies = [f"http://tiny.example/{number}".encode() for number in range(1, int(source.options["pages"]))]
        self._bodies.append(b"nonsense")
        self._read = 0

    @property
    def is_exhausted(self) -> bool:
        return self._read == len(self._bodies)

    def open(self, mark: bytes) -> None:
        note("intake", "open")
        self._read = int(mark or b"0")

    def read(self, limit: int, timeout_seconds: float) -> list[Message]:
        first, self._read = self._read, min(len(self._bodies), self._read + limit)
        return [Message(self._bodies[place], ref=place + 1, id=str(place)) for place in range(first, self._read)]

    def ack(self, messages: Sequence[Message]) -> bytes:
        return b"%d" % messages[-1].ref

    def dead_letter(self, letters: Sequence[DeadLetter]) -> None:
        for letter in letters:
            note("dead-letter", letter.message.body.decode())

    def backlog(self) -> Backlog:
        return Backlog(len(self._bodies) - self._read)

    def close(self) -> None:
        note("intake", "close")
