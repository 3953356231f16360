"""robots.txt: what a host's file says to this crawler, and what its absence says.

Pure: the bytes come from elsewhere, and so does the decision to fetch them again. Never raises,
whatever a server calls its robots.txt. RFC 9309 is followed for statuses and sizes; matching is
protego's.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from protego import Protego

from skitter.agent import product_token

MAX_ROBOTS_BYTES = 500 * 1024
"""What lies beyond is not read (RFC 9309 2.5)."""
MAX_CRAWL_DELAY_SECONDS = 86_400.0
"""A file may slow the crawl to a page a day, not stop it: that is what Disallow is for."""


class RobotsVerdict(msgspec.Struct, frozen=True):
    """What an attempt to read robots.txt means for its host; ``text`` is only kept for ``rules``."""

    kind: Literal["rules", "allow_all", "unknown"]
    """``unknown``: nothing of the host may be fetched until a later attempt says more."""
    text: bytes = b""


def robots_verdict(status: int | None, body: bytes = b"") -> RobotsVerdict:
    """The verdict of a status, or of None when the host could not be reached.

    A redirect counts as absent: the caller has already followed the chain as far as it would.
    """
    if status is None or status == 429 or status >= 500:
        return RobotsVerdict("unknown")
    if 200 <= status < 300:
        return RobotsVerdict("rules", _capped(body))
    return RobotsVerdict("allow_all")


class Robots:
    """The rules of one robots.txt for one crawler."""

    __slots__ = ("_rules", "_token", "crawl_delay", "sitemaps")

    def __init__(self, rules: Protego | None, token: str) -> None:
        self._rules = rules
        self._token = token
        delay = rules.crawl_delay(token) if rules is not None else None
        self.crawl_delay: float | None = None if delay is None else min(delay, MAX_CRAWL_DELAY_SECONDS)
        self.sitemaps: list[str] = list(rules.sitemaps) if rules is not None else []

    @classmethod
    def parse(cls, text: bytes | str, user_agent: str) -> Robots:
        """Rules from a file's content; what cannot be understood forbids nothing."""
        if isinstance(text, str):
            text = text.encode("utf-8", "replace")
        try:
            rules = Protego.parse(_capped(text).decode("utf-8-sig", "replace"))
        except Exception:  # noqa: BLE001  a parser fed by strangers: whatever it raises, there are no rules
            rules = None
        return cls(rules, product_token(user_agent))

    @classmethod
    def allow_all(cls) -> Robots:
        """For a host without a robots.txt."""
        return cls(None, "*")

    def allows(self, url: str) -> bool:
        """Whether this crawler may fetch the URL."""
        if self._rules is None:
            return True
        try:
            return self._rules.can_fetch(url, self._token)
        except Exception:  # noqa: BLE001  rules exist but cannot be asked: the polite answer is no
            return False


def _capped(text: bytes) -> bytes:
    if len(text) <= MAX_ROBOTS_BYTES:
        return text
    # A line cut in two would say something else: "Disallow: /private" must not become "Disallow: /".
    end = max(text.rfind(b"\n", 0, MAX_ROBOTS_BYTES), text.rfind(b"\r", 0, MAX_ROBOTS_BYTES))
    return text[: end + 1]
