"""Whether a Redis may be trusted with a job: looked at when the job begins."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket

from skitter.errors import FrontierError
from skitter.frontier.redis.address import Address, HostPort

_log = logging.getLogger("skitter.frontier")


def read_info(told: bytes) -> dict[str, str]:
    """The lines of an answer to INFO."""
    pairs = (line.partition(":") for line in told.decode().splitlines() if ":" in line)
    return {name: value for name, _, value in pairs}


def refuse_if_evicting(told: dict[str, str], where: str) -> None:
    """A server that throws keys away when it is full would lose parts of the queue, and nobody would ever know.

    So it is refused rather than warned about. The volatile policies take only keys that have a time to live, which
    none of skitter's has: under them a full server refuses writes, and workers wait.
    """
    policy = told.get("maxmemory_policy", "")
    if told.get("maxmemory", "0") != "0" and policy.startswith("allkeys"):
        raise FrontierError(
            f"the Redis at {where} throws keys away when its memory is full: maxmemory-policy {policy}",
            hint="CONFIG SET maxmemory-policy noeviction there; with any allkeys policy pages would be lost unseen",
        )


async def warn_if_open(address: Address, place: HostPort) -> None:
    """A Redis without a password, on an address that the world can reach, belongs to the world."""
    if address.path or address.password:
        return
    try:
        found = await asyncio.get_running_loop().getaddrinfo(*place, type=socket.SOCK_STREAM)
    except OSError:
        return
    if any(ipaddress.ip_address(one[4][0]).is_global for one in found):
        _log.warning("a Redis without a password on a public address: %s", address)
