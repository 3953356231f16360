"""Limits of concurrent DNS lookups per zone, so that silent name servers delay only their own zone.

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
"""Interval of the check for free slots."""
GIVEN_UP_SECONDS = 30.0
"""When the system's resolver has given up for certain: three servers, two attempts, five seconds each."""
KNOWN_SECONDS = 50.0
FORGET_SECONDS = 5.0
"""Between two looks what is no longer known. libcurl remembers an address for 60."""
MAX_KNOWN = 10_000


class Zone:
    """State of the name servers of a domain."""

    __slots__ = ("answers", "lookups", "name", "silent", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.lookups: list[Lookup] = []
        """Under way, or that may still have their threads; the oldest first."""
        self.answers = False
        self.silent = False
        self.waiting: deque[Lookup] = deque()


class Lookup:
    """Lookup slot of one fetch, from the start of its transfer to its first socket."""

    __slots__ = ("_lookups", "began", "is_over", "origin", "place", "zone")

    def __init__(self, lookups: Lookups, origin: str, zone: Zone) -> None:
        self._lookups = lookups
        self.origin = origin
        self.zone = zone
        self.began = 0.0
        self.is_over = False
        self.place: asyncio.Future[bool] | None = None
        """Of one that waits: whether it has a place, or needs none any more."""

    def end(self, *, answered: bool | None) -> None:
        """There is an answer, if only that there is no such name; or nobody waits for it; None: nobody has asked."""
        if not self.is_over:
            self.is_over = True
            self._lookups.ended(self, answered=answered)


class Lookups:
    """Concurrent lookups of one engine."""

    def __init__(self) -> None:
        self.known: dict[str, float] = {}
        """Origins whose address libcurl remembers, so that there will be no lookup, and until when; the oldest first.

        What is no longer remembered is not in it: asked for each page, so that nobody has to look at a clock."""
        self._zones: dict[str, Zone] = {}
        self._busy: dict[str, Zone] = {}
        """Zones with lookups under way."""
        self._timer: asyncio.TimerHandle | None = None
        self._known_timer: asyncio.TimerHandle | None = None
        self._queues: dict[str, Zone] = {}
        """Zones with waiting lookups."""

    @property
    def waiting(self) -> int:
        """Return how many fetches wait for a slot."""
        return sum(len(zone.waiting) for zone in self._queues.values())

    async def begin(self, url: str, seconds: float) -> Lookup | None:
        """A place, once there is one; None for an address, which needs none, and for what has become known meanwhile.

        Raises a FetchError after ``seconds``: ``dns`` where the zone is silent, ``slow`` where others are to blame.
        """
        origin, host = origin_of(url), host_name(url)
        if host.startswith("[") or host.rpartition(".")[2].isdigit():
            self._remember(origin)
            return None
        name = zone_of(host)
        zone = self._zones.pop(name, None) or Zone(name)
        self._zones[name] = zone  # the latest is last
        self._forget_zones()
        lookup = Lookup(self, origin, zone)
        if not zone.waiting and self._has_place(zone):
            self._take(lookup)
            return lookup
        return lookup if await self._wait(lookup, url, seconds) else None

    def ended(self, lookup: Lookup, *, answered: bool | None) -> None:
        """See ``Lookup.end``. One that is not answered keeps its place until the resolver has given up."""
        zone = lookup.zone
        took_long = time.monotonic() - lookup.began > SILENT_SECONDS
        if answered is not None and (answered or took_long):
            zone.answers, zone.silent = not took_long, took_long
        if answered:
            self._remember(lookup.origin)
            self._end_others(lookup)
        if answered is not False:
            self._give_back(lookup)

    def drop_waiting(self, count: int, error: Exception) -> None:
        """End the youngest waiting lookups of the zones with the most."""
        for _ in range(min(count, self.waiting)):
            zone = max(self._queues.values(), key=lambda zone: len(zone.waiting))
            place = zone.waiting.pop().place
            if not zone.waiting:
                del self._queues[zone.name]
            if place is not None and not place.done():
                place.set_exception(error)

    def close(self, error: Exception) -> None:
        """End the waiting lookups with an error."""
        self.drop_waiting(self.waiting, error)
        for timer in (self._timer, self._known_timer):
            if timer is not None:
                timer.cancel()

    def _end_others(self, lookup: Lookup) -> None:
        """Those of the same origin tell nothing of the zone, and need no place: libcurl knows the address.

        A second https fetch looks nothing up, but waits for the first one's handshake, which may be slow.
        """
        zone = lookup.zone
        for other in [other for other in zone.lookups if other.origin == lookup.origin and other is not lookup]:
            other.is_over = True
            zone.lookups.remove(other)
        for other in [other for other in zone.waiting if other.origin == lookup.origin]:
            zone.waiting.remove(other)
            if other.place is not None and not other.place.done():
                other.place.set_result(False)

    async def _wait(self, lookup: Lookup, url: str, seconds: float) -> bool:
        """Whether there is a place now; False: none is needed any more."""
        zone, loop = lookup.zone, asyncio.get_running_loop()
        place: asyncio.Future[bool] = loop.create_future()
        lookup.place = place
        zone.waiting.append(lookup)
        self._queues[zone.name] = zone
        if self._timer is None:
            self._timer = loop.call_later(LOOK_SECONDS, self._look)
        is_over = False
        try:
            async with asyncio.timeout(seconds):
                has_place = await place
                is_over = True
                return has_place
        except TimeoutError:
            if zone.silent:
                raise FetchError("dns", f"the name servers of {zone.name} do not answer: {url}") from None
            raise FetchError("slow", f"too many name servers do not answer: {url}") from None
        finally:
            if lookup in zone.waiting:
                zone.waiting.remove(lookup)
            if not zone.waiting:
                self._queues.pop(zone.name, None)
            if not is_over:
                # Cancelled, or out of time; perhaps in the step of the loop in which it was given its place.
                self._give_back(lookup)

    def _look(self) -> None:
        """Remove lookups that the resolver has given up without an answer."""
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look) if self._queues else None
        self._wake()

    def _wake(self) -> None:
        for zone in list(self._queues.values()):
            while zone.waiting and self._has_place(zone):
                lookup = zone.waiting.popleft()
                if lookup.place is not None and not lookup.place.done():
                    self._take(lookup)
                    lookup.place.set_result(True)

    def _take(self, lookup: Lookup) -> None:
        lookup.began = time.monotonic()
        lookup.zone.lookups.append(lookup)
        self._busy[lookup.zone.name] = lookup.zone

    def _give_back(self, lookup: Lookup) -> None:
        if lookup in lookup.zone.lookups:
            lookup.zone.lookups.remove(lookup)
            self._wake()

    def _has_place(self, zone: Zone) -> bool:
        now = time.monotonic()
        new = silent = 0
        for other in list(self._busy.values()):
            other.lookups = [lookup for lookup in other.lookups if now - lookup.began < GIVEN_UP_SECONDS]
            if not other.lookups:
                del self._busy[other.name]
                continue
            if now - other.lookups[0].began > SILENT_SECONDS:
                other.answers, other.silent = False, True
            count = len(other.lookups)
            new += 0 if other.answers else count
            silent += count if other.silent else 0
        if zone.silent:
            return silent < PLACES_OF_SILENT_ZONES
        if zone.answers:
            return len(zone.lookups) < PLACES_OF_ZONE
        return len(zone.lookups) < PLACES_OF_NEW_ZONE and new < PLACES_OF_NEW_ZONES

    def _remember(self, origin: str) -> None:
        self.known.pop(origin, None)
        self.known[origin] = time.monotonic() + KNOWN_SECONDS
        if len(self.known) > MAX_KNOWN:
            del self.known[next(iter(self.known))]
        if self._known_timer is None:
            self._forget_known()

    def _forget_known(self) -> None:
        now = time.monotonic()
        while self.known and self.known[next(iter(self.known))] <= now:
            del self.known[next(iter(self.known))]
        is_needed = bool(self.known)
        loop = asyncio.get_running_loop()
        self._known_timer = loop.call_later(FORGET_SECONDS, self._forget_known) if is_needed else None

    def _forget_zones(self) -> None:
        if len(self._zones) > MAX_KNOWN:
            oldest = next(iter(self._zones.values()))
            if not oldest.lookups and not oldest.waiting:
                del self._zones[oldest.name]


def origin_of(url: str) -> str:
    """The scheme, host and port, as a URL has them: libcurl remembers an address for these. Asked for each page."""
    return url[: url.find("/", 8)]


def zone_of(host: str) -> str:
    """The domain whose name servers answer, as far as a name tells: its last two labels, or three as in ``a.co.uk``."""
    labels = host.rstrip(".").lower().split(".")
    is_second_level = len(labels) > 2 and len(labels[-1]) == 2 and len(labels[-2]) <= 3
    return ".".join(labels[-3 if is_second_level else -2 :])
