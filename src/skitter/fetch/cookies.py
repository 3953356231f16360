"""The worker's cookie jar: libcurl's own, shared by all handles and bounded.

libcurl does the matching (domain, path, secure, the public suffix list, so that no site sets a cookie for
all of ``.co.uk``). It limits a cookie (4 KB), the cookies of one answer (50) and of one request (150, or 8 KB), but
not the jar, which would grow with the crawl; so the jar is cut back when it is full.
"""

from __future__ import annotations

from collections import Counter

import pycurl

MAX_COOKIES = 4_000
MAX_COOKIES_PER_DOMAIN = 150
"""Maximum cookies of a domain, more than libcurl sends at once."""
MAX_COOKIE_BYTES = 4_194_304
"""Of all of them, names and values and what belongs to them. Real cookies have a tenth of it."""


class CookieJar:
    """Cookies of all hosts a worker meets, in memory only."""

    def __init__(self, max_cookies: int = MAX_COOKIES, max_bytes: int = MAX_COOKIE_BYTES) -> None:
        self._max_cookies = max_cookies
        self._max_bytes = max_bytes
        self._share = pycurl.CurlShare()
        self._share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_COOKIE)
        # Never transfers anything: the jar can only be read and cut back through a handle.
        self._keeper = pycurl.Curl()
        self.attach(self._keeper)
        self._recent: dict[str, None] = {}
        self._received = self._received_bytes = 0

    def attach(self, curl: pycurl.Curl) -> None:
        """Let a handle send and keep cookies."""
        curl.setopt(pycurl.SHARE, self._share)
        curl.setopt(pycurl.COOKIEFILE, "")

    def received(self, host: str, count: int, size: int) -> None:
        """Count cookies that a host has set, which libcurl has already added; cut the jar back if it is full."""
        self._recent.pop(host, None)
        self._recent[host] = None
        self._received += count
        self._received_bytes += size
        if self._received > self._max_cookies // 4 or self._received_bytes > self._max_bytes // 4:
            self._received = self._received_bytes = 0
            self._cut_back()

    def lines(self) -> list[str]:
        """The cookies, one Netscape line each."""
        lines: list[str] = self._keeper.getinfo(pycurl.INFO_COOKIELIST)
        return lines

    def _cut_back(self) -> None:
        # It also has hosts whose cookies have expired, so it has its own limit.
        while len(self._recent) > self._max_cookies:
            del self._recent[next(iter(self._recent))]
        lines = self.lines()
        if len(lines) <= self._max_cookies and sum(map(len, lines)) <= self._max_bytes:
            return
        # The hosts that set one last come first, each with the parent domains it may set cookies for.
        rank: dict[str, int] = {}
        for recency, host in enumerate(reversed(self._recent)):
            labels = host.split(".")
            for start in range(len(labels)):
                rank.setdefault(".".join(labels[start:]), recency)
        lines.sort(key=lambda line: rank.get(_domain(line), len(rank)))
        self._keeper.setopt(pycurl.COOKIELIST, "ALL")
        kept: Counter[str] = Counter()
        kept_bytes: Counter[str] = Counter()
        cookies_left, bytes_left = self._max_cookies // 2, self._max_bytes // 2
        for line in lines:
            domain = _domain(line)
            # One host must not displace all others, neither with many cookies nor with large ones.
            if kept[domain] < MAX_COOKIES_PER_DOMAIN and kept_bytes[domain] <= self._max_bytes // 16:
                kept[domain] += 1
                kept_bytes[domain] += len(line)
                cookies_left -= 1
                bytes_left -= len(line)
                if cookies_left < 0 or bytes_left < 0:
                    break
                self._keeper.setopt(pycurl.COOKIELIST, line)


def _domain(line: str) -> str:
    return line.partition("\t")[0].removeprefix("#HttpOnly_").lstrip(".").lower()
