"""kill -9 of the writer and of the server during a crawl: each item is in the database once, read back from there.

A crawl of plain pages that yields four items a page. The whole process group of ``skitter crawl``, which fetches and
writes, is killed at random instants and started again; the database server is killed in between, and the crawl waits
for it. What was written before stays written: each server keeps what it said was durable.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rig.places import PLACES

from own_databases import KINDS, OwnServer
from skitter.testing.web import WebSpec, served

REPORTS = Path(__file__).resolve().parents[2] / "build" / "fault-report"
PER_PAGE = 4
SPIDER = """
    from skitter import Spider


    class Parts(Spider):
        name = "parts"

        def __init__(self, urls=""):
            super().__init__()
            self.start_urls = urls.split()

        def parse(self, response):
            for part in range(4):
                yield {"url": response.url, "part": part, "text": "x" * 300, "tags": ["a", part], "half": part / 2}
            yield from response.follow_all(css="a")
"""


@contextlib.contextmanager
def database(kind: str, services: Any, folder: Path) -> Iterator[tuple[str, OwnServer | None]]:
    """An address, and the server behind it."""
    if kind == "sqlite":
        yield f"sqlite:{folder}/items.db", None
        return
    services.need(kind)  # installs it where it is missing
    server = KINDS[kind]()
    try:
        yield server.url, server
    finally:
        server.remove()


class Crawl:
    """One crawl, started as often as it takes."""

    def __init__(self, skitter: Any, web: Any, target: str, per_host: int) -> None:
        skitter.write("parts.py", SPIDER)
        self._skitter = skitter
        self._command = ("crawl", "parts.py", "-a", f"urls={' '.join(web.urls)}", "-o", target, "--job", "j")
        self._command += (
            "--per-host",
            per_host,
            "--set",
            "retry_delay_seconds=0.05",
            "--set",
            "host_backoff_seconds=0.2",
        )
        self._process: subprocess.Popen[str] | None = None

    def go_on(self, seconds: float) -> bool:
        """Let it run for a while, started again if it has ended without success. False: it is finished."""
        deadline = time.monotonic() + seconds
        while (rest := deadline - time.monotonic()) > 0:
            if self._process is None:
                self._process = self._skitter.start(
                    *self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(rest)
                self._process = None
                if code == 0:
                    return False
                assert code == 3, f"exit code {code}"
        return True

    def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def finish(self) -> None:
        self.kill()
        self._skitter.run(*self._command)

    def undelivered(self) -> int:
        return int(self._skitter.json("status", "--job", "j")["undelivered"])


def crawl_under_kills(
    skitter: Any, services: Any, kind: str, *, pages: int, kills: int, server_kills: int, per_host: int
) -> tuple[int, int, int]:
    """Missing items, doubled ones, and how many there are.

    ``per_host`` and the latency of the web make the crawl longer than all its faults together.
    """
    chance = random.Random(f"{kind} {pages}")
    spec = WebSpec.plain(hosts=5, pages_per_host=pages // 5, latency_seconds=0.1)
    faults = ["writer"] * kills + ["server"] * server_kills
    chance.shuffle(faults)
    with database(kind, services, skitter.folder) as (url, server), served(spec) as web:
        crawl = Crawl(skitter, web, f"{url}#parts", per_host)
        try:
            for fault in faults:
                assert crawl.go_on(chance.uniform(0.9, 1.4)), "it was over before it was killed often enough"
                if fault == "writer":
                    crawl.kill()
                elif server is not None:
                    server.kill()
                    crawl.go_on(chance.uniform(0.1, 0.6))
                    server.start()
            crawl.finish()
        finally:
            crawl.kill()
        assert crawl.undelivered() == 0
        expected = Counter((page, part) for page in web.expected().done for part in range(PER_PAGE))
        rows = PLACES[kind](url, "parts").rows()
        found = Counter((row["url"], int(row["part"])) for row in rows)
        keys = Counter(row[PLACES[kind].key] for row in rows)
        assert all(row["text"] == "x" * 300 for row in rows)
    doubled = sum((found - expected).values()) + sum(count - 1 for count in keys.values())
    return sum((expected - found).values()), doubled, len(rows)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", list(PLACES))
def test_a_database_holds_each_item_once_whoever_is_killed(skitter, services, kind):
    missing, doubled, items = crawl_under_kills(skitter, services, kind, pages=300, kills=3, server_kills=1, per_host=1)
    assert (missing, doubled, items) == (0, 0, 300 * PER_PAGE)


@pytest.mark.soak
@pytest.mark.parametrize("kind", list(PLACES))
def test_twenty_kills_of_the_writer_and_five_of_the_server(skitter, services, kind):
    missing, doubled, items = crawl_under_kills(
        skitter, services, kind, pages=5000, kills=20, server_kills=5, per_host=2
    )
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / f"database-{kind}-soak.txt").write_text(
        f"kill -9 of the writer x20 and of the server x5, {kind}: {items} items, missing {missing}, doubled {doubled}\n"
    )
    assert (missing, doubled, items) == (0, 0, 5000 * PER_PAGE)
