"""A crawl that a broker feeds, while its workers, its own process and the broker are killed at random."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from rig.killed_crawl import QUICK, ended
from rig.processes import CommandLine, wait_until
from rig.restarted_command import RestartedCommand

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


class FedCrawl(RestartedCommand):
    """One job, fed by a broker."""

    def __init__(self, skitter: CommandLine, broker: Broker, urls: Sequence[str], chance: random.Random) -> None:
        skitter.write("fed.py", SPIDER)
        words = ("crawl", "fed.py", "--job", "j", "--workers", 2, "-o", "out.jsonl", *QUICK, "--allow-private")
        super().__init__(skitter, *words, "--intake", broker.source, "--until-idle", 4)
        self._broker, self._urls, self._chance = broker, urls, chance
        self._results_path = skitter.folder / "out.jsonl"

    def run(self, faults: Sequence[Callable[[], object]]) -> Outcome:
        """Feed it in as many portions as there are faults and one more, each fault in the middle of a portion."""
        poison = [b"poison %d" % n for n in range(0, len(self._urls), POISON_EVERY)]
        bodies = [url.encode() for url in self._urls] + poison
        self._chance.shuffle(bodies)
        portions = [bodies[n :: len(faults) + 1] for n in range(len(faults) + 1)]
        gaps: list[float] = []
        with ended(self):
            for portion, fault in zip(portions, [*faults, None], strict=True):
                self._keep_fed()
                before = self._results()
                self._broker.put(portion)
                self._wait_for(before + self._chance.randrange(1, max(2, len(portion) // 2)), gaps)
                if fault is not None:
                    fault()
            self.finish()
        found = Counter(json.loads(line)["url"] for line in self._results_path.read_text().splitlines())
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

    def kill_a_worker(self) -> None:
        self.kill_worker(self._chance)

    def kill_broker(self) -> None:
        self._broker.kill()
        self._broker.start()

    # ---- its lives

    def _keep_fed(self) -> None:
        """Start it, unless it runs: where nothing came for a while, it is over, and the next portion begins it anew."""
        if not self.is_running:
            self.start()

    def _results(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            return self._results_path.read_bytes().count(b"\n")
        return 0

    def _wait_for(self, results: int, gaps: list[float]) -> None:
        last, since = self._results(), time.monotonic()

        def has_come() -> bool:
            nonlocal last, since
            self._keep_fed()
            now = self._results()
            if now > last:
                gaps.append(time.monotonic() - since)
                last, since = now, time.monotonic()
            return now >= results

        wait_until(has_come, what=f"{results} results")
        gaps.append(time.monotonic() - since)
