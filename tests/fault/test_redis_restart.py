"""kill -9 of a Redis that writes everything to disk, in the middle of a crawl: nothing is lost, nothing is doubled."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from own_redis import DURABLE
from skitter.model.url import canonical
from skitter.testing.web import WebSpec, served

KILLS = 3
PAUSE_SECONDS = 0.9


@pytest.mark.timeout(110)
def test_a_redis_that_is_killed_and_restarted_loses_nothing(skitter, own_redis) -> None:
    redis = own_redis(*DURABLE)
    place = ("--frontier", redis.url, "--job", "killed")
    quick = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.2", "--set", "lease_seconds=3")
    with served(WebSpec(hosts=3, pages_per_host=400, latency_seconds=0.01)) as web:
        crawl = skitter.start("crawl", *web.urls, "-o", "out.jsonl", "--workers", 2, "--json", *place, *quick)
        for _ in range(KILLS):
            time.sleep(PAUSE_SECONDS)
            assert crawl.poll() is None, crawl.communicate()
            redis.kill()
            time.sleep(0.5)
            redis.start()
        out, error = crawl.communicate(timeout=90)
        expected = web.expected()
    assert crawl.returncode == 0, out + error
    assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == Counter(expected.done)
    status = skitter.json("status", *place)
    assert status["state"] == "finished"
    assert status["seen"] == status["done"] + status["redirected"] + status["dead"] + status["excluded"]
