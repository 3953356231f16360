"""Pages that hold the interpreter: no thread of their worker runs, and exactly they die, soon, while others go on."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from rig.processes import HANG_SECONDS
from skitter.testing.web import WebSpec, served

CALLBACK_SECONDS = 3
SPIDER = """
    import re

    from skitter import Request, Spider


    class Held(Spider):
        name = "held"

        def start(self):
            good, *bad = self.hosts.split()
            for number in range(1, int(self.bad) + 1):
                for host in bad:
                    yield Request(f"{host}p/{number}", priority=1)
            for number in range(1, int(self.good) + 1):
                yield Request(f"{good}p/{number}")

        def parse(self, response):
            good, *bad = self.hosts.split()
            if not response.url.startswith(good):
                # One call of C, which takes longer than anybody lives and lets no other thread run.
                re.match("(?:a+)+$", "a" * 60 + "b")
            yield {"url": response.url}
"""


def crawl(skitter: Any, job: str, hosts: list[str], *more: object, good: int, bad: int) -> float:
    """How long it took."""
    began = time.monotonic()
    process = skitter.start(
        *("crawl", "held.py", "-a", f"hosts={' '.join(hosts)}", "-a", f"good={good}", "-a", f"bad={bad}"),
        *("-o", f"{job}.jsonl", "--job", job, "--set", f"callback_seconds={CALLBACK_SECONDS}"),
        *("--set", "obey_robots=false", *more),
    )
    _, error = process.communicate(timeout=HANG_SECONDS + good)
    assert process.returncode == 0, error
    return time.monotonic() - began


def failed(skitter: Any, job: str, *more: str) -> dict[str, str]:
    lines = skitter.run("failed", "--job", job, "--json", *more).stdout.splitlines()
    return {record["url"]: record["error_class"] for record in map(json.loads, lines)}


@pytest.mark.parametrize(
    ("frontier", "bad_hosts"),
    # Each bad page takes seconds of a processor.
    [("redis", 1), *(pytest.param(frontier, 2, marks=pytest.mark.soak) for frontier in ("redis", "sqlite"))],
)
def test_a_page_that_holds_the_interpreter_is_dead_at_its_first_try(
    skitter, services, tmp_path: Path, frontier: str, bad_hosts: int
) -> None:
    skitter.write("held.py", SPIDER)
    where = ["--frontier", services.need("redis")["url"]] if frontier == "redis" else []
    with served(WebSpec.plain(hosts=1 + bad_hosts, pages_per_host=60), log_path=tmp_path / "log") as web:
        crawl(skitter, f"held-{frontier}", web.urls, *where, good=50, bad=1)
        asked = [hit for hit in web.log() if hit.host > 0]
    bad = [f"{host}p/1" for host in web.urls[1:]]
    assert failed(skitter, f"held-{frontier}", *where) == dict.fromkeys(bad, "callback")
    urls = [record["url"] for record in skitter.lines(f"held-{frontier}.jsonl")]
    assert sorted(urls) == sorted(f"{web.urls[0]}p/{number}" for number in range(1, 51))
    # Each was fetched once by its worker; the second of them perhaps once more, when the first held the worker of both.
    assert len(asked) <= 2 * bad_hosts - 1, "nobody has to lose six workers to find out"


@pytest.mark.soak
@pytest.mark.parametrize(("bad_hosts", "good"), [(1, 120), pytest.param(4, 600, marks=pytest.mark.timeout(900))])
def test_a_good_host_keeps_half_its_speed_beside_hosts_whose_every_page_holds_the_interpreter(
    skitter, bad_hosts: int, good: int
) -> None:
    skitter.write("held.py", SPIDER)
    # The server's latency makes the good host's speed its own: the same however busy the machine is.
    with served(WebSpec.plain(hosts=1 + bad_hosts, pages_per_host=good + 1, latency_seconds=0.15)) as web:
        alone = crawl(skitter, "alone", web.urls[:1], "--per-host", 1, good=good, bad=0)
        beside = crawl(skitter, "beside", web.urls, "--per-host", 1, good=good, bad=50)
    failures = failed(skitter, "beside")
    assert set(failures.values()) == {"callback"}
    assert len(failures) == 50 * bad_hosts, "each of their pages has ended, with its reason"
    assert len(skitter.lines("beside.jsonl")) == good
    assert beside < 2 * alone
