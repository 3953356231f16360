"""Consistent hashing of documents over several MongoDB servers, with moves when the servers change.

The servers themselves keep what they are a ring of. When a sink is opened with others, the documents whose home has
changed are moved, before anything is written: first there, then no longer here. So a document that a ``kill -9`` leaves
in two places is found by the next ``open``, which goes on moving until every document is at home and none elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from skitter.cluster.ring import Ring
from skitter.sinks.databases.mongodb_collection import Document, MongodbServer

_MOVED_AT_ONCE = 500
_NAME = "homes"


def document_ring(names: Sequence[str]) -> Ring:
    """The ring that documents are stored by. One point a virtual node: with more, stored documents had other homes."""
    return Ring(names, points=1)


class ServerRing:
    """The servers of a ring, and the documents' distribution over them."""

    def __init__(self, names: Sequence[str], server_of: Callable[[str], MongodbServer]) -> None:
        self.ring = document_ring(names)
        self.moved = 0
        """The number of documents that the last ``rebalance`` moved."""
        self._server_of = server_of
        self._servers: dict[str, MongodbServer] = {}

    def connect(self) -> None:
        for name in self.ring.servers:
            self._connected(name)

    def close(self) -> None:
        for server in self._servers.values():
            server.close()
        self._servers.clear()

    def at(self, key: str) -> MongodbServer:
        return self._connected(self.ring.home(key))

    def empty(self) -> None:
        """Empty all servers, also former ones that may still hold documents."""
        for name in {*self.ring.servers, *self._earlier()}:
            self._connected(name).empty()

    def documents(self) -> Iterator[Document]:
        """Iterate over all documents, each once, also while some of them are on their way to another server."""
        for name in [*self.ring.servers, *(name for name in self._earlier() if name not in self.ring.servers)]:
            found = self._connected(name).all_documents()
            while batch := list(islice(found, _MOVED_AT_ONCE)):
                # What is not at home may be there as well, and newer: a move copies first.
                homes: defaultdict[str, list[str]] = defaultdict(list)
                for document in batch:
                    key = document["_id"]
                    if isinstance(key, str) and self.ring.home(key) != name:
                        homes[self.ring.home(key)].append(key)
                twice = {
                    document["_id"]
                    for home, keys in homes.items()
                    for document in self._connected(home).documents(keys)
                }
                # Keys of other programs may be anything, also what no set takes.
                yield from (one for one in batch if not (isinstance(one["_id"], str) and one["_id"] in twice))

    def rebalance(self) -> None:
        """Move every document to its server. May be called again, also after a crash."""
        self.moved = 0
        earlier = self._earlier()
        if not earlier:
            return
        # Before anything moves: whoever comes next, with whichever servers, knows where to look.
        self._describe([*earlier])
        for name in earlier:
            self._bring_home(name)
        self._describe([])

    def _earlier(self) -> list[str]:
        """Return the servers that may hold documents of others; empty when no move is unfinished."""
        names: set[str] = set()
        settled = True
        for name in self.ring.servers:
            description = self._connected(name).description(_NAME)
            servers, moving = list(description.get("servers", ())), list(description.get("moving", ()))
            settled = settled and servers == [*self.ring.servers] and not moving
            names |= {*servers, *moving}
        return [] if settled else sorted({*names, *self.ring.servers})

    def _describe(self, moving: list[str]) -> None:
        for name in self.ring.servers:
            self._connected(name).describe(_NAME, {"servers": [*self.ring.servers], "moving": moving})

    def _bring_home(self, name: str) -> None:
        here = self._connected(name)
        strangers: Iterator[str] = (key for key in here.keys() if self.ring.home(key) != name)  # noqa: SIM118  no dict
        while keys := list(islice(strangers, _MOVED_AT_ONCE)):
            by_home: defaultdict[str, list[str]] = defaultdict(list)
            for key in keys:
                by_home[self.ring.home(key)].append(key)
            for home, group in by_home.items():
                self._connected(home).insert_absent(here.documents(group))
                here.delete(group)
                self.moved += len(group)

    def _connected(self, name: str) -> MongodbServer:
        server = self._servers.get(name)
        if server is None:
            # Known before it is connected, so that it is closed in any case.
            server = self._servers[name] = self._server_of(name)
        if not server.connected:
            server.connect()
        return server
