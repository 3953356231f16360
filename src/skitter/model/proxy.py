"""Proxy of a job's pool: its stored record, its observations in a commit, and its view in reports."""

from __future__ import annotations

import enum
import hashlib
import hmac
from urllib.parse import unquote

import msgspec

from skitter.model.secrets import shown_url

ID_CHARS = 10


def proxy_id(url: str, secret: bytes) -> str:
    """Return the short id of a proxy in one job. Two users of one gateway are two proxies, so the whole URL is hashed.

    The hash is keyed with the job's secret because ids are shown: a plain hash would allow guessing passwords.
    """
    return hmac.new(secret, url.encode(), hashlib.blake2b).hexdigest()[:ID_CHARS]


class ProxyState(enum.IntEnum):
    """State of a proxy. The numbers are stored."""

    ACTIVE = 0
    DRAINING = 1
    """It gets no new requests; those in flight continue."""
    REMOVED = 2
    """Like draining; its record is deleted when nothing is in flight."""


class ProxyRecord(msgspec.Struct, array_like=True):
    """A proxy as all frontiers store it (frontier/redis/lua/8_proxies.lua has the same fields)."""

    id: str
    url: str
    """URL with user and password."""
    owner: str
    until: float
    """Time when it is removed unless it is registered again; 0: never."""
    state: ProxyState = ProxyState.ACTIVE
    in_flight: int = 0
    served: int = 0
    """Number of its newest grant among all grants of the pool."""
    answers: int = 0
    failures: int = 0
    streak: int = 0
    """Failures since its last answer."""
    rests: int = 0
    """Number of doublings of its resting time."""
    rest_until: float = 0.0
    banned_until: float = 0.0
    """End of a ban by an operator, for all hosts."""
    success: float = 1.0
    """Moving average: 1 for an answer, 0 for a failure."""
    latency_seconds: float = 0.0
    """Moving average of its answers."""
    bytes: int = 0
    error: str = ""
    """Class of its last failure."""

    def is_gone(self, now: float) -> bool:
        """Whether it was removed, or was not registered again in time."""
        return self.state is ProxyState.REMOVED or 0 < self.until <= now

    def __repr__(self) -> str:
        return f"ProxyRecord({self.id}, {shown_url(self.url)})"


class ProxyPair(msgspec.Struct, array_like=True):
    """State of one proxy at one host; stored only if it had trouble there."""

    id: str
    failures: int = 0
    """Failures in a row."""
    bans: int = 0
    """Number of doublings of its cool-off."""
    until: float = 0.0
    """End of its ban at this host."""


class HostProxies(msgspec.Struct, array_like=True):
    """State of the proxies at one host."""

    kept: str = ""
    """Proxy that the host keeps (rotation per host)."""
    suspects: list[str] = []
    """Up to two proxies whose last failure may have been the host's fault, since it last answered."""
    pairs: list[ProxyPair] = []

    def pair(self, proxy: str) -> ProxyPair | None:
        """Return the state of a proxy; None if there is none."""
        return next((pair for pair in self.pairs if pair.id == proxy), None)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store."""
        return not (self.kept or self.suspects or self.pairs)


class ProxyFault(enum.IntEnum):
    """Cause of a failure of a request through a proxy."""

    NONE = 0
    """No failure, or not by the proxy: the proxy has done its work."""
    PROXY = 1
    """The proxy: it could not be reached, or refused the request."""
    UNSURE = 2
    """The proxy or the host; the host if two proxies agree."""
    BANNED = 3
    """The host no longer serves this proxy."""
    UNWANTED = 4
    """A hook wants another proxy for the next attempt; neither is blamed."""


class ProxyNews(msgspec.Struct, frozen=True, kw_only=True):
    """Observations of a commit about the proxy of its lease."""

    fault: ProxyFault = ProxyFault.NONE
    latency_seconds: float | None = None
    """Latency of a response."""
    bytes: int = 0
    """Bytes on the wire."""


class ProxySeen(msgspec.Struct, frozen=True, kw_only=True):
    """A proxy as ``Frontier.proxies`` returns it. Durations are counted from now."""

    id: str
    url: str
    """URL with user and password, which workers need. ``shown`` has none."""
    owner: str
    """Process that registered it."""
    expires_seconds: float | None = None
    """Time until it is removed unless it is registered again; None: never."""
    draining: bool = False
    in_flight: int = 0
    answers: int = 0
    failures: int = 0
    success_rate: float = 1.0
    latency_seconds: float = 0.0
    resting_seconds: float = 0.0
    """How long it still gets no requests, after failures in a row."""
    banned_seconds: float = 0.0
    """How long an operator's ban for all hosts still lasts."""
    banned_hosts: dict[str, float] = {}
    """Hosts at which it is banned, with the remaining time."""
    bytes: int = 0
    error: str = ""
    """Class of its last failure."""

    @property
    def shown(self) -> str:
        """The URL without the password."""
        return shown_proxy(self.url)

    def __repr__(self) -> str:
        return f"ProxySeen({self.id}, {self.shown})"


def shown_proxy(url: str) -> str:
    """Return the URL of a proxy without credentials, with its user to distinguish two proxies of one gateway.

    A user without a password is left out, because it may be a token.
    """
    shown = shown_url(url)
    user, colon, _ = url.partition("://")[2].rpartition("@")[0].partition(":")
    return f"{shown} as {unquote(user)}" if user and colon else shown


def seen_of(record: ProxyRecord, now: float, banned_hosts: dict[str, float]) -> ProxySeen:
    """Return the view of a proxy for workers and reports; ``banned_hosts`` has the time when each ban ends."""
    return ProxySeen(
        id=record.id,
        url=record.url,
        owner=record.owner,
        expires_seconds=max(0.0, record.until - now) if record.until else None,
        draining=record.state is not ProxyState.ACTIVE,
        in_flight=record.in_flight,
        answers=record.answers,
        failures=record.failures,
        success_rate=record.success,
        latency_seconds=record.latency_seconds,
        resting_seconds=max(0.0, record.rest_until - now),
        banned_seconds=max(0.0, record.banned_until - now),
        banned_hosts={host: until - now for host, until in banned_hosts.items() if until > now},
        bytes=record.bytes,
        error=record.error,
    )
