"""A crawl that a broker feeds, while its workers, its own process and the broker are killed at random."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

SPIDER = """
    from skitter import Spider


    class Fed(Spider):
        name = "fed"

        async def start(self):
            for _ in ():
                yield

        def parse(self, response):
            yield {"url": response.url}
"""
POISON_EVERY = 50
END_SECONDS = 120.0


class Broker(Protocol):
    """A server with one queue, which keeps what it has confirmed through its lives."""

    source: str
    """The URL of ``--intake``."""

    def put(self, bodies: Sequence[bytes]) -> None:
        """Confirmed when it returns; tried again until then, so that a message may be there twice."""
        ...

    def dead_letters(self) -> list[bytes]: ...

    def kill(self) -> None: ...

    def start(self) -> None: ...


class Outcome(NamedTuple):
    missing: int
    doubled: int
    lost_poison: int
    crawled: int
    longest_gap_seconds: float
    """Without a new result, while messages were there."""


class FedCrawl:
    """One job, fed by a broker."""

    def __init__(self, skitter: Any, broker: Broker, urls: Sequence[str], chance: random.Random) -> None:
        skitter.write("fed.py", SPIDER)
        self._skitter, self._broker, self._urls, self._chance = skitter, broker, urls, chance
        self._folder: Path = skitter.folder
        self._process: subprocess.Popen[str] | None = None
        settings = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.2", "--allow-private")
        self._command = ("crawl", "fed.py", "--job", "j", "--workers", 2, "-o", "out.jsonl", *settings)
        self._command += ("--intake", broker.source, "--until-idle", 4)

    def run(self, faults: Sequence[Callable[[], None]]) -> Outcome:
        """Feed it in as many portions as there are faults and one more, each fault in the middle of a portion."""
        poison = [b"poison %d" % n for n in range(0, len(self._urls), POISON_EVERY)]
        bodies = [url.encode() for url in self._urls] + poison
        self._chance.shuffle(bodies)
        portions = [bodies[n :: len(faults) + 1] for n in range(len(faults) + 1)]
        gaps: list[float] = []
        try:
            for portion, fault in zip(portions, [*faults, None], strict=True):
                self.keep_running()
                before = self._results()
                self._broker.put(portion)
                self._wait_for(before + self._chance.randrange(1, max(2, len(portion) // 2)), gaps)
                if fault is not None:
                    fault()
            self._finish()
        finally:
            self.kill()
        lines = (self._folder / "out.jsonl").read_text().splitlines()
        found = Counter(json.loads(line)["url"] for line in lines)
        expected = Counter(self._urls)
        letters = set(self._broker.dead_letters())
        return Outcome(
            sum((expected - found).values()),
            sum((found - expected).values()),
            len(set(poison) - letters),
            found.total(),
            max(gaps, default=0.0),
        )

    # ---- faults

    def kill_worker(self) -> None:
        pid = self._process.pid if self._process is not None else 0
        with contextlib.suppress(OSError, IndexError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            os.kill(int(self._chance.choice(children)), signal.SIGKILL)

    def kill(self) -> None:
        """The process that reads the intake, and its workers."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def kill_broker(self) -> None:
        self._broker.kill()
        self._broker.start()

    # ---- its lives

    def keep_running(self) -> None:
        """Start it, unless it runs: it may have ended because the broker was unavailable when it started."""
        if self._process is not None and self._process.poll() is None:
            return
        with (self._folder / "crawl.log").open("a") as log:  # a pipe that nobody reads would fill
            self._process = self._skitter.start(*self._command, stdout=subprocess.DEVNULL, stderr=log)

    def _results(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            return (self._folder / "out.jsonl").read_bytes().count(b"\n")
        return 0

    def _wait_for(self, results: int, gaps: list[float]) -> None:
        deadline = time.monotonic() + END_SECONDS
        last, since = self._results(), time.monotonic()
        while (now := self._results()) < results:
            assert time.monotonic() < deadline, f"{now} of {results} results\n{self.log()}"
            self.keep_running()
            if now > last:
                gaps.append(time.monotonic() - since)
                last, since = now, time.monotonic()
            time.sleep(0.05)
        gaps.append(time.monotonic() - since)

    def _finish(self) -> None:
        deadline = time.monotonic() + 4 * END_SECONDS
        while True:
            self.keep_running()
            assert self._process is not None
            code = self._process.wait(max(1.0, deadline - time.monotonic()))
            if code == 0:
                return
            assert code == 3, f"exit code {code}\n{self.log()}"

    def log(self) -> str:
        return (self._folder / "crawl.log").read_text()[-5000:]
