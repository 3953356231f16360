"""Making connections: TCP, TLS or a socket file, to the server itself or to a sentinel."""

from __future__ import annotations

from typing import Any

from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection

from skitter.frontier.redis.address import Address, HostPort

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 15.0
"""Longer than any script runs: a server that is silent for so long is away."""
ASK_SECONDS = 2.0
"""For a sentinel: another one may answer sooner."""


def connection_to(address: Address, place: HostPort) -> AbstractConnection:
    """To the server, not yet made. ``place`` is where it is now."""
    shared: dict[str, Any] = {
        "db": address.db,
        "username": address.username,
        "password": address.password,
        # Callers limit the time for an answer: asyncio.wait_for, the driver's way, may lose a cancellation before 3.12.
        "socket_timeout": None,
        "socket_connect_timeout": CONNECT_SECONDS,
        "client_name": "skitter",
        "driver_info": None,
        "protocol": 2,
    }
    if address.path:
        return UnixDomainSocketConnection(path=address.path, **shared)
    return _over_network(address, place, shared | {"socket_keepalive": True})


def connection_to_sentinel(address: Address, place: HostPort) -> AbstractConnection:
    """To one of the sentinels, not yet made. With TLS they are trusted as the server is."""
    shared = {
        "username": address.sentinel_username,
        "password": address.sentinel_password,
        "socket_timeout": None,
        "socket_connect_timeout": ASK_SECONDS,
        "driver_info": None,
        "protocol": 2,
    }
    return _over_network(address, place, shared)


def _over_network(address: Address, place: HostPort, shared: dict[str, Any]) -> AbstractConnection:
    shared = shared | {"host": place[0], "port": place[1]}
    if not address.tls:
        return Connection(**shared)
    return SSLConnection(
        ssl_ca_certs=address.ca,
        ssl_certfile=address.cert,
        ssl_keyfile=address.key,
        ssl_check_hostname=True,
        **shared,
    )
