"""URLs this worker knows to be in the frontier: a link that stands on every page never leaves the process.

It learns from accepted commits only: its own, and those of other workers of the node (``shared_urls``). Learnt
earlier, a page that never commits would hide its links for good. Bounded: two generations, of which the older is
forgotten when the younger is full. A new run of the job has a new worker, and with it an empty one. A store that has
begun another life may lack what was committed last: then everything is forgotten, or the links of a page that is
fetched again would stay hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skitter.worker.shared_urls import SharedUrls


class KnownUrls:
    """A set that forgets what was not asked for in a while."""

    __slots__ = ("_old", "_shared", "_size", "_young")

    def __init__(self, size: int, shared: SharedUrls | None = None) -> None:
        self._size = max(1, size // 2)
        self._shared = shared
        self._young: set[str] = set()
        self._old: set[str] = set()

    def __contains__(self, url: str) -> bool:
        if url in self._young:
            return True
        if url in self._old or (self._shared is not None and url in self._shared):
            self._add(url)
            return True
        return False

    def unknown(self, urls: Iterable[str]) -> list[str]:
        """Those that are not known, in order."""
        young = self._young
        return [url for url in urls if url not in young and url not in self]

    def learn(self, urls: Sequence[str]) -> None:
        """The frontier has these."""
        for url in urls:
            self._add(url)
        if self._shared is not None:
            self._shared.learn(urls)

    def forget(self, store: str) -> None:
        """The frontier has begun another life and may have lost some of them."""
        self._young, self._old = set(), set()
        if self._shared is not None:
            self._shared.meet(store)

    def _add(self, url: str) -> None:
        if len(self._young) >= self._size:
            self._old, self._young = self._young, set()
        self._young.add(url)
