"""The first words on a new connection: what answers there, and since when."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from redis import exceptions
from redis.asyncio.connection import AbstractConnection

from skitter.frontier.redis.address import HostPort
from skitter.frontier.redis.server_checks import read_info

OLDEST = (6, 2)
"""Scripts use commands and forms of commands that came with it."""
_WHO = b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n"


class Introduction(NamedTuple):
    """What a server told of itself."""

    life: str
    """Another one for every start of every server."""
    nodes: tuple[HostPort, ...] = ()
    """All nodes of its cluster."""


async def handshake(connection: AbstractConnection, *, cluster: bool) -> Introduction:
    """ResponseError for what is no server of this kind; NoPermissionError where it must not be asked."""
    await connection.send_packed_command(_WHO)
    told = read_info(await connection.read_response())
    if "sentinel" in (told.get("redis_mode"), told.get("server_mode")):
        raise exceptions.ResponseError("ISSENTINEL")
    # Valkey says so too, and means the Redis that it is compatible with.
    version = told.get("redis_version", "")
    numbers = tuple(int(number) for number in version.split(".")[:2] if number.isdecimal())
    if numbers and numbers < OLDEST:
        raise exceptions.ResponseError(f"TOOOLD {version}")
    nodes: tuple[HostPort, ...] = ()
    if cluster:
        # Those that were named may all be gone one day, and the cluster still there.
        with suppress(exceptions.NoPermissionError):
            await connection.send_command("CLUSTER", "NODES")
            nodes = _read_nodes((await connection.read_response()).decode())
    return Introduction(told.get("run_id", ""), nodes)


def count_masters(nodes: bytes) -> int:
    """Of those that have keys, in an answer to CLUSTER NODES: slots stand behind eight words."""
    lines = (line.split(" ") for line in nodes.decode().splitlines())
    return max(1, sum("master" in words[2] and len(words) > 8 for words in lines))


def _read_nodes(text: str) -> tuple[HostPort, ...]:
    """Each line is: id, HOST:PORT@BUS-PORT[,NAME], flags, and more."""
    places = []
    for line in text.splitlines():
        words = line.split(" ")
        host, _, port = words[1].partition("@")[0].rpartition(":")
        if host and port.isdecimal() and "noaddr" not in words[2] and "handshake" not in words[2]:
            places.append((host, int(port)))
    return tuple(places)
