"""A Redis that fails over, there and back: what clients see when a replica is promoted without the newest writes.

Two servers behind one address take turns. A promotion puts the data of an earlier moment into the other one, gives it
a new replication id as a promotion does, and leads the clients there: both run ids come back again and again. Clients
whose connection stays (a server was demoted and promoted while they were idle) meet the same server with a new id.
"""

from __future__ import annotations

from typing import Self

import redis

from rig.relay import Relay
from rig.servers.redis import IN_MEMORY, OwnRedis

SETTINGS = (*IN_MEMORY, "--enable-debug-command", "local")


class RewoundRedis:
    """Two servers behind a relay, and the moments of their data."""

    def __init__(self, servers: list[OwnRedis]) -> None:
        self._clients = [redis.Redis(port=server.port) for server in servers]
        self._ports = [server.port for server in servers]
        self._master = 0
        self._moments: list[dict[bytes, bytes]] = []
        self._relay = Relay("127.0.0.1", servers[0].port)

    def __enter__(self) -> Self:
        self._relay.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._relay.__exit__()
        for client in self._clients:
            client.close()

    @property
    def url(self) -> str:
        return f"redis://{self._relay.address}"

    def reset(self) -> None:
        """Begin anew, with no data and no moments."""
        self._clients[self._master].flushall()
        self._moments.clear()

    def remember(self) -> None:
        """Note this moment."""
        client = self._clients[self._master]
        keys = list(client.scan_iter(count=10_000))
        pipeline = client.pipeline(transaction=True)
        for key in keys:
            pipeline.dump(key)
        dumps = zip(keys, pipeline.execute(), strict=True)
        self._moments.append({key: dump for key, dump in dumps if dump is not None})

    def promote(self, lost: int = 0, *, moves: bool) -> None:
        """Promote a replica that lacks everything after the moment so many before the newest.

        ``moves``: the clients are cut off and find the other server; otherwise their connections stay.
        """
        lost = min(lost, len(self._moments) - 1)
        del self._moments[len(self._moments) - lost :]
        if moves:
            self._master = 1 - self._master
        client = self._clients[self._master]
        pipeline = client.pipeline(transaction=True)
        pipeline.flushall()
        for key, dump in self._moments[-1].items():
            pipeline.restore(key, 0, dump)
        pipeline.execute()
        client.execute_command("DEBUG", "CHANGE-REPL-ID")  # type: ignore[no-untyped-call]
        if moves:
            self._relay.lead_to(self._ports[self._master])
