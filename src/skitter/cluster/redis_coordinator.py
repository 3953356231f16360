"""The Redis coordinator (``redis://``, ``redis+sentinel://``, ``redis+cluster://``): one Lua script a step."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence

from skitter.cluster.conflicts import Conflict, conflict_error
from skitter.cluster.contract import Check, Entry, Hold, Member, Put, Snapshot, Step
from skitter.cluster.redis_scripts import RedisScripts, redis_scripts

POLL_SECONDS = 0.2
"""Between two looks of one who waits for a change."""


class RedisCoordinator:
    """A coordinator in a Redis, by its clock. ``?namespace=NAME`` separates those that have nothing in common.

    A master that fails may take the newest writes with it, and with them a lock: ``?wait_replicas=N`` has replicas
    confirm each step first.
    """

    def __init__(self, url: str, *, session_seconds: float) -> None:
        self._scripts = redis_scripts(url)
        self.address = str(self._scripts.address)
        self.session_seconds = session_seconds
        self.locks = RedisLocks(self._scripts)
        self.members = RedisMembers(self._scripts)
        self.keys = RedisKeys(self._scripts)
        self.rates = RedisRates(self._scripts)

    async def open(self) -> None:
        await self._scripts.ping()
        await self._scripts.check()

    async def close(self) -> None:
        await self._scripts.close()

    async def ping(self) -> None:
        await self._scripts.ping()

    def on_connection_change(self, callback: Callable[[], None]) -> None:
        """Calls that fail tell of it."""


class RedisLocks:
    """Hashes with a time to live. The counter of tokens is one for all locks, and has none."""

    def __init__(self, scripts: RedisScripts) -> None:
        self._scripts = scripts

    async def acquire(
        self, name: str, owner: str, *, lifetime_seconds: float, wait_seconds: float | None
    ) -> Hold | None:
        del wait_seconds  # there is no queue
        token = await self._scripts.run("acquire", name, owner, round(lifetime_seconds * 1000))
        return None if token is None else Hold(int(token), lifetime_seconds)

    async def renew(self, name: str, owner: str, *, lifetime_seconds: float) -> Hold | None:
        token = await self._scripts.run("renew", name, owner, round(lifetime_seconds * 1000))
        return None if token is None else Hold(int(token), lifetime_seconds)

    async def release(self, name: str, owner: str) -> bool:
        # Not sent twice: the second would say that the lock was lost.
        return bool(await self._scripts.run("release", name, owner, resend=False))


class RedisMembers:
    """A sorted set of members by when they end, and a hash of their data."""

    def __init__(self, scripts: RedisScripts) -> None:
        self._scripts = scripts
        self._owner = secrets.token_hex(8)

    async def join(self, group: str, member: str, data: bytes, *, lifetime_seconds: float) -> float | None:
        milliseconds = round(lifetime_seconds * 1000)
        joined = await self._scripts.run("join", group, member, self._owner, milliseconds, data)
        return lifetime_seconds if joined else None

    async def leave(self, group: str, member: str) -> None:
        await self._scripts.run("leave", group, member, self._owner)

    async def present(self, group: str) -> list[Member]:
        found = await self._scripts.run("present", group)
        pairs = zip(found[::2], found[1::2], strict=True)
        return sorted((Member(name.decode(), data) for name, data in pairs), key=lambda member: member.name)

    async def wait_for_change(self, group: str, known: Sequence[Member], *, wait_seconds: float) -> None:
        del group, known  # the caller reads again
        await asyncio.sleep(min(POLL_SECONDS, wait_seconds))


class RedisKeys:
    """A hash for each key, and a sorted set of its children."""

    def __init__(self, scripts: RedisScripts) -> None:
        self._scripts = scripts

    async def snapshot(self, path: str) -> Snapshot:
        value, version, children = await self._scripts.run("snapshot", path)
        entry = Entry(path, value, int(version)) if version is not None else None
        return Snapshot(entry, tuple(sorted(name.decode() for name in children)))

    async def change(self, steps: Sequence[Step]) -> list[int]:
        words: list[str | bytes | int] = []
        for step in steps:
            kind = step.__struct_config__.tag
            assert isinstance(kind, str)
            version = "" if not isinstance(step, Check) and step.version is None else str(step.version)
            words += [kind, step.path, version, step.value if isinstance(step, Put) else b""]
        answer = await self._scripts.run_once("change", *words)
        if answer and answer[0] == b"conflict":
            raise conflict_error(steps[answer[1]].path, Conflict[answer[2].decode()])
        return [int(version) for version in answer]

    async def delete_tree(self, path: str) -> bool:
        return bool(await self._scripts.run_once("delete_tree", path))

    async def wait_for_change(self, path: str, known: Snapshot, *, wait_seconds: float) -> None:
        del path, known  # the caller reads again
        await asyncio.sleep(min(POLL_SECONDS, wait_seconds))


class RedisRates:
    """A time for each limit, which expires when it has passed."""

    def __init__(self, scripts: RedisScripts) -> None:
        self._scripts = scripts

    async def reserve(self, key: str, *, per_second: float, burst: int, wait_seconds: float | None) -> float | None:
        limit = "" if wait_seconds is None else wait_seconds
        delay = await self._scripts.run("reserve", key, per_second, burst, limit)
        return None if delay is None else float(delay)
