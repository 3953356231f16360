"""kill -9 of the whole process group: nothing lost, nothing doubled (G1, G2, G8)."""

from __future__ import annotations

import csv
import gzip
import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from rig.killed_crawl import QUICK, Kill, by_chance, spread, under_kills
from rig.restarted_command import RestartedCommand
from rig.soak import chance_of
from rig.watched_web import watched
from skitter.model.url import canonical
from skitter.testing.web import WebSpec


def read_urls(path: Path) -> list[str]:
    if path.name.endswith(".json"):
        records = json.loads(path.read_text())
    elif path.name.endswith(".csv"):
        with path.open(newline="") as file:
            records = list(csv.DictReader(file))
    else:
        data = path.read_bytes()
        text = gzip.decompress(data) if path.name.endswith(".gz") else data
        records = [json.loads(line) for line in text.splitlines()]
    return [canonical(record["url"]) for record in records]


class CheckedKill:
    """Kills the crawl, and checks what its job says after each kill."""

    def __init__(self, skitter, crawl: RestartedCommand) -> None:
        self._skitter = skitter
        self._crawl = crawl
        self._done = 0

    def __call__(self) -> None:
        self._crawl.kill()
        status = self._skitter.json("status", "--job", "j")
        parts = ("queued", "delayed", "leased", "done", "redirected", "failed", "excluded")
        assert sum(status[part] for part in parts) == status["seen"]
        assert status["done"] >= self._done, "a page that was done is not done any more"
        self._done = status["done"]
        self._skitter.run("fsck", "--job", "j")


# tests/fault/test_sink_kill.py kills the writers of every form.
@pytest.mark.parametrize(
    ("target", "kills"),
    [
        ("out.jsonl", 2),
        *(
            pytest.param(target, 5, marks=pytest.mark.soak)
            for target in ("out.jsonl", "out.json", "out.jsonl.gz", "out.csv")
        ),
    ],
)
def test_killed_crawls_resume_to_the_same_results(skitter, target, kills) -> None:
    with watched(WebSpec.demo().replace(pages_per_host=10 * kills, latency_seconds=0.01)) as web:
        crawl = RestartedCommand(skitter, *("crawl", *web.urls, "-o", target, "--workers", 2, "--job", "j", *QUICK))
        kill, pages = CheckedKill(skitter, crawl), len(web.expected().done)
        under_kills(crawl, web.gate, [Kill(moment, kill) for moment in spread(kills, pages)])
        expected = web.expected()
    assert Counter(read_urls(skitter.folder / target)) == Counter(expected.done)
    status = skitter.json("status", "--job", "j")
    assert (status["done"], status["failed"]) == (len(expected.done), len(expected.failed))
    assert status["state"] == "finished"


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(5))
def test_ten_kills_of_a_large_crawl(skitter, seed) -> None:
    spec = WebSpec.demo().replace(seed=seed, pages_per_host=2000, latency_seconds=0.1)
    with watched(spec) as web:
        command = ("crawl", *web.urls, "-o", "out.jsonl", "--workers", 1 + seed % 2, "--job", "j", "--per-host", 16)
        crawl = RestartedCommand(skitter, *command, *QUICK)
        kill, moments = CheckedKill(skitter, crawl), by_chance(chance_of(seed), 10, len(web.expected().done))
        under_kills(crawl, web.gate, [Kill(moment, kill) for moment in moments])
        expected = web.expected()
    assert Counter(read_urls(skitter.folder / "out.jsonl")) == Counter(expected.done)


def test_a_stopped_worker_is_ended_and_its_work_goes_on(skitter) -> None:
    """SIGSTOP, perhaps inside a transaction: the others must not wait for it for ever."""
    with watched(WebSpec.plain(hosts=2, pages_per_host=20)) as web:
        crawl = RestartedCommand(skitter, "crawl", *web.urls, "-o", "out.jsonl", "--workers", 2, "--job", "j")

        def stop_a_worker() -> None:
            os.kill(crawl.workers()[0], signal.SIGSTOP)

        under_kills(crawl, web.gate, [Kill(10, stop_a_worker)])
        expected = web.expected()
    assert Counter(read_urls(skitter.folder / "out.jsonl")) == Counter(expected.done)
