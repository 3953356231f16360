"""kill -9 of the whole process group at random moments: nothing lost, nothing doubled (G1, G2, G8)."""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import os
import random
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from skitter.model.url import canonical
from skitter.testing.web import WebSpec, served

QUICK = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.2")


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


def crawl_under_kills(skitter, web, target: str, kills: int, seed: int, workers: int, per_host: int) -> None:
    """Start the same command again and again, killed at a random moment each time but the last.

    ``per_host`` and the latency of the web make the crawl longer than all its faults together: whoever starts one
    again that is over begins another run, which writes everything once more.
    """
    chance = random.Random(seed)
    command = ("crawl", *web.urls, "-o", target, "--workers", workers, "--job", "j", "--per-host", per_host, *QUICK)
    done = 0
    for _ in range(kills):
        process = skitter.start(*command, stdout=subprocess.DEVNULL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.25, 1.6))
        assert process.poll() is None, "it was over before it was killed often enough"
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        # The first kills may come before there is a job, or even a file.
        ended = skitter.run("status", "--job", "j", "--json", code=None)
        if ended.returncode == 0:
            status = json.loads(ended.stdout)
            parts = ("queued", "delayed", "leased", "done", "redirected", "failed", "excluded")
            assert sum(status[part] for part in parts) == status["seen"]
            assert status["done"] >= done, "a page that was done is not done any more"
            done = status["done"]
            skitter.run("fsck", "--job", "j")
    skitter.run(*command)


# tests/fault/test_sink_kill.py kills the writers of every form.
@pytest.mark.parametrize(
    "target",
    ["out.jsonl", "out.json", *(pytest.param(each, marks=pytest.mark.soak) for each in ("out.jsonl.gz", "out.csv"))],
)
def test_killed_crawls_resume_to_the_same_results(skitter, target) -> None:
    spec = WebSpec.demo().replace(latency_seconds=0.05)
    with served(spec) as web:
        crawl_under_kills(skitter, web, target, kills=5, seed=7, workers=2, per_host=2)
        expected = web.expected()
    assert Counter(read_urls(skitter.folder / target)) == Counter(expected.done)
    status = skitter.json("status", "--job", "j")
    assert (status["done"], status["failed"]) == (len(expected.done), len(expected.failed))
    assert status["state"] == "finished"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_ten_kills_of_a_large_crawl(skitter, seed) -> None:
    spec = WebSpec.demo().replace(seed=seed, pages_per_host=2000, latency_seconds=0.1)
    with served(spec) as web:
        crawl_under_kills(skitter, web, "out.jsonl", kills=10, seed=seed, workers=1 + seed % 2, per_host=16)
        expected = web.expected()
    assert Counter(read_urls(skitter.folder / "out.jsonl")) == Counter(expected.done)


def test_a_stopped_worker_is_ended_and_its_work_goes_on(skitter) -> None:
    """SIGSTOP, perhaps inside a transaction: the others must not wait for it for ever."""
    spec = WebSpec.plain(hosts=2, pages_per_host=300, latency_seconds=0.02)
    with served(spec) as web:
        process = skitter.start("crawl", *web.urls, "-o", "out.jsonl", "--workers", 2, "--job", "j", "--per-host", 4)
        while len(children(process.pid)) < 2 or not (skitter.folder / "out.jsonl").exists():
            assert process.poll() is None
        os.kill(children(process.pid)[0], signal.SIGSTOP)
        _, error = process.communicate(timeout=90)
        assert process.returncode == 0, error
        expected = web.expected()
    assert Counter(read_urls(skitter.folder / "out.jsonl")) == Counter(expected.done)


def children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []
