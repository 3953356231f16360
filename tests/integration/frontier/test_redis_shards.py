"""A job in shards: where they lie, what a crash between two steps leaves, races for the end and for the last page."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from operator import methodcaller
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from tests.contract.test_redis import documented_rules

from rig.servers.redis import IN_MEMORY, OwnRedis
from rig.servers.redis_cluster import RedisCluster
from rig.soak import chance_of
from skitter.errors import FormatError, FrontierError, UsageError
from skitter.frontier.contract import BATCH, FORGET_SECONDS, Frontier
from skitter.frontier.redis import codec, drop_job, list_jobs, redis_frontier
from skitter.frontier.redis.client import RedisServer
from skitter.frontier.redis.jobs import SLOTS, prefixes_of, slot_of
from skitter.frontier.redis.shards.shard import Shard
from skitter.frontier.redis.shards.shard_set import shard_number
from skitter.model.item import NewItem
from skitter.model.job import Begun, Command, JobSpec, SinkProgress, State
from skitter.model.lease import Call, Lease, Work
from skitter.model.outcome import Ending, HostNews, Outcome
from skitter.model.request import Entry, Fingerprinter, Request
from skitter.model.worker import WorkerHeartbeat
from skitter.redis_driver.address import Address, parse_address
from skitter.testing.clock import FakeClock
from skitter.testing.contract import Client
from skitter.testing.contract.client import names_of, url_of

SHARDS = 3
WITHOUT_DELAY = {"obey_robots": False, "delay_seconds": 0}
LEASE_SECONDS = 30.0


class DiedError(Exception):
    """A client that was killed."""


class Place:
    """A Redis, clients of one job there, and their clock."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = FakeClock()
        self._open: list[Frontier] = []
        self._seen: set[int] = set()

    def frontier(self, job: str = "job") -> Any:
        frontier = redis_frontier(self.url, job, clock=self.clock)
        self._open.append(frontier)
        return frontier

    def client(self) -> Client:
        return Client(self.frontier(), "job", self._seen)

    def doomed(self, calls: int, *, answered: bool) -> Any:
        """A frontier whose process dies at its call number ``calls``: before it is sent, or before it is answered."""
        frontier = self.frontier()
        run, left = frontier._server.run, [calls]

        async def run_until_death(*arguments: Any) -> Any:
            left[0] -= 1
            if left[0] < 0 and not (left[0] == -1 and answered):
                raise DiedError
            answer = await run(*arguments)
            if left[0] < 0:
                raise DiedError
            return answer

        frontier._server.run = run_until_death
        return frontier

    async def close(self) -> None:
        """All clients so far."""
        while self._open:
            await self._open.pop().close()


@pytest_asyncio.fixture
async def place(services: Any) -> AsyncIterator[Place]:
    url = services.need("redis")["url"]
    server = RedisServer(parse_address(url))
    await server.command("FLUSHALL")
    await server.close()
    place = Place(f"{url}?shards={SHARDS}")
    yield place
    await place.close()


def hosts_apart(count: int = SHARDS) -> list[str]:
    """Names of hosts, one in each shard, from the lead on."""
    found: dict[int, str] = {}
    for number in range(1000):
        found.setdefault(shard_number(f"http://h{number}.example", SHARDS), f"h{number}")
    return [found[shard] for shard in range(count)]


# ---- where they lie


@pytest.mark.parametrize("shards", [2, 3, 6, 12])
@pytest.mark.parametrize("job", ["shop", "a much longer name: with {braces}", "x"])
def test_shards_are_spread_evenly_over_the_slots(job: str, shards: int) -> None:
    parts = Counter(slot_of(prefix) * shards // SLOTS for prefix in prefixes_of(job, shards))
    assert parts == dict.fromkeys(range(shards), 1)
    assert prefixes_of(job, shards)[0] == prefixes_of(job, 1)[0], "the lead is where the whole job would be"


def test_hosts_are_spread_evenly_over_the_shards() -> None:
    counts = Counter(shard_number(f"http://host{number}.example", 6) for number in range(6000))
    assert max(counts.values()) < 1.2 * min(counts.values())


@pytest.mark.parametrize(("options", "shards_of_nodes"), [("", [0, 0, 1]), ("?shards=6", [2, 2, 2])])
async def test_a_job_in_a_cluster_lies_on_one_master_or_in_shards_on_every_master(
    services: Any, options: str, shards_of_nodes: list[int]
) -> None:
    url = services.need("redis-cluster")["url"]
    address = parse_address(url)
    nodes = [RedisServer(Address(hosts=(place,))) for place in address.hosts]
    for node in nodes:
        await node.command("FLUSHALL")
    frontier = redis_frontier(url + options, "job")
    client = Client(frontier, "job", set())
    await client.seeded(*(f"h{number}/{page}" for number in range(30) for page in range(3)))
    sizes = [len(await node.command("KEYS", "skitter:{job:*")) for node in nodes]
    assert [size > 10 for size in sorted(sizes)] == [count > 0 for count in shards_of_nodes], sizes
    records = [len(await node.command("KEYS", "skitter:{job:*}:job")) for node in nodes]
    assert sorted(records) == shards_of_nodes
    assert (await client.counts()).queued == 90
    assert await list_jobs(url) == ["job"]
    assert await drop_job(url, "job")
    assert [await node.command("DBSIZE") for node in nodes] == [0, 0, 0]
    await frontier.close()
    for node in nodes:
        await node.close()


@pytest.mark.parametrize("options", ["", "?shards=6"])
async def test_a_user_with_the_documented_rules_can_have_a_job_in_a_cluster(services: Any, options: str) -> None:
    url = services.need("redis-cluster")["url"]
    rules = [">secret" if word == ">PASSWORD" else word for word in documented_rules()]
    for node in parse_address(url).hosts:
        server = RedisServer(Address(hosts=(node,)))
        await server.command("FLUSHALL")
        await server.command(*rules)
        await server.close()
    frontier = redis_frontier(url.replace("://", f"://{rules[2]}:secret@") + options, "job")
    client = Client(frontier, "job", set())
    await client.seeded(*(f"h{number}/1" for number in range(12)), sinks=["out"])
    assert await frontier.open_sink("out", "me")
    for lease in await client.lease():
        assert await client.end(lease, items=[b"x"])
    assert await client.state() is State.FINISHED
    assert len(await client.items()) == 12
    await frontier.close()
    assert await drop_job(url, "job")


async def test_an_address_without_shards_finds_those_of_the_job(place: Place) -> None:
    await place.client().seeded("a/1", "b/1", "c/1")
    frontier = redis_frontier(place.url.partition("?")[0], "job", clock=place.clock)
    assert (await frontier.counts()).queued == 3
    assert await frontier.begin(JobSpec(name="job", spider="", settings=WITHOUT_DELAY)) is Begun.RESUMED
    await frontier.close()


async def test_clients_with_other_numbers_of_shards_that_begin_at_once_make_one_job(place: Place) -> None:
    plain = place.url.partition("?")[0]
    spec = JobSpec(name="job", spider="", settings=WITHOUT_DELAY)
    frontiers = [redis_frontier(f"{plain}?shards={number}", "job") for number in (1, 2, 3, 4)]
    begun = await asyncio.gather(*(frontier.begin(spec) for frontier in frontiers))
    assert sorted(begun) == [Begun.NEW, Begun.RESUMED, Begun.RESUMED, Begun.RESUMED]
    await frontiers[0].add([Fingerprinter(b"k").entry(Request(url_of("a/1")))])
    assert [(await frontier.counts()).queued for frontier in frontiers] == [1, 1, 1, 1]
    for frontier in frontiers:
        await frontier.close()


async def test_what_a_job_of_the_same_name_has_left_in_a_shard_is_removed(place: Place) -> None:
    """Its drop was killed half-way."""
    client = place.client()
    await client.seeded(*(f"{host}/1" for host in hosts_apart()))
    await client.end_all(await client.lease())
    server = RedisServer(parse_address(place.url))
    lead = prefixes_of("job", SHARDS)[0]
    await server.command("UNLINK", *await server.command("KEYS", lead.replace("[", "\\[") + "*"))
    await server.close()
    again = place.client()
    assert await again.begin() is Begun.NEW
    assert await again.add(*(f"{host}/1" for host in hosts_apart())) == SHARDS


@pytest.mark.parametrize("number", ["0", "-1", "x", "1.5", "100000"])
def test_a_number_of_shards_that_is_none_is_a_usage_error(number: str) -> None:
    with pytest.raises(UsageError, match="not the address"):
        parse_address(f"redis://localhost?shards={number}")


async def test_a_client_that_sweeps_late_removes_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two clients meet a shard that is new. One of them is slow, and the other has filled the shard by then."""
    slow, fast = place.frontier(), place.client()
    sweep, swept, go_on = Shard._sweep, asyncio.Event(), asyncio.Event()

    async def slowly(shard: Shard) -> None:
        if shard._server is slow._server:
            swept.set()
            await go_on.wait()
        await sweep(shard)

    monkeypatch.setattr(Shard, "_sweep", slowly)
    beginning = asyncio.create_task(slow.begin(fast.spec()))
    await swept.wait()
    assert await fast.begin() is Begun.RESUMED
    assert await fast.add(*(f"{host}/1" for host in hosts_apart())) == SHARDS
    go_on.set()
    assert await beginning is Begun.NEW
    assert (await fast.counts()).queued == SHARDS
    assert len(await fast.lease()) == 1 + SHARDS


async def test_a_shard_that_lost_everything_is_an_error_and_not_an_empty_queue(place: Place) -> None:
    client = place.client()
    await client.seeded(*(f"{host}/1" for host in hosts_apart()))
    server = RedisServer(parse_address(place.url))
    last = prefixes_of("job", SHARDS)[-1]
    await server.command("UNLINK", *await server.command("KEYS", last + "*"))
    await server.close()
    with pytest.raises(FrontierError, match="a part of job job is missing: shard 2") as caught:
        await place.client().counts()
    assert "--fresh" in caught.value.hint
    assert await client.begin(fresh=True) is Begun.RERUN
    assert await client.add(*(f"{host}/1" for host in hosts_apart())) == SHARDS


# ---- order


async def test_no_shard_starves(place: Place) -> None:
    client = place.client()
    hosts = hosts_apart()
    await client.seeded(*(f"{host}/{page}" for host in hosts for page in range(40)), per_host=64)
    served: Counter[str] = Counter()
    for _ in range(2 * SHARDS):
        served.update(name.partition("/")[0] for name in await client.names(limit=5))
    assert served == dict.fromkeys(hosts, 10)


async def test_priorities_hold_across_shards(place: Place) -> None:
    client = place.client()
    hosts = hosts_apart()
    await client.seeded(per_host=64)
    for priority in (0, 5, -3, 2):
        for host in hosts:
            await client.add(*(f"{host}/{priority}-{page}" for page in range(3)), priority=priority)
    priorities: list[int] = []
    for _ in range(8):
        priorities += [lease.request.priority for lease in await client.lease(limit=5)]
    assert priorities == sorted(priorities, reverse=True)
    assert len(priorities) == 36


async def test_a_suspect_that_is_not_due_holds_up_nobody(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    client = place.client()
    hosts = [f"h{number}" for number in range(40)]
    near = [host for host in hosts if shard_number(f"http://{host}.example", SHARDS) == 1][:2]
    far = next(host for host in hosts if shard_number(f"http://{host}.example", SHARDS) == 2)
    await client.seeded(f"{near[0]}/1", delay_seconds=100.0)
    for _ in range(2):
        await client.one("dead")
        await client.lose("dead")
        place.clock.advance(101)
    await client.blocked(await client.one("w"), 1000)
    await client.add(f"{near[1]}/1")
    await client.add(f"{far}/1", priority=5)
    visits: list[Shard] = []
    visit = Shard.visit

    async def counted(shard: Shard, *arguments: Any, **named: Any) -> Any:
        visits.append(shard)
        return await visit(shard, *arguments, **named)

    monkeypatch.setattr(Shard, "visit", counted)
    assert await client.names("w") == [f"{far}/1", f"{near[1]}/1"]
    assert len(visits) <= 2 * SHARDS


async def test_permits_reach_a_worker_whichever_shard_it_visits(place: Place) -> None:
    first, second = place.client(), place.client()
    _, near, far = hosts_apart()
    await first.seeded(f"{near}/1", f"{near}/2")
    await second.lease("w2", 1)
    await first.add(f"{far}/1", seed=True)
    grant = await second.grant("w2", 1)
    assert grant.permitted == [f"http://{far}.example"]


async def test_permits_that_a_worker_knows_are_not_sent_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    client = place.client()
    await client.seeded(*(f"h{number}/1" for number in range(20)))
    known = await client.grant("w", 1)
    sent: list[int] = []
    really_read = codec.read_grant

    def read(answer: Any, *arguments: Any) -> Any:
        grant = really_read(answer, *arguments)
        sent.append(len(grant.permitted))
        return grant

    monkeypatch.setattr(codec, "read_grant", read)
    await client.frontier.lease("w", 3, Call(run=known.run, permits=known.permits))
    assert sent
    assert set(sent) == {0}


async def test_what_was_typed_is_trusted_before_anybody_can_find_a_link_to_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = place.client(), place.client()
    _, near, far = hosts_apart()
    await first.seeded(f"{near}/1")
    await first.end(await first.one("w1"))
    add_links = Shard.add_links
    overtaken: list[Lease] = []

    async def overtake(shard: Shard, *arguments: Any) -> Any:
        if not overtaken:
            monkeypatch.setattr(Shard, "add_links", add_links)
            # The host is in the scope by now: a worker that has read a page with a link to it is faster than the seed.
            assert [f"http://{far}.example"] == (await second.grant("w2", 1)).permitted[-1:]
            await second.add(f"{far}/1")
            overtaken.append(await second.one("w2"))
        return await add_links(shard, *arguments)

    monkeypatch.setattr(Shard, "add_links", overtake)
    await first.add(f"{far}/1", seed=True)
    assert [lease.trusted for lease in overtaken] == [True]


# ---- reading


async def test_a_report_of_a_job_that_never_stands_still_says_so(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    client, busy = place.client(), place.frontier()
    await client.seeded("a/1")
    assert (await client.frontier.report()).exact
    report_and_changes, added = Shard.report_and_changes, 0

    async def while_others_work(shard: Shard, hosts: int, queues: int) -> Any:
        nonlocal added
        answer = await report_and_changes(shard, hosts, queues)
        added += 1
        await busy.add(await client.entries([f"{host}/new-{added}" for host in hosts_apart()]))
        return answer

    monkeypatch.setattr(Shard, "report_and_changes", while_others_work)
    assert not (await client.frontier.report()).exact


# ---- a node that is unavailable


async def test_a_node_that_is_away_is_said_once_and_holds_up_no_renewal(
    own_redis: Callable[..., OwnRedis], caplog: pytest.LogCaptureFixture
) -> None:
    cluster = RedisCluster(own_redis, *IN_MEMORY)
    frontier = redis_frontier(f"{cluster.url}?shards=6", "job")
    client = Client(frontier, "job", set())
    await client.seeded(*(f"h{number}/1" for number in range(30)))
    leases = await client.lease("w")
    assert len(leases) == 30
    tags = prefixes_of("job", 6)
    slot = next(slot for slot in range(SLOTS // 3) if slot not in map(slot_of, tags))
    with caplog.at_level(logging.WARNING, "skitter.frontier"):
        # Not all slots are served any more: the node answers CLUSTERDOWN.
        cluster.masters[0].say("CLUSTER", "DELSLOTS", slot)
        counting = asyncio.create_task(frontier.counts())
        leasing = asyncio.create_task(frontier.lease("w", 5))
        kept = await asyncio.wait_for(frontier.renew("w", leases), 60)
        assert kept == [True] * 30
        assert not counting.done()
        cluster.masters[0].say("CLUSTER", "ADDSLOTS", slot)
        assert (await asyncio.wait_for(counting, 60)).leased == 30
        assert (await asyncio.wait_for(leasing, 60)).leases == []
    said = [record.message for record in caplog.records]
    assert sum("waiting until it is back" in line for line in said) == 1, said
    assert sum("is back after" in line for line in said) == 1, said
    await client.end_all(leases)
    assert await client.state() is State.FINISHED
    await frontier.close()


# ---- hosts that are given up, workers that tell, jobs of another format


async def test_a_shard_that_buries_is_asked_again_at_once_and_buries_one_piece_each_time(place: Place) -> None:
    client, far = place.client(), hosts_apart()[2]
    names = [f"{far}/{number}" for number in range(3 * BATCH)]
    await client.seeded(*names, *(f"{host}/1" for host in hosts_apart()[:2]), per_host=1, max_attempts=1)
    leases = {lease.host_key: lease for lease in await client.lease("w")}
    lost = leases[f"http://{far}.example"]
    await client.end(lost, Ending.RETRY, error_class="connect", news=HostNews(unreachable=True))
    failed = (await client.counts()).failed
    while failed < len(names):
        # Filled by other shards or not: the one that buries has its turn.
        grant = await client.grant("w", 1)
        assert grant.leases == []
        counts = await client.counts()
        assert 0 < counts.failed - failed <= BATCH
        failed = counts.failed
        assert (grant.ask_again_seconds == 0.0) == (failed < len(names))


async def test_a_worker_is_listed_once_with_all_that_it_holds_and_is_forgotten_everywhere(place: Place) -> None:
    client, names = place.client(), [f"{host}/{page}" for host in hosts_apart() for page in range(2)]
    await client.seeded(*names)
    frontier, heartbeat = client.frontier, WorkerHeartbeat(pid=7)
    await frontier.tell("w", heartbeat)
    await client.lease("w")
    (seen,) = [worker for worker in await frontier.workers() if worker.id == "w"]
    assert (seen.leased, seen.heartbeat) == (len(names), heartbeat)
    assert await frontier.release_worker("w") == len(names)
    assert all(worker.id != "w" for worker in await frontier.workers())


async def test_a_silent_worker_that_holds_something_in_any_shard_keeps_its_heartbeat(place: Place) -> None:
    client, far = place.client(), hosts_apart()[1]
    await client.seeded(f"{far}/1", lease_seconds=10 * FORGET_SECONDS)
    frontier, heartbeat = client.frontier, WorkerHeartbeat(pid=7)
    await frontier.tell("silent", heartbeat)
    (lease,) = await client.lease("silent")
    place.clock.advance(FORGET_SECONDS + 1)
    await frontier.tell("other", None)
    (seen,) = await frontier.workers()
    assert (seen.id, seen.leased, seen.heartbeat) == ("silent", 1, heartbeat)
    await client.end(lease)
    place.clock.advance(FORGET_SECONDS + 1)
    await frontier.tell("other", None)
    assert await frontier.workers() == []


@pytest.mark.parametrize("number", range(SHARDS))
async def test_a_shard_of_another_format_is_refused(place: Place, number: int) -> None:
    await place.client().seeded(*(f"{host}/1" for host in hosts_apart()))
    server = RedisServer(parse_address(place.url))
    key = prefixes_of("job", SHARDS)[number] + "job"
    record = msgspec.msgpack.decode(await server.command("GET", key))
    await server.command("SET", key, msgspec.msgpack.encode({**record, "format": 1}))
    await server.close()
    for call in (methodcaller("counts"), methodcaller("report"), methodcaller("lease", "w", 5)):
        with pytest.raises(FormatError, match=r"skitter"):
            await call(place.frontier())
    assert await drop_job(place.url, "job"), "it can be removed all the same"


# ---- what a crash between two steps leaves


class Crawl:
    """Three hosts, one in each shard; the first page of each links to the next host. Ten pages in all."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.hosts = hosts_apart()
        self.web = {f"{host}/1": [f"{other}/{page}" for other in self.hosts for page in (2, 3)] for host in self.hosts}
        self.fingerprinter = Fingerprinter(b"the same")
        self.spec = JobSpec(name="job", spider="", settings={**WITHOUT_DELAY, "lease_seconds": LEASE_SECONDS})
        self.written: list[str] = []
        """What a sink had written when its process died, from this position on."""
        self.base = 0

    @property
    def pages(self) -> set[str]:
        return set(self.web) | {link for links in self.web.values() for link in links}

    def entries(self, names: Any) -> list[Entry]:
        return [self.fingerprinter.entry(Request(url_of(name))) for name in names]

    def outcome(self, lease: Lease) -> Outcome:
        if lease.work is Work.SEED:
            return Outcome(lease=lease, ending=Ending.DONE, links=self.entries(sorted(self.web)))
        (name,) = names_of([lease])
        links = self.entries(self.web.get(name, []))
        return Outcome(lease=lease, ending=Ending.DONE, links=links, items=[NewItem(name.encode())])

    async def begun(self, *, fresh: bool = True) -> Any:
        frontier = self.place.frontier()
        await frontier.begin(self.spec, fresh=fresh, sinks=["out"])
        return frontier

    async def work(self, frontier: Any, worker: str = "w", limit: int = 100) -> list[Lease]:
        """Lease some and commit them; what was leased."""
        leases: list[Lease] = (await frontier.lease(worker, limit)).leases
        await frontier.commit(worker, [self.outcome(lease) for lease in leases])
        return leases

    async def finish(self) -> None:
        """Whoever is left ends the job, and the sink gets every page once."""
        frontier = self.place.frontier()
        await frontier.begin(self.spec, sinks=["out"])
        for turn in range(30):
            grant = await frontier.lease("last", 100)
            if grant.state == State.FINISHED:
                break
            await frontier.commit("last", [self.outcome(lease) for lease in grant.leases])
            # What the dead one held comes back.
            self.place.clock.advance(LEASE_SECONDS + 1 if turn > 3 else 0)
        report = await frontier.report()
        assert (report.job.state, report.counts.unfinished) == (State.FINISHED, 0)
        assert (report.counts.done, report.counts.failed) == (len(self.pages), 0), report.counts
        await self.check_items(frontier)

    async def check_items(self, frontier: Any) -> None:
        self.place.clock.advance(40)
        progress = await frontier.open_sink("out", "last")
        written = list(self.written[: progress.position - self.base])
        while items := await frontier.items("out", "last", 4):
            written += [item.record.decode() for item in items]
            assert await frontier.items_done("out", "last", SinkProgress(items[-1].position, b"m"))
        assert sorted(written) == sorted(self.pages), Counter(written) - Counter(self.pages)


async def survive(
    place: Place, prepare: Callable[[Crawl], Awaitable[Any]], step: Callable[[Crawl, Any, Any], Awaitable[Any]]
) -> int:
    """Do a step with a client that dies at its first call, at its second, and so on until it lives through it all; each
    time another client ends the job. How often it died."""
    deaths = 0
    for answered in (False, True):
        for calls in range(60):
            crawl = Crawl(place)
            state = await prepare(crawl)
            try:
                await step(crawl, place.doomed(calls, answered=answered), state)
            except DiedError:
                deaths += 1
                await crawl.finish()
            else:
                await crawl.finish()
                break
        else:
            pytest.fail("a step of so many calls")
    return deaths


async def test_a_crash_while_a_job_begins(place: Place) -> None:
    async def nothing(crawl: Crawl) -> None:
        await drop_job(place.url, "job")

    async def begin(crawl: Crawl, frontier: Any, _: Any) -> None:
        await frontier.begin(crawl.spec, sinks=["out"])

    assert await survive(place, nothing, begin) >= 8


async def test_a_crash_while_a_new_run_begins(place: Place) -> None:
    """Then it is the old one that goes on, or the new one: as a whole."""

    async def half_done(crawl: Crawl) -> None:
        frontier = await crawl.begun()
        for _ in range(2):
            await crawl.work(frontier)

    async def begin(crawl: Crawl, frontier: Any, _: Any) -> None:
        await frontier.begin(crawl.spec, fresh=True, sinks=["out"])

    assert await survive(place, half_done, begin) >= 8


async def test_a_crash_while_links_cross(place: Place) -> None:
    async def seeded(crawl: Crawl) -> list[Lease]:
        frontier = await crawl.begun()
        await crawl.work(frontier, limit=1)
        leases: list[Lease] = (await frontier.lease("doomed", 100)).leases
        assert len(leases) == SHARDS
        return leases

    async def commit(crawl: Crawl, frontier: Any, leases: list[Lease]) -> None:
        await frontier.commit("doomed", [crawl.outcome(lease) for lease in leases])

    assert await survive(place, seeded, commit) >= 12


async def test_a_crash_while_seeds_are_committed(place: Place) -> None:
    async def begun(crawl: Crawl) -> list[Lease]:
        leases: list[Lease] = (await (await crawl.begun()).lease("doomed", 1)).leases
        return leases

    async def commit(crawl: Crawl, frontier: Any, leases: list[Lease]) -> None:
        await frontier.commit("doomed", [crawl.outcome(lease) for lease in leases])

    assert await survive(place, begun, commit) >= 6


async def test_a_crash_at_the_end(place: Place) -> None:
    async def nearly_done(crawl: Crawl) -> list[Lease]:
        frontier = await crawl.begun()
        for _ in range(2):
            await crawl.work(frontier)
        leases: list[Lease] = (await frontier.lease("doomed", 100)).leases
        return leases

    async def commit(crawl: Crawl, frontier: Any, leases: list[Lease]) -> None:
        await frontier.commit("doomed", [crawl.outcome(lease) for lease in leases])
        assert (await frontier.job()).state is State.FINISHED

    assert await survive(place, nearly_done, commit) >= 16


@pytest.mark.parametrize("command", [Command.STOP, Command.PAUSE])
async def test_a_crash_while_a_command_spreads(place: Place, command: Command) -> None:
    async def running(crawl: Crawl) -> None:
        frontier = await crawl.begun()
        await crawl.work(frontier)
        await crawl.work(frontier, limit=2)

    async def tell(crawl: Crawl, frontier: Any, _: Any) -> None:
        try:
            await frontier.command(command)
        finally:
            # A worker that visits the shards brings them up to date, and nobody is left behind.
            helper = place.frontier()
            grant = await helper.lease("helper", 0)
            split = helper._opened._shard_set
            assert {shard.status.state for shard in split.shards} == {str(split.state)}
            assert len({shard.status.version for shard in split.shards}) == 1
            if grant.state != State.RUNNING:
                assert (await helper.lease("helper", 100)).leases == []
                await helper.command(Command.RESUME)

    assert await survive(place, running, tell) >= 6


async def test_a_crash_while_a_changed_setting_spreads(place: Place) -> None:
    """Then no shard has it, or every one that a worker visits."""

    async def running(crawl: Crawl) -> None:
        frontier = await crawl.begun()
        await crawl.work(frontier, limit=2)

    async def change(crawl: Crawl, frontier: Any, _: Any) -> None:
        try:
            await frontier.change_settings({"per_host": 3})
        finally:
            helper = place.frontier()
            await helper.lease("helper", 0)
            shards = helper._opened._shard_set.shards
            stored = {(await shard.stored_record())["settings"].get("per_host") for shard in shards}
            assert stored == {(await helper.job()).spec.settings.get("per_host")}

    assert await survive(place, running, change) >= 6


async def test_a_crash_while_a_batch_is_delivered(place: Place) -> None:
    """The target has a batch that the frontier may not know of: it comes again, in the same order."""
    deaths = 0
    for answered in (False, True):
        for calls in range(40):
            crawl = Crawl(place)
            frontier = await crawl.begun()
            for _ in range(3):
                await crawl.work(frontier)
            progress = await frontier.open_sink("out", "owner")
            assert progress is not None
            crawl.base = progress.position
            doomed = place.doomed(calls, answered=answered)
            written: list[str] = []
            died = False
            try:
                await doomed.open_sink("out", "owner")
                items = await doomed.items("out", "owner", 5)
                written = [item.record.decode() for item in items]
                await crawl.work(frontier)
                await doomed.items_done("out", "owner", SinkProgress(items[-1].position, b"m"))
            except DiedError:
                died = True
                deaths += 1
            after = await frontier.open_sink("out", "owner")
            assert after.position - crawl.base in (0, len(written))
            if after.position == crawl.base and written:
                again = await frontier.items("out", "owner", 50)
                assert [item.record.decode() for item in again][: len(written)] == written
                written = []
            crawl.written = written
            await crawl.finish()
            if not died:
                break
    assert deaths >= 16


async def test_a_crash_while_a_target_is_forgotten_holds_up_nobody(place: Place) -> None:
    for answered in (False, True):
        for calls in range(20):
            crawl = Crawl(place)
            crawl.spec = msgspec.structs.replace(crawl.spec, settings={**crawl.spec.settings, "max_outbox_items": 2})
            frontier = await crawl.begun()
            await frontier.open_sink("out", "owner")
            for _ in range(2):
                await crawl.work(frontier)
            assert (await frontier.lease("w", 100)).blocked_by == "sink"
            doomed, died = place.doomed(calls, answered=answered), False
            try:
                await doomed.close_sink("out", "owner", forget=True)
            except DiedError:
                died = True
            helper = place.frontier()
            if [sink.target for sink in (await helper.report()).sinks] == []:
                grant = await helper.lease("helper", 100)
                assert (grant.blocked_by, len(grant.leases) > 0) == ("", True)
            if not died:
                break


# ---- late commits


async def test_a_late_commit_with_links_to_other_shards_changes_nothing_after_the_end(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = place.client(), place.client()
    hosts = hosts_apart()
    await first.seeded(f"{hosts[1]}/1", lease_seconds=5.0)
    stale = await first.one("w1")
    place.clock.advance(6)
    await second.end(await second.one("w2"))
    assert await second.state() is State.FINISHED
    late = await first.outcome(stale, links=[f"{host}/late" for host in hosts], items=[b"late"])
    assert (await first.commit(late)).accepted == [False]
    # Also when the job ended between the question whether the lease is current and the add.
    run = (await first.frontier.job()).run

    async def fooled(_: Shard, leases: Any) -> tuple[str, int]:
        return "1" * len(leases), run

    monkeypatch.setattr(Shard, "fence", fooled)
    assert (await first.commit(late)).accepted == [False]
    assert await first.state() is State.FINISHED
    # And when a new run has begun.
    await second.begin()
    assert (await first.commit(late)).accepted == [False]


async def test_a_seal_that_its_client_left_behind_is_broken_by_whoever_has_work(place: Place) -> None:
    client = place.client()
    hosts = hosts_apart()
    await client.seeded(f"{hosts[0]}/1")
    lease = await client.one()
    split = client.frontier._opened._shard_set  # type: ignore[attr-defined]
    # As if it had died after the others were sealed; and the lead has lost what it knew of the seal, in a failover.
    await split.refresh_all()
    for shard in split.others:
        assert await shard.step("seal", "seal", split.run, split.version, 7) == 7
    links = [f"{host}/2" for host in hosts]
    other = place.client()
    assert await other.end(lease, links=links)
    assert sorted(await other.names()) == sorted(links)


# ---- races


class Race:
    """A small random web, crawled by workers that race, stumble and die."""

    def __init__(self, place: Place, seed: int, max_pages: int | None = None) -> None:
        self.place = place
        self.chance = random.Random(seed)
        names = [f"h{self.chance.randrange(8)}/{page}" for page in range(self.chance.randint(1, 40))]
        self.names = list(dict.fromkeys(names))
        self.links = {name: self.chance.sample(self.names, min(3, len(self.names))) for name in self.names}
        self.max_pages = max_pages
        self.fingerprinter = Fingerprinter(b"the same")
        self.done: Counter[str] = Counter()
        self.outstanding = 0
        self.late: list[tuple[str, list[Lease]]] = []
        """What workers have sat on until it expired, and commit all the same."""
        self.settings = {
            **WITHOUT_DELAY,
            "lease_seconds": LEASE_SECONDS,
            "max_pages": max_pages,
        }

    def found(self, pages: Collection[str]) -> set[str]:
        """What is found from the seeds on, over links of these pages."""
        found, left = set(), self.names[:2]
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += self.links[name] if name in pages else []
        return found

    def entries(self, names: Any) -> list[Entry]:
        return [self.fingerprinter.entry(Request(url_of(name))) for name in names]

    async def run(self, workers: int = 3) -> Any:
        frontier = self.place.frontier()
        spec = JobSpec(name="job", spider="", settings=self.settings)
        await frontier.begin(spec, fresh=True)
        await asyncio.wait_for(asyncio.gather(*(self.worker(f"w{number}") for number in range(workers))), 60)
        return await frontier.report()

    async def worker(self, name: str) -> None:
        frontier = self.place.frontier()
        for _ in range(2000):
            grant = await frontier.lease(name, self.chance.randint(1, 6))
            if grant.state == State.FINISHED:
                counts = await frontier.counts()
                assert counts.unfinished == 0, "finished, and something is left"
                return
            if grant.state == State.STOPPED:
                return
            self.outstanding += len(grant.leases)
            if self.max_pages is not None:
                pages = self.outstanding + sum(self.done.values())
                assert pages <= self.max_pages, "done and leased exceed the limit"
            # A start() that loses its worker four times is given up, and then there is nothing to crawl.
            seeds = any(lease.work is Work.SEED for lease in grant.leases)
            fate = 1.0 if seeds else self.chance.random()
            self.outstanding -= len(grant.leases)
            if fate < 0.1:
                await frontier.release_worker(name)
            elif fate < 0.2:
                await frontier.release(grant.leases)
            elif fate < 0.25 and self.max_pages is None:
                self.late.append((name, grant.leases))
                self.place.clock.advance(LEASE_SECONDS + 1)
            elif fate < 0.35 and self.late:
                await self.commit(frontier, *self.late.pop(0))
                await frontier.release(grant.leases)
            else:
                await self.commit(frontier, name, grant.leases)
        pytest.fail("it does not end")

    async def commit(self, frontier: Any, worker: str, leases: list[Lease]) -> None:
        outcomes = []
        for lease in leases:
            if lease.work is Work.SEED:
                outcomes.append(Outcome(lease=lease, ending=Ending.DONE, links=self.entries(self.names[:2])))
                continue
            (name,) = names_of([lease])
            if self.chance.random() < 0.1:
                outcomes.append(Outcome(lease=lease, ending=Ending.RETRY, error_class="timeout"))
            else:
                outcomes.append(Outcome(lease=lease, ending=Ending.DONE, links=self.entries(self.links[name])))
        committed = await frontier.commit(worker, outcomes)
        for outcome, accepted in zip(outcomes, committed.accepted, strict=True):
            if accepted and outcome.lease.work is Work.PAGE and outcome.ending is Ending.DONE:
                self.done[names_of([outcome.lease])[0]] += 1


async def race_to_the_end(place: Place, seeds: range) -> None:
    for seed in seeds:
        race = Race(place, seed)
        report = await race.run()
        assert report.job.state is State.FINISHED, seed
        ended = report.counts.done + report.counts.failed
        assert ended == report.counts.seen, (seed, report.counts)
        # Links of a page that ends failed count only if it had sent them ahead.
        assert len(race.found(race.done)) <= ended <= len(race.found(race.names)), (seed, report.counts)
        frontier = place.frontier()
        for worker, leases in race.late:
            await race.commit(frontier, worker, leases)
        assert (await frontier.job()).state is State.FINISHED, seed
        assert (await frontier.counts()) == report.counts, seed
        assert max(race.done.values(), default=1) == 1, seed
        assert sum(race.done.values()) == report.counts.done, seed
        await place.close()


@pytest.mark.timeout(300)
async def test_racing_workers_end_a_job_exactly_when_it_is_done(place: Place) -> None:
    await race_to_the_end(place, range(25))


@pytest.mark.soak
@pytest.mark.timeout(3000)
async def test_racing_workers_end_hundreds_of_jobs_exactly_when_they_are_done(place: Place) -> None:
    start = chance_of("race").randrange(10**9)
    await race_to_the_end(place, range(start, start + 400))


@pytest.mark.timeout(300)
async def test_racing_workers_never_exceed_max_pages(place: Place) -> None:
    for seed in range(15):
        race = Race(place, seed, max_pages=random.Random(seed).randint(1, 12))
        report = await race.run(workers=4)
        assert race.max_pages is not None
        if report.job.state is State.STOPPED:
            assert (report.counts.done, report.job.reason) == (race.max_pages, "max_pages"), seed
        else:
            assert report.job.state is State.FINISHED, seed
            assert report.counts.done <= race.max_pages, seed
        await place.close()


async def test_each_shard_counts_the_requests_to_an_address_by_itself(place: Place) -> None:
    """As docs/guarantees.md says: exact inside a shard, and no more than ``per_ip`` times the shards in all."""
    client = place.client()
    hosts = "abcdefghijkl"
    await client.seeded(*(f"{host}/0" for host in hosts), per_ip=1)
    for lease in await client.lease("first"):
        await client.answered(lease, address="192.0.2.1")
    await client.add(*(f"{host}/1" for host in hosts))
    shards = {shard_number(f"http://{host}.example", SHARDS) for host in hosts}
    assert len(shards) == SHARDS
    leases = await client.lease()
    assert sorted(shard_number(lease.host_key, SHARDS) for lease in leases) == sorted(shards)


# ---- parked hosts


async def test_a_host_that_is_parked_when_it_is_typed_is_counted(place: Place) -> None:
    """Its record and its shard's agree, though nothing is queued or leased by it."""
    frontier = place.frontier()
    settings = {"per_ip": 1, **WITHOUT_DELAY, "lease_seconds": LEASE_SECONDS, "burst_pages": 1}
    await frontier.begin(JobSpec(name="job", spider="", settings=settings))
    entry = Fingerprinter((await frontier.job()).secret).entry
    names = [name for name in (f"h{n}" for n in range(100)) if shard_number(f"http://{name}.example", SHARDS) == 1][:2]
    urls = [f"http://{name}.example/{n}" for n in range(2) for name in names]
    (seeding,) = (await frontier.lease("w", 1)).leases
    links = [entry(Request(url)) for url in urls]
    await frontier.commit("w", [Outcome(lease=seeding, ending=Ending.DONE, links=links)])
    for _ in names:
        # Both answer from one address.
        (lease,) = (await frontier.lease("w", 1)).leases
        news = HostNews(answered=True, address="10.0.0.1")
        await frontier.commit("w", [Outcome(lease=lease, ending=Ending.DONE, news=news)])
    (lease,) = (await frontier.lease("w", 1)).leases
    (other,) = [url for url in urls[2:] if not url.startswith(lease.host_key)]
    await frontier.add([entry(Request(other, seed=True))])
    report = await frontier.check_consistency()
    assert report.findings == []


async def test_sessions_are_not_handed_out_in_shards(place: Place) -> None:
    frontier = place.frontier()
    for settings, login in (({"session_pool": 2}, False), ({"exclusive_sessions": True}, False), ({}, True)):
        spec = JobSpec(name="job", spider="", settings={**WITHOUT_DELAY, **settings}, login=login)
        with pytest.raises(UsageError, match="a job with shards cannot manage sessions"):
            await frontier.begin(spec)


async def test_an_outbox_that_is_full_of_items_which_every_output_has_is_found(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it was left by a version that took a server that came back for one that had lost its newest items."""
    client = place.client()
    await client.seeded(*(f"{host}/1" for host in hosts_apart()), sinks=["out"], max_outbox_items=2)
    assert await client.frontier.open_sink("out", "me")
    for lease in await client.lease():
        assert await client.end(lease, items=[b"x"])
    items = await client.items()
    assert (await client.frontier.check_consistency()).findings == []

    async def forget_nothing(*_: Any) -> None: ...

    monkeypatch.setattr("skitter.frontier.redis.shards.outbox.ShardedOutbox._forget", forget_nothing)
    assert await client.frontier.items_done("out", "me", SinkProgress(items[-1].position, b"m"))
    (finding,) = (await client.frontier.check_consistency()).findings
    assert (finding.code, finding.expected, finding.found) == ("outbox_leftover", "0", str(len(items)))
