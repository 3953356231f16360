"""Pages of the synthetic web as pure values: which pages exist, their answers and their links.

``page(spec, host, index)`` depends only on its arguments, so a test can compute the whole web
without a server. The pages of a host form a binary tree (page i links to 2i+1 and 2i+2) with additional
random links; page 0 is ``/``. Pages without links (redirects, errors, files) are only placed on
leaves of the tree, so every other page is reachable from page 0.

``web_render`` writes a page as bytes, ``web_server`` serves it, and ``web_expected`` walks the graph.
"""

from __future__ import annotations

import functools
import math
import random
import re
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import unquote

from skitter.testing.web_spec import ANYWHERE, CANARY, COPIES, DEAD, FILES, ON_LEAVES, REDIRECTS, WebSpec

_STATUS = {"not_found": 404, "gone": 410, "failing": 500}
_FIRST_STATUS = {"recovering": 500, "unavailable": 503, "limited": 429}
_FORMS = ("path", "path", "path", "absolute", "relative", "fragment", "dots", "schemeless", "upper", "escaped", "query")
_ROUTE = re.compile(r"/(?:p/|private/|files/|~user/|q\?a=|hop/)([0-9]{1,9})(?:/([0-9]{1,3}))?(?=$|[.&?])")


class Link(NamedTuple):
    """Destination of a link, and the form in which its href is written."""

    host: int
    path: str
    form: str = "path"


@dataclass(frozen=True, kw_only=True)
class PageSpec:
    """Response of one URL. ``links`` are the real links; decoys are added when the page is rendered."""

    kind: str
    host: int
    index: int
    path: str
    """Path and query in canonical form."""
    status: int = 200
    content_type: str = "text/html; charset=utf-8"
    links: tuple[Link, ...] = ()
    location: Link | None = None
    delay_seconds: float = 0.0
    failures: int = 0
    """Number of first requests that are answered with ``first_status``."""
    first_status: int = 0
    retry_after_seconds: int | None = None
    """Retry-After that is sent with ``first_status``."""

    @property
    def title(self) -> str:
        return f"Page {self.index} of host {self.host}"

    @property
    def is_html(self) -> bool:
        return self.status == 200 and self.kind not in FILES and self.kind != "empty"


class _Plan:
    """Kind of each page of each host, computed once per spec."""

    def __init__(self, spec: WebSpec) -> None:
        self._spec = spec
        self._kinds: dict[int, dict[int, str]] = {}

    def kinds(self, host: int) -> dict[int, str]:
        found = self._kinds.get(host)
        if found is None:
            found = self._kinds[host] = self._assign(host)
        return found

    def _assign(self, host: int) -> dict[int, str]:
        spec, total = self._spec, self._spec.pages_per_host
        on_leaves = self._wanted(ON_LEAVES, host)
        if spec.canary:
            on_leaves.insert(0, "redirect_canary")
        if spec.dead_host:
            on_leaves.insert(0, "redirect_failed")
        anywhere = self._wanted(ANYWHERE, host)
        rng = random.Random(f"{spec.seed}/{host}/kinds")
        leaves = range(max(1, total // 2), total)
        taken = dict(zip(rng.sample(leaves, min(len(leaves), len(on_leaves))), on_leaves, strict=False))
        others = range(1, total)
        places = rng.sample(others, min(len(others), len(anywhere) + len(taken)))
        free = [index for index in places if index not in taken]
        return taken | dict(zip(free, anywhere, strict=False))

    def _wanted(self, groups: dict[str, tuple[str, ...]], host: int) -> list[str]:
        wanted = []
        for field, kinds in groups.items():
            count = math.ceil(getattr(self._spec, field) * self._spec.pages_per_host - 1e-9)
            # Each host starts where the one before it stopped, so that small hosts together show every kind.
            wanted += [kinds[(host * count + turn) % len(kinds)] for turn in range(count)]
        return wanted


@functools.lru_cache(maxsize=16)
def _plan(spec: WebSpec) -> _Plan:
    return _Plan(spec)


def _path(spec: WebSpec, kinds: dict[int, str], index: int) -> str:
    kind = kinds.get(index, "page")
    if index == 0:
        return "/"
    if kind == "private":
        return f"/private/{index}"
    if kind in FILES:
        return f"/files/{index}.{FILES[kind][0]}"
    if spec.variations and kind != "copies":
        if index % 10 == 3:
            return f"/~user/{index}"
        if index % 10 == 7:
            return f"/q?a={index}&b=2"
    return f"/p/{index}"


def path_of(spec: WebSpec, host: int, index: int) -> str:
    """Return path and query of a page in canonical form."""
    return _path(spec, _plan(spec).kinds(host), index)


def page(spec: WebSpec, host: int, index: int, hop: int = 0) -> PageSpec:
    """Return page ``index`` of a host. ``hop`` is the position in a redirect with several hops."""
    plan = _plan(spec)
    kinds = plan.kinds(host)
    kind = kinds.get(index, "page")
    path = _path(spec, kinds, index)
    rng = random.Random(f"{spec.seed}/{host}/{index}")
    latency = spec.latency_seconds
    if kind in REDIRECTS:
        here = f"/hop/{index}/{hop}" if hop else path
        target = _target(spec, plan, host, index, hop, kind, rng)
        status = int(kind[-3:]) if kind[-3:].isdigit() else (301, 302, 303, 307, 308)[(index + hop) % 5]
        return PageSpec(
            kind=kind, host=host, index=index, path=here, status=status, location=target, delay_seconds=latency
        )
    if kind in FILES or kind == "empty" or kind in _STATUS:
        return PageSpec(
            kind=kind,
            host=host,
            index=index,
            path=path,
            status=_STATUS.get(kind, 200),
            content_type=FILES[kind][1] if kind in FILES else "text/html; charset=utf-8",
            delay_seconds=latency,
        )
    low, high = spec.slow_seconds
    return PageSpec(
        kind=kind,
        host=host,
        index=index,
        path=path,
        links=_links(spec, plan, host, index, kind, rng),
        delay_seconds=latency + (rng.uniform(low, high) if kind == "slow" else 0.0),
        failures=(1 if kind == "limited" else spec.failures_before_ok) if kind in _FIRST_STATUS else 0,
        first_status=_FIRST_STATUS.get(kind, 0),
        retry_after_seconds=spec.retry_after_seconds if kind == "limited" else None,
    )


def _target(spec: WebSpec, plan: _Plan, host: int, index: int, hop: int, kind: str, rng: random.Random) -> Link:
    form = rng.choice(("absolute", "path", "relative"))
    if hop + 1 < REDIRECTS[kind]:
        return Link(host, f"/hop/{index}/{hop + 1}", form)
    if kind == "redirect_loop":
        return Link(host, _path(spec, plan.kinds(host), index), form)
    if kind == "redirect_canary":
        return Link(CANARY, f"/redirected/{host}", "absolute")
    if kind == "redirect_failed":
        return Link(DEAD, f"/redirected/{host}", "absolute")
    # Inner pages only: a redirect ends at a page, so its outcome does not depend on the order of the crawl.
    inner = rng.randrange(max(1, spec.pages_per_host // 2))
    if kind == "redirect_away" and spec.hosts > 1:
        other = (host + 1) % spec.hosts
        return Link(other, _path(spec, plan.kinds(other), inner), "absolute")
    return Link(host, _path(spec, plan.kinds(host), inner), form)


def _links(spec: WebSpec, plan: _Plan, host: int, index: int, kind: str, rng: random.Random) -> tuple[Link, ...]:
    total, kinds = spec.pages_per_host, plan.kinds(host)
    targets = [(host, child) for child in (2 * index + 1, 2 * index + 2) if child < total]
    if index:
        targets.append((host, (index - 1) // 2))
    else:
        targets += [(other, 0) for other in (2 * host + 1, 2 * host + 2) if other < spec.hosts]
    while len(targets) < spec.links_per_page:
        if spec.hosts > 1 and rng.random() < spec.cross_host_links:
            other = (host + rng.randrange(1, spec.hosts)) % spec.hosts
            targets.append((other, rng.randrange(total)))
        else:
            targets.append((host, rng.randrange(total)))
    links = []
    for other, number in targets:
        target = _path(spec, kinds if other == host else plan.kinds(other), number)
        plain_form = "relative" if kind == "based" else "path"
        form = rng.choice(_FORMS) if spec.variations and kind != "based" else plain_form
        links.append(Link(other, target, form))
    if kind == "copies":
        path = _path(spec, kinds, index)
        links += [Link(host, f"{path}?session={number}") for number in range(1, COPIES + 1)]
    if index == 0 and spec.canary:
        links.append(Link(CANARY, f"/linked/{host}"))
    if index == 0 and spec.dead_host:
        links.append(Link(DEAD, f"/linked/{host}"))
    return tuple(links)


def answer(spec: WebSpec, host: int, path: str) -> PageSpec | None:
    """Return the page for a path and query in any spelling, or None for a 404."""
    if path == "/":
        return page(spec, host, 0)
    path = _canonical(path)
    if path == "/":
        return page(spec, host, 0)
    match = _ROUTE.match(path)
    if match is None or (index := int(match[1])) >= spec.pages_per_host:
        return None
    kind = _plan(spec).kinds(host).get(index, "page")
    hop = int(match[2] or 0)
    if hop:
        known = hop < REDIRECTS.get(kind, 0) and path == f"/hop/{index}/{hop}"
        return page(spec, host, index, hop) if known else None
    own = path_of(spec, host, index)
    if path == own:
        return page(spec, host, index)
    if kind == "copies" and path in {f"{own}?session={number}" for number in range(1, COPIES + 1)}:
        return replace(page(spec, host, index), path=path)
    return None


def robots(spec: WebSpec, host: int) -> str | None:
    """Return the robots.txt of a host, or None if it has none."""
    if host not in spec.robots_hosts:
        return None
    delay = f"Crawl-delay: {spec.crawl_delay_seconds:g}\n" if spec.crawl_delay_seconds else ""
    return f"User-agent: *\nDisallow: /private/\n{delay}"


def _canonical(path: str) -> str:
    # Handles only the spellings of this web; skitter.model.url has the complete rule.
    path, _, query = unquote(path).partition("?")
    if query:
        query = "&".join(sorted(field for field in query.split("&") if field))
    return path + ("?" + query if query else "")
