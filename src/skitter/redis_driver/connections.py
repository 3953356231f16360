"""Connections to a Redis: TCP, TLS or a socket file, to the server itself, to a sentinel, or to the master they name.

The frontier is asyncio and makes single connections; the stream sink runs in a thread and has a blocking client.
"""

from __future__ import annotations

from typing import Any, cast

from redis import Redis, RedisCluster
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.retry import Retry
from redis.sentinel import Sentinel

from skitter.redis_driver.address import Address, HostPort

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 15.0
"""Longer than any script runs: a server that is silent for so long is unavailable."""
HANDSHAKE_SECONDS = 2.0
"""Time-out of connecting to a host while there are others to ask."""
SENTINEL_SECONDS = 2.0
"""Time-out of one sentinel: another one may answer sooner."""
_SENTINEL: Any = Sentinel
_CLUSTER_NODE: Any = ClusterNode
"""The driver gives them no types."""


def connection_to(address: Address, host: HostPort) -> AbstractConnection:
    """An asyncio connection to the server, not opened yet. ``host`` is where the server is now."""
    options: dict[str, Any] = {
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
        return UnixDomainSocketConnection(path=address.path, **options)
    return _over_network(address, host, options | {"socket_keepalive": True})


def connection_to_sentinel(address: Address, host: HostPort) -> AbstractConnection:
    """An asyncio connection to one of the sentinels, not opened yet. They have the TLS options of the server."""
    options = {
        "username": address.sentinel_username,
        "password": address.sentinel_password,
        "socket_timeout": None,
        "socket_connect_timeout": SENTINEL_SECONDS,
        "driver_info": None,
        "protocol": 2,
    }
    return _over_network(address, host, options)


def blocking_client(address: Address) -> Redis:
    """A client for threads, not connected yet unless it is for a cluster. It does not retry: its caller does."""
    network: dict[str, Any] = {
        "socket_connect_timeout": CONNECT_SECONDS,
        "socket_timeout": ANSWER_SECONDS,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
    }
    if address.tls:
        network |= {"ssl": True, **_tls_options(address)}
    credentials: dict[str, Any] = {"username": address.username, "password": address.password}
    if address.cluster:
        nodes = [_CLUSTER_NODE(*host) for host in address.hosts]
        # It has all commands of a client for one server that take keys, and a type of its own.
        whole: Any = RedisCluster(startup_nodes=nodes, **network, **credentials)
        return cast("Redis", whole)
    if address.master:
        asked = network | {"username": address.sentinel_username, "password": address.sentinel_password}
        sentinels: Any = _SENTINEL(address.hosts, sentinel_kwargs=asked, **network, **credentials)
        master: Redis = sentinels.master_for(address.master, db=address.db)
        return master
    if not address.hosts:
        return Redis(unix_socket_path=address.path, db=address.db, **network, **credentials)
    ((host, port),) = address.hosts
    return Redis(host=host, port=port, db=address.db, **network, **credentials)


def _over_network(address: Address, host: HostPort, options: dict[str, Any]) -> AbstractConnection:
    options = options | {"host": host[0], "port": host[1]}
    return SSLConnection(**options, **_tls_options(address)) if address.tls else Connection(**options)


def _tls_options(address: Address) -> dict[str, Any]:
    return {
        "ssl_ca_certs": address.ca,
        "ssl_certfile": address.cert,
        "ssl_keyfile": address.key,
        "ssl_check_hostname": True,
    }
