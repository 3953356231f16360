"""A synthetic web in a few numbers, and the kinds of pages it may have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from skitter.testing.web_traps import KINDS

CANARY = -1
"""Host index of the canary: a server that a well-guarded crawl never touches."""
DEAD = -2
"""Host index of the dead host: its port is taken and nobody listens."""

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
    "redirect_dead": 1,
}
"""Kinds that redirect, and after how many hops: ``/hop/INDEX/K`` is the K-th one on the way."""

FILES = {
    "text": ("txt", "text/plain; charset=utf-8"),
    "image": ("png", "image/png"),
    "pdf": ("pdf", "application/pdf"),
    "json": ("json", "application/json"),
}
COPIES = 3
"""Session URLs under which a page of the kind ``copies`` appears again, byte for byte."""

ON_LEAVES: dict[str, tuple[str, ...]] = {
    "redirects": tuple(REDIRECTS)[:9],
    "errors": ("not_found", "gone", "failing", "recovering"),
    "blocks": ("unavailable", "limited"),
    "files": tuple(FILES),
    "empty": ("empty",),
    "private": ("private",),
    "duplicates": ("copies",),
}
"""Field of WebSpec with their share -> kinds that take turns; on leaves of the tree, as they have no links."""
ANYWHERE: dict[str, tuple[str, ...]] = {
    "slow": ("slow",),
    "encodings": ("utf8_unlabelled", "windows_1251", "shift_jis", "utf_16", "wrong_label"),
    "compressed": ("gzip", "deflate", "chunked"),
    "broken": ("broken", "based"),
}
"""The same for pages that have links, and may stand anywhere."""


@dataclass(frozen=True, kw_only=True)
class WebSpec:
    """A whole web in a few numbers. Shares are of a host's pages; a share above 0 gives at least one page."""

    seed: int = 1
    hosts: int = 5
    pages_per_host: int = 100
    links_per_page: int = 10
    page_bytes: int = 2048
    """Size of an HTML page before compression; a page whose links need more is larger."""
    cross_host_links: float = 0.1
    """Share of the random links that lead to another host."""
    variations: bool = True
    """Write one URL in many ways: escapes, case, dot segments, fragments, order of parameters."""
    redirects: float = 0.08
    errors: float = 0.04
    """404, 410, 500 for ever, 500 that recovers."""
    blocks: float = 0.01
    """503 that recovers, and one 429 with Retry-After. Each holds its whole host up for a while."""
    failures_before_ok: int = 1
    """How often a page that recovers fails first. Keep it below the crawl's max_attempts."""
    retry_after_seconds: int = 1
    slow: float = 0.03
    slow_seconds: tuple[float, float] = (0.05, 0.2)
    latency_seconds: float = 0.0
    """Before every answer, so that requests in flight can be counted."""
    encodings: float = 0.05
    compressed: float = 0.06
    files: float = 0.04
    """Answers that are no HTML, with text inside that looks like links."""
    broken: float = 0.06
    empty: float = 0.01
    duplicates: float = 0.01
    private: float = 0.03
    """Pages under /private/."""
    robots_hosts: tuple[int, ...] = (1,)
    """Hosts whose robots.txt disallows /private/; the others have none (404)."""
    crawl_delay_seconds: float = 0.0
    """Crawl-delay in those robots.txt; 0 leaves it out."""
    dead_host: bool = False
    """Each host has a link and a redirect to a closed port."""
    canary: bool = False
    """Each host has a link and a redirect to a server that no seed permits."""
    traps: tuple[str, ...] = ()
    """A host without an end for each of these kinds (``web_traps.KINDS``), which no page of the others links to."""
    base_port: int = 0
    """Host i listens on base_port + i; 0 takes free ports."""

    def __post_init__(self) -> None:
        if unknown := set(self.traps) - set(KINDS):
            raise ValueError(f"no kind of trap: {', '.join(sorted(unknown))}")
        if self.hosts < 1 or self.pages_per_host < 1:
            raise ValueError("a web needs at least one host and one page per host")

    @classmethod
    def plain(cls, **changes: Any) -> WebSpec:
        """Nothing but ordinary pages that link to each other."""
        shares: dict[str, Any] = dict.fromkeys((*ON_LEAVES, *ANYWHERE), 0.0)
        return cls(**(shares | {"variations": False, "robots_hosts": ()} | changes))

    @classmethod
    def demo(cls) -> WebSpec:
        """Three small hosts with a bit of everything."""
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
    """Host index -> its root without the slash."""
    bases = {host: url.rstrip("/") for host, url in enumerate(urls)}
    return bases | {CANARY: canary_url.rstrip("/"), DEAD: dead_url.rstrip("/")}
