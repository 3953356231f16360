"""The cookie engine of a handle: a jar goes into it before a transfer, and what the answer changed is read back.

libcurl does the matching (domain, path, secure, the public suffix list, so that no site sets a cookie for all of
``.co.uk``). Each handle has an engine of its own, which holds one jar at a time: the next request with the same jar
finds it there. It limits a cookie (4 KB), the cookies of one answer (50) and of one request (150, or 8 KB).
"""

from __future__ import annotations

import contextlib

import pycurl

from skitter.model.cookie_lines import CookieLines, read_netscape_line
from skitter.model.session import Cookie
from skitter.policy.cookies import changes

_UNKNOWN = CookieLines()
"""Stands for what an answer has left in an engine."""


class CookieEngine:
    """The cookie engine of one easy handle."""

    __slots__ = ("_curl", "held", "is_on")

    def __init__(self, curl: pycurl.Curl) -> None:
        self._curl = curl
        self.held: CookieLines | None = None
        """The jar that is in it; the next request with this one need not put it there."""
        self.is_on = False

    def hold(self, jar: CookieLines | None) -> None:
        """Send the cookies of another jar with the next request; None: none, and what is set is forgotten."""
        held = self.held
        if not self.is_on:
            self._curl.setopt(pycurl.COOKIEFILE, "")  # for good: a reset does not undo it
            self.is_on = True
        elif held is _UNKNOWN or (held is not None and held.lines):
            self._curl.setopt(pycurl.COOKIELIST, "ALL")
        self.held = jar
        for line in jar.lines if jar is not None else ():
            # One that came from elsewhere may be none that libcurl takes.
            with contextlib.suppress(pycurl.error, ValueError):
                self._curl.setopt(pycurl.COOKIELIST, line.encode("latin-1", "replace"))

    def spoil(self) -> None:
        """A transfer was broken off: nobody knows what its answer has set."""
        if self.is_on:
            self.held = _UNKNOWN

    def read(self, url: str) -> tuple[Cookie, ...]:
        """The cookies that the answer to a request for ``url`` has set or taken back, after it is over."""
        before, self.held = self.held, _UNKNOWN
        if before is None:
            return ()
        lines: list[bytes] = self._curl.getinfo_raw(pycurl.INFO_COOKIELIST)
        there = [cookie for line in lines if (cookie := read_netscape_line(line.decode("latin-1"))) is not None]
        return changes(before.cookies, there, is_https=url.startswith("https:"))
