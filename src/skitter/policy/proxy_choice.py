"""Choice of a proxy, and what answers and failures make of its health. Pure: the caller passes ``now``.

The Lua scripts of Redis mirror this (frontier/redis/lua/8_proxies.lua), so randomness is a number that is stored: the
same steps make the same choices in every store.

A proxy that fails three times in a row rests, twice as long each time, and is then tried with one request. So a dead
one gets a handful of requests however long the crawl takes, and while it hangs no more than ``PROBES`` wait for it.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

from skitter.model.proxy import HostProxies, ProxyPair, ProxyRecord, ProxyState

PROBES = 2
"""Requests in flight of a proxy that has not answered yet, or not since its last failure."""
REST_FAILURES = 3
"""Failures in a row after which a proxy rests."""
FIRST_REST_SECONDS = 15.0
MAX_REST_SECONDS = 3_600.0
PAIR_FAILURES = 3
"""Failures in a row at one host after which a proxy is banned there."""
MAX_BAN_SECONDS = 86_400.0
PAIR_MEMORY_SECONDS = 3_600.0
"""So long after a ban has ended it counts for the length of the next one."""
MAX_PROXY_DOUBLINGS = 20
PROXY_WEIGHT = 0.0625
"""Of the newest answer or failure in the averages: the last sixteen or so count."""
PROXY_MEMORY_SECONDS = 3_600.0
"""So long after its time has run out a proxy is remembered, with its health: its node may be started again."""
PROXY_FAILURES_LIMIT = 20
"""Failures by proxies after which a request has failed, class ``proxy``."""
DRAW_FACTOR = 16_807
DRAW_MODULUS = 2_147_483_647
"""Of the random numbers (Park and Miller); their products are exact in Lua's numbers."""


def is_alive(record: ProxyRecord, now: float) -> bool:
    """Whether the proxy may get requests, however many are in flight."""
    return (
        record.state is ProxyState.ACTIVE
        and not 0 < record.until <= now
        and record.rest_until <= now
        and record.banned_until <= now
    )


def has_room(record: ProxyRecord, per_proxy: int) -> bool:
    """Whether another request may be in flight."""
    if record.streak >= REST_FAILURES:
        return record.in_flight < 1
    if record.streak or not record.answers:
        return record.in_flight < min(PROBES, per_proxy)
    return record.in_flight < per_proxy


def next_draw(draw: int) -> int:
    """The next random number, from 1 to ``DRAW_MODULUS`` - 1."""
    return draw * DRAW_FACTOR % DRAW_MODULUS


def choose(strategy: str, records: Sequence[ProxyRecord], draw: int) -> ProxyRecord:
    """One of these proxies, which all have room. ``draw``: a random number."""
    if strategy == "random":
        return records[draw * len(records) // DRAW_MODULUS]
    if strategy == "weighted":
        weights = [record.success / (record.latency_seconds + 1) for record in records]
        # Not sum(), which newer Pythons round in another way than Lua does.
        left = functools.reduce(operator.add, weights, 0.0) * draw / DRAW_MODULUS
        for record, weight in zip(records, weights, strict=True):
            left -= weight
            if left < 0:
                return record
        return records[-1]
    if strategy == "least_connections":
        return min(records, key=lambda record: (record.in_flight, record.served, record.id))
    return min(records, key=lambda record: (record.served, record.id))


# ---- health of a proxy


def answered(record: ProxyRecord, latency_seconds: float | None, size_bytes: int) -> None:
    """The proxy has done its work, whatever the server said."""
    record.answers += 1
    record.streak = 0
    record.rests //= 2
    record.rest_until = 0.0
    record.bytes += size_bytes
    record.success += PROXY_WEIGHT * (1 - record.success)
    if latency_seconds is not None:
        old = record.latency_seconds or latency_seconds
        record.latency_seconds = old + PROXY_WEIGHT * (latency_seconds - old)


def failed(record: ProxyRecord, now: float, error_class: str) -> None:
    """The proxy has failed, or may have."""
    record.failures += 1
    record.streak += 1
    record.success -= PROXY_WEIGHT * record.success
    record.error = error_class
    # What was in flight when it began to rest says nothing new.
    if record.streak >= REST_FAILURES and record.rest_until <= now:
        record.rest_until = now + min(
            FIRST_REST_SECONDS * 2 ** min(record.rests, MAX_PROXY_DOUBLINGS), MAX_REST_SECONDS
        )
        record.rests += 1


# ---- a proxy at a host


def banned_until(at_host: HostProxies | None, proxy: str) -> float:
    """Until when a proxy is banned at a host; 0: it is not."""
    pair = at_host.pair(proxy) if at_host is not None else None
    return pair.until if pair is not None else 0.0


def _pair_of(at_host: HostProxies, proxy: str) -> ProxyPair:
    pair = at_host.pair(proxy)
    if pair is None:
        pair = ProxyPair(proxy)
        at_host.pairs = [*at_host.pairs, pair]
    return pair


def ban(at_host: HostProxies, proxy: str, now: float, first_seconds: float) -> bool:
    """The host does not serve the proxy; False: it was banned already, and what was in flight says nothing new."""
    pair = _pair_of(at_host, proxy)
    if pair.until > now:
        return False
    pair.until = now + min(first_seconds * 2 ** min(pair.bans, MAX_PROXY_DOUBLINGS), MAX_BAN_SECONDS)
    pair.bans += 1
    pair.failures = 0
    if at_host.kept == proxy:
        at_host.kept = ""
    return True


def ban_for(at_host: HostProxies, proxy: str, until: float) -> None:
    """Ban a proxy at a host until a time, by hand or for a moment; the next cool-off is not longer for it."""
    _pair_of(at_host, proxy).until = until
    if at_host.kept == proxy:
        at_host.kept = ""


def failed_at(at_host: HostProxies, proxy: str, now: float, first_seconds: float) -> bool:
    """A failure that may be the proxy's; True: it is banned at the host for it."""
    pair = _pair_of(at_host, proxy)
    pair.failures += 1
    if at_host.kept == proxy:
        at_host.kept = ""
    return pair.failures >= PAIR_FAILURES and ban(at_host, proxy, now, first_seconds)


def answered_at(at_host: HostProxies, proxy: str, now: float) -> None:
    """The host has answered through a proxy, so no earlier failure was the host's."""
    at_host.suspects = []
    pair = at_host.pair(proxy)
    if pair is not None and pair.until <= now:
        pair.failures = 0
        pair.bans = max(0, pair.bans - 1)
    at_host.pairs = [pair for pair in at_host.pairs if _is_worth_keeping(pair, now)]


def _is_worth_keeping(pair: ProxyPair, now: float) -> bool:
    return pair.failures > 0 or pair.until > now or (pair.bans > 0 and pair.until + PAIR_MEMORY_SECONDS > now)


def is_suspected(at_host: HostProxies, proxy: str) -> bool:
    """Note a failure that may be the host's; True: another proxy says the same, so it is the host's."""
    others = [suspect for suspect in at_host.suspects if suspect != proxy]
    if proxy not in at_host.suspects and len(at_host.suspects) < 2:
        at_host.suspects = [*at_host.suspects, proxy]
    return bool(others)
