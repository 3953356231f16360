"""Cookies of a session in a browser: the jar goes into the context, and what the page changed is read back.

A page of one site loads parts of others, which set cookies too. Only those of the page's own registrable domain are its
session's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from skitter.model.session import Cookie
from skitter.model.url import host_name
from skitter.policy.public_suffixes import registrable_domain


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


def of_browser(cookies: Iterable[Mapping[str, Any]], url: str) -> list[Cookie]:
    """Cookies of the site of a page at ``url``, from those that Playwright tells."""
    domain = registrable_domain(host_name(url))
    return [cookie for cookie in map(_read, cookies) if registrable_domain(cookie.domain) == domain]


def _read(cookie: Mapping[str, Any]) -> Cookie:
    domain = cookie["domain"].lower()
    return Cookie(
        *(cookie["name"], cookie["value"], domain.removeprefix("."), cookie["path"], max(0, int(cookie["expires"]))),
        secure=cookie["secure"],
        http_only=cookie["httpOnly"],
        host_only=not domain.startswith("."),
    )
