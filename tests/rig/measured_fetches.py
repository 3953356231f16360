"""Fetches from hostile servers in a process of their own, and what they cost it: ``measure`` runs this file.

Standard input: a JSON object, see ``Task``. Standard output: a JSON object, see ``Outcome``. Neither the servers nor
other tests are in the figures.
"""

from __future__ import annotations

import asyncio
import json
import resource
import selectors
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from skitter.errors import FetchError
from skitter.fetch.contract import FetchRequest
from skitter.fetch.engine import CurlFetcher
from skitter.settings import Fetch


class Task(msgspec.Struct, kw_only=True):
    urls: list[str]
    """Fetched at the same time."""
    good_url: str = ""
    """Fetched again and again meanwhile, one after the other."""
    files_at_most: int = 10_000
    """Wait, but not for ever, until no more descriptors than this are left."""
    settings: dict[str, Any] = {}
    ca_file: str | None = None
    proxy: str = ""
    method: str = "GET"
    body_bytes: int = 0
    trusted: bool = True


class Ending(msgspec.Struct, kw_only=True):
    kind: str
    """The class of the error, or the status of the page."""
    message: str = ""
    body: str = ""
    seconds: float


class Outcome(msgspec.Struct, kw_only=True):
    endings: list[Ending]
    good: int = 0
    """How many times ``good_url`` was served."""
    good_longest_seconds: float = 0.0
    good_failures: list[str] = []
    longest_turn_seconds: float
    """CPU time of the longest turn of the event loop, between two looks at its sockets."""
    cpu_seconds: float
    grown_bytes: int
    """Of memory, at the largest."""
    files_left: int
    """Descriptors that are open afterwards, beyond those before; the fetcher still has its idle connections."""
    threads: int


def measure(*, environment: dict[str, str] | None = None, **task: Any) -> dict[str, Any]:
    """The fields of an ``Outcome``, of the fields of a ``Task``."""
    run = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(task),
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=100,
    )
    found: dict[str, Any] = json.loads(run.stdout)
    return found


class TimedSelector(selectors.DefaultSelector):
    """Knows the CPU time between two calls."""

    longest = 0.0
    _since = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if self._since:
            self.longest = max(self.longest, time.thread_time() - self._since)
        found = super().select(timeout)
        self._since = time.thread_time()
        return found


def _memory_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


def _count(folder: str) -> int:
    return sum(1 for _ in Path(folder).iterdir())


async def run(task: Task, selector: TimedSelector) -> Outcome:
    fetcher = CurlFetcher(msgspec.convert(task.settings, Fetch), ca_file=task.ca_file, proxy=task.proxy)

    async def fetch(url: str) -> Ending:
        started = time.monotonic()
        request = FetchRequest(url=url, trusted=task.trusted, method=task.method, body=bytes(task.body_bytes))
        try:
            page = await fetcher.fetch(request)
        except FetchError as error:
            return Ending(kind=error.error_class, message=str(error), seconds=time.monotonic() - started)
        return Ending(kind=str(page.status), body=page.body[:200].decode("latin-1"), seconds=time.monotonic() - started)

    served: list[Ending] = []

    async def keep_fetching() -> None:
        while True:
            fetcher.slow_transfers(1_000)  # as a worker does between its pages
            served.append(await fetch(task.good_url))
            await asyncio.sleep(0.01)

    async def files_left() -> int:
        # libcurl says goodbye to a connection for up to two seconds.
        left, deadline = _count("/proc/self/fd") - files, time.monotonic() + 10
        while left > task.files_at_most and time.monotonic() < deadline:
            await fetch(task.good_url)  # a fetch is also what drives libcurl's goodbyes
            await asyncio.sleep(0.1)
            left = _count("/proc/self/fd") - files
        return left

    if task.good_url:
        await fetch(task.good_url)
    files = _count("/proc/self/fd")
    usage = resource.getrusage(resource.RUSAGE_SELF)
    memory, selector.longest = _memory_bytes("VmRSS"), 0.0
    beside = asyncio.create_task(keep_fetching()) if task.good_url else None
    endings = list(await asyncio.gather(*(fetch(url) for url in task.urls)))
    if beside is not None:
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)
    spent = resource.getrusage(resource.RUSAGE_SELF)
    outcome = Outcome(
        endings=endings,
        good=sum(ending.kind == "200" for ending in served),
        good_longest_seconds=max((ending.seconds for ending in served), default=0.0),
        good_failures=[ending.message or ending.kind for ending in served if ending.kind != "200"],
        longest_turn_seconds=selector.longest,
        cpu_seconds=spent.ru_utime + spent.ru_stime - usage.ru_utime - usage.ru_stime,
        grown_bytes=_memory_bytes("VmHWM") - memory,
        files_left=await files_left(),
        threads=_count("/proc/self/task"),
    )
    assert fetcher.in_flight == 0
    await fetcher.close()
    return outcome


if __name__ == "__main__":
    timed = TimedSelector()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(timed)) as runner:
        ended = runner.run(run(msgspec.json.decode(sys.stdin.buffer.read(), type=Task), timed))
    json.dump(msgspec.to_builtins(ended), sys.stdout)
