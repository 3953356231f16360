"""Proxy of a job's pool: its stored record, what a commit tells of it, and what people are told of it."""

from __future__ import annotations

import enum
import hashlib
import hmac
from urllib.parse import unquote

import msgspec

from skitter.model.secrets import shown_url

ID_CHARS = 10


def proxy_id(url: str, secret: bytes) -> str:
    """The short id of a proxy in one job. Two users of one gateway are two proxies, so it is made of the whole URL.

    With the job's secret, because ids are shown: a bare hash would let anybody try passwords.
    """
    return hmac.new(secret, url.encode(), hashlib.blake2b).hexdigest()[:ID_CHARS]


class ProxyState(enum.IntEnum):
    """State of a proxy. The numbers are stored."""

    ACTIVE = 0
    DRAINING = 1
    """It gets no new requests, and those in flight go on."""
    REMOVED = 2
    """As draining; its record is forgotten when nothing is in flight."""


class ProxyRecord(msgspec.Struct, array_like=True):
    """A proxy as frontiers store it, in every backend alike (frontier/redis/lua/8_proxies.lua has the same fields)."""

    id: str
    url: str
    """With user and password."""
    owner: str
    until: float
    """It is gone by then unless it is registered again; 0: it stays."""
    state: ProxyState = ProxyState.ACTIVE
    in_flight: int = 0
    served: int = 0
    """The number of its newest grant among all grants of the pool."""
    answers: int = 0
    failures: int = 0
    streak: int = 0
    """Failures since its last answer."""
    rests: int = 0
    """How often the time that it rests is doubled."""
    rest_until: float = 0.0
    banned_until: float = 0.0
    """By hand, for all hosts."""
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
    """What is remembered of one proxy at one host: nothing, unless it had trouble there."""

    id: str
    failures: int = 0
    """In a row."""
    bans: int = 0
    """How often its cool-off is doubled."""
    until: float = 0.0
    """It is banned at this host until then."""


class HostProxies(msgspec.Struct, array_like=True):
    """What is remembered of the proxies at one host."""

    kept: str = ""
    """The proxy that the host keeps (rotation per host)."""
    suspects: list[str] = []
    """Up to two proxies whose last failure may have been the host's, since it last answered."""
    pairs: list[ProxyPair] = []

    def pair(self, proxy: str) -> ProxyPair | None:
        """What is remembered of a proxy; None: nothing."""
        return next((pair for pair in self.pairs if pair.id == proxy), None)

    @property
    def is_empty(self) -> bool:
        """Whether it need not be stored."""
        return not (self.kept or self.suspects or self.pairs)


class ProxyFault(enum.IntEnum):
    """Whose fault it was that a request failed behind a proxy."""

    NONE = 0
    """It did not fail, or not by the proxy: the proxy has done its work."""
    PROXY = 1
    """The proxy's: it could not be reached, or refused its service."""
    UNSURE = 2
    """The proxy's or the host's; the host's when two proxies agree."""
    BANNED = 3
    """The host does not serve this proxy any more."""
    UNWANTED = 4
    """A hook wants another proxy for the next attempt; nobody is blamed."""


class ProxyNews(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit tells of the proxy of its lease."""

    fault: ProxyFault = ProxyFault.NONE
    latency_seconds: float | None = None
    """Of an answer."""
    bytes: int = 0
    """On the wire."""


class ProxySeen(msgspec.Struct, frozen=True, kw_only=True):
    """A proxy as ``Frontier.proxies`` tells of it. Durations are from now on."""

    id: str
    url: str
    """With user and password: workers need them. ``shown`` is for people."""
    owner: str
    expires_seconds: float | None = None
    """It is gone then, unless it is registered again; None: it stays."""
    draining: bool = False
    in_flight: int = 0
    answers: int = 0
    failures: int = 0
    success_rate: float = 1.0
    latency_seconds: float = 0.0
    resting_seconds: float = 0.0
    """After failures in a row it gets nothing for so long."""
    banned_seconds: float = 0.0
    """By hand, for all hosts."""
    banned_hosts: dict[str, float] = {}
    """Hosts that it is banned at, and for how long."""
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
    """The URL of a proxy without credentials, and its user, which tells two proxies of one gateway apart.

    A user without a password may be a token.
    """
    shown = shown_url(url)
    user, colon, _ = url.partition("://")[2].rpartition("@")[0].partition(":")
    return f"{shown} as {unquote(user)}" if user and colon else shown


def seen_of(record: ProxyRecord, now: float, banned_hosts: dict[str, float]) -> ProxySeen:
    """What people and workers are told of a proxy; ``banned_hosts``: by the time when the ban ends."""
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
