"""Policy of cookies, as RFC 6265bis describes it for browsers: which are sent, which are kept, and the size of a jar.

The policy is pure. A jar has its cookies in the order of their creation. ``9_jars.lua`` repeats ``merged`` for Redis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from skitter.model import session
from skitter.model.session import Cookie
from skitter.model.url import host_name
from skitter.policy.public_suffixes import is_public_suffix
from skitter.policy.set_cookie import CONTROL, MAX_ATTRIBUTE_CHARS, domain_matches, path_matches, read_set_cookie

MAX_COOKIE_BYTES = 4096
"""Of name and value together."""
MAX_SET_COOKIES = 50
"""Of one answer: the first ones."""
MAX_SENT_BYTES = 8190
"""Of one request: servers refuse headers that are much longer."""
MAX_JAR_COOKIES = 180
"""Of a registrable domain: as many as browsers keep."""
MAX_JAR_BYTES = 65_536
MAX_JARS = 10_000
"""Of a job: those of the unnamed session give way first, the least recently changed before others."""
NAMED_RANK = 10**12
"""Added to the time of a named session's jar in their order."""
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Hosts that may set and get cookies with ``Secure`` over http."""
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
    # A character is a byte that the server has sent.
    if len(cookie.name + cookie.value) > MAX_COOKIE_BYTES or len(cookie.path) > MAX_ATTRIBUTE_CHARS:
        return False
    if not cookie.path.startswith("/") or CONTROL.search(cookie.name + cookie.value + cookie.path):
        return False
    # A name that only looks like one, in a value without a name, counts too.
    prefix = (cookie.name or cookie.value).lower()
    if prefix.startswith("__host-"):
        return is_https and cookie.secure and cookie.host_only and cookie.path == "/" and bool(cookie.name)
    if prefix.startswith("__secure-"):
        return is_https and cookie.secure and bool(cookie.name)
    return True


def sent_pairs(jar: Iterable[Cookie], url: str, now: float) -> list[str]:
    """Return name and value of the cookies that a request sends: longer paths first, then older cookies first."""
    host, path, is_https = _place_of(url)
    found = [
        cookie
        for cookie in jar
        if (host == cookie.domain if cookie.host_only else domain_matches(host, cookie.domain))
        and path_matches(path, cookie.path)
        and (not cookie.secure or is_https or host in _LOOPBACK)
        and not 0 < cookie.expires <= now
    ]
    pairs: list[str] = []
    left = MAX_SENT_BYTES
    for cookie in sorted(found, key=lambda cookie: -len(cookie.path)):
        pair = f"{cookie.name}={cookie.value}" if cookie.name else cookie.value
        left -= len(pair) + 2
        if left < 0:
            break
        # Other programs write into the store too, and a line feed would begin another header.
        if not CONTROL.search(pair):
            pairs.append(pair)
    return pairs


def set_by(lines: Iterable[str], jar: Sequence[Cookie], url: str, now: float) -> tuple[Cookie, ...]:
    """Return what an answer has changed in a jar. ``lines``: the values of its Set-Cookie headers."""
    host, path, is_https = _place_of(url)
    is_secure = is_https or host in _LOOPBACK
    after = {cookie.key: cookie for cookie in jar if not 0 < cookie.expires <= now}
    for line in islice(lines, MAX_SET_COOKIES):
        cookie = read_set_cookie(line, host, path, now)
        if cookie is None or not is_acceptable(cookie, is_https=is_https):
            continue
        if not is_secure and (cookie.secure or any(_hides(cookie, other) for other in after.values())):
            continue
        if cookie.expires == session.DELETED:
            after.pop(cookie.key, None)
        else:
            after[cookie.key] = cookie
    return changes(jar, after.values(), is_https=is_https)


def _place_of(url: str) -> tuple[str, str, bool]:
    """Return the host and the path of a URL, and whether it is of https."""
    return host_name(url), url[url.index("/", 8) :].partition("?")[0], url.startswith("https:")


def _hides(cookie: Cookie, other: Cookie) -> bool:
    """Return whether a cookie that was set over http would be sent in the place of one with ``Secure``."""
    return (
        other.secure
        and other.name == cookie.name
        and (domain_matches(other.domain, cookie.domain) or domain_matches(cookie.domain, other.domain))
        and path_matches(cookie.path, other.path)
    )


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
    """Return the cookies of a jar after changes. A cookie that is set again keeps its place in the order.

    Where there are too many, the oldest ones are dropped, but those of these changes last.
    """
    cookies = {cookie.key: cookie for cookie in jar}
    for cookie in changes:
        if cookie.expires == session.DELETED:
            cookies.pop(cookie.key, None)
        else:
            cookies[cookie.key] = cookie
    left = sum(map(size_of, cookies.values()))
    changed = {cookie.key for cookie in changes}
    for key in sorted(cookies, key=changed.__contains__):
        if len(cookies) <= MAX_JAR_COOKIES and left <= MAX_JAR_BYTES:
            break
        left -= size_of(cookies.pop(key))
    return list(cookies.values())
