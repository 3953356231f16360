"""Session: a name under which cookies are kept, one jar for each registrable domain."""

from __future__ import annotations

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
    """In the order in which they were set."""
    changed_at: float = 0.0


def domains_above(host_name: str) -> list[str]:
    """A host name and the names above it, the longest first: one of them is its registrable domain."""
    if host_name.startswith("[") or host_name.rpartition(".")[2].isdecimal():
        return [host_name]
    labels = host_name.rstrip(".").split(".")
    # A name has 127 labels at most; no registrable domain has more than a few.
    return [".".join(labels[start:]) for start in range(max(0, len(labels) - 8), len(labels))]
