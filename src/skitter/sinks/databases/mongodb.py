"""The MongoDB sink: ``mongodb://…#collection``, or ``mongodb+ring://HOST,HOST…#collection`` for several servers.

``mongodb://a,b`` is one replica set: so MongoDB writes it, and so it stays. A ring has a scheme of its own: its servers
know nothing of each other, and each holds its share of the items (``mongodb_sharding``). There are no transactions over
a batch: when some items are refused, the others are there already, and are set to the same when they come again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from skitter.errors import BadItemsError, ItemError, SinkError, UsageError
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.sinks.databases.column_names import short_key
from skitter.sinks.databases.machine_lock import MachineLock
from skitter.sinks.databases.mongodb_collection import MongodbServer
from skitter.sinks.databases.mongodb_documents import decoded, encoded
from skitter.sinks.databases.mongodb_sharding import ServerRing
from skitter.sinks.item_keys import items_with_keys
from skitter.sinks.targets import Target

RING = "mongodb+ring"
_Record = tuple[int, dict[str, Any]]
"""With the position of its item."""
_MARK = b"1"
_PORT = "27017"


class MongodbSink:
    """A document for each key. An item sets the fields it has; what others have put into a document stays."""

    exact = True

    def __init__(self, target: Target) -> None:
        self._ring = target.scheme == RING
        self.target = _name_of_ring(target) if self._ring else target.name
        self._target = target
        self._server_ring = _server_ring(target)
        self._lock = MachineLock(target.job, self.target)

    def take(self) -> None:
        self._lock.take()

    def open(self, progress: SinkProgress) -> bytes:
        self._server_ring.close()
        try:
            self._server_ring.connect()
            if self._target.overwrite and not progress.mark:
                self._server_ring.empty()
            if self._ring:
                self._server_ring.rebalance()
        except SinkError:
            self._server_ring.close()
            raise
        return _MARK

    def write(self, items: Sequence[Item]) -> bytes:
        groups: defaultdict[str, list[_Record]] = defaultdict(list)
        for item, (key, record) in zip(
            items, items_with_keys(items, self._target.key_fields, self.target), strict=True
        ):
            groups[short_key(key)].append((item.position, record))
        try:
            reasons = self._upsert(groups)
        except SinkError:
            self._server_ring.close()
            raise
        if reasons:
            raise BadItemsError(self.target, dict(sorted(reasons.items())))
        return _MARK

    def _upsert(self, groups: Mapping[str, list[_Record]]) -> dict[int, str]:
        """Upsert groups of records; return position -> reason of those that were refused."""
        doubtful: list[str] = []
        by_home: defaultdict[MongodbServer, list[tuple[str, bytes]]] = defaultdict(list)
        for key, group in groups.items():
            try:
                document = encoded(key, _merged(group))
            except ItemError:
                doubtful.append(key)
            else:
                by_home[self._server_ring.at(key)].append((key, document))
        for server, batch in by_home.items():
            doubtful += [batch[number][0] for number in server.upsert(batch)]
        return {position: reason for key in doubtful for position, reason in self._one_by_one(key, groups[key])}

    def _one_by_one(self, key: str, group: list[_Record]) -> Iterator[tuple[int, str]]:
        """Upsert items with the same key one by one, because perhaps only one is bad."""
        for position, record in group:
            try:
                for reason in self._server_ring.at(key).upsert([(key, encoded(key, record))]).values():
                    yield position, reason
            except ItemError as error:
                yield position, str(error)

    def finish(self) -> None:
        """Do nothing: every document was written durably by ``write``."""

    def close(self, *, complete: bool = False) -> None:  # noqa: ARG002  nothing is kept for the resuming
        self._server_ring.close()
        self._lock.release()


def records(target: Target) -> Iterator[dict[str, Any]]:
    """Iterate over the records of a collection; of a ring, over those of all its servers, each once."""
    server_ring = _server_ring(target)
    try:
        server_ring.connect()
        for document in server_ring.documents():
            yield decoded(document)
    finally:
        server_ring.close()


def _server_ring(target: Target) -> ServerRing:
    if not target.path.strip("/") or not target.fragment:
        raise UsageError(
            f"no database or no collection is named: {target.name}",
            hint="mongodb://USER:PASSWORD@HOST:PORT/DATABASE#COLLECTION",
        )
    # ?ring= tells rings of a job apart that have the same database and collection, and is no option of a server.
    options = {option: value for option, value in target.options.items() if option != "ring"}
    names = _servers(target) if target.scheme == RING else [target.hosts]
    return ServerRing(names, lambda hosts: MongodbServer(target, hosts, options))


def _merged(group: list[_Record]) -> dict[str, Any]:
    """A later item sets what it has, as it would have set it there."""
    merged: dict[str, Any] = {}
    for _, record in group:
        merged.update(record)
    return merged


def _servers(target: Target) -> list[str]:
    """``host:port`` of each, in one form, so that a server has one name."""
    written = filter(None, target.hosts.lower().split(","))
    servers = [host if ":" in host.rpartition("]")[2] else f"{host}:{_PORT}" for host in written]
    if not servers:
        raise UsageError(
            f"the servers of the ring are not named: {target.name}",
            hint="name them, also to resume: -o mongodb+ring://HOST,HOST,…/DATABASE#COLLECTION",
        )
    return servers


def _name_of_ring(target: Target) -> str:
    """Without its servers: a ring stays the same target when one joins."""
    scheme, _, rest = target.name.partition("://")
    return f"{scheme}:///{rest.partition('/')[2]}"
