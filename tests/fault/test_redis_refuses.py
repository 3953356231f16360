"""A Redis that stops taking writes in the middle of a crawl: it pauses, goes on when that is mended, and is complete.

What it refuses for, and how each is said, is in tests/integration/frontier/test_redis_refusals.py.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest

from rig.killed_crawl import ended, has_each_page_once, pages_crawl
from rig.processes import wait_until
from rig.servers.redis import DURABLE, OwnRedis
from rig.servers.redis_troubles import loading, out_of_memory, read_only, unable_to_save
from rig.watched_web import watched
from skitter.testing.web import WebSpec


@contextlib.contextmanager
def silent_for_a_while(redis: OwnRedis) -> Iterator[None]:
    """For longer than a lease: what was leased goes to others."""
    redis.freeze()
    time.sleep(4)  # the length of the fault
    redis.thaw()
    yield


@pytest.mark.parametrize(
    ("trouble", "text"),
    [
        (read_only, "is a read-only replica"),
        *(
            pytest.param(*other, marks=pytest.mark.soak)
            for other in (
                (out_of_memory, "is out of memory"),
                (unable_to_save, "cannot save to its disk"),
                (loading, "is still loading"),
                (silent_for_a_while, ""),
            )
        ),
    ],
)
def test_the_crawl_pauses_and_is_complete(
    skitter, own_redis: Callable[..., OwnRedis], trouble: Callable[[OwnRedis], contextlib.AbstractContextManager], text
) -> None:
    redis = own_redis(*DURABLE)
    place = ("--frontier", redis.url, "--job", "paused")
    with watched(WebSpec.plain(hosts=3, pages_per_host=20, latency_seconds=0.01)) as web:
        crawl = pages_crawl(skitter, web, *place)
        with ended(crawl), contextlib.ExitStack() as stack:
            with web.gate.shut_at(20, crawl.keep_running):
                stack.enter_context(trouble(redis))
            wait_until(lambda: text in crawl.log(), crawl.process, text)
            stack.close()
            crawl.finish()
        assert has_each_page_once(skitter, web), crawl.log()
    status = skitter.json("status", *place)
    assert (status["state"], status["seen"]) == (
        "finished",
        status["done"] + status["redirected"] + status["failed"] + status["excluded"],
    )
