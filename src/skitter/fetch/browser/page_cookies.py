"""Cookies of a session in a browser: the jar goes into the context, and what the page changed is read back.

A page of one site loads parts of others, which set cookies too. Only those of the page's own registrable domain are its
session's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from skitter.model.session import DELETED, Cookie
from skitter.model.url import host_name
from skitter.policy.cookies import is_acceptable
from skitter.policy.public_suffixes import is_public_suffix, registrable_domain


def for_browser(cookies: Iterable[Cookie]) -> list[Any]:
    """Cookies as Playwright takes them."""
    return [
        {
            "name": cookie.name,
            "value": cookie.value,
            "domain": cookie.domain if cookie.host_only else f".{cookie.domain}",
            "path": cookie.path,
            "expires": cookie.expires or -1,
            "secure": cookie.secure,
            "httpOnly": cookie.http_only,
        }
        for cookie in cookies
    ]


def changes(before: Iterable[Cookie], found: Iterable[Mapping[str, Any]], url: str) -> tuple[Cookie, ...]:
    """What a page at ``url`` has set or taken back. ``found``: as Playwright tells them."""
    domain, is_https = registrable_domain(host_name(url)), url.startswith("https:")
    known = {cookie.key: cookie for cookie in before}
    there = {
        cookie.key: cookie
        for cookie in map(_read, found)
        if registrable_domain(cookie.domain) == domain
        and is_acceptable(cookie, is_https=is_https)
        and (cookie.host_only or not is_public_suffix(cookie.domain))
    }
    changed = [cookie for key, cookie in there.items() if known.get(key) != cookie]
    gone = [
        Cookie(cookie.name, "", cookie.domain, cookie.path, DELETED, host_only=cookie.host_only)
        for key, cookie in known.items()
        if key not in there
    ]
    return (*changed, *gone)


def _read(cookie: Mapping[str, Any]) -> Cookie:
    domain = cookie["domain"].lower()
    return Cookie(
        *(cookie["name"], cookie["value"], domain.removeprefix("."), cookie["path"], max(0, int(cookie["expires"]))),
        secure=cookie["secure"],
        http_only=cookie["httpOnly"],
        host_only=not domain.startswith("."),
    )
