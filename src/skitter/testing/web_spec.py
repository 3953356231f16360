"""Parameters of a synthetic web, and the kinds of its pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from skitter.testing.web_traps import KINDS

CANARY = -1
"""Host index of the canary: a server that a crawl must never connect to."""
DEAD = -2
"""Host index of the dead host: its port is reserved and nothing listens on it."""

REDIRECTS = {
    "redirect_301": 1,
    "redirect_302": 1,
    "redirect_303": 1,
    "redirect_307": 1,
    "redirect_308": 1,
    "redirect_chain": 3,
    "redirect_loop": 3,
    "redirect_away": 1,
    "redirect_long": 12,
    "redirect_canary": 1,
    "redirect_failed": 1,
}
"""Kinds of redirects with their number of hops. ``/hop/INDEX/K`` is the K-th hop."""

FILES = {
    "text": ("txt", "text/plain; charset=utf-8"),
    "image": ("png", "image/png"),
    "pdf": ("pdf", "application/pdf"),
    "json": ("json", "application/json"),
}
COPIES = 3
"""Number of session URLs under which a page of the kind ``copies`` appears again, byte for byte."""

ON_LEAVES: dict[str, tuple[str, ...]] = {
    "redirects": tuple(REDIRECTS)[:9],
    "errors": ("not_found", "gone", "failing", "recovering"),
    "blocks": ("unavailable", "limited"),
    "files": tuple(FILES),
    "empty": ("empty",),
    "private": ("private",),
    "duplicates": ("copies",),
}
"""Kinds by the field of WebSpec that has their share; the kinds of a field alternate. These pages have no links, so
they are leaves of the tree."""
ANYWHERE: dict[str, tuple[str, ...]] = {
    "slow": ("slow",),
    "encodings": ("utf8_unlabelled", "windows_1251", "shift_jis", "utf_16", "wrong_label"),
    "compressed": ("gzip", "deflate", "chunked"),
    "broken": ("broken", "based"),
}
"""The same for pages that have links and may be anywhere in the tree."""


@dataclass(frozen=True, kw_only=True)
class WebSpec:
    """Parameters of a synthetic web. A share is a fraction of the pages of a host; above 0 it is at least one page."""

    seed: int = 1
    hosts: int = 5
    pages_per_host: int = 100
    links_per_page: int = 10
    page_bytes: int = 2048
    """Size of an HTML page before compression. A page is larger if its links need more space."""
    cross_host_links: float = 0.1
    """Share of the random links that lead to another host."""
    variations: bool = True
    """Whether links spell a URL in different ways: escapes, case, dot segments, fragments, order of parameters."""
    redirects: float = 0.08
    errors: float = 0.04
    """Share of pages with errors: 404, 410, permanent 500, and 500 that recovers."""
    blocks: float = 0.01
    """Share of pages with 503 that recovers, and one 429 with Retry-After. Each delays its whole host for a while."""
    failures_before_ok: int = 1
    """Number of times that a page fails before it recovers. Keep it below the setting ``max_attempts`` of the crawl."""
    retry_after_seconds: int = 1
    slow: float = 0.03
    slow_seconds: tuple[float, float] = (0.05, 0.2)
    latency_seconds: float = 0.0
    """Delay before every answer, so that requests in flight can be counted."""
    encodings: float = 0.05
    compressed: float = 0.06
    files: float = 0.04
    """Share of answers that are not HTML but contain text that looks like links."""
    broken: float = 0.06
    empty: float = 0.01
    duplicates: float = 0.01
    private: float = 0.03
    """Share of pages under ``/private/``."""
    robots_hosts: tuple[int, ...] = (1,)
    """Hosts whose robots.txt disallows ``/private/``. Other hosts have no robots.txt (404)."""
    crawl_delay_seconds: float = 0.0
    """Crawl-delay in these robots.txt files; 0 omits it."""
    dead_host: bool = False
    """Whether each host has a link and a redirect to a closed port."""
    canary: bool = False
    """Whether each host has a link and a redirect to a server that no seed permits."""
    traps: tuple[str, ...] = ()
    """Kinds of crawler traps (``web_traps.KINDS``). Each adds an endless host that no page of other hosts links to."""
    base_port: int = 0
    """Host i listens on ``base_port + i``; 0 uses free ports."""

    def __post_init__(self) -> None:
        if unknown := set(self.traps) - set(KINDS):
            raise ValueError(f"no kind of trap: {', '.join(sorted(unknown))}")
        if self.hosts < 1 or self.pages_per_host < 1:
            raise ValueError("a web needs at least one host and one page per host")

    @classmethod
    def plain(cls, **changes: Any) -> WebSpec:
        """Return a web of ordinary pages that link to each other."""
        shares: dict[str, Any] = dict.fromkeys((*ON_LEAVES, *ANYWHERE), 0.0)
        return cls(**(shares | {"variations": False, "robots_hosts": ()} | changes))

    @classmethod
    def demo(cls) -> WebSpec:
        """Return a web of three small hosts with pages of all kinds."""
        return cls(hosts=3, pages_per_host=100)

    def replace(self, **changes: Any) -> WebSpec:
        return replace(self, **changes)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> WebSpec:
        values: dict[str, Any] = json.loads(text)
        unknown = values.keys() - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"unknown in a web's spec: {', '.join(sorted(unknown))}")
        for name, value in values.items():
            if isinstance(value, list):
                values[name] = tuple(value)
        return cls(**values)


def bases_of(urls: Sequence[str], canary_url: str = "", dead_url: str = "") -> dict[int, str]:
    """Return the root URL of each host, without the slash, by host index."""
    bases = {host: url.rstrip("/") for host, url in enumerate(urls)}
    return bases | {CANARY: canary_url.rstrip("/"), DEAD: dead_url.rstrip("/")}
