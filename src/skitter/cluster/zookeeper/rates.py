"""Rate limits on ZooKeeper: a node for each key holds when the next event is due, and is written by its version.

Times are those of the leader, which a node's time of change tells. A process knows them from its own last write and the
time since, so clocks of machines need not agree.
"""

from __future__ import annotations

import asyncio
import random
import struct
import time
from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from skitter.cluster.gcra import next_event
from skitter.cluster.zookeeper.address import quoted
from skitter.cluster.zookeeper.connection import Connection
from skitter.cluster.zookeeper.request import create, get, write
from skitter.errors import ClusterUnavailableError

_CLOCK_SECONDS = 10.0
"""How long a look at the leader's clock is good for: another server may lead by then."""
_DUE = struct.Struct("!d")


class ZookeeperRates:
    """The part ``rates`` of the coordinator."""

    def __init__(self, connection: Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._offset = 0.0
        """The leader's clock less this process's: as answers take time a moment too small, so that nobody is early."""
        self._looked_at = float("-inf")

    async def reserve(self, key: str, *, per_second: float, burst: int, wait_seconds: float | None) -> float | None:
        path = f"{self._path}/{quoted(key)}"
        until = time.monotonic() + self._connection.answer_seconds
        while True:
            version, due = await self._read(path)
            now = await self._leader_time()
            wait, due = next_event(due, now, per_second=per_second, burst=burst, wait_seconds=wait_seconds)
            if wait is None or due is None:
                return None
            sent_at = time.monotonic()
            if await self._write(path, version, due):
                # Counted from before the write: nobody waits for its answer twice.
                return max(0.0, wait - (time.monotonic() - sent_at))
            if time.monotonic() > until:
                raise ClusterUnavailableError(f"other clients keep changing the rate limit: {key}", hint="try again")
            await asyncio.sleep(random.uniform(0, 0.01))

    async def _read(self, path: str) -> tuple[int | None, float | None]:
        """Return the version of a key, None if it is not there, and when its events so far are over."""
        try:
            data, stat = await self._connection.call(get(path), again=True)
        except NoNodeError:
            return None, None
        return stat.version, _DUE.unpack(data)[0] if len(data) == _DUE.size else None

    async def _write(self, path: str, version: int | None, due: float) -> bool:
        """Return whether it was written; False: another was faster."""
        data = _DUE.pack(due)
        try:
            if version is None:
                _, stat = await self._connection.call(create(path, data))
            else:
                stat = await self._connection.call(write(path, data, version))
        except (BadVersionError, NodeExistsError, NoNodeError):
            return False
        self._look(stat)
        return True

    async def _leader_time(self) -> float:
        if time.monotonic() - self._looked_at > _CLOCK_SECONDS:
            self._look(await self._connection.call(write(self._path, b""), again=True))
        return time.monotonic() + self._offset

    def _look(self, stat: Any) -> None:
        self._looked_at = time.monotonic()
        self._offset = stat.mtime / 1_000 - self._looked_at
