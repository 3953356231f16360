"""A crawl that is killed and started again, and its server with it; it yields four items a page.

The whole process group of ``skitter crawl``, which fetches and writes, is killed at random instants and started again;
the server of its target is killed in between, and the crawl waits for it.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections import Counter
from typing import Any, Protocol

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


class Server(Protocol):
    """Of the target. What it said was durable is there in its next life."""

    def kill(self) -> None: ...

    def start(self) -> None: ...


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
        self._log = skitter.folder / "crawl.log"

    def go_on(self, seconds: float) -> bool:
        """Let it run for a while, started again if it has ended without success. False: it is finished."""
        deadline = time.monotonic() + seconds
        while (rest := deadline - time.monotonic()) > 0:
            if self._process is None:
                with self._log.open("w") as log:  # a pipe that nobody reads would fill
                    self._process = self._skitter.start(*self._command, stdout=subprocess.DEVNULL, stderr=log)
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(rest)
                self._process = None
                if code == 0:
                    return False
                assert code == 3, f"exit code {code}\n{self._log.read_text()}"
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


def under_kills(crawl: Crawl, server: Server | None, *, kills: int, server_kills: int, chance: random.Random) -> None:
    """The whole crawl, with so many faults on its way; it must be longer than all of them together."""
    faults = ["writer"] * kills + ["server"] * server_kills
    chance.shuffle(faults)
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


def expected_items(web: Any) -> Counter[tuple[str, int]]:
    """Page and part of each item of a served web."""
    return Counter((page, part) for page in web.expected().done for part in range(PER_PAGE))
