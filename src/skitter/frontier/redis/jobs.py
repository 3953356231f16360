"""The jobs in one Redis: their keys, their list, and how one is removed."""

from __future__ import annotations

from urllib.parse import quote

from skitter.frontier.redis.address import Address, parse_address
from skitter.frontier.redis.server import RedisServer

JOBS_KEY = "skitter:jobs"
"""A set: the names of all jobs."""
_SCAN = 2000


def prefix_of(job_name: str, shard: int = 0) -> str:
    """How every key of a job begins. Quoted: a brace or a colon in a name would end the hash tag."""
    return f"skitter:{{{quote(job_name, safe='')}:{shard}}}:"


async def list_jobs(url: str) -> list[str]:
    """The names of the jobs in a Redis."""
    server = RedisServer(parse_address(url))
    try:
        return sorted(name.decode() for name in await server.command("SMEMBERS", JOBS_KEY))
    finally:
        await server.close()


async def drop_job(url: str, job_name: str) -> bool:
    """Remove a job and everything of it; False: there was none."""
    server = RedisServer(parse_address(url))
    prefix = prefix_of(job_name)
    try:
        # Its record first: whoever is still at the job is told that it is gone, and writes nothing more.
        existed: int = await server.command("UNLINK", prefix + "job")
        await _unlink(server, prefix, "")
    finally:
        await server.close()
    await _at_list(server.address, "SREM", job_name)
    return existed == 1


async def register(address: Address, job_name: str) -> None:
    """Put a job on the list."""
    await _at_list(address, "SADD", job_name)


async def _at_list(address: Address, command: str, job_name: str) -> None:
    # With connections of its own: in a cluster another node may have the list.
    server = RedisServer(address)
    try:
        await server.command(command, JOBS_KEY, job_name)
    finally:
        await server.close()


async def forget_runs(server: RedisServer, job_name: str, *, keep: int) -> None:
    """Remove what runs before ``keep`` have left. Killed half-way, it is done by the next run."""
    await _unlink(server, prefix_of(job_name), f"{keep}:")


async def _unlink(server: RedisServer, prefix: str, keep: str) -> None:
    """All keys of a job, or those of its runs but one (whose keys go on with ``keep``)."""
    # In a cluster SCAN sees one node: the one that has these keys, to which the last command has led.
    pattern = _literal(prefix) + ("[0-9]*:*" if keep else "*")
    kept = (prefix + keep).encode()
    cursor = b"0"
    while True:
        cursor, keys = await server.command("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN)
        old = [key for key in keys if not keep or not key.startswith(kept)]
        if old:
            await server.command("UNLINK", *old)
        if cursor == b"0":
            return


def _literal(text: str) -> str:
    """For a pattern of SCAN."""
    return "".join("\\" + character if character in "*?[]^\\" else character for character in text)
