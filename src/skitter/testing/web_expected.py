"""Expected result of a crawl of a synthetic web, computed from its spec alone.

The walk needs no server, no URL parser and no HTML parser, because the links of a page name their targets. So it shares
no code, and no bugs, with the crawler under test. URLs are in canonical form; convert those of a crawl to the same form
(``skitter.model.url.canonical``) before you compare them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from skitter.testing.web_pages import Link, PageSpec, answer
from skitter.testing.web_spec import CANARY, DEAD, WebSpec, bases_of

MAX_REDIRECTS = 10
MAX_VISITS = 2
"""Maximum visits of one URL in one redirect chain. Another visit would be a loop."""


@dataclass
class Expected:
    """Expected URLs by terminal state. Together they are all URLs that a crawl may have seen."""

    done: set[str] = field(default_factory=set)
    redirected: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    """Class of the error by URL: http_4xx, http_5xx, redirect, connect."""
    excluded: set[str] = field(default_factory=set)
    """URLs that robots.txt or the network guard excludes."""
    hops: int = 0
    """Number of redirected requests. A URL that occurs twice in a chain counts twice."""
    titles: dict[str, str] = field(default_factory=dict)
    """Titles of the HTML pages in ``done``."""

    @property
    def seen(self) -> set[str]:
        return self.done | self.redirected | self.failed.keys() | self.excluded


class _Step:
    """A URL to visit, the redirects that led to it, and whether it comes from a seed."""

    __slots__ = ("chain", "host", "path", "seed")

    def __init__(self, host: int, path: str, chain: tuple[tuple[int, str], ...] = (), seed: bool = False) -> None:
        self.host = host
        self.path = path
        self.chain = chain
        self.seed = seed


class _Walk:
    def __init__(self, spec: WebSpec, bases: dict[int, str], *, obey_robots: bool, allow_private: bool) -> None:
        self._spec = spec
        self._bases = bases
        self._obey_robots = obey_robots
        self._allow_private = allow_private
        self._scope: set[int] = set()
        """Hosts whose links are followed."""
        self._permitted: set[int] = set()
        """Hosts that may be connected to although they are on loopback."""
        self._seen: set[tuple[int, str]] = set()
        self._queue: deque[_Step] = deque()
        self._pages: list[PageSpec] = []
        self.result = Expected()

    def run(self, seeds: Iterable[tuple[int, str]]) -> Expected:
        for host, path in seeds:
            self._scope.add(host)
            self._permitted.add(host)
            self._push(_Step(host, path, seed=True))
        # Redirects of the seeds are first, because their targets widen the scope for every other page.
        self._drain()
        while self._pages:
            for link in self._pages.pop().links:
                if link.host in self._scope:
                    self._push(_Step(link.host, link.path))
            self._drain()
        return self.result

    def _push(self, step: _Step) -> None:
        if (step.host, step.path) not in self._seen:
            self._seen.add((step.host, step.path))
            self._queue.append(step)

    def _drain(self) -> None:
        while self._queue:
            self._visit(self._queue.popleft())

    def _visit(self, step: _Step) -> None:
        url = self._bases[step.host] + step.path
        result = self.result
        if step.host not in self._permitted and not self._allow_private:
            result.excluded.add(url)
        elif step.host == DEAD:
            result.failed[url] = "connect"
        elif self._obey_robots and step.host in self._spec.robots_hosts and step.path.startswith("/private/"):
            result.excluded.add(url)
        elif step.host == CANARY:
            result.done.add(url)
        else:
            self._take(step, url, answer(self._spec, step.host, step.path))

    def _take(self, step: _Step, url: str, page: PageSpec | None) -> None:
        result = self.result
        if page is None or 400 <= page.status < 500:
            result.failed[url] = "http_4xx"
        elif page.status >= 500:
            result.failed[url] = "http_5xx"
        elif page.location is not None:
            self._redirect(step, url, page.location)
        else:
            result.done.add(url)
            self._pages.append(page)
            if page.is_html:
                result.titles[url] = page.title

    def _redirect(self, step: _Step, url: str, target: Link) -> None:
        chain = (*step.chain, (step.host, step.path))
        visits = chain.count((target.host, target.path))
        if visits >= MAX_VISITS or len(chain) > MAX_REDIRECTS:
            self.result.failed[url] = "redirect"
            return
        self.result.redirected.add(url)
        self.result.hops += 1
        if step.seed:
            self._permitted.add(target.host)
            self._scope.add(target.host)
        elif target.host not in self._scope:
            return
        following = _Step(target.host, target.path, chain, step.seed)
        if visits:
            # The chain has been at this URL before: the page is wanted although its URL was seen.
            self._queue.append(following)
        else:
            self._push(following)


def expected(
    spec: WebSpec,
    urls: Sequence[str],
    seeds: Iterable[str] | None = None,
    *,
    obey_robots: bool = True,
    allow_private: bool = False,
    canary_url: str = "",
    dead_url: str = "",
) -> Expected:
    """Return the expected result of a crawl by the built-in spider.

    ``seeds`` are URLs of this web; the default is the root of every host. ``urls`` are the roots of all hosts in order.
    """
    bases = bases_of(urls, canary_url, dead_url)
    places = [_host_and_path(bases, url) for url in (urls if seeds is None else seeds)]
    return _Walk(spec, bases, obey_robots=obey_robots, allow_private=allow_private).run(places)


def _host_and_path(bases: dict[int, str], url: str) -> tuple[int, str]:
    for host, base in bases.items():
        if base and url.startswith(base + "/"):
            return host, url[len(base) :]
    raise ValueError(f"not a URL of this web: {url}")
