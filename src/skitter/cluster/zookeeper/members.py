"""Membership on ZooKeeper: an ephemeral node for each member, below one for its group."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from kazoo.exceptions import NodeExistsError, NoNodeError

from skitter.cluster.contract import Member
from skitter.cluster.zookeeper.address import quoted, unquoted
from skitter.cluster.zookeeper.connection import Connection
from skitter.cluster.zookeeper.request import Watch, children, create, delete, exists, get, write


class ZookeeperMembers:
    """The part ``members`` of the coordinator."""

    def __init__(self, connection: Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._written: dict[str, tuple[int, bytes]] = {}
        """The data that each own node has, with the session that it belongs to."""

    async def join(self, group: str, member: str, data: bytes, *, lifetime_seconds: float) -> float | None:
        path = f"{self._group(group)}/{quoted(member)}"
        while True:
            stat = await self._connection.read(exists(path))
            try:
                if stat is None:
                    await self._create(group, path, data)
                elif stat.ephemeralOwner != self._connection.session_id:
                    return None
                elif self._written.get(path) != (stat.ephemeralOwner, data):
                    await self._connection.call(write(path, data), again=True)
                    self._written[path] = (stat.ephemeralOwner, data)
            except (NoNodeError, NodeExistsError):
                continue
            return min(lifetime_seconds, self._connection.trusted_seconds)

    async def leave(self, group: str, member: str) -> None:
        path = f"{self._group(group)}/{quoted(member)}"
        self._written.pop(path, None)
        stat = await self._connection.read(exists(path))
        if stat is not None and stat.ephemeralOwner == self._connection.session_id:
            # Not again: after a lost session it may be another's.
            with suppress(NoNodeError):
                await self._connection.call(delete(path))

    async def present(self, group: str) -> list[Member]:
        return await self._read(group, None)

    async def wait_for_change(self, group: str, known: Sequence[Member], *, wait_seconds: float) -> None:
        path = self._group(group)
        with self._connection.watching(path, *(f"{path}/{quoted(member.name)}" for member in known)) as changed:
            if await self._read(group, self._connection.watch) == list(known):
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_seconds):
                        await changed.wait()

    async def _read(self, group: str, watch: Watch | None) -> list[Member]:
        path = self._group(group)
        try:
            nodes, _ = await self._connection.read(children(path, watch))
        except NoNodeError:
            if watch is None or await self._appears_not(path, watch):
                return []
            return await self._read(group, watch)
        found = await asyncio.gather(*(self._member(f"{path}/{node}", watch) for node in nodes))
        return sorted((member for member in found if member is not None), key=lambda member: member.name)

    async def _appears_not(self, path: str, watch: Watch | None) -> bool:
        return await self._connection.call(exists(path, watch), again=True) is None

    async def _member(self, path: str, watch: Watch | None) -> Member | None:
        try:
            data, _ = await self._connection.call(get(path, watch), again=True)
        except NoNodeError:
            return None
        return Member(unquoted(path.rpartition("/")[2]), data)

    async def _create(self, group: str, path: str, data: bytes) -> None:
        try:
            _, stat = await self._connection.call(create(path, data, ephemeral=True))
        except NoNodeError:
            await self._connection.make_container(self._group(group))
            raise
        self._written[path] = (stat.ephemeralOwner, data)

    def _group(self, group: str) -> str:
        return f"{self._path}/{quoted(group)}"
