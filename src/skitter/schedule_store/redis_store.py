"""Schedules in Redis: a single server, a master behind Sentinel, or one node of a Redis Cluster.

Keys: ``skitter:{schedules}:1:documents`` is a hash from name to version and data, concatenated; ``…:history:NAME`` is a
hash from time to row. ``…:order:NAME`` and ``…:times:NAME`` are sorted sets of the same times, scored by the order in
which rows were first written and by the time itself. ``…:count`` numbers the rows. The 1 is the version of the format.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from redis import exceptions

from skitter.audit.entry import Draft
from skitter.audit.trail import Trail
from skitter.errors import ScheduleStoreError
from skitter.policy.schedule_ticks import StoreTime
from skitter.redis_driver.address import parse_address
from skitter.redis_driver.connections import blocking_client
from skitter.redis_driver.errors import TROUBLES, connection_trouble, is_reply, reply_code
from skitter.schedule_store.contract import ABSENT, ROWS_KEPT, VERSION_CHARS, Row, Stored

T = TypeVar("T")
FORMAT = 1
PREFIX = f"skitter:{{schedules}}:{FORMAT}:"
"""The hash tag puts all keys on one node of a cluster, so that a script can use them together."""
_WRITE = b"""-- Replace a document of one version, and write its rows.
-- KEYS: documents, history, order, times of this name, count
-- ARGV: name, expected version, new version, data, rows kept, then time and data of each row
local stored = redis.call('HGET', KEYS[1], ARGV[1])
if (stored and string.sub(stored, 1, #ARGV[3]) or '') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3] .. ARGV[4])
for place = 6, #ARGV, 2 do
  local at = ARGV[place]
  redis.call('HSET', KEYS[2], at, ARGV[place + 1])
  redis.call('ZADD', KEYS[3], 'NX', redis.call('INCR', KEYS[5]), at)
  redis.call('ZADD', KEYS[4], tonumber(at), at)
end
local old = redis.call('ZRANGE', KEYS[3], 0, -tonumber(ARGV[5]) - 1)
for _, at in ipairs(old) do
  redis.call('HDEL', KEYS[2], at)
  redis.call('ZREM', KEYS[3], at)
  redis.call('ZREM', KEYS[4], at)
end
return 1"""
_REMOVE = b"""-- Remove a document of one version, and its rows.
-- KEYS: documents, history, order, times of this name
-- ARGV: name, expected version
local stored = redis.call('HGET', KEYS[1], ARGV[1])
if not stored or string.sub(stored, 1, #ARGV[2]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4])
return 1"""


class RedisScheduleStore:
    """Schedules in Redis. The client is blocking and runs in its own thread."""

    def __init__(self, url: str) -> None:
        self._address = parse_address(url)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="skitter-schedules")
        self._client: Any = None

    async def time(self) -> StoreTime:
        """Return the clock of the server, which is also the steady clock."""
        seconds, microseconds = await self._call(lambda client: client.time(**self._to_one_node()))
        now = seconds + microseconds / 1e6
        return StoreTime(now, now)

    async def read(self, name: str) -> Stored | None:
        """Return a document, or None if it does not exist."""
        found = await self._call(lambda client: client.hget(PREFIX + "documents", name))
        return _stored(found) if found is not None else None

    async def read_all(self) -> dict[str, Stored]:
        """Return all documents by name."""
        found = await self._call(lambda client: client.hgetall(PREFIX + "documents"))
        return {name.decode(): _stored(data) for name, data in sorted(found.items())}

    async def write(
        self,
        name: str,
        version: str,
        new: Stored,
        rows: Sequence[Row] = (),
        entry: Draft | None = None,  # noqa: ARG002  see ``trail``
    ) -> bool:
        """Replace a document and write its rows in one script. Audit entries go to ``trail`` instead."""
        keys = [*_keys(name), PREFIX + "count"]
        words = [word for row in rows for word in (f"{row.at:.3f}", row.data)]
        arguments = [name, version, new.version, new.data, ROWS_KEPT, *words]
        return bool(await self._call(lambda client: client.eval(_WRITE, len(keys), *keys, *arguments)))

    async def remove(self, name: str, version: str, entry: Draft | None = None) -> bool:  # noqa: ARG002  as above
        """Remove a document and its rows in one script; return False if it has another version."""
        keys = _keys(name)
        if version == ABSENT:
            return False
        return bool(await self._call(lambda client: client.eval(_REMOVE, len(keys), *keys, name, version)))

    async def rows(self, name: str, limit: int) -> list[bytes]:
        """Return the rows of a document with the latest times, latest first."""
        _, history, _, times = _keys(name)

        def read(client: Any) -> list[bytes]:
            latest = client.zrevrange(times, 0, limit - 1)
            # A row that was removed between the two reads is left out.
            return [data for data in client.hmget(history, latest) if data is not None] if latest else []

        return await self._call(read)

    def trail(self) -> Trail:
        """Return the audit trail of the Redis, which may be on another node of a cluster."""
        from skitter.audit.redis_trail import RedisTrail

        return RedisTrail(self._address)

    async def close(self) -> None:
        """Close the connection and stop the thread."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown()

    # ---- the server

    def _to_one_node(self) -> dict[str, Any]:
        """Return the arguments that send a command to the node with the keys, whose clock is used in a cluster."""
        if not self._address.cluster:
            return {}
        return {"target_nodes": self._client.get_node_from_key(PREFIX + "documents")}

    async def _call(self, step: Callable[[Any], T]) -> T:
        def run() -> T:
            with self._errors():
                if self._client is None:
                    self._client = blocking_client(self._address)
                return step(self._client)

        return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (exceptions.RedisError, OSError) as error:
            self._client = None
            trouble = TROUBLES.get(reply_code(error))
            if trouble is not None:
                raise ScheduleStoreError(f"Redis {trouble.text}: {self._address}", hint=trouble.hint) from error
            if is_reply(error):
                words = " ".join(str(error).split())
                raise ScheduleStoreError(
                    f"Redis says: {words}: {self._address}",
                    hint=f"does another program use keys that begin with {PREFIX}?",
                ) from error
            reason, hint = connection_trouble(error, tls=self._address.tls)
            raise ScheduleStoreError(
                f"the Redis for schedules cannot be reached: {self._address}: {reason}", hint=hint
            ) from error


def _keys(name: str) -> list[str]:
    return [PREFIX + "documents", *(f"{PREFIX}{kind}:{name}" for kind in ("history", "order", "times"))]


def _stored(found: bytes) -> Stored:
    return Stored(found[:VERSION_CHARS].decode(), found[VERSION_CHARS:])
