"""Policy of cookies: which are kept, how a jar takes them in, and how much a jar holds. Pure.

Matching is libcurl's, or a browser's. What they let through is looked at once more before it is kept for others:
sizes, prefixes and public suffixes, as RFC 6265bis has them. ``9_jars.lua`` has ``merged`` once more, for Redis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skitter.model import session
from skitter.model.session import Cookie
from skitter.policy.public_suffixes import is_public_suffix

MAX_COOKIE_BYTES = 4096
"""Of name and value together."""
MAX_ATTRIBUTE_BYTES = 1024
"""Of its path."""
MAX_JAR_COOKIES = 180
"""Of a registrable domain: more than libcurl sends at once, and as many as browsers keep."""
MAX_JAR_BYTES = 65_536
MAX_JARS = 10_000
"""Of a job: those of the unnamed session give way first, the least recently changed before others."""
NAMED_RANK = 10**12
"""Added to the time of a named session's jar in their order."""
_REFRESH_PART = 8
"""An expiry that moved by less than this part of the time left is no change: many sites push it with every page."""


def size_of(cookie: Cookie) -> int:
    """Bytes that a cookie counts for in its jar."""
    return len((cookie.name + cookie.value + cookie.domain + cookie.path).encode())


def is_acceptable(cookie: Cookie, *, is_https: bool) -> bool:
    """Return whether a cookie that was taken may be kept: its domain, its size, its characters, its prefix."""
    if not cookie.host_only and is_public_suffix(cookie.domain):
        return False
    if not cookie.name and not cookie.value:
        return False
    if len((cookie.name + cookie.value).encode("latin-1", "replace")) > MAX_COOKIE_BYTES:
        return False
    if len(cookie.path) > MAX_ATTRIBUTE_BYTES or not cookie.path.startswith("/"):
        return False
    if any(character < " " or character == "\x7f" for character in cookie.name + cookie.value + cookie.path):
        return False
    # A name that only looks like one, in a value without a name, counts too.
    prefix = (cookie.name or cookie.value).lower()
    if prefix.startswith("__host-"):
        return is_https and cookie.secure and cookie.host_only and cookie.path == "/" and bool(cookie.name)
    if prefix.startswith("__secure-"):
        return is_https and cookie.secure and bool(cookie.name)
    return True


def changes(before: Iterable[Cookie], after: Iterable[Cookie], *, is_https: bool) -> tuple[Cookie, ...]:
    """Return what an answer has changed in a jar: cookies that may be kept, and those that it has taken back."""
    known = {cookie.key: cookie for cookie in before}
    there = {cookie.key: cookie for cookie in after}
    changed = [
        cookie for key, cookie in there.items() if known.get(key) != cookie and is_acceptable(cookie, is_https=is_https)
    ]
    gone = [
        Cookie(cookie.name, "", cookie.domain, cookie.path, session.DELETED, host_only=cookie.host_only)
        for key, cookie in known.items()
        if key not in there
    ]
    return (*changed, *gone)


def is_change(known: Cookie | None, cookie: Cookie, now: float) -> bool:
    """Return whether a cookie that was set again is worth a write to the store."""
    if known is None:
        return cookie.expires != session.DELETED
    if _without_expiry(known) != _without_expiry(cookie):
        return True
    if not known.expires or not cookie.expires or cookie.expires == session.DELETED:
        return known.expires != cookie.expires
    return abs(cookie.expires - known.expires) > max(1.0, (cookie.expires - now) / _REFRESH_PART)


def _without_expiry(cookie: Cookie) -> tuple[object, ...]:
    return (*cookie.key, cookie.value, cookie.secure, cookie.http_only, cookie.host_only)


def merged(jar: Iterable[Cookie], changes: Sequence[Cookie]) -> list[Cookie]:
    """Return the cookies of a jar after changes: by name, domain and path, the newest last; the oldest give way."""
    cookies = {cookie.key: cookie for cookie in jar}
    for cookie in changes:
        cookies.pop(cookie.key, None)
        if cookie.expires != session.DELETED:
            cookies[cookie.key] = cookie
    kept = list(cookies.values())
    left = sum(map(size_of, kept))
    first = 0
    while len(kept) - first > MAX_JAR_COOKIES or left > MAX_JAR_BYTES:
        left -= size_of(kept[first])
        first += 1
    return kept[first:]
