"""Several processes, servers or machines as one: rings, locks, elections, groups, watched keys, limits of speed.

``connect(url)`` opens a coordinator; docs/how-to/coordinate.md. Each name is imported when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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

__all__ = [
    "BlockingCluster",
    "Check",
    "Cluster",
    "Delete",
    "Entry",
    "Held",
    "MemberChange",
    "MemberEvent",
    "Put",
    "SessionState",
    "Snapshot",
    "connect",
    "connect_blocking",
]

_HOME = {
    "BlockingCluster": "blocking",
    "Check": "contract",
    "Cluster": "cluster",
    "Delete": "contract",
    "Entry": "contract",
    "Held": "lock",
    "MemberChange": "membership",
    "MemberEvent": "membership",
    "Put": "contract",
    "SessionState": "contract",
    "Snapshot": "contract",
    "connect": "coordinators",
    "connect_blocking": "blocking",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"skitter.cluster.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
