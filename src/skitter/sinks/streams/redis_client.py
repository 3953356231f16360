"""A client of the Redis that a target names: TCP, TLS, a socket file, or the master that sentinels name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from skitter.errors import UsageError
from skitter.sinks.targets import Target

if TYPE_CHECKING:
    from collections.abc import Sequence

OPTIONS = ("ca", "client_cert", "client_key", "db")
_PORT = 6379
_SENTINEL_PORT = 26379
_SENTINEL: Any = Sentinel
"""The driver gives it no types."""
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 15.0


def client_of(target: Target) -> Redis:
    """Not connected yet. UsageError for an address that is none."""
    scheme, _, kind = target.scheme.partition("+")
    shared: dict[str, Any] = {
        "username": target.user or None,
        "password": target.password,
        "socket_connect_timeout": _CONNECT_SECONDS,
        "socket_timeout": _ANSWER_SECONDS,
        # The delivery tries again, and says so.
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
    }
    if scheme == "rediss":
        shared |= {
            "ssl": True,
            "ssl_ca_certs": target.options.get("ca"),
            "ssl_certfile": target.options.get("client_cert"),
            "ssl_keyfile": target.options.get("client_key"),
        }
    words = target.path.strip("/").split("/")
    if scheme == "unix":
        return Redis(unix_socket_path=target.path, db=_database(target.options.get("db", ""), target), **shared)
    if kind == "sentinel":
        if not words[0] or len(words) > 2:
            raise _wrong(target)
        places = _places(target, _SENTINEL_PORT)
        asked = {name: value for name, value in shared.items() if name not in ("username", "password")}
        sentinels: Any = _SENTINEL(places, sentinel_kwargs=asked, **shared)
        master: Redis = sentinels.master_for(words[0], db=_database("".join(words[1:]), target))
        return master
    places = _places(target, _PORT)
    if len(places) != 1 or len(words) > 1:
        raise _wrong(target)
    (host, port) = places[0]
    return Redis(host=host, port=port, db=_database(words[0], target), **shared)


def _places(target: Target, port: int) -> Sequence[tuple[str, int]]:
    places = []
    for written in target.hosts.split(","):
        host, colon, number = written.rpartition(":")
        if not colon or number.endswith("]"):
            host, number = written, str(port)
        if not host or not number.isdecimal():
            raise _wrong(target)
        places.append((host.strip("[]"), int(number)))
    return places


def _database(text: str, target: Target) -> int:
    if text and not text.isdecimal():
        raise _wrong(target)
    return int(text or "0")


def _wrong(target: Target) -> UsageError:
    return UsageError(
        f"not an address of a Redis stream: {target.name}",
        hint="redis://USER:PASSWORD@HOST:PORT/DB#STREAM, rediss://…, unix:///PATH?db=N#STREAM,"
        " redis+sentinel://HOST,HOST/MASTER/DB#STREAM",
    )
