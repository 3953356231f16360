"""Strategies for steps: a few hosts and requests, settings, and every ending of a lease."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st

from skitter.model.item import ItemKind, NewItem
from skitter.model.outcome import Ending, HostNews
from skitter.model.request import Entry, Fingerprinter, Request

HOSTS = "abcde"
PATHS = range(5)
WORKERS = ["w1", "w2", "w3"]
SLOTS = [0, 2, 8]
"""Slots that a worker sends; 0 if it sends none."""
NEEDS = ["", "", "browser", "session"]
"""Needs of requests; empty for none."""
SERVED = [(), (), ("browser",), ("browser", "session")]
"""The needs that a worker can serve."""
OWNERS = ["o1", "o2"]
ADDRESSES = ["192.0.2.1", "2001:db8::2"]
"""Addresses of hosts: most hosts have the first one, and some change theirs."""
LEASE_SECONDS = 10.0
PIECES = [1, 2, 1000]
"""Maximum number of requests of given-up hosts that one call fails; 1 and 2 make a queue of five take several calls."""
TRAP_SIGNS = 2
"""Number of signs of a trap that give a host a budget; small, so that two pages are enough."""
UNREACHABLE = {"ending": Ending.RETRY, "error_class": "dns", "news": HostNews(unreachable=True)}
FOUND: dict[str, Any] = {
    "ending": Ending.DONE,
    "news": HostNews(answered=True, latency_seconds=0.4, address=ADDRESSES[0]),
    "status": 200,
}
FINGERPRINTER = Fingerprinter(b"the same in both")

names = st.builds("{}/{}".format, st.sampled_from(HOSTS), st.sampled_from(PATHS))
job_settings = st.fixed_dictionaries(
    {
        "delay_seconds": st.sampled_from([None, None, 0.0, 0.5, 0.1]),
        "burst_pages": st.sampled_from([1, 2, 16]),
        "burst_seconds": st.sampled_from([0.0, 0.5, 100.0]),
        "per_host": st.sampled_from([None, 1, 2, 8]),
        "per_ip": st.sampled_from([None, None, 1, 2, 3]),
        "obey_robots": st.booleans(),
        "robots_seconds": st.sampled_from([20.0, 1000.0]),
        "max_attempts": st.sampled_from([1, 2, 3]),
        "retry_delay_seconds": st.sampled_from([0.5, 2.0]),
        "retry_priority": st.sampled_from([0, 0, -1, 2]),
        "host_backoff_seconds": st.just(3.0),
        "target_concurrency": st.sampled_from([None, None, None, 0.5, 2.0]),
        "max_delay_seconds": st.just(1.5),
        "lease_seconds": st.just(LEASE_SECONDS),
        "max_pages": st.sampled_from([None, None, 5]),
        "max_pages_per_host": st.sampled_from([None, None, None, 2]),
        "traps": st.sampled_from(["normal", "strict"]),
        "trap_pages": st.sampled_from([1, 3]),
        "max_outbox_items": st.sampled_from([4, 1000]),
        "dedup_scope": st.sampled_from(["run", "run", "job"]),
        "recrawl": st.sampled_from(["off", "due", "due", "all"]),
        "stay": st.booleans(),
    }
)


changed_settings = st.fixed_dictionaries(
    {},
    optional={
        "delay_seconds": st.sampled_from([None, 0.0, 0.1, 0.5, 20.0]),
        "burst_pages": st.sampled_from([1, 16]),
        "target_concurrency": st.sampled_from([None, 0.5, 2.0]),
        "max_delay_seconds": st.sampled_from([0.5, 1.5, 20.0]),
        "max_in_flight": st.sampled_from([None, 1, 3]),
    },
)


def entry(name: str, priority: int = 0, *, seed: bool = False, redirected: bool = False, need: str = "") -> Entry:
    host, _, path = name.partition("/")
    # The last host is private, the others are public.
    host = host if host == HOSTS[-1] else f"{host}.example"
    chain = ("http://first.example/",) if redirected else ()
    request = Request(f"http://{host}/{path}", priority=priority, seed=seed, chain=chain, need=need)
    return FINGERPRINTER.entry(request)


IDS: dict[str, int] = {f"{host}/{path}": entry(f"{host}/{path}").id for host in HOSTS for path in PATHS}
HOST_OF: dict[int, str] = {id_: entry(name).host_key for name, id_ in IDS.items()}


def _all_endings() -> Iterator[dict[str, Any]]:
    """Yield all outcomes without their lease."""
    for links in ([], ["a/0", "b/1", "a/0"], ["c/2", "c/3", "c/4", "d/1", "e/1"]):
        for items in ([], [NewItem(b"0"), NewItem(b"1", ItemKind.REJECT), NewItem(b"2", ItemKind.PAGE)]):
            need = "browser" if items and "c/2" in links else ""
            fields: dict[str, Any] = {"links": [entry(name, need=need) for name in links], "items": items}
            yield {**fields, **FOUND, "tally": {"bytes": 10, "stat:pages": 2, "hook:retry:captcha": 1}}
            yield {**fields, "ending": Ending.DONE, "more": True, "tally": {"outside:host": 1}}
        for sign in (True, False):
            judged = HostNews(answered=True, latency_seconds=0.4, sign=sign)
            yield {"ending": Ending.DONE, "links": [entry(name) for name in links], "news": judged, "status": 200}
        yield {"ending": Ending.REDIRECTED, "links": [entry(name) for name in links[:1]], "status": 301}
    yield {"ending": Ending.UNCHANGED, "news": HostNews(answered=True, latency_seconds=0.1), "status": 304}
    for latency, status, address in ((0.1, 404, ADDRESSES[0]), (2.0, 404, ADDRESSES[1]), (1.0, 200, "")):
        news = HostNews(answered=True, latency_seconds=latency, address=address)
        yield {"ending": Ending.FAILED, "error_class": "http_4xx", "news": news, "status": status}
    yield {"ending": Ending.FAILED, "error_class": "callback", "error": "Traceback", "items": [NewItem(b"errback")]}
    for touched in (True, False):
        yield {"ending": Ending.EXCLUDED, "error_class": "robots", "touched": touched}
    for seconds in (0.0, 1.0, 4.0):
        yield {"ending": Ending.RETRY, "error_class": "timeout", "error": "slow", "retry_seconds": seconds}
    yield {"ending": Ending.RETRY, "error_class": "timeout", "error": "slow", "max_attempts": 4}
    for pause in (None, 0.0, 2.0):
        news = HostNews(blocked=True, retry_after_seconds=pause)
        yield {"ending": Ending.RETRY, "error_class": "http_4xx", "status": 429, "news": news}
    for _ in range(2):
        yield UNREACHABLE


endings = st.sampled_from(list(_all_endings()))
