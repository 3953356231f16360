"""Signs of a trap that one page cannot tell: it says what others have said, or its path takes any parameters.

Each worker judges by what it has seen of a host itself, and the frontier counts the verdicts of all: in a trap every
worker sees the same, whichever pages it was given. Bounded: so many hosts, so many pages and paths of each; what
was not asked for longest is forgotten, and the next page is then one of its own.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from skitter.extract.content_fingerprint import content_fingerprint
from skitter.extract.response import Response
from skitter.model.url import host_key

HOSTS = 500
PAGES = 128
"""Of a host, the newest. A calendar of days has 84 pages that differ: a weekday and a month."""
PATHS = 64
SHAPES = 32
"""Sets of parameter names that one path may be asked with. A page that takes parameters knows a handful of sets; five
facets that can be switched on and off are 32."""
T = TypeVar("T", bound=Hashable)


class _Recent(Generic[T]):
    """A set that forgets what was added longest ago."""

    __slots__ = ("_members", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._members: dict[T, None] = {}

    def __len__(self) -> int:
        return len(self._members)

    def add(self, member: T) -> bool:
        """Whether it was there."""
        known = member in self._members
        if known:
            del self._members[member]
        elif len(self._members) >= self._size:
            del self._members[next(iter(self._members))]
        self._members[member] = None
        return known


class _OfHost:
    """What was seen of one host."""

    __slots__ = ("pages", "shapes")

    def __init__(self) -> None:
        self.pages: _Recent[int] = _Recent(PAGES)
        self.shapes: dict[str, _Recent[frozenset[str]]] = {}


class TrapDetector:
    """The memory of one worker."""

    def __init__(self) -> None:
        self._hosts: dict[str, _OfHost] = {}

    def judge(self, response: Response) -> bool | None:
        """True: the page is a sign of a trap; False: it is one of its own; None: it tells nothing."""
        said = content_fingerprint(response)
        url = response.request.url
        host = self._of(host_key(url))
        explodes = _explodes(host, url)
        if said is None:
            return True if explodes else None
        return host.pages.add(said) or explodes

    def _of(self, key: str) -> _OfHost:
        host = self._hosts.pop(key, None) or _OfHost()
        self._hosts[key] = host
        if len(self._hosts) > HOSTS:
            del self._hosts[next(iter(self._hosts))]
        return host


def _explodes(host: _OfHost, url: str) -> bool:
    """Its path was asked with as many sets of parameters as are remembered."""
    path, _, query = url.partition("?")
    if "&" not in query:
        return False
    shapes = host.shapes.pop(path, None) or _Recent(SHAPES)
    host.shapes[path] = shapes
    if len(host.shapes) > PATHS:
        del host.shapes[next(iter(host.shapes))]
    shapes.add(frozenset(field.partition("=")[0] for field in query.split("&")))
    return len(shapes) >= SHAPES
