"""DNS lookups: how many a zone may have under way, who waits, and what is remembered."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from skitter.errors import FetchError
from skitter.fetch import dns_lookups as module
from skitter.fetch.dns_lookups import (
    CURL_KNOWN_SECONDS,
    FORGET_SECONDS,
    KNOWN_SECONDS,
    LOOKUPS_OF_NEW_ZONE,
    LOOKUPS_OF_SILENT_ZONE,
    LOOKUPS_OF_ZONE,
    DnsLookups,
    origin_of,
    zone_of,
)

ADDRESS = "93.184.216.34"


class Resolver:
    """A system's resolver that answers when the test wants it to; a lookup blocks its thread until then."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.failures: dict[str, OSError] = {}
        self._lock = threading.Lock()
        self._answers: dict[str, threading.Event] = {}
        self._answers_all = False

    def getaddrinfo(self, host: bytes, *_: Any) -> list[Any]:
        name = host.decode()
        self.asked.append(name)
        self._event(name).wait(60)
        if name in self.failures:
            raise self.failures[name]
        return [(2, 1, 6, "", (ADDRESS, 0)), (2, 1, 6, "", (ADDRESS, 0)), (10, 1, 6, "", ("fe80::1%eth0", 0))]

    def answer(self, *names: str) -> None:
        for name in names:
            self._event(name).set()

    def answer_all(self) -> None:
        with self._lock:
            self._answers_all = True
            for event in self._answers.values():
                event.set()

    def _event(self, name: str) -> threading.Event:
        with self._lock:
            event = self._answers.setdefault(name, threading.Event())
            if self._answers_all:
                event.set()
            return event


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    resolver, others = Resolver(), threading.enumerate()
    monkeypatch.setattr(socket, "getaddrinfo", resolver.getaddrinfo)
    yield resolver
    resolver.answer_all()
    for thread in threading.enumerate():
        if thread.name == "dns-lookup" and thread not in others:
            # One that has just begun would ask the resolver of the next test.
            thread.join(60)


MakeLookups = Callable[[int], DnsLookups]


@pytest.fixture
def make_lookups(resolver: Resolver) -> Iterator[MakeLookups]:
    made: list[DnsLookups] = []

    def make(max_lookups: int) -> DnsLookups:
        made.append(DnsLookups(max_lookups=max_lookups))
        return made[-1]

    yield make
    resolver.answer_all()
    for lookups in made:
        lookups.close(FetchError("protocol", "closed"))


@pytest.fixture
def lookups(make_lookups: MakeLookups) -> DnsLookups:
    return make_lookups(module.MAX_LOOKUPS)


class Asking:
    """Fetches that wait for the addresses of names."""

    def __init__(self, lookups: DnsLookups) -> None:
        self._lookups = lookups

    async def ask(self, *names: str, seconds: float = 30) -> list[asyncio.Task[list[str]]]:
        tasks = [asyncio.create_task(self._lookups.addresses(f"http://{name}/", seconds)) for name in names]
        await asyncio.sleep(0)
        return tasks

    def under_way(self, zone: str) -> int:
        return self._lookups._zones[zone].under_way


@pytest.fixture
def asking(lookups: DnsLookups) -> Asking:
    return Asking(lookups)


def names_in(zone: str, count: int) -> list[str]:
    return [f"n{number}.{zone}" for number in range(count)]


async def kinds_of(tasks: list[asyncio.Task[list[str]]]) -> list[str]:
    endings = await asyncio.gather(*tasks, return_exceptions=True)
    return [getattr(ending, "error_class", type(ending).__name__) for ending in endings]


async def test_a_new_zone_has_few_lookups_and_more_once_it_answers(resolver: Resolver, asking: Asking) -> None:
    names = names_in("new.test", 2 * LOOKUPS_OF_ZONE)
    tasks = await asking.ask(*names)
    assert asking.under_way("new.test") == LOOKUPS_OF_NEW_ZONE
    resolver.answer(names[0])
    assert await tasks[0] == [ADDRESS, "fe80::1"]
    assert asking.under_way("new.test") == LOOKUPS_OF_ZONE
    resolver.answer_all()
    await asyncio.gather(*tasks)
    assert asking.under_way("new.test") == 0


async def test_that_there_is_no_such_name_is_an_answer(resolver: Resolver, asking: Asking) -> None:
    names = names_in("new.test", LOOKUPS_OF_ZONE)
    resolver.failures[names[0]] = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    tasks = await asking.ask(*names)
    resolver.answer(names[0])
    with pytest.raises(
        FetchError, match=r"the host name cannot be resolved \(Name or service not known\): http://n0\.new\.test/"
    ):
        await tasks[0]
    assert asking.under_way("new.test") == LOOKUPS_OF_ZONE - 1


async def test_that_the_resolver_has_given_up_is_none(resolver: Resolver, asking: Asking) -> None:
    names = names_in("new.test", LOOKUPS_OF_ZONE)
    resolver.failures[names[0]] = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    tasks = await asking.ask(*names)
    resolver.answer(names[0])
    assert await kinds_of(tasks[:1]) == ["dns"]
    assert asking.under_way("new.test") == LOOKUPS_OF_NEW_ZONE


async def test_zones_that_are_new_or_silent_leave_threads_to_those_that_answer(
    resolver: Resolver, make_lookups: MakeLookups
) -> None:
    lookups = make_lookups(8)
    asking = Asking(lookups)
    resolver.answer("a.known.test")
    await asyncio.gather(*await asking.ask("a.known.test"))
    others = await asking.ask(*(name for number in range(9) for name in names_in(f"zone{number}.test", 2)))
    assert lookups._under_way == 7
    known = await asking.ask(*names_in("known.test", 3))
    assert asking.under_way("known.test") == 1
    resolver.answer_all()
    await asyncio.gather(*others, *known)
    assert (lookups._under_way, lookups._unproven, lookups._threads) == (0, 0, 8)


async def test_a_silent_zone_has_one_lookup_at_a_time(
    resolver: Resolver, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.0)
    names = names_in("silent.test", 10)
    tasks = await asking.ask(*names)
    resolver.answer(*names[:LOOKUPS_OF_NEW_ZONE])  # too late to be an answer
    await asyncio.gather(*tasks[:LOOKUPS_OF_NEW_ZONE])
    assert asking.under_way("silent.test") == LOOKUPS_OF_SILENT_ZONE
    monkeypatch.setattr(module, "SILENT_SECONDS", 60.0)
    resolver.answer(names[LOOKUPS_OF_NEW_ZONE])
    await tasks[LOOKUPS_OF_NEW_ZONE]
    assert asking.under_way("silent.test") == 10 - LOOKUPS_OF_NEW_ZONE - 1


async def test_a_fetch_ends_dns_if_its_zone_is_silent_and_slow_if_others_have_the_threads(
    resolver: Resolver, make_lookups: MakeLookups
) -> None:
    tasks = await Asking(make_lookups(3)).ask("a.one.test", "a.two.test", "a.three.test", seconds=0.01)
    assert await kinds_of(tasks) == ["dns", "dns", "slow"]
    with pytest.raises(FetchError, match=r"the name servers of one\.test do not answer: http://a\.one\.test/"):
        tasks[0].result()
    assert resolver.asked.count("a.three.test") == 0


async def test_a_zone_is_silent_as_soon_as_a_lookup_takes_too_long(
    resolver: Resolver, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.0)
    tasks = await asking.ask(*names_in("silent.test", LOOKUPS_OF_NEW_ZONE + 1), seconds=0.05)
    assert await kinds_of(tasks) == ["dns"] * (LOOKUPS_OF_NEW_ZONE + 1)
    assert len(resolver.asked) == LOOKUPS_OF_NEW_ZONE


async def test_a_lookup_that_nobody_waits_for_keeps_its_thread(resolver: Resolver, asking: Asking) -> None:
    names = names_in("new.test", LOOKUPS_OF_NEW_ZONE)
    for task in await asking.ask(*names):
        task.cancel()
    later = await asking.ask("later.new.test")
    assert asking.under_way("new.test") == LOOKUPS_OF_NEW_ZONE
    resolver.answer(names[0], "later.new.test")
    assert await later[0] == [ADDRESS, "fe80::1"]


async def test_where_there_are_few_threads_names_are_looked_up_one_after_the_other(
    resolver: Resolver, asking: Asking, lookups: DnsLookups, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    resolver.answer_all()
    await asyncio.gather(*await asking.ask("a.known.test"))
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    found = await asyncio.gather(*await asking.ask(*names_in("known.test", 10), *names_in("new.test", 10)))
    assert found == [[ADDRESS, "fe80::1"]] * 20
    assert lookups._threads == 1


async def test_fetches_of_one_name_share_its_lookup(resolver: Resolver, asking: Asking) -> None:
    tasks = await asking.ask(*["a.new.test"] * 5)
    tasks[0].cancel()
    resolver.answer_all()
    endings = await asyncio.gather(*tasks, return_exceptions=True)
    assert endings[1:] == [[ADDRESS, "fe80::1"]] * 4
    assert resolver.asked == ["a.new.test"]


async def test_fetches_that_wait_long_or_for_a_thread_stand_aside(
    resolver: Resolver, asking: Asking, lookups: DnsLookups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLOW_SECONDS", 60.0)
    await asking.ask(*names_in("new.test", LOOKUPS_OF_NEW_ZONE + 3))
    await asking.ask("n0.new.test")
    assert lookups.waiting == 3
    monkeypatch.setattr(module, "SLOW_SECONDS", 0.0)
    assert lookups.waiting == LOOKUPS_OF_NEW_ZONE + 3 + 1


async def test_those_that_wait_are_ended_where_most_wait_and_the_youngest_first(
    resolver: Resolver, asking: Asking, lookups: DnsLookups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLOW_SECONDS", 0.0)
    many, one = await asking.ask(*names_in("many.test", 6)), await asking.ask("a.one.test")
    lookups.drop_waiting(5, FetchError("slow", "too many"))
    assert await kinds_of(many[1:]) == ["slow"] * 5
    lookups.drop_waiting(1, FetchError("slow", "too many"))
    assert await kinds_of(one) == ["slow"]
    lookups.close(FetchError("protocol", "closed"))
    assert await kinds_of(many[:1]) == ["protocol"]
    assert lookups.waiting == 0


async def test_one_that_is_cancelled_while_it_waits_for_a_thread_is_not_looked_up(
    resolver: Resolver, asking: Asking, lookups: DnsLookups
) -> None:
    tasks = await asking.ask(*names_in("new.test", LOOKUPS_OF_NEW_ZONE), "w.new.test")
    tasks[-1].cancel()
    resolver.answer_all()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert "w.new.test" not in resolver.asked
    assert (lookups._queues, lookups._pending) == ({}, {})


async def test_what_is_known_is_forgotten_in_time(lookups: DnsLookups, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    for name in ("a.test", "b.test"):
        lookups.remember(f"http://{name}")
        now += KNOWN_SECONDS / 2
    assert lookups._forget_timer is not None
    assert KNOWN_SECONDS + FORGET_SECONDS < CURL_KNOWN_SECONDS
    lookups._forget_known()
    assert set(lookups.known) == {"http://b.test"}
    now += KNOWN_SECONDS / 2
    lookups._forget_known()
    assert not lookups.known
    assert lookups._forget_timer is None


async def test_what_is_remembered_is_bounded_and_zones_with_lookups_are_kept(
    resolver: Resolver, asking: Asking, lookups: DnsLookups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_KNOWN", 3)
    await asking.ask("a.busy.test")
    for number in range(6):
        lookups.remember(f"http://a.zone{number}.test")
        resolver.answer(f"a.zone{number}.test")
        await asyncio.gather(*await asking.ask(f"a.zone{number}.test"))
    assert list(lookups.known) == ["http://a.zone3.test", "http://a.zone4.test", "http://a.zone5.test"]
    assert "busy.test" in lookups._zones


async def test_an_address_needs_no_lookup(resolver: Resolver, lookups: DnsLookups) -> None:
    for url in ("http://127.0.0.1:80/", "http://[::1]/x"):
        assert await lookups.addresses(url, 1) == []
    assert resolver.asked == []


async def test_a_name_is_looked_up_once_and_again_after_a_connection_failed(
    resolver: Resolver, serve: Any, make_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = serve(serve.answer(b"ok", "Connection: close"), keep=False)
    monkeypatch.setattr(resolver, "getaddrinfo", _always(resolver, "127.0.0.1"))
    monkeypatch.setattr(socket, "getaddrinfo", resolver.getaddrinfo)
    client, url = make_client(), site.url(host="a.example.test")
    for _ in range(3):
        assert (await client.get(url)).body == b"ok"
    assert resolver.asked == ["a.example.test"]
    assert origin_of(url) in client.fetcher._known
    # A port of loopback where nobody listens.
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        nobody = f"http://b.example.test:{unheard.getsockname()[1]}/"
        for _ in range(2):
            assert await client.kind(nobody) == "connect"
    assert resolver.asked == ["a.example.test", "b.example.test", "b.example.test"]


async def test_a_name_with_a_dot_at_its_end_is_connected_to(
    resolver: Resolver, serve: Any, make_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = serve(serve.answer(b"ok"))
    monkeypatch.setattr(socket, "getaddrinfo", _always(resolver, "127.0.0.1"))
    client = make_client()
    assert (await client.get(site.url(host="a.example.test."))).body == b"ok"
    assert (await client.get(site.url(host="A.Example.test"))).body == b"ok"


def _always(resolver: Resolver, address: str) -> Callable[..., list[Any]]:
    def getaddrinfo(host: bytes, *_: Any) -> list[Any]:
        resolver.asked.append(host.decode())
        return [(2, 1, 6, "", (address, 0))]

    return getaddrinfo


@pytest.mark.parametrize(
    ("host", "zone"),
    [
        *(("a.b.example.com", "example.com"), ("example.com.", "example.com"), ("localhost", "localhost")),
        *(("A.B.Example.co.uk", "example.co.uk"), ("x.example.de", "example.de"), ("co.uk", "co.uk")),
    ],
)
def test_the_zone_of_a_name(host: str, zone: str) -> None:
    assert zone_of(host) == zone
