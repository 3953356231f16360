"""Session: a name under which cookies are kept, one jar for each registrable domain."""

from __future__ import annotations

import enum
import re

import msgspec

DELETED = 1
"""``Cookie.expires`` of a cookie that a server has taken back: a time that has passed."""
_NAME = re.compile(r"[A-Za-z0-9._@+-]{1,64}")
SESSION_PATTERN = r"^[A-Za-z0-9._@+-]{0,64}\Z"


def is_session_name(name: object) -> bool:
    """Return whether a session may have this name."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


class Cookie(msgspec.Struct, frozen=True, array_like=True):
    """One cookie as a browser keeps it. Two of the same name, domain and path are one."""

    name: str
    value: str
    domain: str
    """In lower case, without a dot before it."""
    path: str = "/"
    expires: int = 0
    """Seconds since 1970; 0: with the session; ``DELETED``: it is to be forgotten."""
    secure: bool = False
    http_only: bool = False
    host_only: bool = True
    """For the domain itself alone, and not for those below it."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.name, self.domain, self.path

    def __repr__(self) -> str:
        # The value is a secret.
        return f"<Cookie {self.name[:40]} of {self.domain}>"


class CookieNews(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer has changed in one jar; true with the commit of its page."""

    session: str
    domain: str
    cookies: list[Cookie]
    """Those that were set, and those that were taken back."""
    base: int = 0
    """The version of the jar that the worker knew."""


class JarRef(msgspec.Struct, frozen=True, array_like=True):
    """A jar that a worker wants to read."""

    session: str
    domain: str
    version: int = 0
    """The one that it knows: the same one is not sent again."""


class Jar(msgspec.Struct, frozen=True, kw_only=True):
    """The cookies of a session for one registrable domain."""

    session: str
    domain: str
    version: int
    """Another one after each change."""
    cookies: list[Cookie]
    """In the order of their creation: a cookie that is set again keeps its place."""
    changed_at: float = 0.0


def domains_above(host_name: str) -> list[str]:
    """A host name and the names above it, the longest first: one of them is its registrable domain."""
    if host_name.startswith("[") or host_name.rpartition(".")[2].isdecimal():
        return [host_name]
    labels = host_name.rstrip(".").split(".")
    # A name has 127 labels at most; no registrable domain has more than a few.
    return [".".join(labels[start:]) for start in range(max(0, len(labels) - 8), len(labels))]


# ---- sessions that the frontier keeps a record of

POOL = "pool"
"""The name of all sessions of the pool together, in needs; those themselves are ``pool-1``, ``pool-2``, …"""
SESSION_NEED, LOGIN_NEED = "session:", "login:"
"""What the word of a need begins with, before the name of a session."""


class SessionState(enum.IntEnum):
    """Whether a session may be used. The numbers are stored."""

    READY = 0
    EXPIRED = 1
    """It has to be logged in."""
    LOGGING_IN = 2


class SessionRecord(msgspec.Struct, array_like=True):
    """What the frontier knows of a session that it hands out. (10_sessions.lua has the same places.)"""

    uses: int = 0
    """Requests that were granted since its last login."""
    in_flight: int = 0
    generation: int = 1
    """Counts its replacements."""
    state: SessionState = SessionState.READY
    since: float = 0.0
    """Of one that is expired: until when no worker is asked to log it in. Of one that is logging in: since when."""
    born_at: float = 0.0
    """When it was last ready for use."""
    used_at: int = 0
    """The epoch of its last grant: the least recently used one of a pool goes first."""
    failures: int = 0
    """Logins in a row that failed."""
    logins: int = 0
    """Requests of its login that have not ended."""
    proxy: str = ""
    """The proxy of the job's pool that it keeps; empty: none yet, or sessions keep none."""


class SessionNews(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer tells of the session that its request was sent with."""

    expired: bool = False
    """It is of no use any more: it is replaced, unless somebody else has said so of the same one."""


class SessionLogin(msgspec.Struct, frozen=True, array_like=True):
    """A session that a worker is asked to log in."""

    name: str
    generation: int


class SessionSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A session, for people; without its cookies."""

    name: str
    """Empty: the job's own."""
    cookies: int = 0
    domains: list[str] = []
    changed_at: float = 0.0
    """When a cookie was last set."""
    record: SessionRecord | None = None
    """None: it is handed out without a record."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """The session that a spider's ``login`` is asked to log in."""

    name: str
    number: int = 0
    """Its place in the pool, from 1 on; 0: it is not of the pool."""
    generation: int = 1
    """Counts its logins."""


def pool_names(size: int) -> list[str]:
    """Return the names of the sessions of a pool."""
    return [f"{POOL}-{number}" for number in range(1, size + 1)]


def is_login_need(need: object) -> bool:
    """Return whether this is the need of a request of a login."""
    return isinstance(need, str) and need.startswith(LOGIN_NEED) and is_session_name(need[len(LOGIN_NEED) :])


def login_of(need: str) -> str:
    """Return the session whose login a request with this need belongs to; empty: it belongs to none."""
    return next((word[len(LOGIN_NEED) :] for word in need.split() if word.startswith(LOGIN_NEED)), "")


def session_of_need(need: str) -> str:
    """Return the session that a need names, or ``POOL``; empty: it names none."""
    return next((word[len(SESSION_NEED) :] for word in need.split() if word.startswith(SESSION_NEED)), "")
