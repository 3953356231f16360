"""A Redis that stops taking writes in the middle of a crawl: it pauses, goes on when that is mended, and is complete.

What it refuses for, and how each is said, is in tests/contract/test_redis_refusals.py.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from own_redis import DURABLE, OwnRedis
from redis_troubles import loading, out_of_memory, read_only, unable_to_save
from skitter.model.url import canonical
from skitter.testing.web import WebSpec, served

QUICK = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.2", "--set", "lease_seconds=3")


@contextlib.contextmanager
def silent_for_a_while(redis: OwnRedis) -> Iterator[None]:
    """For longer than a lease: what was leased goes to others."""
    redis.freeze()
    threading.Timer(4, redis.thaw).start()
    yield


@pytest.mark.parametrize(
    ("trouble", "text"),
    [
        (out_of_memory, "is out of memory"),
        (read_only, "is a read-only replica"),
        (unable_to_save, "cannot save to its disk"),
        (loading, "is still loading"),
        (silent_for_a_while, ""),
    ],
)
@pytest.mark.timeout(100)
def test_the_crawl_pauses_and_is_complete(
    skitter, own_redis: Callable[..., OwnRedis], trouble: Callable[[OwnRedis], contextlib.AbstractContextManager], text
) -> None:
    redis = own_redis(*DURABLE)
    place = ("--frontier", redis.url, "--job", "paused")
    log = Path(skitter.folder) / "stderr"
    with served(WebSpec(hosts=3, pages_per_host=150, latency_seconds=0.01)) as web, log.open("w") as stderr:
        crawl = skitter.start(
            "crawl", *web.urls, "-o", "out.jsonl", "--workers", 2, "--json", *place, *QUICK, stderr=stderr
        )
        while not skitter.run("status", *place, "--json", code=None).stdout.count('"done":'):
            assert crawl.poll() is None, log.read_text()
        with trouble(redis):
            while text not in log.read_text():
                assert crawl.poll() is None, log.read_text()
        out, _ = crawl.communicate(timeout=60)
        expected = web.expected()
    assert crawl.returncode == 0, out + log.read_text()
    assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == Counter(expected.done)
    status = skitter.json("status", *place)
    assert (status["state"], status["seen"]) == (
        "finished",
        status["done"] + status["redirected"] + status["failed"] + status["excluded"],
    )
