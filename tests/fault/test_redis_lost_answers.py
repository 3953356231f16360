"""The answer to a call is lost on its way, and the client sends the call again: it acts once, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from rig.relay import Relay
from skitter.model.job import Begun, SinkProgress, State
from skitter.model.outcome import Ending
from skitter.model.url import canonical
from skitter.testing.clock import FakeClock
from skitter.testing.contract import Client
from skitter.testing.contract.client import names_of
from skitter.testing.frontiers import open_frontier
from skitter.testing.redis_jobs import RawRedis, prefixes_of, script
from skitter.testing.web import WebSpec, served

CALL = b"EVALSHA"
(PREFIX,) = prefixes_of("job", 1)
NAMES = ["a/1", "a/2", "a/3", "b/1", "b/2"]
LEASE_SECONDS = 300.0
"""Longer than any test may take: a lease that nobody knows of would keep the job from ending."""


class Far:
    """A client whose answers may get lost, and one beside it whose do not."""

    def __init__(self, way: Relay, url: str, options: str = "") -> None:
        self.way = way
        self.clock = FakeClock()
        self.server = RawRedis(url)
        seen: set[int] = set()
        lossy = f"redis://{way.address}{options}"
        self.client = Client(open_frontier(lossy, "job", self.clock), "job", seen)
        self.beside = Client(open_frontier(url + options, "job", self.clock), "job", seen)

    async def close(self) -> None:
        await self.client.frontier.close()
        await self.beside.frontier.close()
        await self.server.close()

    def lose(self) -> None:
        """The answer to the next call."""
        self.way.lose(CALL)

    async def stored(self, *words: Any) -> Any:
        return await self.server.command(*words)

    async def answers(self, run: int = 1) -> int:
        """How many workers' answers are remembered."""
        count: int = await self.stored("HLEN", f"{PREFIX}{run}:answers")
        return count


@pytest_asyncio.fixture
async def far(services: Any) -> AsyncIterator[Far]:
    url = services.need("redis")["url"]
    place = urlsplit(url)
    async with Relay(place.hostname or "", place.port or 0) as way:
        far = Far(way, url)
        await far.stored("FLUSHALL")
        for name in ("begin", "add", "lease", "renew", "commit", "release", "release_worker"):
            # Otherwise the answer that is lost may be that the server does not know the script yet.
            await far.stored("SCRIPT", "LOAD", script(name)[0])
        yield far
        await far.close()


async def no_losses(client: Client, names: list[str]) -> None:
    for name in names:
        assert (await client.trace(name)).losses == 0


class TestLease:
    async def test_the_leases_that_were_granted_are_told_again(self, far: Far) -> None:
        await far.client.seeded(*NAMES, lease_seconds=LEASE_SECONDS)
        far.lose()
        leases = await far.client.lease("w", 3)
        assert far.way.lost == 1
        assert (await far.client.counts()).leased == len(leases) == 3
        others = await far.beside.lease("other")
        assert sorted(names_of(leases + others)) == NAMES, "nothing is leased twice, nothing is kept from anybody"
        await no_losses(far.client, NAMES)
        await far.client.end_all(leases + others)
        assert await far.client.state() is State.FINISHED

    async def test_they_are_told_as_they_were(self, far: Far) -> None:
        await far.client.seeded(lease_seconds=LEASE_SECONDS, burst_pages=1)
        await far.client.add("a/1", "b/1", seed=True)
        await far.client.retry(*await far.client.lease("w", 1))
        leased_at = far.clock()

        async def pass_time() -> None:
            far.clock.advance(20)
            await far.beside.frontier.reap()

        far.way.meanwhile = pass_time
        far.lose()
        told = await far.client.lease("w")
        assert names_of(told) == ["b/1", "a/1"]
        assert [(lease.attempts, lease.trusted, lease.start_seconds) for lease in told] == [
            (0, True, None),
            (1, True, None),
        ]
        assert {(lease.leased_at, lease.deadline) for lease in told} == {(leased_at, leased_at + LEASE_SECONDS)}
        assert len({lease.epoch for lease in told}) == 2

    async def test_a_gate_and_the_seeding_are_told_again(self, far: Far) -> None:
        await far.client.begin(obey_robots=True, lease_seconds=LEASE_SECONDS)
        await far.client.add("a/1")
        far.lose()
        leases = await far.client.lease()
        assert names_of(leases) == ["seeding", "robots:a"]
        far.lose()
        await far.client.open_gate(leases[1])
        assert await far.client.names() == ["a/1"]

    async def test_a_lease_that_has_ended_meanwhile_is_left_out(self, far: Far) -> None:
        await far.client.seeded(*NAMES, lease_seconds=LEASE_SECONDS)
        reaped: list[int] = []

        async def expire() -> None:
            far.clock.advance(LEASE_SECONDS + 1)
            reaped.append(await far.beside.frontier.reap())

        far.way.meanwhile = expire
        far.lose()
        assert await far.client.lease("w", 3) == []
        assert reaped == [3]
        far.way.meanwhile = None
        assert len(await far.client.lease("w")) == len(NAMES)

    async def test_with_a_delay_a_worker_is_told_no_longer_window_than_it_had(self, far: Far) -> None:
        await far.client.seeded("a/1", delay_seconds=1.0, lease_seconds=LEASE_SECONDS)
        await far.client.release(await far.client.one(), late=True)
        lease = await far.client.one()
        assert lease.start_seconds == 0.1
        await far.client.release(lease)
        far.lose()
        assert (await far.client.one()).start_seconds == 0.05

    async def test_the_next_call_is_another_one(self, far: Far) -> None:
        await far.client.seeded(*NAMES, lease_seconds=LEASE_SECONDS)
        for _ in NAMES:
            far.lose()
            await far.client.one()
        assert (await far.client.counts()).leased == len(NAMES)


class TestAddresses:
    async def test_a_request_is_counted_once_however_often_its_calls_are_sent(self, far: Far) -> None:
        hosts, address = "abc", "192.0.2.1"
        await far.client.seeded(*(f"{host}/0" for host in hosts), per_ip=2, lease_seconds=LEASE_SECONDS)
        for lease in await far.client.lease("first"):
            await far.client.answered(lease, address=address)
        await far.client.add(*(f"{host}/{page}" for host in hosts for page in range(1, 5)))
        lost = 0
        while await far.client.state() is not State.FINISHED:
            for call in (far.client.lease("w"), far.client.lease("v", 1)):
                far.lose()
                leases = await call
                lost += 1
                counted = int(await far.stored("HGET", f"{PREFIX}1:addresses", address) or 0)
                assert counted == len(leases) <= 2
                others = await far.beside.lease("other")
                assert len(others) + counted <= 2
                await far.beside.release(*others)
                for lease in leases:
                    far.lose()
                    assert await far.client.answered(lease, address=address)
                    lost += 1
        assert far.way.lost == lost
        assert await far.stored("EXISTS", f"{PREFIX}1:addresses", f"{PREFIX}1:parked") == 0


class TestCommit:
    async def test_what_was_accepted_stays_accepted(self, far: Far) -> None:
        await far.client.seeded(*NAMES, lease_seconds=LEASE_SECONDS)
        await far.client.frontier.open_sink("out", "me")
        first, second, *_ = leases = await far.client.lease()
        await far.beside.release(second)
        outcomes = [await far.client.outcome(lease, links=["c/1"], items=[b"x"]) for lease in leases]
        far.lose()
        committed = await far.client.commit(*outcomes)
        assert far.way.lost == 1
        assert committed.accepted == [lease is not second for lease in leases]
        assert await far.client.records() == [b"x"] * 4
        assert not await far.client.end(first), "another call is another call"

    async def test_with_new_leases(self, far: Far) -> None:
        await far.client.seeded(*NAMES, lease_seconds=LEASE_SECONDS)
        leases = await far.client.lease("w", 2)
        far.lose()
        committed = await far.client.commit(*[await far.client.outcome(lease) for lease in leases], want=2)
        assert committed.accepted == [True, True]
        assert committed.grant is not None
        counts = await far.client.counts()
        assert (counts.done, counts.leased, counts.queued) == (2, 2, 1)
        await no_losses(far.client, names_of(committed.grant.leases))
        await far.client.end_all(committed.grant.leases)
        await far.client.end_all(await far.beside.lease("other"))
        assert await far.client.state() is State.FINISHED

    async def test_a_part_is_staged_once(self, far: Far) -> None:
        await far.client.seeded("a/1", lease_seconds=LEASE_SECONDS)
        await far.client.frontier.open_sink("out", "me")
        lease = await far.client.one()
        for number in range(3):
            far.lose()
            assert await far.client.end(lease, items=[b"%d" % number], more=number < 2)
        assert await far.client.records() == [b"0", b"1", b"2"]

    async def test_calls_side_by_side_are_each_answered(self, far: Far) -> None:
        await far.client.seeded(*NAMES, lease_seconds=LEASE_SECONDS)
        await far.client.frontier.open_sink("out", "me")
        leases = await far.client.lease()
        parts = [await far.client.outcome(lease, items=[b"part"], more=True) for lease in leases]
        ends = [await far.client.outcome(lease, items=[b"end"]) for lease in leases]
        far.way.lose_each_once(CALL)
        for outcomes in (parts, ends):
            answers = await asyncio.gather(*(far.client.frontier.commit("w", [outcome]) for outcome in outcomes))
            assert [answer.accepted for answer in answers] == [[True]] * len(leases)
        assert far.way.lost == 2 * len(leases)
        assert Counter(await far.client.records()) == {b"part": 5, b"end": 5}

    async def test_an_attempt_is_spent_once(self, far: Far) -> None:
        await far.client.seeded("a/1", max_attempts=2, lease_seconds=LEASE_SECONDS)
        far.lose()
        await far.client.end(await far.client.one(), Ending.RETRY, error_class="timeout")
        assert (await far.client.trace("a/1")).attempts == 1


class TestOtherCalls:
    async def test_a_job_is_begun_once(self, far: Far) -> None:
        far.lose()
        assert await far.client.begin() is Begun.NEW
        far.lose()
        assert await far.client.begin(fresh=True) is Begun.RERUN
        assert (await far.client.frontier.job()).run == 2
        far.lose()
        assert await far.client.begin() is Begun.RESUMED
        assert far.way.lost == 3

    async def test_what_is_repeated_by_nature_does_no_harm(self, far: Far) -> None:
        await far.client.seeded("a/1", delay_seconds=1.0, lease_seconds=LEASE_SECONDS)
        await far.client.frontier.open_sink("out", "me")
        far.lose()
        assert await far.client.add("a/2", "a/3") == 0, "two were added, but that answer was lost"
        lease = await far.client.one()
        far.lose()
        assert await far.client.frontier.renew("w", [lease]) == [True]
        far.lose()
        await far.client.release(lease, late=True)
        far.clock.advance(60)
        assert (await far.client.one()).start_seconds == 0.1, "late once, not twice"
        far.lose()
        assert await far.client.lose("w") == 0, "one went back, but that answer was lost"
        assert (await far.client.trace("a/1")).losses == 1
        assert far.way.lost == 4


class TestRemembered:
    async def test_one_answer_for_each_worker_that_was_given_something(self, far: Far) -> None:
        await far.client.seeded(*NAMES, lease_seconds=LEASE_SECONDS)
        before = await far.answers()
        for _ in range(2):
            await far.client.lease("w1", 1)
            await far.client.lease("w2", 1)
        await far.client.lease("idle", 0)
        assert await far.answers() == before + 2

    async def test_it_goes_with_its_worker_and_with_its_run(self, far: Far) -> None:
        await far.client.seeded(*NAMES, lease_seconds=LEASE_SECONDS)
        before = await far.answers()
        await far.client.one("w1")
        assert await far.answers() == before + 1
        await far.client.lose("w1")
        assert await far.answers() == before
        await far.client.begin(fresh=True)
        assert (await far.answers(1), await far.answers(2)) == (0, 0)


@pytest_asyncio.fixture
async def far_shards(services: Any) -> AsyncIterator[Far]:
    url = services.need("redis")["url"]
    place = urlsplit(url)
    async with Relay(place.hostname or "", place.port or 0) as way:
        far = Far(way, url, "?shards=3")
        await far.stored("FLUSHALL")
        yield far
        await far.close()


class TestShards:
    """Of a job in shards every step is a call, and the answer to each gets lost once."""

    async def test_everything_happens_once(self, far_shards: Far) -> None:
        far = far_shards
        far.way.lose_each_once(CALL)
        hosts = [f"h{number}" for number in range(8)]
        names = [f"{host}/{page}" for page in range(4) for host in hosts]
        await far.client.seeded(*(f"{host}/0" for host in hosts), lease_seconds=LEASE_SECONDS, sinks=["out"])
        assert await far.client.frontier.open_sink("out", "me")
        records: list[bytes] = []
        leases = await far.client.lease("w", 5)
        while leases:
            outcomes = []
            for lease in leases:
                (name,) = names_of([lease])
                page = int(name.partition("/")[2]) + 1
                links = [f"{host}/{page}" for host in hosts] if page < 4 else []
                outcomes.append(await far.client.outcome(lease, links=links, items=[name.encode()]))
            committed = await far.client.commit(*outcomes, want=5)
            assert committed.accepted == [True] * len(leases)
            assert committed.grant is not None
            leases = committed.grant.leases
            items = await far.client.items()
            records += [item.record for item in items]
            if items:
                assert await far.client.frontier.items_done("out", "me", SinkProgress(items[-1].position))
        assert await far.client.state() is State.FINISHED
        assert sorted(records) == sorted(name.encode() for name in names)
        counts = await far.client.counts()
        assert (counts.done, counts.seen) == (len(names), len(names))
        assert far.way.lost > 100

    async def test_a_lease_that_was_granted_is_told_again_and_by_nobody_else(self, far_shards: Far) -> None:
        far = far_shards
        names = [f"h{number}/{page}" for number in range(6) for page in range(2)]
        await far.client.seeded(*names, lease_seconds=LEASE_SECONDS)
        far.way.lose_each_once(CALL)
        leases = [*await far.client.lease("w", 7), *await far.beside.lease("other")]
        assert sorted(names_of(leases)) == sorted(names)
        assert len({lease.epoch for lease in leases}) == len(names)
        assert far.way.lost > 1
        await no_losses(far.beside, names)

    async def test_a_job_is_begun_once(self, far_shards: Far) -> None:
        far = far_shards
        far.way.lose_each_once(CALL)
        assert await far.client.begin() is Begun.NEW
        assert await far.client.begin(fresh=True) is Begun.RERUN
        assert (await far.client.frontier.job()).run == 2
        assert await far.client.begin() is Begun.RESUMED

    async def test_max_pages_stays_exact(self, far_shards: Far) -> None:
        far = far_shards
        far.way.lose_each_once(CALL)
        await far.client.seeded(*(f"h{n}/1" for n in range(20)), max_pages=7, lease_seconds=LEASE_SECONDS)
        leases = await far.client.lease("w")
        assert len(leases) == 7
        await far.client.end_all(leases)
        assert await far.client.state() is State.STOPPED


CONCURRENCY = 4
QUICK = ("--set", "obey_robots=false", "--set", f"lease_seconds={LEASE_SECONDS}", "--concurrency", CONCURRENCY)


def crawl_through(
    skitter: Any, services: Any, way: Relay, job: str, pages: int, hosts: int = 2, options: str = ""
) -> None:
    """A whole crawl: every page is fetched once, and every result is there once.

    A server that does not answer a program's very first question is an error: then the same command is given again.
    """
    log = skitter.folder / f"{job}.log"
    place = ("--frontier", f"redis://{way.address}{options}", "--job", job)
    with served(WebSpec.plain(hosts=hosts, pages_per_host=pages), log) as web:
        out = f"{job}.jsonl"
        command = ("crawl", *web.urls, "-o", out, "--workers", 2, "--json", *place, *QUICK)
        crawl = skitter.run(*command, code=None)
        if crawl.returncode == 3:
            crawl = skitter.run(*command)
        assert crawl.returncode == 0, crawl.stderr
        expected = web.expected(obey_robots=False)
    direct = ("--frontier", services.need("redis")["url"] + options, "--job", job)
    assert Counter(canonical(record["url"]) for record in skitter.lines(out)) == Counter(expected.done), (
        crawl.stdout,
        crawl.stderr,
        skitter.json("status", *direct),
    )
    assert set(Counter((hit.host, hit.path) for hit in web.log()).values()) == {1}, (
        "no lease was lost and fetched again"
    )
    assert "refused" not in crawl.stderr
    assert "lost the lease" not in crawl.stderr
    url = services.need("redis")["url"]
    skitter.run("drop", "--frontier", url, "--job", job)


def way_to(services: Any) -> Relay:
    place = urlsplit(services.need("redis")["url"])
    return Relay(place.hostname or "", place.port or 0)


class TestCrawl:
    def test_a_crawl_whose_every_call_is_answered_only_the_second_time(self, skitter: Any, services: Any) -> None:
        way = way_to(services)
        way.lose_each_once(*(script(name)[1].encode() for name in ("lease", "commit", "begin")))
        with way:
            crawl_through(skitter, services, way, "each-once", pages=30)
        assert way.lost >= 2 * 30 / CONCURRENCY, "a commit has no more outcomes than its worker has slots"

    def test_a_crawl_of_a_job_in_shards(self, skitter: Any, services: Any) -> None:
        way = way_to(services)
        way.lose_each_once(CALL)
        with way:
            crawl_through(skitter, services, way, "shards-each-once", pages=10, hosts=6, options="?shards=3")
        assert way.lost >= 2 * 10 / CONCURRENCY

    @pytest.mark.parametrize("number", [9, 18])
    def test_a_crawl_that_loses_one_answer(self, skitter: Any, services: Any, number: int) -> None:
        self.lose_one(skitter, services, number)

    @pytest.mark.soak
    @pytest.mark.parametrize("number", range(1, 41))
    def test_a_crawl_that_loses_any_one_answer(self, skitter: Any, services: Any, number: int) -> None:
        self.lose_one(skitter, services, number)

    @staticmethod
    def lose_one(skitter: Any, services: Any, number: int) -> None:
        way = way_to(services)
        way.loses = lambda _, answer: answer == number
        with way:
            crawl_through(skitter, services, way, f"one-{number}", pages=10)
        assert way.lost == 1
