"""Checks of a grant: it must be the same for both frontiers within each host, and fair among hosts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from skitter.model.host import Host
from skitter.model.job import Trace
from skitter.model.lease import Grant, Lease, Work
from skitter.policy.lost_leases import is_suspect

Ready = dict[str, tuple[list[int], int]]
"""Hosts that are ready if the limits of their addresses are ignored. Each has its waiting priorities, highest first,
and the number of further requests that may be in flight."""


class Rooms(msgspec.Struct):
    """Number of further requests that may be in flight to each IP address."""

    address_of: dict[str, str] = {}
    """IP address of each host."""
    left: dict[str, int] = {}
    """Free slots of each address; addresses without a limit are left out."""

    def has(self, host_key: str) -> bool:
        return self.left.get(self.address_of.get(host_key, ""), 1) > 0

    def take(self, host_key: str) -> None:
        address = self.address_of.get(host_key, "")
        if address in self.left:
            self.left[address] -= 1


def comparable(lease: Lease) -> Lease:
    """Return a lease without the numbers that each backend chooses: the epoch and the version of the robots.txt."""
    return msgspec.structs.replace(lease, epoch=0, robots_version=min(lease.robots_version, 1))


def by_host(grant: Grant) -> dict[str, list[Lease]]:
    hosts: defaultdict[str, list[Lease]] = defaultdict(list)
    for lease in grant.leases:
        hosts[lease.host_key].append(comparable(lease))
    return dict(hosts)


def rest_of(grant: Grant) -> Grant:
    """Return a grant without its leases, its time and the name of its store."""
    return msgspec.structs.replace(grant, leases=[], now=0.0, store="")


def ready_hosts(
    traces: Iterable[Trace],
    gates: set[str],
    hosts: Iterable[Host],
    room_of: Callable[[Host], int],
    needs: Collection[str] = (),
) -> Ready:
    """Return the hosts that are ready, computed from data that a client can see.

    ``gates`` has the hosts whose robots.txt is being read, ``needs`` the needs that the worker can serve.
    """
    hosts = list(hosts)
    # Traces do not show that a host is given up, nor that its robots.txt must be read alone; a worker that holds the
    # seeding skips such a robots.txt.
    closed = gates | {host.key for host in hosts if host.given_up is not None or is_suspect(host.gate_losses)}
    waiting: defaultdict[str, list[int]] = defaultdict(list)
    room = {host.key: room_of(host) for host in hosts}
    for trace in traces:
        host = trace.host
        if host is None or host.key in closed or trace.state not in ("queued", "delayed") or trace.ready_in_seconds:
            continue
        if trace.need and trace.need not in needs:
            continue
        if is_suspect(trace.losses):
            return {}  # Suspects are granted first, and alone.
        waiting[host.key].append(trace.priority)
    return {key: (sorted(waiting[key], reverse=True), room[key]) for key in waiting if room[key] > 0}


def check_order(
    grant: Grant,
    ready: Mapping[str, tuple[list[int], int]],
    rooms: Rooms,
    served: dict[str, int] | None,
    in_burst: set[str],
    *,
    shares: bool = False,
) -> None:
    """Check promise 5: the highest waiting priority, then hosts in a burst, then the least recently served host.

    Also checks promise 4 for addresses. ``served`` has the last epoch of each host and is updated; if it is None, only
    priorities are checked. ``in_burst`` has the hosts that are in a burst and have nothing in flight. ``shares``: the
    worker may have reached its share of the requests without a need; then it is granted only requests that have one.
    """

    def place(key: str) -> tuple[int, bool, int]:
        if served is None:
            return -waiting[key][0][0], False, 0
        return -waiting[key][0][0], key in granted or key not in in_burst, served.get(key, 0)

    granted: set[str] = set()
    waiting = dict(ready)
    rooms = Rooms(rooms.address_of, dict(rooms.left))
    has_share = False
    for lease in grant.leases:
        host = lease.host_key
        assert rooms.has(host), f"the address of {host} was full"
        if host in waiting:
            is_next = place(host) == min(place(key) for key in waiting if rooms.has(key))
            has_share = has_share or (not is_next and shares)
            assert is_next or has_share, f"{host} was not the next"
            assert not has_share or lease.work is not Work.PAGE or lease.request.need, f"{host} is beyond the share"
            priorities, room = waiting.pop(host)
            if lease.work is Work.PAGE and lease.start_seconds is None and priorities[1:] and room > 1:
                waiting[host] = (priorities[1:], room - 1)
        rooms.take(host)
        granted.add(host)
        if served is not None:
            served[host] = lease.epoch
