"""Checks of a Redis server: which one answers on a new connection, and whether it may keep a job."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from redis import exceptions
from redis.asyncio.connection import AbstractConnection

from skitter.errors import FrontierError
from skitter.redis_driver.address import Address, HostPort
from skitter.redis_driver.errors import CheckFailedError

OLDEST_VERSION = (6, 2)
"""Scripts use commands and forms of commands that came with it."""
_INFO_SERVER = b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n"
_log = logging.getLogger("skitter.frontier")


class ServerIdentity(NamedTuple):
    """What a server says of itself on a new connection."""

    life: str
    """The server's run id: a new one at every start of every server."""
    nodes: tuple[HostPort, ...] = ()
    """All nodes of its cluster."""
    node_id: str = ""
    """Its own id in the cluster."""
    has_slots: Mapping[str, bool] = {}
    """By the id of each node: whether it is a master that has slots."""


async def handshake(connection: AbstractConnection, *, cluster: bool) -> ServerIdentity:
    """The identity of the server. CheckFailedError if it cannot be used; NoPermissionError if INFO is forbidden."""
    await connection.send_packed_command(_INFO_SERVER)
    info = parse_info(await connection.read_response())
    mode = info.get("redis_mode") or info.get("server_mode")
    if mode == "sentinel":
        raise CheckFailedError("ISSENTINEL")
    # Valkey says so too, and means the Redis that it is compatible with.
    version = info.get("redis_version", "")
    numbers = tuple(int(number) for number in version.split(".")[:2] if number.isdecimal())
    if numbers and numbers < OLDEST_VERSION:
        raise CheckFailedError("TOOOLD", version)
    identity = ServerIdentity(info.get("run_id", ""))
    if not cluster:
        return identity
    if mode == "standalone":
        raise CheckFailedError("NOCLUSTER")
    # All nodes that the address names may be gone one day, while the cluster is still there.
    with suppress(exceptions.NoPermissionError):
        await connection.send_command("CLUSTER", "NODES")
        identity = _with_nodes(identity, (await connection.read_response()).decode())
    return identity


def parse_info(reply: bytes) -> dict[str, str]:
    """The fields of a reply to INFO."""
    pairs = (line.partition(":") for line in reply.decode().splitlines() if ":" in line)
    return {name: value for name, _, value in pairs}


def _with_nodes(identity: ServerIdentity, reply: str) -> ServerIdentity:
    """The identity with what CLUSTER NODES replied: lines of id, HOST:PORT@BUS-PORT[,NAME], flags, five more words,
    and the slots."""
    lines = [line.split(" ") for line in reply.splitlines()]
    hosts = []
    for words in lines:
        host, _, port = words[1].partition("@")[0].rpartition(":")
        if host and port.isdecimal() and "noaddr" not in words[2] and "handshake" not in words[2]:
            hosts.append((host, int(port)))
    return identity._replace(
        nodes=tuple(hosts),
        node_id=next((words[0] for words in lines if "myself" in words[2]), ""),
        has_slots={words[0]: "master" in words[2] and len(words) > 8 for words in lines},
    )


def refuse_if_evicting(info: dict[str, str], where: str) -> None:
    """FrontierError for a server that evicts keys when it is full: parts of the queue would be lost unnoticed.

    The volatile policies evict only keys that have a time to live, which none of skitter's has: under them a full
    server refuses writes, and workers wait.
    """
    policy = info.get("maxmemory_policy", "")
    if info.get("maxmemory", "0") != "0" and policy.startswith("allkeys"):
        raise FrontierError(
            f"the Redis at {where} evicts keys when its memory is full: maxmemory-policy {policy}",
            hint="run CONFIG SET maxmemory-policy noeviction there; an allkeys policy would lose pages silently",
        )


async def warn_if_open(address: Address, host: HostPort) -> None:
    """Log a warning for a Redis without a password on a public address."""
    if address.path or address.password:
        return
    try:
        found = await asyncio.get_running_loop().getaddrinfo(*host, type=socket.SOCK_STREAM)
    except OSError:
        return
    if any(ipaddress.ip_address(one[4][0]).is_global for one in found):
        _log.warning("a Redis without a password on a public address: %s", address)
