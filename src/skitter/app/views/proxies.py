"""The proxies of a job's pool, without their passwords: what ``skitter proxies --json`` shows."""

from __future__ import annotations

import msgspec

from skitter.model.proxy import ProxySeen


class ProxyView(msgspec.Struct, frozen=True, kw_only=True):
    """A proxy; see ``model.proxy.ProxySeen``."""

    id: str
    proxy: str
    """Its URL, without the password."""
    state: str
    """``new``, ``ready``, ``rests``, ``banned`` or ``draining``."""
    owner: str
    expires_seconds: float | None
    draining: bool
    in_flight: int
    answers: int
    failures: int
    success_rate: float
    latency_seconds: float
    resting_seconds: float
    banned_seconds: float
    banned_hosts: dict[str, float]
    bytes: int
    error: str


def proxy_view(proxy: ProxySeen) -> ProxyView:
    """A proxy for people."""
    same = {name: getattr(proxy, name) for name in ProxyView.__struct_fields__ if name not in ("proxy", "state")}
    return ProxyView(**same, proxy=proxy.shown, state=proxy_state(proxy))


def proxy_state(proxy: ProxySeen) -> str:
    """In a word."""
    if proxy.draining:
        return "draining"
    if proxy.banned_seconds:
        return "banned"
    if proxy.resting_seconds:
        return "rests"
    return "ready" if proxy.answers else "new"
