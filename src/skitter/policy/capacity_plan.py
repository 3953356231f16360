"""Estimate of the cluster size that a crawl needs, from measured constants and the user's figures.

Every constant says where it comes from. Measured ones are of one core of an ordinary server, over plain http
(docs/benchmarks.md); whoever has other machines measures there and scales.
"""

from __future__ import annotations

import math

import msgspec

from skitter.model.host import FIRST_START_SECONDS
from skitter.policy.politeness import MAX_PACE_SECONDS, PUBLIC_DELAY_SECONDS, PUBLIC_PER_HOST

CPU_SECONDS_A_PAGE = 0.00007
CPU_SECONDS_A_BYTE = 1.8e-8
"""bench/bench_site.py on Redis: 0.20 ms for a page of 7.6 KB, 0.73 ms for one of 37 KB, one worker, all its processes,
start-up left out (bench/bench_start.py)."""
WORKER_BYTES = 88_000_000
"""bench/bench_million.py: resident, flat over a million pages."""
REDIS_URLS_A_SECOND = 16_000
"""bench/bench_ladder.py: each URL added, leased and committed, by one client; flat to ten million offered."""
SQLITE_URLS_A_SECOND = 8_000
"""bench/bench_ladder.py."""
REDIS_SEEN_BYTES = 9.5
REDIS_QUEUED_BYTES = 15.0
"""Beyond the URL itself, the seen entry included."""
REDIS_HOST_BYTES = 460.0
"""Beyond its URLs. bench/redis_memory.py: 536 bytes for a host with one queued URL of 63 characters."""
SQLITE_URL_BYTES = 175.0
"""On disk, beyond the URL. bench/bench_frontier.py."""
SCALING_AT_EIGHT = 0.98
"""bench/bench_workers.py: of linear, at eight workers."""

TLS_SECONDS_A_PAGE = 0.0003
"""Assumed: a handshake costs about a millisecond, and several pages share it."""
BUSY = 0.7
"""Assumed: planned utilisation of a core, a Redis or a network line."""
QUEUED_SHARE = 0.5
"""Assumed: of the URLs that were seen, how many wait at the worst moment."""
RESULT_BYTES = 350.0
"""Assumed: one record a page, as JSON."""
ARCHIVE_RATIO = 0.25
"""Assumed: size of a gzipped page, as a share of the page."""
DAY = 86_400.0


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Input of the estimate: the crawl, its politeness and the machines."""

    pages: float
    days: float
    bytes_per_page: float = 60_000.0
    hosts: float = 1000.0
    urls_per_page: float = 1.5
    """Different URLs that are seen for each page that is crawled."""
    url_bytes: float = 70.0
    delay_seconds: float | None = None
    """None: the gentle pace of public hosts, with at most two requests in flight."""
    latency_seconds: float = 0.5
    concurrency: int = 64
    """Requests in flight in each worker."""
    node_cores: int = 8
    node_bits_per_second: float = 1e9
    redis_bytes: float = 32e9
    """Memory of one Redis."""


class Line(msgspec.Struct, frozen=True):
    """One figure of the estimate."""

    name: str
    value: float
    unit: str
    because: str
    basis: str
    """Basis: ``asked`` (the options alone), ``measured`` (with measured costs) or ``assumed`` (with an assumption)."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    lines: list[Line]
    bottleneck: str
    advice: str
    feasible: bool
    """Whether the politeness delays fit into the available time."""


def plan(question: Question) -> Answer:
    """Return what the crawl needs, and its bottleneck."""
    q = question
    seconds = q.days * DAY
    rate = q.pages / seconds
    seen = q.pages * q.urls_per_page
    queued = seen * QUEUED_SHARE

    cpu = CPU_SECONDS_A_PAGE + CPU_SECONDS_A_BYTE * q.bytes_per_page + TLS_SECONDS_A_PAGE
    by_cpu, by_slots = rate * cpu / BUSY, rate * q.latency_seconds / q.concurrency
    workers = max(1, math.ceil(max(by_cpu, by_slots)))

    urls = rate * max(1.0, q.urls_per_page)
    memory = seen * REDIS_SEEN_BYTES + queued * (q.url_bytes + REDIS_QUEUED_BYTES) + q.hosts * REDIS_HOST_BYTES
    by_calls, by_memory = urls / REDIS_URLS_A_SECOND / BUSY, memory / q.redis_bytes / BUSY
    shards = max(1, math.ceil(max(by_calls, by_memory)))

    bits = rate * q.bytes_per_page * 8
    by_cores, by_line = workers / q.node_cores, bits / q.node_bits_per_second / BUSY
    nodes = max(1, math.ceil(max(by_cores, by_line)))

    # A short delay is kept by one worker at a time, and then no start window is added to it.
    delay = PUBLIC_DELAY_SECONDS if q.delay_seconds is None else q.delay_seconds
    least = q.latency_seconds / PUBLIC_PER_HOST if q.delay_seconds is None else 0.0
    window = FIRST_START_SECONDS if delay > MAX_PACE_SECONDS else 0.0
    polite_days = q.pages / q.hosts * max(delay + window, least) / DAY
    sqlite_bytes = seen * (SQLITE_URL_BYTES + q.url_bytes)
    fits_sqlite = nodes == 1 and urls <= SQLITE_URLS_A_SECOND * BUSY

    lines = [
        Line("rate", rate, "pages/s", f"{q.pages:,.0f} pages in {q.days:g} days", "asked"),
        Line(
            "workers",
            workers,
            "processes",
            f"{by_cpu:.1f} by CPU ({cpu * 1000:.2f} ms per page), {by_slots:.1f} by slots"
            f" ({q.latency_seconds:g} s per response, {q.concurrency} at a time)",
            "assumed",
        ),
        Line("worker memory", workers * WORKER_BYTES, "bytes", f"{WORKER_BYTES / 1e6:.0f} MB each", "measured"),
        Line("nodes", nodes, "machines", f"{by_cores:.1f} by cores, {by_line:.1f} by bandwidth", "assumed"),
        Line("bandwidth", bits, "bits/s", f"{q.bytes_per_page:,.0f} bytes per page", "asked"),
        Line("frontier calls", urls, "URLs/s", "each added, leased and committed", "asked"),
        Line("seen", seen, "URLs", f"{q.urls_per_page:g} per page", "assumed"),
        Line("redis memory", memory, "bytes", f"{QUEUED_SHARE:.0%} of the seen URLs are queued at worst", "assumed"),
        Line("shards", shards, "Redis", f"{by_calls:.2f} by calls, {by_memory:.2f} by memory", "assumed"),
        Line(
            "sqlite disk",
            sqlite_bytes,
            "bytes",
            "instead of Redis: one machine is enough" if fits_sqlite else "only if one machine is enough",
            "measured",
        ),
        Line("results", q.pages * RESULT_BYTES, "bytes", f"{RESULT_BYTES:.0f} bytes per record", "assumed"),
        Line(
            "archive",
            q.pages * q.bytes_per_page * ARCHIVE_RATIO,
            "bytes",
            f"if bodies are kept, at {ARCHIVE_RATIO:.0%} of their size",
            "assumed",
        ),
        Line(
            "politeness",
            polite_days,
            "days",
            f"at least: {q.pages / q.hosts:,.0f} pages on each host, {delay:g} s between two requests",
            "assumed",
        ),
    ]
    feasible = polite_days <= q.days
    needs = {
        "worker CPU": by_cpu / q.node_cores,
        "slots": by_slots / q.node_cores,
        "bandwidth": by_line,
        "frontier calls": by_calls,
        "frontier memory": by_memory,
    }
    bottleneck = max(needs, key=lambda name: needs[name]) if feasible else "politeness"
    return Answer(lines=lines, bottleneck=bottleneck, advice=_advice(bottleneck, q, polite_days), feasible=feasible)


def _advice(bottleneck: str, q: Question, polite_days: float) -> str:
    if bottleneck == "politeness":
        return (
            f"{polite_days / q.days:.1f} times the available time: use more hosts, more days, or a shorter delay"
            " where site owners allow it; more machines do not help"
        )
    return {
        "worker CPU": "use more cores: the speed grows with them",
        "slots": "responses are slow: use a higher --concurrency, which costs only memory",
        "bandwidth": "use machines with more bandwidth, or more of them",
        "frontier calls": "split the job over a Redis Cluster: redis+cluster://…?shards=N",
        "frontier memory": "use a Redis with more memory, or redis+cluster://…?shards=N; list-compress-depth 1 halves"
        " the queue",
    }[bottleneck]
