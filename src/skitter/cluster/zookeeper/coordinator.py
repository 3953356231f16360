"""The coordinator on ZooKeeper: one session, and below one root node the locks, members, keys and limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from skitter.cluster.zookeeper.address import parse_ensemble
from skitter.cluster.zookeeper.connection import Connection
from skitter.cluster.zookeeper.keys import ZookeeperKeys
from skitter.cluster.zookeeper.locks import ZookeeperLocks
from skitter.cluster.zookeeper.members import ZookeeperMembers
from skitter.cluster.zookeeper.rates import ZookeeperRates
from skitter.cluster.zookeeper.request import exists
from skitter.errors import SessionExpiredError


class ZookeeperCoordinator:
    """``zookeeper://h1,h2,h3/path``; see docs/how-to/zookeeper.md."""

    def __init__(self, url: str, *, session_seconds: float) -> None:
        ensemble = parse_ensemble(url, session_seconds=session_seconds)
        self.address = ensemble.name
        self._connection = Connection(ensemble)
        self._session_id = 0
        """The session of the last ping."""
        self._folders = [f"{ensemble.root}/{name}" for name in ("locks", "members", "keys", "rates")]
        locks, members, keys, rates = self._folders
        self.locks = ZookeeperLocks(self._connection, locks)
        self.members = ZookeeperMembers(self._connection, members)
        self.keys = ZookeeperKeys(self._connection, keys)
        self.rates = ZookeeperRates(self._connection, rates)

    @property
    def session_seconds(self) -> float:
        return self._connection.trusted_seconds

    async def open(self) -> None:
        await self._connection.open()
        self._session_id = self._connection.session_id
        await asyncio.gather(*map(self._connection.make_path, self._folders))

    async def close(self) -> None:
        self.locks.close()
        await self._connection.close()

    async def ping(self) -> None:
        await self._connection.read_now(exists("/"))
        session_id, self._session_id = self._session_id, self._connection.session_id
        if session_id != self._session_id:
            raise SessionExpiredError(
                f"the session with ZooKeeper has expired: {self.address}",
                hint="was it, or this process, unavailable for longer than session_seconds?",
            )

    def on_connection_change(self, callback: Callable[[], None]) -> None:
        self._connection.on_change(callback)
