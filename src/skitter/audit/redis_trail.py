"""The trail in a Redis: a list of entries, each after its hash; one server, sentinels, or one node of a Redis Cluster.

An entry is sealed here, as Lua has no SHA-256: a script appends it if the last one is still the one that it follows,
and else answers with the one that it must follow. Jobs and schedules of a Redis have one chain.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from redis import exceptions

from skitter.audit.entry import GENESIS, Draft, Stored, read_entry, sealed
from skitter.errors import AuditError
from skitter.redis_driver.address import Address, parse_address
from skitter.redis_driver.client import DRIVER_ERRORS, RedisClient
from skitter.redis_driver.errors import TROUBLES, connection_trouble, is_reply, reply_code

KEY = "skitter:{audit}:1:entries"
"""The 1 is the version of the format. No job has this hash tag: its keys have a shard in it."""
HASH_CHARS = len(GENESIS)
RESENT = 100
"""Of the last entries, how many are looked through for one whose answer was lost."""
MAX_PAUSE_SECONDS = 0.1
_APPEND = b"""-- Append an entry if the last one is the one that it follows.
-- KEYS: the list. ARGV: the hash that it follows (longer than one: not known), the entry, how many to remove from the
-- beginning, how many of the last ones may be this one
-- Answers {1}, or {0, the last entry, the length, the first entry, seconds, microseconds}
local last = redis.call('LINDEX', KEYS[1], -1)
local head = last and string.sub(last, 1, 64) or string.rep('0', 64)
if head == ARGV[1] then
  redis.call('RPUSH', KEYS[1], ARGV[2])
  if ARGV[3] ~= '0' then redis.call('LTRIM', KEYS[1], ARGV[3], -1) end
  return {1}
end
if #ARGV[1] <= 64 then
  for _, entry in ipairs(redis.call('LRANGE', KEYS[1], -tonumber(ARGV[4]), -1)) do
    if entry == ARGV[2] then return {1} end
  end
end
local time = redis.call('TIME')
return {0, last or '', redis.call('LLEN', KEYS[1]), redis.call('LINDEX', KEYS[1], 0) or '', time[1], time[2]}"""
_SHA = hashlib.sha1(_APPEND, usedforsecurity=False).hexdigest()


class RedisTrail:
    """The chain of one Redis. Each call has a connection of its own: they are few."""

    def __init__(self, address: Address | str) -> None:
        self._address = parse_address(address) if isinstance(address, str) else address

    @property
    def store(self) -> str:
        return str(self._address)

    async def append(self, draft: Draft) -> int:
        return await self._append(draft)

    async def prune(self, through: int, draft: Draft) -> None:
        await self._append(draft, through)

    async def entries(self, after: int, limit: int) -> list[Stored]:
        async with self._connected() as client:
            base = await _first_seq(client)
            start = max(0, after + 1 - base)
            found = await client.send(("LRANGE", KEY, start, start + limit - 1))
            return [_stored(base + start + place, entry) for place, entry in enumerate(found)]

    async def entries_before(self, before: int | None, limit: int) -> list[Stored]:
        async with self._connected() as client:
            base = await _first_seq(client)
            length: int = await client.send(("LLEN", KEY))
            end = length if before is None else min(length, before - base)
            if end <= 0:
                return []
            start = max(0, end - limit)
            found = await client.send(("LRANGE", KEY, start, end - 1))
            return [_stored(base + start + place, entry) for place, entry in enumerate(found)][::-1]

    async def close(self) -> None:
        """Nothing stays open."""

    # ---- the server

    async def _append(self, draft: Draft, through: int = 0) -> int:
        """Append an entry, and remove those up to a number; the number of the new one."""
        async with self._connected() as client:
            follows, entry, seq, removed = b"?" * (HASH_CHARS + 1), b"", 0, 0
            while True:
                arguments = (follows, entry, removed, RESENT)
                answer = await client.run_script(_APPEND, _SHA, [KEY], arguments)
                if answer[0]:
                    return seq
                if entry:
                    # Another was first. Whoever comes again at the same moment would be in its way for ever.
                    await asyncio.sleep(random.uniform(0, MAX_PAUSE_SECONDS))
                _, last, length, first, seconds, microseconds = answer
                now = int(seconds) + int(microseconds) / 1e6
                before = _last_of(last, length, first) if length else None
                # As it stands there, whatever somebody has made of it.
                follows = last[:HASH_CHARS] if before is not None else GENESIS.encode()
                new = sealed(draft, before, now)
                entry, seq = new.hash.encode() + new.body, new.seq
                oldest = read_entry(_stored(0, first))
                removed = max(0, through - oldest.seq + 1) if oldest is not None else 0

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[RedisClient]:
        client = RedisClient(self._address)
        try:
            with self._errors():
                yield client
        finally:
            await client.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (*DRIVER_ERRORS, TimeoutError) as error:
            trouble = TROUBLES.get(reply_code(error)) if isinstance(error, exceptions.RedisError) else None
            if trouble is not None:
                reason, hint = f"Redis {trouble.text}", trouble.hint
            elif isinstance(error, exceptions.RedisError) and is_reply(error):
                reason, hint = " ".join(str(error).split()), f"does another program use the key {KEY} ?"
            else:
                reason, hint = connection_trouble(error, tls=self._address.tls)
            raise AuditError(f"the audit trail cannot be used: {self._address}: {reason}", hint=hint) from error


async def _first_seq(client: RedisClient) -> int:
    """The number of the first entry in the list; of one that cannot be read, by the next that can."""
    some: list[bytes] = await client.send(("LRANGE", KEY, 0, RESENT - 1))
    for place, entry in enumerate(some):
        found = read_entry(_stored(0, entry))
        if found is not None:
            return found.seq - place
    return 1


def _last_of(last: bytes, length: int, first: bytes) -> Stored:
    """The last entry; its number is its place where it cannot be read."""
    stored = _stored(0, last)
    entry, oldest = read_entry(stored), read_entry(_stored(0, first))
    seq = entry.seq if entry is not None else length + (oldest.seq - 1 if oldest is not None else 0)
    return stored._replace(seq=seq)


def _stored(seq: int, entry: Any) -> Stored:
    return Stored(seq, entry[HASH_CHARS:], entry[:HASH_CHARS].decode("ascii", "replace"))
