"""DNS lookups in threads of this worker, limited per zone, so that silent name servers delay only their own zone.

The system's resolver knows the machine's configuration, and blocks: a thread is busy until it gives up, up to half a
minute after the fetch has. libcurl has 20 threads for it, two a name, and pycurl no way to more. So names are looked up
here, and libcurl is told the addresses; the network guard sees at the socket which of them is used.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import deque
from queue import SimpleQueue

from skitter.concurrency import wait_shielded
from skitter.errors import FetchError
from skitter.model.url import host_name

MAX_LOOKUPS = 1024
"""Threads, started when they are needed: twice as many as a worker of 64 slots has fetches, slow ones included."""
PROVEN_SHARE = 16
"""A sixteenth of the threads is only for zones that have answered: others cannot be told from silent ones."""
LOOKUPS_OF_ZONE = 32
"""Of one zone that has answered before: some are hosts of millions of sites."""
LOOKUPS_OF_NEW_ZONE = 4
LOOKUPS_OF_SILENT_ZONE = 1
SILENT_SECONDS = 2.0
"""A zone is silent when a lookup in it takes longer, until one takes less."""
SLOW_SECONDS = 0.2
"""A fetch that has waited longer for its name stands aside (``SlowTransfers``)."""
KNOWN_SECONDS = 300.0
"""How long an address is used. The resolver does not tell how long it may be; a failed connection ends it."""
CURL_KNOWN_SECONDS = 330
"""What libcurl is told: longer, so that it never looks a name up that is known here."""
FORGET_SECONDS = 5.0
MAX_KNOWN = 25_000
"""Origins and zones; libcurl remembers 30,000."""
STACK_BYTES = 262_144
"""Instead of 8 MB, which count against ``max_worker_bytes``."""


class Zone:
    """Lookups in the domain of some name servers."""

    __slots__ = ("answers", "is_silent", "name", "under_way", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.answers = False
        self.is_silent = False
        self.under_way = 0
        """Threads that are busy with it."""
        self.waiting: deque[Lookup] = deque()


class Lookup:
    """Lookup of one name, for all fetches that want it."""

    __slots__ = ("asked", "began", "fetches", "future", "host", "is_started", "silence", "zone")

    def __init__(self, host: str, zone: Zone, future: asyncio.Future[list[str]]) -> None:
        self.host = host
        self.zone = zone
        self.future = future
        self.fetches = 0
        self.is_started = False
        """Whether a thread is, or was, busy with it."""
        self.asked = self.began = time.monotonic()
        self.silence: asyncio.TimerHandle | None = None


class DnsLookups:
    """Lookups of one engine. It belongs to the loop that first asks for addresses."""

    def __init__(self, *, max_lookups: int = MAX_LOOKUPS) -> None:
        self.known: dict[str, float] = {}
        """Origins whose addresses libcurl has, and until when; the oldest first.

        What is no longer remembered is not in it: asked for each page, so that nobody has to look at a clock."""
        self._pending: dict[str, Lookup] = {}
        """Lookups that fetches wait for, by host; the oldest first."""
        self._zones: dict[str, Zone] = {}
        self._queues: dict[str, Zone] = {}
        """Zones with lookups that wait for a thread."""
        self._max_lookups = max_lookups
        self._max_unproven = max_lookups - max(1, max_lookups // PROVEN_SHARE)
        self._threads = self._under_way = self._unproven = 0
        self._to_do: SimpleQueue[Lookup | None] = SimpleQueue()
        self._forget_timer: asyncio.TimerHandle | None = None
        self._family = socket.AF_UNSPEC if _has_ipv6() else socket.AF_INET

    @property
    def waiting(self) -> int:
        """Fetches that have waited long for their name, or wait for a thread."""
        return sum(lookup.fetches for lookup in self._slow()) if self._pending else 0

    async def addresses(self, url: str, seconds: float) -> list[str]:
        """The addresses of a URL's host; none if it is an address.

        Raises a FetchError: ``dns``, or ``slow`` where after ``seconds`` no thread was free because of other zones.
        """
        host = host_name(url)
        if host.startswith("[") or host.rpartition(".")[2].isdigit():
            return []
        lookup = self._pending.get(host) or self._begin(host)
        lookup.fetches += 1
        try:
            async with asyncio.timeout(seconds):
                return await wait_shielded(lookup.future)
        except TimeoutError:
            if lookup.is_started or lookup.zone.is_silent:
                raise FetchError("dns", f"the name servers of {lookup.zone.name} do not answer: {url}") from None
            raise FetchError("slow", f"too many name servers do not answer: {url}") from None
        except OSError as error:
            raise FetchError("dns", f"the host name cannot be resolved ({error.strerror}): {url}") from error
        finally:
            lookup.fetches -= 1
            if not lookup.fetches and not lookup.future.done():
                self._abandon(lookup)

    def remember(self, origin: str) -> None:
        """libcurl has been told the addresses of this origin."""
        self.known.pop(origin, None)
        self.known[origin] = time.monotonic() + KNOWN_SECONDS
        if len(self.known) > MAX_KNOWN:
            del self.known[next(iter(self.known))]
        if self._forget_timer is None:
            self._forget_known()

    def forget(self, origin: str) -> None:
        """An address did not work: the next fetch asks again."""
        self.known.pop(origin, None)

    def drop_waiting(self, count: int, error: Exception) -> None:
        """End so many of the fetches that wait: the youngest, of the zones with the most."""
        of_zones: dict[Zone, list[Lookup]] = {}
        for lookup in self._slow():
            of_zones.setdefault(lookup.zone, []).append(lookup)
        while count > 0 and of_zones:
            zone = max(of_zones, key=lambda zone: (len(of_zones[zone]), of_zones[zone][-1].asked))
            lookup = of_zones[zone].pop()
            if not of_zones[zone]:
                del of_zones[zone]
            count -= lookup.fetches
            self._drop(lookup, error)

    def close(self, error: Exception) -> None:
        """End all lookups that fetches wait for; threads that are busy end later, and nobody waits for them."""
        for lookup in list(self._pending.values()):
            self._drop(lookup, error)
        if self._forget_timer is not None:
            self._forget_timer.cancel()
        for _ in range(self._threads):
            self._to_do.put(None)

    def _slow(self) -> list[Lookup]:
        before = time.monotonic() - SLOW_SECONDS
        return [lookup for lookup in self._pending.values() if not lookup.is_started or lookup.asked < before]

    def _drop(self, lookup: Lookup, error: Exception) -> None:
        self._abandon(lookup)
        lookup.future.set_exception(error)

    def _begin(self, host: str) -> Lookup:
        name = zone_of(host)
        zone = self._zones.pop(name, None) or Zone(name)
        self._zones[name] = zone  # the latest is last
        self._forget_zones()
        self._loop = asyncio.get_running_loop()
        lookup = self._pending[host] = Lookup(host, zone, self._loop.create_future())
        if not zone.waiting and self._has_place(zone):
            self._start(lookup)
        else:
            zone.waiting.append(lookup)
            self._queues[name] = zone
        return lookup

    def _abandon(self, lookup: Lookup) -> None:
        """No fetch waits for it any more. One that is under way keeps its thread."""
        del self._pending[lookup.host]
        zone = lookup.zone
        if not lookup.is_started:
            zone.waiting.remove(lookup)
            if not zone.waiting:
                del self._queues[zone.name]

    def _has_place(self, zone: Zone) -> bool:
        if self._under_way >= self._max_lookups:
            return False
        if zone.answers:
            return zone.under_way < LOOKUPS_OF_ZONE
        of_zone = LOOKUPS_OF_SILENT_ZONE if zone.is_silent else LOOKUPS_OF_NEW_ZONE
        return zone.under_way < of_zone and self._unproven < self._max_unproven

    def _start(self, lookup: Lookup) -> None:
        zone = lookup.zone
        lookup.is_started, lookup.began = True, time.monotonic()
        zone.under_way += 1
        self._under_way += 1
        self._unproven += not zone.answers
        if self._under_way > self._threads:
            self._start_thread()
        lookup.silence = self._loop.call_later(SILENT_SECONDS, self._set_state, zone, False, True)
        self._to_do.put(lookup)

    def _start_thread(self) -> None:
        before = threading.stack_size(STACK_BYTES)
        try:
            # Daemons: the process does not wait for a name server when it ends.
            threading.Thread(target=self._run, name="dns-lookup", daemon=True).start()
            self._threads += 1
        except RuntimeError:
            # The system allows this process no more: those there are have to do.
            self._max_lookups = max(1, self._threads)
        finally:
            threading.stack_size(before)

    def _run(self) -> None:
        """Body of a thread."""
        while (lookup := self._to_do.get()) is not None:
            found: list[str] | OSError
            try:
                answers = socket.getaddrinfo(lookup.host.encode(), None, self._family, socket.SOCK_STREAM)
                found = list(dict.fromkeys(str(answer[4][0]).partition("%")[0] for answer in answers))
            except (OSError, UnicodeError) as error:
                found = error if isinstance(error, OSError) else OSError(0, str(error))
            try:
                self._loop.call_soon_threadsafe(self._ended, lookup, found)
            except RuntimeError:  # the loop is closed
                return

    def _ended(self, lookup: Lookup, found: list[str] | OSError) -> None:
        zone = lookup.zone
        if lookup.silence is not None:
            lookup.silence.cancel()
        zone.under_way -= 1
        self._under_way -= 1
        self._unproven -= not zone.answers
        is_late = time.monotonic() - lookup.began > SILENT_SECONDS
        is_answer = not isinstance(found, OSError) or found.errno != socket.EAI_AGAIN
        self._set_state(zone, is_answer and not is_late, is_late)
        if self._pending.get(lookup.host) is lookup:
            del self._pending[lookup.host]
            if isinstance(found, OSError):
                lookup.future.set_exception(found)
            else:
                lookup.future.set_result(found)
        for waiting in list(self._queues.values()):
            while waiting.waiting and self._has_place(waiting):
                self._start(waiting.waiting.popleft())
            if not waiting.waiting:
                del self._queues[waiting.name]

    def _set_state(self, zone: Zone, answers: bool, is_silent: bool) -> None:
        if zone.answers != answers:
            self._unproven += -zone.under_way if answers else zone.under_way
        zone.answers, zone.is_silent = answers, is_silent

    def _forget_known(self) -> None:
        now = time.monotonic()
        while self.known and self.known[next(iter(self.known))] <= now:
            del self.known[next(iter(self.known))]
        is_needed = bool(self.known)
        loop = asyncio.get_running_loop()
        self._forget_timer = loop.call_later(FORGET_SECONDS, self._forget_known) if is_needed else None

    def _forget_zones(self) -> None:
        if len(self._zones) > MAX_KNOWN:
            oldest = next(iter(self._zones.values()))
            if not oldest.under_way and not oldest.waiting:
                del self._zones[oldest.name]


def origin_of(url: str) -> str:
    """The scheme, host and port, as a URL has them: libcurl remembers addresses for these. Asked for each page."""
    return url[: url.find("/", 8)]


def zone_of(host: str) -> str:
    """The domain whose name servers answer, as far as a name tells: its last two labels, or three as in ``a.co.uk``."""
    labels = host.rstrip(".").lower().split(".")
    is_second_level = len(labels) > 2 and len(labels[-1]) == 2 and len(labels[-2]) <= 3
    return ".".join(labels[-3 if is_second_level else -2 :])


def _has_ipv6() -> bool:
    try:
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).close()
    except OSError:
        return False
    return True
