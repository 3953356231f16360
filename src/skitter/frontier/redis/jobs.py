"""The jobs in one Redis: the prefixes of their keys, the list of jobs, and the removal of one."""

from __future__ import annotations

import binascii
import itertools
from collections.abc import AsyncIterator
from urllib.parse import quote

from skitter.errors import DamageError
from skitter.frontier.redis.client import RedisServer
from skitter.frontier.redis.codec import run_of, shards_of
from skitter.redis_driver.address import MAX_SHARDS, Address, parse_address

JOBS_KEY = "skitter:jobs"
"""The key of the set that has the names of all jobs."""
SLOTS = 16384
"""The number of slots of every Redis Cluster."""
DROPPED = "dropped"
"""The key of a job that is being removed: its last run, and its number of shards. A new job of this name goes on
counting runs, and so finds nothing of the old one: the names of keys have their run."""
_SCAN_COUNT = 2000


def prefix_of(job_name: str, shard: str = "0") -> str:
    """The prefix of every key of a job. Quoted: a brace or a colon in a name would end the hash tag."""
    return f"skitter:{{{quote(job_name, safe='')}:{shard}}}:"


def prefixes_of(job_name: str, shards: int) -> list[str]:
    """The prefix of the keys of each shard.

    A Redis Cluster keeps the keys of a hash tag together, in one of its slots. The names are chosen so that one slot
    lies in each of as many equal parts of all: nodes that share the slots evenly share the shards evenly.
    """
    return [_prefix_of_shard(job_name, number, shards) for number in range(shards)]


def _prefix_of_shard(job_name: str, number: int, shards: int) -> str:
    lead = prefix_of(job_name)
    if number == 0:
        return lead
    part = (slot_of(lead) * shards // SLOTS + number) % shards
    names = (prefix_of(job_name, f"{number}.{attempt}") for attempt in itertools.count())
    return next(name for name in names if slot_of(name) * shards // SLOTS == part)


def slot_of(key: str) -> int:
    """The slot of a key with a hash tag in a Redis Cluster."""
    tag = key.partition("{")[2].partition("}")[0]
    return binascii.crc_hqx(tag.encode(), 0) % SLOTS


async def list_jobs(url: str) -> list[str]:
    """The names of the jobs in a Redis."""
    server = RedisServer(parse_address(url))
    try:
        # A name that is no text must not hide the other jobs.
        return sorted(name.decode(errors="backslashreplace") for name in await server.command("SMEMBERS", JOBS_KEY))
    finally:
        await server.close()


async def drop_job(url: str, job_name: str) -> bool:
    """Remove a job and everything of it; False: there was none. Killed half-way, it can be done again."""
    address = parse_address(url)
    lead, *others = [(RedisServer(address), prefix) for prefix in await _prefixes(address, job_name)]
    try:
        existed = await _mark_dropped(*lead)
        for server, prefix in others:
            # Whoever is still at the job is told that it is gone, and writes nothing more.
            await server.command("UNLINK", prefix + "job")
            await remove_keys(server, prefix)
        server, prefix = lead
        await _unlink(server, prefix, "*", prefix + DROPPED)
        await server.command("UNLINK", prefix + DROPPED)
    finally:
        for server, _ in (lead, *others):
            await server.close()
    await _change_list(address, "SREM", job_name)
    return existed


async def _mark_dropped(server: RedisServer, prefix: str) -> bool:
    """Remove the job's record, and mark what it leaves as old. Answers whether there was anything.

    Of a record that cannot be read the number of shards is 0: not known.
    """
    if not await server.command("EXISTS", prefix + "job"):
        half_dropped: int = await server.command("EXISTS", prefix + DROPPED)
        return half_dropped == 1
    try:
        # Not GET, which fails for what is no string.
        (record,) = await server.command("MGET", prefix + "job")
        run, shards = run_of(record or b""), shards_of(record or b"")
    except DamageError:
        run, shards = await _last_run(server, prefix), 0
    await server.command("SET", prefix + DROPPED, f"{run} {shards}")
    await server.command("UNLINK", prefix + "job")
    return True


async def _prefixes(address: Address, job_name: str) -> list[str]:
    """The prefixes of all shards; also of a job of another format, and of one that is half dropped or absent."""
    server, lead = RedisServer(address), prefix_of(job_name)
    try:
        record, dropped = await server.command("MGET", lead + "job", lead + DROPPED)
        try:
            shards = shards_of(record) if record is not None else int(dropped.split()[1]) if dropped else 0
        except (DamageError, ValueError, LookupError):
            shards = 0
        return prefixes_of(job_name, shards) if 0 < shards <= MAX_SHARDS else await _prefixes_found(server, job_name)
    finally:
        await server.close()


async def _prefixes_found(server: RedisServer, job_name: str) -> list[str]:
    """The prefixes of a job whose record cannot be read, for every number of shards of which one has a record."""
    found = {prefix_of(job_name): None}
    for shards in range(2, MAX_SHARDS + 1):
        if await server.command("EXISTS", _prefix_of_shard(job_name, 1, shards) + "job"):
            found |= dict.fromkeys(prefixes_of(job_name, shards))
    return list(found)


async def _last_run(server: RedisServer, prefix: str) -> int:
    """The last run of a job whose record cannot be read, by the names of its keys, which begin with their run."""
    runs = [0]
    async for keys in scan_keys(server, prefix, "[0-9]*:*"):
        words = (key.removeprefix(prefix.encode()).partition(b":")[0] for key in keys)
        runs += [int(word) for word in words if word.isdigit()]
    return max(runs)


async def register(address: Address, job_name: str) -> None:
    """Add a job to the list of jobs."""
    await _change_list(address, "SADD", job_name)


async def _change_list(address: Address, command: str, job_name: str) -> None:
    # With connections of its own: in a cluster another node may have the list.
    server = RedisServer(address)
    try:
        await server.command(command, JOBS_KEY, job_name)
    finally:
        await server.close()


async def forget_runs(server: RedisServer, prefix: str, *, keep: int) -> None:
    """Remove what runs before ``keep`` have left. Killed half-way, it is done by the next run."""
    await _unlink(server, prefix, "[0-9]*:*", f"{prefix}{keep}:")


async def remove_keys(server: RedisServer, prefix: str) -> None:
    """Remove all keys with this prefix."""
    await _unlink(server, prefix, "*")


async def _unlink(server: RedisServer, prefix: str, pattern: str, keep: str = "") -> None:
    """Remove the keys with this prefix and pattern, except those that begin with ``keep``."""
    async for keys in scan_keys(server, prefix, pattern):
        old = [key for key in keys if not keep or not key.startswith(keep.encode())]
        if old:
            await server.command("UNLINK", *old)


async def scan_keys(server: RedisServer, prefix: str, pattern: str = "*") -> AsyncIterator[list[bytes]]:
    """The keys with this prefix and pattern, some at a time."""
    # In a cluster SCAN sees one node: the one that has these keys, to which the last command has led.
    cursor = b"0"
    while True:
        cursor, keys = await server.command("SCAN", cursor, "MATCH", _literal(prefix) + pattern, "COUNT", _SCAN_COUNT)
        if keys:
            yield keys
        if cursor == b"0":
            return


def _literal(text: str) -> str:
    """The text as a pattern of SCAN that matches nothing else."""
    return "".join("\\" + character if character in "*?[]^\\" else character for character in text)
