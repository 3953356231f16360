"""SQLite and Redis choose the same proxies as the memory frontier, and remember the same of them, whatever happens."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from skitter.frontier.contract import Frontier
from skitter.model.job import JobSpec
from skitter.model.lease import ONCE, Call, Lease
from skitter.model.outcome import Ending, HostNews, Outcome
from skitter.model.proxy import ProxyFault, ProxyNews
from skitter.model.request import Fingerprinter, Request
from skitter.testing.clock import FakeClock
from skitter.testing.frontiers import MemoryPlace, drop_job, name_proxies, open_frontier

FINGERPRINTER = Fingerprinter(b"the same in both")
HOSTS = ["http://a.example", "http://b.example", "http://c.example"]
WORKERS = ["w1", "w2"]
STRATEGIES = ["round_robin", "random", "weighted", "least_connections"]

numbers = st.integers(0, 5)
steps = st.one_of(
    st.tuples(st.just("register"), numbers, st.sampled_from([None, 5.0, 100.0])),
    st.tuples(st.sampled_from(["drain", "remove"]), numbers),
    st.tuples(st.just("ban"), numbers, st.sampled_from(["", *HOSTS]), st.sampled_from([0.0, 20.0])),
    st.tuples(st.just("lease"), st.sampled_from(WORKERS), st.integers(1, 8)),
    st.tuples(st.just("lease"), st.sampled_from(WORKERS), st.integers(1, 8)),
    st.tuples(st.just("end"), numbers, st.sampled_from(ProxyFault), st.sampled_from([0.1, 1.7])),
    st.tuples(st.just("end"), numbers, st.sampled_from(ProxyFault), st.sampled_from([0.1, 1.7])),
    st.tuples(st.just("end"), numbers, st.just(ProxyFault.NONE), st.sampled_from([0.1, 1.7])),
    st.tuples(st.just("release"), numbers),
    st.tuples(st.just("lose"), st.sampled_from(WORKERS)),
    st.tuples(st.just("set"), st.sampled_from(STRATEGIES), st.sampled_from([1, 3, 16])),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 12.0, 40.0, 4000.0])),
)


rotations = st.sampled_from(["request", "host", "session"])


def same_id(url: str) -> str:
    """The secrets of two jobs differ, and so would the order of their proxies."""
    return f"id{url[-1]}"


class Steps:
    """One frontier, and the leases that it has granted."""

    def __init__(self, frontier: Frontier) -> None:
        self.frontier = frontier
        self.held: list[Lease] = []

    async def begin(self, rotation: str) -> None:
        settings = {
            "proxy_rotation": rotation,
            "obey_robots": False,
            "proxy_pool": True,
            "proxy_ban_seconds": 3.0,
            "per_host": 4,
            "lease_seconds": 1e6,
        }
        await self.frontier.begin(JobSpec(name="job", spider="", settings=settings))
        (seeding,) = (await self.frontier.lease("seeder", 1, ONCE)).leases
        links = [FINGERPRINTER.entry(Request(f"{host}/{page}")) for host in HOSTS for page in range(12)]
        await self.frontier.commit("seeder", [Outcome(lease=seeding, ending=Ending.DONE, links=links)])

    async def take(self, step: tuple[Any, ...], number: int) -> Any:
        frontier = self.frontier
        match step:
            case "register", proxy, lifetime:
                return await frontier.register_proxy(f"http://proxy.example:100{proxy}", "test", lifetime)
            case "drain", proxy:
                return await frontier.drain_proxy(f"id{proxy}")
            case "remove", proxy:
                return await frontier.remove_proxy(f"id{proxy}")
            case "ban", proxy, host, seconds:
                return await frontier.ban_proxy(f"id{proxy}", host, seconds)
            case "lease", worker, limit:
                grant = await frontier.lease(worker, limit, Call(token=str(number), slots=0))
                self.held += grant.leases
                leases = [(lease.id, lease.host_key, lease.proxy) for lease in grant.leases]
                return leases, grant.blocked_by, grant.ask_again_seconds
            case "end", place, fault, latency if self.held:
                return await self.end(self.held.pop(place % len(self.held)), fault, latency)
            case "release", place if self.held:
                await frontier.release([self.held.pop(place % len(self.held))])
            case "lose", worker:
                return await frontier.release_worker(worker)
            case "set", strategy, per_proxy:
                values = {"proxy_strategy": strategy, "per_proxy": per_proxy}
                if (await frontier.state()).state != "finished":
                    await frontier.change_settings(values)
        return None

    async def end(self, lease: Lease, fault: ProxyFault, latency: float) -> Any:
        failed = fault is not ProxyFault.NONE
        news = HostNews(unreachable=True) if failed else HostNews(answered=True, latency_seconds=latency)
        outcome = Outcome(
            lease=lease,
            ending=Ending.RETRY if failed else Ending.DONE,
            status=0 if failed else 200,
            error_class="proxy" if failed else "",
            error="refused" if failed else "",
            retry_seconds=0.5 if fault is ProxyFault.UNWANTED else 0.0,
            news=news,
            proxy_news=ProxyNews(fault=fault, latency_seconds=latency, bytes=100),
        )
        return (await self.frontier.commit("w", [outcome])).accepted

    async def seen(self) -> Any:
        return await self.frontier.proxies(), await self.frontier.counts()


async def compare(
    open_other: Callable[[FakeClock, MemoryPlace], Frontier], rotation: str, script: list[tuple[Any, ...]]
) -> None:
    clock = FakeClock()
    place = MemoryPlace(clock)
    one, other = Steps(place.open("job")), Steps(open_other(clock, place))
    try:
        await one.begin(rotation)
        await other.begin(rotation)
        for number, step in enumerate([("register", 0, None), ("register", 1, 100.0), *script]):
            if step[0] == "wait":
                clock.advance(step[1])
            assert await one.take(step, number) == await other.take(step, number), (number, step)
            assert await one.seen() == await other.seen(), (number, step)
        assert not (await other.frontier.check_consistency()).findings
    finally:
        await other.frontier.close()


@pytest.fixture(autouse=True)
def _same_ids() -> Iterator[None]:
    with name_proxies(same_id):
        yield


@given(rotation=rotations, script=st.lists(steps, max_size=60))
def test_sqlite_agrees(rotation: str, script: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:{folder}/job.db"
        asyncio.run(compare(lambda clock, _: open_frontier(url, "job", clock), rotation, script))


@given(rotation=rotations, script=st.lists(steps, max_size=60))
def test_redis_agrees(services: Any, rotation: str, script: list[tuple[Any, ...]]) -> None:
    url = services.need("redis")["url"]

    async def run() -> None:
        await drop_job(url, "job")
        # The very clock of the oracle: two that add up the same steps differ in the last digit.
        await compare(lambda _, place: open_frontier(url, "job", place.now), rotation, script)

    asyncio.run(run())
