"""Coordination of processes, servers and machines: rings, locks, elections, groups, watched keys, rate limits.

``connect(url)`` opens a coordinator; docs/how-to/locks-and-elections.md. Each name is imported when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from skitter.cluster.blocking import BlockingCluster as BlockingCluster
    from skitter.cluster.blocking import connect_blocking as connect_blocking
    from skitter.cluster.cluster import Cluster as Cluster
    from skitter.cluster.contract import Check as Check
    from skitter.cluster.contract import Delete as Delete
    from skitter.cluster.contract import Entry as Entry
    from skitter.cluster.contract import Put as Put
    from skitter.cluster.contract import SessionState as SessionState
    from skitter.cluster.contract import Snapshot as Snapshot
    from skitter.cluster.coordinators import connect as connect
    from skitter.cluster.lock import Held as Held
    from skitter.cluster.membership import MemberChange as MemberChange
    from skitter.cluster.membership import MemberEvent as MemberEvent
    from skitter.cluster.ring import Ring as Ring
    from skitter.errors import ClusterConflictError as ClusterConflictError
    from skitter.errors import ClusterError as ClusterError
    from skitter.errors import ClusterUnavailableError as ClusterUnavailableError
    from skitter.errors import LockLostError as LockLostError

__all__ = [
    "BlockingCluster",
    "Check",
    "Cluster",
    "ClusterConflictError",
    "ClusterError",
    "ClusterUnavailableError",
    "Delete",
    "Entry",
    "Held",
    "LockLostError",
    "MemberChange",
    "MemberEvent",
    "Put",
    "Ring",
    "SessionState",
    "Snapshot",
    "connect",
    "connect_blocking",
]

_HOME = {
    "BlockingCluster": "skitter.cluster.blocking",
    "Check": "skitter.cluster.contract",
    "Cluster": "skitter.cluster.cluster",
    "ClusterUnavailableError": "skitter.errors",
    "ClusterConflictError": "skitter.errors",
    "ClusterError": "skitter.errors",
    "Delete": "skitter.cluster.contract",
    "Entry": "skitter.cluster.contract",
    "Held": "skitter.cluster.lock",
    "LockLostError": "skitter.errors",
    "MemberChange": "skitter.cluster.membership",
    "MemberEvent": "skitter.cluster.membership",
    "Put": "skitter.cluster.contract",
    "Ring": "skitter.cluster.ring",
    "SessionState": "skitter.cluster.contract",
    "Snapshot": "skitter.cluster.contract",
    "connect": "skitter.cluster.coordinators",
    "connect_blocking": "skitter.cluster.blocking",
}


if not TYPE_CHECKING:
    # Type checkers know the imports above, and report any other name.
    def __getattr__(name: str) -> object:
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(home), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
