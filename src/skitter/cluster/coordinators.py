"""The coordinators by the scheme of their URL."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from skitter.cluster.cluster import Cluster
from skitter.cluster.contract import Coordinator
from skitter.entry_points import COORDINATORS, entry_point_names, find_entry_point, load_entry_point, unusable
from skitter.errors import ClusterError, ExtraMissingError, UsageError
from skitter.model.secrets import shown_address
from skitter.server_url import scheme_of

SESSION_SECONDS = 10.0
_REDIS = ("skitter.cluster.redis_coordinator:RedisCoordinator", "redis")
_REDLOCK = ("skitter.cluster.redlock_coordinator:RedlockCoordinator", "redis")
_ZOOKEEPER = ("skitter.cluster.zookeeper.coordinator:ZookeeperCoordinator", "zookeeper")
SCHEMES = {
    "redis": _REDIS,
    "rediss": _REDIS,
    "redis+sentinel": _REDIS,
    "rediss+sentinel": _REDIS,
    "redis+cluster": _REDIS,
    "rediss+cluster": _REDIS,
    "unix": _REDIS,
    "redlock": _REDLOCK,
    "redlocks": _REDLOCK,
    "sqlite": ("skitter.cluster.sqlite_coordinator:SqliteCoordinator", ""),
    "zookeeper": _ZOOKEEPER,
    "zookeeper+ssl": _ZOOKEEPER,
}
"""Each with the extra that it needs. It is called with the URL and ``session_seconds``, and imported when it is asked
for, so that drivers stay optional."""
_METHODS = ("open", "close", "ping", "on_connection_change")


def connect(url: str, *, session_seconds: float = SESSION_SECONDS) -> Cluster:
    """Return a connection for ``async with``. URLs: ``redis://``, ``redlock://``, ``zookeeper://``, ``sqlite:PATH``.

    After ``session_seconds`` without a sign of life, other processes consider this one dead. Docs:
    docs/how-to/locks-and-elections.md.
    """
    return Cluster(coordinator_of(url, session_seconds=session_seconds))


def coordinator_of(url: str, *, session_seconds: float = SESSION_SECONDS) -> Coordinator:
    """Return the coordinator of a URL, not opened yet."""
    if not session_seconds > 0:
        raise UsageError(
            f"invalid duration: session_seconds={session_seconds}", hint="give a number of seconds above 0"
        )
    scheme, _ = scheme_of(url)
    if scheme in SCHEMES:
        place, extra = SCHEMES[scheme]
        module, _, name = place.partition(":")
        try:
            kind = getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            raise ExtraMissingError(f"a coordinator at {scheme}:", extra) from error
        return cast("Coordinator", kind(url, session_seconds=session_seconds))
    found = find_entry_point(COORDINATORS, scheme) if scheme else None
    if found is None:
        others = "".join(f", {name}:" for name in entry_point_names(COORDINATORS))
        raise UsageError(
            f"not the URL of a coordinator: {shown_address(url, is_server=True)}",
            hint=f"use redis://HOST:PORT, redlock://HOST,HOST,HOST, zookeeper://HOST,HOST/PATH or sqlite:PATH{others}",
        )
    kind = load_entry_point(found)
    try:
        made = kind(url, session_seconds=session_seconds)
    except (UsageError, ClusterError):
        raise
    except Exception as error:
        raise unusable(found, f"{type(error).__name__}: {error}") from error
    missing = [name for name in _METHODS if not callable(getattr(made, name, None))]
    if missing:
        raise unusable(found, f"it has no {', '.join(missing)}")
    return cast("Coordinator", made)
