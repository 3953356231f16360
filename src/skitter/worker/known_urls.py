"""URLs this worker knows to be in the frontier: a link that stands on every page never leaves the process.

It learns from accepted commits only: its own, and those of other workers of the node. Learnt earlier, a page that never
commits would hide its links for good. A new run of the job has a new worker, and with it an empty one. A store that has
begun another life may lack what was committed last: then everything is forgotten, or the links of a page that is
fetched again would stay hidden.

Bounded, in two layers. Texts that were asked for lately are in a set, where a look costs next to nothing: links that
stand on every page. Older ones go to a table of hashes (``url_table``), twenty times as many, where a look costs about
a microsecond: a twentieth of what it costs to send one in vain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skitter.worker.url_table import UrlTable

TEXTS = 50_000
"""About 8 MB."""
_COMES_BACK = 8
"""Of so many that are found in the table one becomes a text: soon all that come often, and few that do not. As long as
there is room, each does."""


class KnownUrls:
    """A set that forgets what was not asked for in a while."""

    __slots__ = ("_comes_back", "_found", "_old", "_shared", "_size", "_table", "_uses_table", "_young")

    def __init__(self, table: UrlTable, *, shared: bool = False, texts: int = TEXTS) -> None:
        """``shared``: others look into the table as well, so what is learnt goes there at once."""
        self._table = table
        self._shared = shared
        self._uses_table = shared
        """Nobody has put anything there before; on most sites nobody ever does."""
        self._size = texts
        self._found = 0
        self._comes_back = 1
        self._young: set[str] = set()
        self._old: set[str] = set()

    def __contains__(self, url: str) -> bool:
        if url in self._young:
            return True
        if url in self._old:
            self._add(url)
            return True
        if not self._uses_table or url not in self._table:
            return False
        self._found += 1
        if self._found % self._comes_back == 0:
            self._add(url)
        return True

    def unknown(self, urls: Iterable[str]) -> list[str]:
        """Those that are not known, in order."""
        young = self._young
        return [url for url in urls if url not in young and url not in self]

    def learn(self, urls: Sequence[str]) -> None:
        """The frontier has these."""
        for url in urls:
            self._add(url)
        if self._shared:
            self._table.learn(urls)

    def forget(self, store: str) -> None:
        """The frontier has begun another life and may have lost some of them."""
        self._young, self._old = set(), set()
        self._table.meet(store)

    def _add(self, url: str) -> None:
        young = self._young
        if len(young) >= self._size:
            # The old ones are in the table by now, see below.
            self._old, self._young = young, set()
            self._comes_back, self._uses_table = _COMES_BACK, True
            young = self._young
        young.add(url)
        if self._old:
            # One for one, so that no page waits for all of them.
            self._table.learn((self._old.pop(),))
