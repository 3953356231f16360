"""Locks on ZooKeeper: a queue of ephemeral nodes in order of arrival, each watching the one before it only.

The token is the id of the transaction that made the holder's node (czxid). It grows for the whole ensemble, while the
number in a node's name begins anew when the parent is made again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time

from kazoo.exceptions import NoNodeError

from skitter.cluster.contract import Hold
from skitter.cluster.zookeeper.address import quoted
from skitter.cluster.zookeeper.connection import Connection
from skitter.cluster.zookeeper.request import children, create, delete, exists
from skitter.errors import ClusterError, ClusterUnavailableError

_log = logging.getLogger("skitter.cluster")
_Key = tuple[str, str]
"""The name of a lock, and an owner."""
_NODE = re.compile(r"([0-9a-f]{24})-([0-9]{10})")


class _Place:
    """A node in the queue of a lock."""

    def __init__(self, node: str, session_id: int, token: int) -> None:
        self.node = node
        self.session_id = session_id
        self.token = token
        self.end: asyncio.TimerHandle | None = None
        """The end of its lifetime, once it is the first."""


class ZookeeperLocks:
    """The part ``locks`` of the coordinator. An owner that asks again finds the place in the queue that it has."""

    def __init__(self, connection: Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._places: dict[_Key, _Place] = {}
        self._unsure: set[_Key] = set()
        """Those who may have a node of which no answer has told."""
        self._to_release: set[_Key] = set()
        """Those whose node is to be deleted: it would block the lock as long as the session lives."""
        self._cleaning: asyncio.Task[None] | None = None
        connection.on_change(self._clean)

    async def acquire(
        self, name: str, owner: str, *, lifetime_seconds: float, wait_seconds: float | None
    ) -> Hold | None:
        until = None if wait_seconds is None else time.monotonic() + wait_seconds
        while True:
            sent_at = time.monotonic()
            place = await self._place(name, owner)
            before = await self._before(name, owner, place)
            if before == "":
                return self._hold((name, owner), place, sent_at, lifetime_seconds)
            if before is not None and not await self._wait_for_end(f"{self._queue(name)}/{before}", until):
                await self.release(name, owner)
                return None

    async def renew(self, name: str, owner: str, *, lifetime_seconds: float) -> Hold | None:
        place = self._places.get((name, owner))
        if place is None or place.session_id != self._connection.session_id:
            return None
        sent_at = time.monotonic()
        path = f"{self._queue(name)}/{place.node}"
        # Not a plain read: a server that is cut off still has the node when the leader has ended the session.
        if await self._connection.read_now(exists(path)) is None or self._places.get((name, owner)) is not place:
            return None
        return self._hold((name, owner), place, sent_at, lifetime_seconds)

    async def release(self, name: str, owner: str) -> bool:
        key = (name, owner)
        place = self._forget(key)
        had = place is not None or key in self._unsure
        if not had and key not in self._to_release:
            return False
        # Until it is known to be gone, also if this call is cancelled.
        self._to_release.add(key)
        nodes = [place.node] if place is not None else await self._find(name, owner)
        deleted = [await self._delete(f"{self._queue(name)}/{node}") for node in nodes]
        self._unsure.discard(key)
        self._to_release.discard(key)
        return had and any(deleted)

    def close(self) -> None:
        """Stop the clocks: what is still held ends with the session."""
        for key in list(self._places):
            self._forget(key)
        if self._cleaning is not None:
            self._cleaning.cancel()

    def _hold(self, key: _Key, place: _Place, sent_at: float, lifetime_seconds: float) -> Hold:
        """Begin a lifetime. A hold that is not renewed ends by itself, also if its session lives on."""
        lifetime = min(lifetime_seconds, self._connection.trusted_seconds)
        if place.end is not None:
            place.end.cancel()
        delay = sent_at + lifetime - time.monotonic()
        place.end = asyncio.get_running_loop().call_later(delay, self._end, key)
        return Hold(place.token, lifetime)

    def _end(self, key: _Key) -> None:
        self._forget(key)
        self._to_release.add(key)
        self._clean()

    def _forget(self, key: _Key) -> _Place | None:
        place = self._places.pop(key, None)
        if place is not None and place.end is not None:
            place.end.cancel()
        return place

    async def _delete(self, path: str) -> bool:
        """Delete an own node; False: it was gone before."""
        session_id = self._connection.session_id
        until = time.monotonic() + self._connection.answer_seconds
        was_sent = False
        while True:
            try:
                await self._connection.call(delete(path))
            except NoNodeError:
                # Nobody else deletes it while its session lives: an answer was lost.
                return was_sent and self._connection.session_id == session_id
            except ClusterUnavailableError:
                was_sent = True
                if time.monotonic() > until:
                    raise
            else:
                return True

    # ---- the queue

    def _queue(self, name: str) -> str:
        return f"{self._path}/{quoted(name)}"

    async def _place(self, name: str, owner: str) -> _Place:
        """Return the owner's place in the queue: the one it has, or a new one at the end."""
        key = (name, owner)
        place = self._places.get(key)
        if place is not None and place.session_id == self._connection.session_id:
            return place
        self._forget(key)
        if key in self._unsure:
            for node in await self._find(name, owner):
                stat = await self._connection.call(exists(f"{self._queue(name)}/{node}"), again=True)
                if stat is not None and stat.ephemeralOwner == self._connection.session_id:
                    return self._note(key, _Place(node, stat.ephemeralOwner, stat.czxid))
        self._unsure.add(key)
        path = f"{self._queue(name)}/{_owner_id(owner)}-"
        while True:
            try:
                made, stat = await self._connection.call(
                    create(path, owner.encode(errors="surrogatepass"), ephemeral=True, sequence=True)
                )
            except NoNodeError:
                await self._connection.make_container(self._queue(name))
            else:
                return self._note(key, _Place(made.rpartition("/")[2], stat.ephemeralOwner, stat.czxid))

    def _note(self, key: _Key, place: _Place) -> _Place:
        self._unsure.discard(key)
        self._places[key] = place
        return place

    async def _find(self, name: str, owner: str) -> list[str]:
        """Return the nodes of an owner, of which there may be one that no answer has told of."""
        return [node for node in await self._nodes(name) if node.startswith(f"{_owner_id(owner)}-")]

    async def _nodes(self, name: str) -> list[str]:
        """Return the queue, the holder first."""
        path = self._queue(name)
        try:
            nodes, _ = await self._connection.read(children(path))
        except NoNodeError:
            return []
        return sorted((node for node in nodes if _NODE.fullmatch(node)), key=lambda node: int(node[-10:]))

    async def _before(self, name: str, owner: str, place: _Place) -> str | None:
        """Return the node before a place; empty: it is the first; None: the place is gone, with its session."""
        nodes = await self._nodes(name)
        if place.node not in nodes:
            self._forget((name, owner))
            return None
        position = nodes.index(place.node)
        return nodes[position - 1] if position else ""

    async def _wait_for_end(self, path: str, until: float | None) -> bool:
        """Wait until a node is gone or the connection has changed; False: it is time."""
        connection = self._connection
        with connection.watching(path) as changed:
            if await connection.call(exists(path, connection.watch), again=True) is None:
                return True
            try:
                async with asyncio.timeout(None if until is None else until - time.monotonic()):
                    await changed.wait()
            except TimeoutError:
                return False
        return True

    # ---- releases that have failed

    def _clean(self) -> None:
        if self._to_release and self._connection.is_connected and (self._cleaning is None or self._cleaning.done()):
            self._cleaning = asyncio.create_task(self._release_all())

    async def _release_all(self) -> None:
        while self._to_release and self._connection.is_connected:
            for name, owner in list(self._to_release):
                try:
                    await self.release(name, owner)
                except ClusterUnavailableError:
                    # The next connection brings the next attempt.
                    continue
                except ClusterError as error:
                    _log.warning("a lock cannot be released: %s: %s", name, error)
                    self._to_release.discard((name, owner))


def _owner_id(owner: str) -> str:
    return hashlib.blake2b(owner.encode(errors="surrogatepass"), digest_size=12).hexdigest()
