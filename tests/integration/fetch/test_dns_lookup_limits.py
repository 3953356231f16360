"""How many name lookups a zone may have under way, and who waits for a place."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

import pytest

from skitter.errors import FetchError
from skitter.fetch import dns_lookup_limits as module
from skitter.fetch.dns_lookup_limits import (
    FORGET_SECONDS,
    KNOWN_SECONDS,
    PLACES_OF_NEW_ZONE,
    PLACES_OF_NEW_ZONES,
    PLACES_OF_SILENT_ZONES,
    PLACES_OF_ZONE,
    SILENT_SECONDS,
    Lookup,
    Lookups,
    origin_of,
    zone_of,
)

LIBCURL_REMEMBERS_SECONDS = 60


class Clock:
    """For ``lookups`` alone: the event loop has its own."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        self.now += 1e-6
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


async def begin(lookups: Lookups, name: str, seconds: float = 0.05) -> Lookup:
    lookup = await lookups.begin(f"http://{name}/", seconds)
    assert lookup is not None
    return lookup


async def fill(lookups: Lookups, zone: str) -> list[Lookup]:
    """As many as there are places for it."""
    taken = []
    try:
        while True:
            taken.append(await begin(lookups, f"n{len(taken)}.{zone}"))
    except FetchError:
        return taken


async def test_a_new_zone_has_few_places_and_more_once_it_answers() -> None:
    lookups = Lookups()
    taken = await fill(lookups, "new.test")
    assert len(taken) == PLACES_OF_NEW_ZONE
    for lookup in taken:
        lookup.end(answered=True)
        lookup.end(answered=False)  # again: that changes nothing
    assert len(await fill(lookups, "new.test")) == PLACES_OF_ZONE


async def test_new_zones_leave_places_to_those_that_answer() -> None:
    lookups = Lookups()
    (await begin(lookups, "a.known.test")).end(answered=True)
    zones = [f"new{number}.test" for number in range(PLACES_OF_NEW_ZONES)]
    assert sum([len(await fill(lookups, zone)) for zone in zones]) == PLACES_OF_NEW_ZONES
    assert len(await fill(lookups, "known.test")) == PLACES_OF_ZONE


async def test_silent_zones_share_few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.0)
    lookups = Lookups()
    for number in range(10):
        (await begin(lookups, f"a.zone{number}.test")).end(answered=True)  # too late to be an answer
    taken = [await fill(lookups, f"zone{number}.test") for number in range(10)]
    assert sum(map(len, taken)) == PLACES_OF_SILENT_ZONES
    with pytest.raises(FetchError, match=r"the name servers of zone3\.test do not answer") as caught:
        await begin(lookups, "b.zone3.test")
    assert caught.value.error_class == "dns"


async def test_an_unanswered_lookup_keeps_its_place_until_the_resolver_has_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lookups = Lookups()
    for lookup in await fill(lookups, "new.test"):
        lookup.end(answered=False)
    assert await fill(lookups, "new.test") == []
    monkeypatch.setattr(module, "GIVEN_UP_SECONDS", 0.0)
    await begin(lookups, "a.new.test")


async def test_a_request_that_cannot_be_sent_has_no_place(make_client: Any) -> None:
    client = make_client()
    for number in range(2 * PLACES_OF_NEW_ZONES):
        assert await client.kind(f"http://zone{number}.test/", method="GE T") == "protocol"
        assert await client.kind(f"http://zone{number}.test/\u00fc") == "protocol"
    assert len(await fill(client.fetcher._lookups, "new.test")) == PLACES_OF_NEW_ZONE


async def test_who_waits_has_the_next_place() -> None:
    lookups = Lookups()
    taken = await fill(lookups, "new.test")
    waiting = [asyncio.create_task(begin(lookups, f"w{number}.new.test", 10)) for number in range(3)]
    await asyncio.sleep(0)
    assert lookups.waiting == 3
    taken[0].end(answered=True)
    taken[1].end(answered=True)
    await asyncio.gather(*waiting)
    assert lookups.waiting == 0


async def test_those_that_wait_can_be_ended_and_cancelled() -> None:
    lookups = Lookups()
    await fill(lookups, "new.test")
    waiting = [asyncio.create_task(begin(lookups, f"w{number}.new.test", 10)) for number in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    lookups.drop_waiting(1, FetchError("slow", "too many"))
    lookups.close(FetchError("protocol", "closed"))
    endings = await asyncio.gather(*waiting, return_exceptions=True)
    assert [getattr(ending, "error_class", "cancelled") for ending in endings] == ["cancelled", "protocol", "slow"]
    assert lookups.waiting == 0


async def test_an_answer_ends_the_other_lookups_of_its_host_and_lets_its_waiters_through(clock: Clock) -> None:
    """libcurl looks nothing up for a second https fetch: it waits for the first one's handshake."""
    lookups = Lookups()
    first, second = [await begin(lookups, "a.new.test") for _ in range(PLACES_OF_NEW_ZONE)]
    same = [asyncio.create_task(lookups.begin("http://a.new.test/", 10)) for _ in range(3)]
    other = asyncio.create_task(lookups.begin("http://b.new.test/", 10))
    await asyncio.sleep(0)
    assert lookups.waiting == 4
    first.end(answered=True)
    assert await asyncio.gather(*same) == [None] * 3
    assert await other is not None
    clock.now += SILENT_SECONDS / 2
    assert len(await fill(lookups, "new.test")) == PLACES_OF_ZONE - 1
    clock.now += SILENT_SECONDS / 2 + 0.1
    second.end(answered=True)  # it tells nothing of the zone
    assert lookups._zones["new.test"].answers


async def test_a_slow_handshake_does_not_make_a_zone_silent(clock: Clock) -> None:
    lookups = Lookups()
    for number in range(PLACES_OF_SILENT_ZONES):
        await begin(lookups, f"a.silent{number}.test")
    first, second = [await begin(lookups, "a.new.test") for _ in range(2)]
    first.end(answered=True)
    clock.now += SILENT_SECONDS + 1
    taken = await fill(lookups, "new.test")
    assert len(taken) == PLACES_OF_ZONE
    second.end(answered=False)
    assert not lookups._zones["new.test"].silent


async def test_a_fetch_that_was_cancelled_has_no_place_once_its_host_has_answered(clock: Clock) -> None:
    lookups = Lookups()
    first, second = [await begin(lookups, "a.new.test") for _ in range(2)]
    second.end(answered=False)
    first.end(answered=True)
    clock.now += SILENT_SECONDS + 1
    assert len(await fill(lookups, "new.test")) == PLACES_OF_ZONE


async def test_one_that_is_cancelled_as_it_is_given_a_place_gives_it_back() -> None:
    lookups = Lookups()
    taken = await fill(lookups, "new.test")
    waiting = [asyncio.create_task(begin(lookups, f"w{number}.new.test", 10)) for number in range(5)]
    await asyncio.sleep(0)
    taken[0].end(answered=True)
    assert lookups.waiting == 2  # three have a place, and do not know it yet
    for task in waiting[:3]:
        task.cancel()
    endings = await asyncio.gather(*waiting[:3], return_exceptions=True)
    assert [type(ending) for ending in endings] == [asyncio.CancelledError] * 3
    assert lookups.waiting == 0
    await asyncio.gather(*waiting[3:])
    assert len(lookups._zones["new.test"].lookups) == 3


async def test_one_whose_time_ends_as_it_is_given_a_place_gives_it_back() -> None:
    lookups = Lookups()
    taken = await fill(lookups, "new.test")
    waiting = asyncio.create_task(begin(lookups, "w.new.test", 0.01))
    await asyncio.sleep(0)
    # The next step of the loop gives it a place, and then finds that its time is over.
    asyncio.get_running_loop().call_soon(partial(taken[0].end, answered=True))
    time.sleep(0.1)  # noqa: ASYNC251
    with pytest.raises(FetchError, match="too many name servers"):
        await waiting
    assert lookups._zones["new.test"].lookups == taken[1:]


async def test_what_is_known_is_forgotten_in_time(clock: Clock) -> None:
    lookups = Lookups()
    for name in ("a.test", "b.test"):
        (await begin(lookups, name)).end(answered=True)
        clock.now += KNOWN_SECONDS / 2
    assert lookups._known_timer is not None
    assert KNOWN_SECONDS + FORGET_SECONDS < LIBCURL_REMEMBERS_SECONDS
    lookups._forget_known()
    assert set(lookups.known) == {"http://b.test"}
    clock.now += KNOWN_SECONDS / 2
    lookups._forget_known()
    assert not lookups.known
    assert lookups._known_timer is None


async def test_old_zones_are_forgotten_but_not_those_with_lookups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KNOWN", 3)
    lookups = Lookups()
    for number in range(6):
        (await begin(lookups, f"a.zone{number}.test")).end(answered=True)
    assert list(lookups._zones) == ["zone3.test", "zone4.test", "zone5.test"]
    assert list(lookups.known) == ["http://a.zone3.test", "http://a.zone4.test", "http://a.zone5.test"]
    busy = await begin(lookups, "b.zone3.test")
    for number in range(6, 12):
        (await begin(lookups, f"a.zone{number}.test")).end(answered=True)
    assert busy.zone in lookups._zones.values()


async def test_addresses_and_known_names_need_no_place() -> None:
    lookups = Lookups()
    for url in ("http://127.0.0.1:80/", "http://[::1]/x"):
        assert await lookups.begin(url, 1) is None
        assert origin_of(url) in lookups.known
    url = "http://a.test:8080/x"
    assert origin_of(url) not in lookups.known
    (await begin(lookups, "a.test:8080")).end(answered=True)
    assert origin_of(url) in lookups.known


@pytest.mark.parametrize(
    ("host", "zone"),
    [
        *(("a.b.example.com", "example.com"), ("example.com.", "example.com"), ("localhost", "localhost")),
        *(("A.B.Example.co.uk", "example.co.uk"), ("x.example.de", "example.de"), ("co.uk", "co.uk")),
    ],
)
def test_the_zone_of_a_name(host: str, zone: str) -> None:
    assert zone_of(host) == zone
