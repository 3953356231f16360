"""The worker's cookie jar: libcurl's own, shared by all handles and bounded.

libcurl does the matching (domain, path, secure, the public suffix list, so that no site sets a cookie for
all of ``.co.uk``). It limits the cookies of one answer and of one request, but not the jar, which would
grow with the crawl; so the jar is cut back when it is full.
"""

from __future__ import annotations

from collections import Counter

import pycurl

MAX_COOKIES = 4_000
MAX_COOKIES_PER_DOMAIN = 150
"""More than libcurl would ever send at once."""


class CookieJar:
    """Cookies of all hosts a worker meets, in memory only."""

    def __init__(self, max_cookies: int = MAX_COOKIES) -> None:
        self._max_cookies = max_cookies
        self._share = pycurl.CurlShare()
        self._share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_COOKIE)
        # Never transfers anything: the jar can only be read and cut back through a handle.
        self._keeper = pycurl.Curl()
        self.attach(self._keeper)
        self._recent: dict[str, None] = {}
        self._received = 0

    def attach(self, curl: pycurl.Curl) -> None:
        """Let a handle send and keep cookies."""
        curl.setopt(pycurl.SHARE, self._share)
        curl.setopt(pycurl.COOKIEFILE, "")

    def received(self, host: str, count: int) -> None:
        """A host has set ``count`` cookies; libcurl has put them in the jar already."""
        self._recent.pop(host, None)
        self._recent[host] = None
        self._received += count
        if self._received > self._max_cookies // 4:
            self._received = 0
            self._cut_back()

    def lines(self) -> list[str]:
        """The cookies, one Netscape line each."""
        lines: list[str] = self._keeper.getinfo(pycurl.INFO_COOKIELIST)
        return lines

    def _cut_back(self) -> None:
        lines = self.lines()
        if len(lines) <= self._max_cookies:
            return
        # The hosts that set one last come first, each with the parent domains it may set cookies for.
        rank: dict[str, int] = {}
        for place, host in enumerate(reversed(self._recent)):
            labels = host.split(".")
            for start in range(len(labels)):
                rank.setdefault(".".join(labels[start:]), place)
        lines.sort(key=lambda line: rank.get(_domain(line), len(rank)))
        self._keeper.setopt(pycurl.COOKIELIST, "ALL")
        kept: Counter[str] = Counter()
        for line in lines:
            domain = _domain(line)
            if kept[domain] < MAX_COOKIES_PER_DOMAIN:
                kept[domain] += 1
                self._keeper.setopt(pycurl.COOKIELIST, line)
                if kept.total() >= self._max_cookies // 2:
                    break
        self._recent = {host: None for host in self._recent if host in rank and rank[host] < self._max_cookies}


def _domain(line: str) -> str:
    return line.partition("\t")[0].removeprefix("#HttpOnly_").lstrip(".").lower()
