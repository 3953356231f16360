"""The host gate: robots.txt before a host's first page, once for the cluster."""

from __future__ import annotations

from typing import Any

from skitter.model.lease import Lease, Work
from skitter.model.outcome import Ending, HostNews, RobotsRecord
from skitter.policy.lost_leases import LOSSES_BEFORE_ALONE, LOSSES_IN_ALL, LOSSES_WHILE_ALONE
from skitter.testing.contract.client import Client, names_of
from skitter.testing.contract.store import ContractStore

FORBID = b"User-agent: *\nDisallow: /private"


async def gated(client: Client, *names: str, **settings: Any) -> None:
    """Begin and seed a job that obeys robots.txt."""
    await client.seeded(*names, obey_robots=True, **settings)


class Gate:
    """A robots.txt is read once, by one worker, and governs all of them."""

    async def test_a_hosts_robots_txt_is_read_by_one_worker_before_its_pages(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await gated(first, "a/1", "a/2", "b/1")
        leases = await first.lease("w1")
        assert sorted(names_of(leases)) == ["robots:a", "robots:b"]
        assert await second.names("w2") == await first.names("w1") == []
        counts = await first.counts()
        assert (counts.queued, counts.leased) == (3, 0), "a gate is not a request"
        await first.open_gate(next(lease for lease in leases if lease.host_key == "http://a.example"))
        assert await second.names("w2") == ["a/1", "a/2"]

    async def test_what_was_read_governs_every_worker(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await gated(first, "a/1")
        await first.open_gate(await first.one("w1"), FORBID)
        lease = await second.one("w2")
        records = await second.frontier.robots(["http://a.example", "http://b.example"])
        assert list(records) == ["http://a.example"]
        assert records["http://a.example"].text == FORBID
        assert records["http://a.example"].version == lease.robots_version != 0

    async def test_a_host_without_rules_forbids_nothing(self, store: ContractStore) -> None:
        client = store.client()
        await gated(client, "a/1")
        await client.open_gate(await client.one())
        assert (await client.one()).robots_version == 0
        assert await client.frontier.robots(["http://a.example"]) == {}

    async def test_a_job_that_ignores_robots_has_no_gates(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", obey_robots=False)
        assert await client.names() == ["a/1"]

    async def test_a_crawl_delay_holds_from_the_first_page_on(self, store: ContractStore) -> None:
        client = store.client()
        await gated(client, "a/1", "a/2")
        await client.open_gate(await client.one(), FORBID, 1.0)
        assert await client.names() == [], "the gate itself was a request"
        await store.elapse(1.06)
        assert await client.names() == ["a/1"]
        await store.elapse(1.0)
        assert await client.names() == []
        await store.elapse(0.06)
        assert await client.names() == ["a/2"]

    async def test_the_larger_of_crawl_delay_and_setting_holds(self, store: ContractStore) -> None:
        client = store.client()
        await gated(client, "a/1", "a/2", delay_seconds=1.5)
        await client.open_gate(await client.one(), FORBID, 0.1)
        await store.elapse(0.2)
        assert await client.names() == []
        await store.elapse(1.36)
        assert await client.names() == ["a/1"]

    async def test_a_robots_txt_is_read_again_when_it_is_old(self, store: ContractStore) -> None:
        client = store.client()
        await gated(client, "a/1", "a/2", "a/3", robots_seconds=1.0, per_host=2)
        await client.open_gate(await client.one(), FORBID)
        first = await client.one()
        await store.elapse(1.01)
        gate = await client.one()
        assert gate.work is Work.ROBOTS
        assert await client.names() == [], "no page starts meanwhile"
        await client.end(first)
        assert await client.names() == []
        await client.open_gate(gate, b"")
        leases = await client.lease()
        assert names_of(leases) == ["a/2", "a/3"]
        assert [lease.robots_version for lease in leases] == [0, 0]
        records = await client.frontier.robots(["http://a.example"])
        assert [record.text for record in records.values()] in ([], [b""]), "what was withdrawn governs no more"

    async def test_a_gate_needs_room_like_a_page(self, store: ContractStore) -> None:
        client = store.client()
        await gated(client, "a/1", "a/2", robots_seconds=0.5, per_host=1)
        await client.open_gate(await client.one())
        page = await client.one()
        await store.elapse(0.6)
        assert await client.names() == []
        await client.end(page)
        assert await client.names() == ["robots:a"]

    async def test_what_is_known_of_a_host_survives_the_run(self, store: ContractStore) -> None:
        client = store.client()
        await gated(client, "a/1")
        await client.open_gate(await client.one(), FORBID, 0.5)
        await client.begin(client.spec(obey_robots=True), fresh=True)
        await client.add("a/1", "a/2")
        await store.elapse(0.6)
        leases = await client.lease()
        assert names_of(leases) == ["seeding", "a/1"]
        assert leases[1].robots_version != 0
        assert leases[1].start_seconds is not None

    async def test_a_run_that_ignores_robots_ignores_what_an_earlier_one_read(self, store: ContractStore) -> None:
        client = store.client()
        await gated(client, "a/1", "a/2")
        await client.open_gate(await client.one(), FORBID, 1.0)
        await client.begin(obey_robots=False)
        await store.elapse(1.0)
        leases = await client.lease()
        assert [(lease.robots_version, lease.start_seconds) for lease in leases] == [(0, None), (0, None)]


class BrokenGate:
    """A robots.txt that cannot be read."""

    async def test_an_unreachable_robots_txt_is_tried_again_and_then_the_host_is_down(
        self, store: ContractStore
    ) -> None:
        client = store.client()
        await gated(client, "a/1", "a/2", "b/1", max_attempts=3, retry_delay_seconds=1.0)
        for pause in (1.0, 2.0, None):
            leases = [lease for lease in await client.lease() if lease.host_key == "http://a.example"]
            assert [lease.work for lease in leases] == [Work.ROBOTS]
            assert await client.unreachable(leases[0], "dns")
            if pause is not None:
                await store.elapse(pause - 0.1)
                assert [name for name in await client.names() if "a" in name] == []
                await store.elapse(0.15)
        assert (await client.counts()).failed == 2
        failed = await client.frontier.failures("dns")
        assert [record.attempts for record in failed] == [0, 0], "it burnt no attempt of theirs"
        assert await client.frontier.revive("dns") == 2
        await store.elapse(5)
        assert "robots:a" in await client.names()

    async def test_a_block_at_the_gate_blocks_the_host(self, store: ContractStore) -> None:
        client = store.client()
        await gated(client, "a/1")
        await client.blocked(await client.one(), 1.0)
        await store.elapse(0.9)
        assert await client.names() == []
        await store.elapse(0.15)
        assert await client.names() == ["robots:a"]
        assert (await client.counts()).queued == 1

    async def test_an_expired_gate_is_given_again(self, store: ContractStore) -> None:
        client = store.client()
        await gated(client, "a/1", lease_seconds=1.0)
        old = await client.one("w1")
        await store.elapse(1.1)
        new = await client.one("w2")
        assert new.work is Work.ROBOTS
        assert new.epoch > old.epoch
        assert not await client.open_gate(old, FORBID)
        assert await client.names() == [], "the old reader opened nothing"
        assert await client.open_gate(new)
        assert await client.names() == ["a/1"]

    async def test_a_released_gate_is_given_again_at_once(self, store: ContractStore) -> None:
        client = store.client()
        await gated(client, "a/1", delay_seconds=100)
        await client.release(await client.one())
        assert await client.names() == ["robots:a"]

    async def test_a_robots_txt_that_kills_its_readers_ends_alone(self, store: ContractStore) -> None:
        client = store.client()
        await gated(client, "evil/1", "evil/2", "good/1")
        fates: list[list[str]] = []
        for _ in range(2 * LOSSES_IN_ALL):
            leases = await client.lease("w")
            if "robots:evil" in (names := sorted(names_of(leases))):
                fates.append(names)
                await client.lose("w")
                continue
            for lease in leases:
                await (client.open_gate(lease) if lease.work is Work.ROBOTS else client.end(lease))
        both = ["robots:evil", "robots:good"]
        alone = [["robots:evil"]] * LOSSES_WHILE_ALONE
        assert fates == [both] * LOSSES_BEFORE_ALONE + alone, "suspects are leased alone"
        assert [record.error_class for record in await client.frontier.failures()] == ["lost", "lost"]
        assert (await client.counts()).done == 1

    async def test_a_gate_that_was_lost_beside_a_killer_costs_its_host_nothing(self, store: ContractStore) -> None:
        client = store.client()
        await gated(client, "evil/1", "evil/2", "evil/3", "good/1", max_attempts=2)
        leases = await client.lease("w")
        await client.open_gate(next(lease for lease in leases if lease.host_key == "http://evil.example"))
        for _ in range(3 * LOSSES_IN_ALL):
            leases = await client.lease("w")
            killers = [lease for lease in leases if lease.host_key == "http://evil.example"]
            if killers:
                await client.lose("w")
                continue
            for lease in leases:
                await (client.open_gate(lease) if lease.work is Work.ROBOTS else client.end(lease))
        counts = await client.counts()
        assert (counts.done, counts.failed) == (1, 3)

    async def test_a_gate_that_learns_nothing_opens_nothing(self, store: ContractStore) -> None:
        client = store.client()
        await gated(client, "a/1")
        await client.end(await client.one(), news=HostNews(latency_seconds=0.1))
        assert await client.names() == ["robots:a"]

    async def test_only_an_answer_counts_as_read(self, store: ContractStore) -> None:
        client = store.client()
        await gated(client, "a/1")
        gate = await client.one()
        part = await client.outcome(gate, news=HostNews(robots=RobotsRecord(FORBID)))
        assert (await client.commit(part, part)).accepted == [True, False]
        assert await client.names() == ["a/1"]


class LastCopy:
    """A robots.txt that could be read before, and cannot be read again."""

    async def test_the_host_waits_and_then_goes_on_with_the_last_good_copy(self, store: ContractStore) -> None:
        client = store.client()
        gate = await outdated(store, client, FORBID, max_attempts=2)
        version = (await client.frontier.robots(["http://a.example"]))["http://a.example"].version
        assert await client.unreachable(gate, "http_5xx")
        assert await client.names() == [], "the host waits"
        await store.elapse(0.15)
        assert await client.unreachable(await client.one(), "http_5xx")
        assert await client.names() == []
        await store.elapse(0.25)
        page = await client.one()
        assert (page.work, page.robots_version) == (Work.PAGE, version)
        records = await client.frontier.robots(["http://a.example"])
        assert records["http://a.example"].text == FORBID
        assert (await client.counts()).failed == 0

    async def test_that_there_was_no_file_is_a_good_copy_too(self, store: ContractStore) -> None:
        client = store.client()
        gate = await outdated(store, client, b"", max_attempts=1)
        assert await client.unreachable(gate, "http_5xx")
        await store.elapse(0.15)
        page = await client.one()
        assert (page.work, page.robots_version) == (Work.PAGE, 0)

    async def test_a_blocked_gate_goes_on_after_as_many_tries(self, store: ContractStore) -> None:
        client = store.client()
        gate = await outdated(store, client, FORBID, max_attempts=2, host_backoff_seconds=0.1)
        assert await client.blocked(gate)
        await store.elapse(0.15)
        assert await client.blocked(await client.one())
        assert await client.names() == []
        await store.elapse(0.25)
        assert (await client.one()).robots_version != 0

    async def test_the_copy_holds_for_a_while_and_then_the_file_is_tried_again(self, store: ContractStore) -> None:
        client = store.client()
        gate = await outdated(store, client, FORBID, max_attempts=1)
        assert await client.unreachable(gate, "http_5xx")
        await store.elapse(0.15)
        await client.answered(await client.one())
        await store.elapse(0.5)
        assert await client.names() == ["robots:a"]

    async def test_whether_the_host_is_down_its_pages_tell(self, store: ContractStore) -> None:
        client = store.client()
        gate = await outdated(store, client, FORBID, max_attempts=1)
        committed = await client.commit(
            await client.outcome(gate, Ending.RETRY, error_class="connect", error="x", news=HostNews(unreachable=True))
        )
        assert [trouble.given_up for trouble in committed.troubles] == [False]
        await store.elapse(0.15)
        assert await client.unreachable(await client.one())
        counts = await client.counts()
        assert (counts.failed, counts.excluded, counts.queued) == (2, 0, 0)
        assert await client.frontier.revive() == 2

    async def test_the_last_good_copy_survives_a_restart_and_the_run(self, store: ContractStore) -> None:
        first = store.client()
        gate = await outdated(store, first, FORBID, max_attempts=1)
        await first.release(gate)
        second = store.client()
        await second.begin(
            second.spec(obey_robots=True, robots_seconds=0.5, max_attempts=1, retry_delay_seconds=0.1), fresh=True
        )
        await second.add("a/7")
        leases = await second.lease()
        assert sorted(names_of(leases)) == ["robots:a", "seeding"]
        assert await second.unreachable(next(lease for lease in leases if lease.work is Work.ROBOTS), "http_5xx")
        await store.elapse(0.15)
        page = await second.one()
        assert (page.work, page.robots_version) == (Work.PAGE, gate.robots_version)

    async def test_without_a_copy_the_queue_is_dead_revivable_and_never_excluded(self, store: ContractStore) -> None:
        client = store.client()
        await gated(client, "a/1", "a/2", max_attempts=1)
        assert await client.unreachable(await client.one(), "http_5xx")
        counts = await client.counts()
        assert (counts.failed, counts.excluded) == (2, 0)
        assert await client.frontier.revive("http_5xx") == 2
        await store.elapse(1.1)
        assert await client.names() == ["robots:a"], "it still has no copy"


async def outdated(store: ContractStore, client: Client, text: bytes, **settings: Any) -> Lease:
    """Return the gate of a host with two queued pages whose robots.txt has expired."""
    await gated(client, "a/0", "a/1", "a/2", robots_seconds=0.5, per_host=1, retry_delay_seconds=0.1, **settings)
    await client.open_gate(await client.one(), text)
    page = await client.one()
    await store.elapse(0.51)
    await client.answered(page)
    return await client.one()
