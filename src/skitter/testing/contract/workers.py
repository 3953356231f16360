"""Workers of a job: their heartbeats, and when a worker is forgotten."""

from __future__ import annotations

import pytest

from skitter.dedup.hyperloglog import REGISTERS, HyperLogLog, changes_since
from skitter.frontier.contract import FORGET_SECONDS
from skitter.model.worker import Doing, WaitsFor, WorkerHeartbeat
from skitter.testing.contract.store import ContractStore

CARD = WorkerHeartbeat(
    host_name="crawl-7",
    pid=4711,
    version="1.2.3",
    spider="books.py:Books",
    started_at=1_000_000.5,
    doing=Doing.FETCHING,
    in_flight=12,
    slots=64,
    waits_for=WaitsFor.DELAY,
    pages_per_second=12.5,
    latency_seconds=0.25,
    longest_calls={"parse": 1.5},
)


class Workers:
    """Workers are listed for operators; the list has no effect on requests."""

    async def test_a_worker_is_listed_with_what_it_told_of_itself(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1")
        await first.frontier.tell("w", CARD)
        await first.frontier.tell("seeder", None)
        (seen,) = await second.frontier.workers()
        assert (seen.id, seen.leased, seen.heartbeat) == ("w", 0, CARD)
        assert seen.silent_seconds < 1
        assert (await second.frontier.report()).workers == await second.frontier.workers()

    async def test_the_newest_word_counts(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.tell("seeder", None)
        await client.frontier.tell("w", CARD)
        waiting = WorkerHeartbeat(host_name="crawl-7", doing=Doing.WAITING)
        await client.frontier.tell("w", waiting)
        assert [worker.heartbeat for worker in await client.frontier.workers()] == [waiting]

    async def test_a_worker_that_told_nothing_is_listed_all_the_same(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.one("w")
        assert {worker.id: worker.heartbeat for worker in await client.frontier.workers()} == {
            "seeder": None,
            "w": None,
        }

    async def test_telling_says_that_the_worker_lives(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.tell("w", CARD)
        await store.elapse(1.0)
        await client.frontier.tell("w", CARD)
        silence = {worker.id: worker.silent_seconds for worker in await client.frontier.workers()}
        assert silence["w"] < 0.5
        assert silence["seeder"] >= 0.9

    async def test_a_grant_tells_how_many_share_the_work(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.tell("seeder", None)
        assert (await client.frontier.lease("one", 1)).workers == 1
        assert (await client.frontier.lease("two", 1)).workers == 2
        await client.frontier.tell("one", None)
        assert (await client.frontier.lease("two", 1)).workers == 1

    async def test_leaving_touches_no_lease(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        lease = await client.one("w")
        await client.frontier.tell("w", CARD)
        await client.frontier.tell("w", None)
        assert "w" not in [worker.id for worker in await client.frontier.workers()]
        assert (await client.counts()).leased == 1
        assert await client.end(lease)

    async def test_a_worker_that_left_and_comes_back_has_to_tell_again(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.tell("w", CARD)
        await client.frontier.tell("w", None)
        await client.one("w")
        assert [worker.heartbeat for worker in await client.frontier.workers() if worker.id == "w"] == [None]

    async def test_what_a_dead_worker_told_is_forgotten_with_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.tell("w", CARD)
        await client.lose("w")
        await client.frontier.renew("w", [])
        assert [worker.heartbeat for worker in await client.frontier.workers() if worker.id == "w"] == [None]

    async def test_whoever_is_silent_for_long_is_forgotten(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.tell("gone", CARD)
        await store.elapse(FORGET_SECONDS - 1)
        await client.frontier.tell("w", CARD)
        assert "gone" in [worker.id for worker in await client.frontier.workers()], "somebody may want to see it"
        await store.elapse(2)
        await client.frontier.tell("w", CARD)
        assert [worker.id for worker in await client.frontier.workers()] == ["w"]

    async def test_whoever_holds_a_lease_is_not_forgotten(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", lease_seconds=3 * FORGET_SECONDS)
        await client.one("gone")
        await store.elapse(FORGET_SECONDS + 1)
        await client.frontier.tell("w", CARD)
        assert [worker.id for worker in await client.frontier.workers()] == ["gone", "w"]
        assert await client.lose("gone") == 1

    async def test_workers_outlive_a_run(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.frontier.tell("w", CARD)
        await client.begin(fresh=True)
        assert [worker.heartbeat for worker in await client.frontier.workers() if worker.id == "w"] == [CARD]


class DistinctUrls:
    """Workers report which registers of their HyperLogLogs have grown, and the job keeps the largest value of each."""

    async def test_the_counts_of_all_workers_and_runs_are_merged(self, store: ContractStore) -> None:
        first, second, both = HyperLogLog(), HyperLogLog(), HyperLogLog()
        for count, numbers in ((first, range(60)), (second, range(30, 90)), (both, range(90))):
            count.add_many(f"http://a.example/{number}" for number in numbers)
        client = store.client()
        await client.seeded("a/1")
        assert await client.frontier.distinct_urls() == b""
        for count in (first, second, first):
            await client.frontier.count_distinct(changes_since(bytes(REGISTERS), count.registers, 1000))
        assert await client.frontier.distinct_urls() == both.registers
        await client.begin(fresh=True)
        assert await store.client().frontier.distinct_urls() == both.registers

    async def test_what_is_no_register_is_refused_and_changes_nothing(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.count_distinct(b"\x00\x07\x02")
        for wrong in (b"\x00\x07", b"\x40\x00\x01", b"\x00\x01\xff", b"\x00\x01\x03\xff\xff\x01"):
            with pytest.raises(Exception, match="invalid changes of registers"):
                await client.frontier.count_distinct(wrong)
        assert HyperLogLog.from_registers(await client.frontier.distinct_urls()).count() == 1
