"""Reading of the header Set-Cookie, as RFC 6265bis describes it for browsers. Pure.

A server writes the header, so every step is linear in its length. libcurl limits all headers of an answer to 300 KB.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from skitter.model.session import DELETED, Cookie
from skitter.policy.public_suffixes import is_address, is_public_suffix

MAX_ATTRIBUTE_CHARS = 1024
"""An attribute with a longer value is ignored."""
MAX_AGE_SECONDS = 400 * 86_400
"""A cookie that would live for longer expires after this time."""
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Control characters other than a tab. A cookie that has one is ignored."""
_DATE_TOKEN = re.compile(r"[^\t -/;-@\[-`{-~]+")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?![0-9])")
_DAY = re.compile(r"([0-9]{1,2})(?![0-9])")
_MONTH = re.compile("|".join(_MONTHS), re.ASCII | re.IGNORECASE)
_YEAR = re.compile(r"([0-9]{2,4})(?![0-9])")
_DATE_PARTS = {"time": _TIME, "day": _DAY, "month": _MONTH, "year": _YEAR}
"""Each token of a date is the first of these parts that it matches and that no token before it was."""
_MAX_AGE = re.compile(r"-?[0-9]+")


def read_date(text: str) -> int | None:
    """Return the seconds since 1970 of a date in any order of its parts; None if it is no date (RFC 6265, 5.1.1)."""
    found: dict[str, re.Match[str]] = {}
    for token in _DATE_TOKEN.findall(text):
        for part, pattern in _DATE_PARTS.items():
            if part not in found and (match := pattern.match(token)):
                found[part] = match
                break
    if len(found) < len(_DATE_PARTS):
        return None
    year, month = int(found["year"][1]), _MONTHS.index(found["month"][0].lower()) + 1
    year += 0 if year >= 100 else 1900 if year >= 70 else 2000
    try:
        hour, minute, second = map(int, found["time"].groups())
        date = datetime(year, month, int(found["day"][1]), hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return int(date.timestamp()) if year >= 1601 else None


def read_set_cookie(text: str, host: str, path: str, now: float) -> Cookie | None:
    """Return the cookie that a response sets; None if a browser would ignore it.

    ``text``: the value of the header. ``host``, ``path``: of the URL that was requested.
    """
    if CONTROL.search(text):
        return None
    pair, *attributes = text.split(";")
    # A pair without "=" is a value without a name.
    name, value = pair.split("=", 1) if "=" in pair else ("", pair)
    # Of several attributes with the same name, the last valid one counts.
    given: dict[str, str] = {}
    for attribute in attributes:
        key, _, content = (part.strip(" \t") for part in attribute.partition("="))
        key = key.lower()
        if len(content) > MAX_ATTRIBUTE_CHARS or (key == "max-age" and not _MAX_AGE.fullmatch(content)):
            continue
        if key != "expires" or read_date(content) is not None:
            given[key] = content
    domain = given.get("domain", "").removeprefix(".").lower()
    # Nobody else can share the cookies of an address or a public suffix, so its own name in Domain changes nothing.
    host_only = not domain or (domain == host and (is_address(host) or is_public_suffix(host)))
    if not host_only and (domain.endswith(".") or not domain_matches(host, domain)):
        return None
    if not (cookie_path := given.get("path", "")).startswith("/"):
        cookie_path = path[: path.rfind("/")] or "/"
    end = int(now) + int(given["max-age"]) if "max-age" in given else read_date(given.get("expires", ""))
    expires = 0 if end is None else DELETED if end <= now else min(end, int(now) + MAX_AGE_SECONDS)
    return Cookie(
        *(name.strip(" \t"), value.strip(" \t"), host if host_only else domain, cookie_path, expires),
        secure="secure" in given,
        http_only="httponly" in given,
        host_only=host_only,
    )


def domain_matches(host: str, domain: str) -> bool:
    """Return whether a host is the domain of a cookie, or a name below it."""
    return host == domain or (host.endswith(f".{domain}") and not is_address(host))


def path_matches(path: str, cookie_path: str) -> bool:
    """Return whether the path of a URL is the path of a cookie, or below it."""
    return path.startswith(cookie_path) and (cookie_path.endswith("/") or path[len(cookie_path) :][:1] in ("", "/"))
