"""Name lookups under way: how many a zone may have, so that silent name servers hold up names of their own zone only.

libcurl looks names up in 20 threads, two for each name (IPv4 and IPv6). A thread is busy until the system's resolver
gives up, long after the fetch has timed out: ten names whose name servers say nothing held up every other lookup of a
worker. So a fetch whose name is not known waits here for one of ten places, and its zone has a few of them only.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

from skitter.errors import FetchError
from skitter.model.url import host_name

PLACES_OF_ZONE = 4
"""Of one zone that has answered before. At 30 ms a lookup, that is 130 names a second."""
PLACES_OF_NEW_ZONE = 2
PLACES_OF_NEW_ZONES = 8
"""Of all that have not answered yet: the others always have two places left."""
PLACES_OF_SILENT_ZONES = 2
"""Of all in which a lookup took longer than ``SILENT_SECONDS``, together."""
SILENT_SECONDS = 2.0
LOOK_SECONDS = 0.5
"""Between two looks whether somebody who waits has a place."""
GIVEN_UP_SECONDS = 30.0
"""When the system's resolver has given up for certain: three servers, two attempts, five seconds each."""
KNOWN_SECONDS = 55.0
"""libcurl remembers an address for 60."""
MAX_KNOWN = 10_000


class Zone:
    """What is known of the name servers of a domain."""

    __slots__ = ("answers", "began", "name", "silent", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.began: list[float] = []
        """Of each lookup under way, or that may still have its threads."""
        self.answers = False
        self.silent = False
        self.waiting: deque[asyncio.Future[float]] = deque()


class Lookup:
    """The place of one fetch, from the start of its transfer to the first socket that it opens."""

    __slots__ = ("_authority", "_began", "_lookups", "_zone", "is_over")

    def __init__(self, lookups: Lookups, authority: str, zone: Zone, began: float) -> None:
        self._lookups = lookups
        self._authority = authority
        self._zone = zone
        self._began = began
        self.is_over = False

    def end(self, *, answered: bool | None) -> None:
        """There is an answer, if only that there is no such name; or nobody waits for it; None: nobody has asked."""
        if not self.is_over:
            self.is_over = True
            self._lookups.ended(self._authority, self._zone, self._began, answered=answered)


class Lookups:
    """The lookups of one engine. An authority is a host with its port, as a URL has it."""

    def __init__(self) -> None:
        self._known: dict[str, float] = {}
        self._zones: dict[str, Zone] = {}
        self._busy: dict[str, Zone] = {}
        """Zones with lookups under way."""
        self._timer: asyncio.TimerHandle | None = None
        self._queues: dict[str, Zone] = {}
        """Zones that somebody waits for."""

    @property
    def waiting(self) -> int:
        """How many fetches wait for a place."""
        return sum(len(zone.waiting) for zone in self._queues.values())

    def is_known(self, url: str) -> bool:
        """Whether libcurl remembers the address, so that there will be no lookup."""
        return self._known.get(url.split("/", 3)[2], 0.0) > time.monotonic()

    async def begin(self, url: str, seconds: float) -> Lookup | None:
        """A place, once there is one; None for an address, which needs none.

        Raises a FetchError after ``seconds``: ``dns`` where the zone is silent, ``slow`` where others are to blame.
        """
        authority, host = url.split("/", 3)[2], host_name(url)
        if host.startswith("[") or host.rpartition(".")[2].isdigit():
            self._remember(authority)
            return None
        name = zone_of(host)
        zone = self._zones.pop(name, None) or Zone(name)
        self._zones[name] = zone  # the latest is last
        self._forget_zones()
        is_free = not zone.waiting and self._has_place(zone)
        began = self._take(zone) if is_free else await self._wait(zone, url, seconds)
        return Lookup(self, authority, zone, began)

    def ended(self, authority: str, zone: Zone, began: float, *, answered: bool | None) -> None:
        """See ``Lookup.end``. One that is not answered keeps its place until the resolver has given up."""
        took_long = time.monotonic() - began > SILENT_SECONDS
        if answered is not None and (answered or took_long):
            zone.answers, zone.silent = not took_long, took_long
        if answered:
            self._remember(authority)
        if answered is not False:
            if began in zone.began:
                zone.began.remove(began)
            self._wake()

    def drop_waiting(self, count: int, error: Exception) -> None:
        """End the youngest of those that wait, of the zones that have most."""
        for _ in range(min(count, self.waiting)):
            zone = max(self._queues.values(), key=lambda zone: len(zone.waiting))
            future = zone.waiting.pop()
            if not zone.waiting:
                del self._queues[zone.name]
            if not future.done():
                future.set_exception(error)

    def close(self, error: Exception) -> None:
        """End those that wait."""
        self.drop_waiting(self.waiting, error)
        if self._timer is not None:
            self._timer.cancel()

    async def _wait(self, zone: Zone, url: str, seconds: float) -> float:
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        zone.waiting.append(future)
        self._queues[zone.name] = zone
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            if zone.silent:
                raise FetchError("dns", f"the name servers of {zone.name} do not answer: {url}") from None
            raise FetchError("slow", f"too many name servers do not answer: {url}") from None
        finally:
            if future in zone.waiting:
                zone.waiting.remove(future)
            if not zone.waiting:
                self._queues.pop(zone.name, None)

    def _look(self) -> None:
        """Lookups also end without a word: the resolver has given up."""
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look) if self._queues else None
        self._wake()

    def _wake(self) -> None:
        for zone in list(self._queues.values()):
            while zone.waiting and self._has_place(zone):
                future = zone.waiting.popleft()
                if not future.done():
                    future.set_result(self._take(zone))

    def _take(self, zone: Zone) -> float:
        began = time.monotonic()
        zone.began.append(began)
        self._busy[zone.name] = zone
        return began

    def _has_place(self, zone: Zone) -> bool:
        now = time.monotonic()
        new = silent = 0
        for other in list(self._busy.values()):
            other.began = [began for began in other.began if now - began < GIVEN_UP_SECONDS]
            if not other.began:
                del self._busy[other.name]
                continue
            if now - other.began[0] > SILENT_SECONDS:
                other.answers, other.silent = False, True
            count = len(other.began)
            new += 0 if other.answers else count
            silent += count if other.silent else 0
        if zone.silent:
            return silent < PLACES_OF_SILENT_ZONES
        if zone.answers:
            return len(zone.began) < PLACES_OF_ZONE
        return len(zone.began) < PLACES_OF_NEW_ZONE and new < PLACES_OF_NEW_ZONES

    def _remember(self, authority: str) -> None:
        self._known.pop(authority, None)
        self._known[authority] = time.monotonic() + KNOWN_SECONDS
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]

    def _forget_zones(self) -> None:
        if len(self._zones) > MAX_KNOWN:
            oldest = next(iter(self._zones.values()))
            if not oldest.began and not oldest.waiting:
                del self._zones[oldest.name]


def zone_of(host: str) -> str:
    """The domain whose name servers answer, as far as a name tells: its last two labels, or three as in ``a.co.uk``."""
    labels = host.rstrip(".").lower().split(".")
    is_second_level = len(labels) > 2 and len(labels[-1]) == 2 and len(labels[-2]) <= 3
    return ".".join(labels[-3 if is_second_level else -2 :])
