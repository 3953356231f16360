"""Needs: a request that needs something is granted only to a worker that has it, and holds up nobody else."""

from __future__ import annotations

import msgspec

from skitter.frontier.contract import BATCH, NEEDS_TOLD
from skitter.model.job import NeedSeen, State
from skitter.model.lease import Lease, Work
from skitter.model.outcome import Ending
from skitter.policy.lost_leases import LOSSES_BEFORE_ALONE
from skitter.policy.politeness import BLOCK_LIMIT
from skitter.testing.contract.client import Client, names_of
from skitter.testing.contract.store import ContractStore

ONE = "192.0.2.1"


async def lost_until_suspect(client: Client, worker: str) -> None:
    """Let the worker be lost with its one request until that is to be leased alone."""
    for _ in range(LOSSES_BEFORE_ALONE):
        await client.one(worker)
        await client.lose(worker)


class Needs:
    """Who gets a request with a need, and in which order."""

    async def test_a_request_with_a_need_is_for_a_worker_that_serves_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("leased/0")
        await client.one("holder")
        await client.add("a/1", need="browser")
        client.serves("other", "session")
        client.serves("browsing", "session", "browser")
        assert await client.names("plain") == []
        assert await client.names("other") == []
        (lease,) = await client.lease("browsing")
        assert lease.request.need == "browser"

    async def test_a_worker_says_with_each_call_what_it_serves_now(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.add("a/1", "a/2", need="browser")
        client.serves("w", "browser")
        assert await client.names(limit=1) == ["a/1"]
        client.serves("w")
        assert await client.names() == []
        client.serves("w", "browser")
        assert await client.names() == ["a/2"]

    async def test_a_commit_is_answered_with_what_its_worker_serves(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "b/1")
        await client.add("c/1", need="browser")
        one, two = await client.lease()
        committed = await client.commit(await client.outcome(one), want=5)
        assert committed.grant is not None
        assert committed.grant.leases == []
        client.serves("w", "browser")
        committed = await client.commit(await client.outcome(two), want=5)
        assert committed.grant is not None
        assert names_of(committed.grant.leases) == ["c/1"]

    async def test_a_worker_that_serves_needs_gets_the_other_requests_too(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "b/1")
        await client.add("b/2", "c/1", need="browser")
        await client.add("b/3", need="session")
        client.serves("w", "browser", "session")
        assert sorted(await client.names()) == ["a/1", "b/1", "b/2", "b/3", "c/1"]

    async def test_links_of_a_page_may_have_needs(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        lease = await client.one()
        links = await client.entries(["a/2", "b/1"], need="browser")
        await client.commit(msgspec.structs.replace(await client.outcome(lease), links=links))
        assert await client.names() == []
        client.serves("w", "browser")
        assert sorted(await client.names()) == ["a/2", "b/1"]

    async def test_the_highest_priority_that_a_worker_can_serve_goes_first(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.add("a/plain", priority=1)
        await client.add("b/browser", priority=2, need="browser")
        await client.add("c/session", priority=3, need="session")
        await client.add("a/browser", priority=4, need="browser")
        await client.add("d/plain", priority=5)
        client.serves("w", "browser")
        leases = await client.lease()
        assert names_of(leases) == ["d/plain", "a/browser", "b/browser", "a/plain"]
        await client.release(*leases)
        served = [name for _ in range(5) for name in await client.names(limit=1)]
        assert served == names_of(leases)
        client.serves("w", "session")
        assert await client.names() == ["c/session"]

    async def test_a_higher_priority_that_is_added_later_goes_first(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.add("a/1", need="browser")
        await client.add("b/1", need="browser", priority=1)
        await client.add("a/2", need="browser", priority=2)
        client.serves("w", "browser")
        assert [name for _ in range(3) for name in await client.names(limit=1)] == ["a/2", "b/1", "a/1"]

    async def test_inside_a_host_it_is_first_in_first_out_over_all_needs(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(per_host=64)
        for page in range(12):
            await client.add(f"a/{page}", need=("", "browser", "session")[page % 3])
        client.serves("w", "browser", "session")
        assert await client.names(limit=5) == [f"a/{page}" for page in range(5)]
        assert await client.names(limit=7) == [f"a/{page}" for page in range(5, 12)]

    async def test_hosts_take_turns_whatever_their_requests_need(self, store: ContractStore) -> None:
        store.needs_order_across_hosts()
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", burst_pages=1)
        await client.add("b/1", "b/2", "b/3", need="browser")
        client.serves("w", "browser")
        hosts: list[str] = []
        for _ in range(6):
            lease = await client.one()
            hosts.append(names_of([lease])[0][0])
            await client.end(lease)
        assert hosts in (list("ababab"), list("bababa"))

    async def test_many_of_a_need_are_granted_in_one_call(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(per_host=64)
        await client.add(*(f"{host}/{page}" for page in range(20) for host in "abc"), need="browser")
        client.serves("w", "browser")
        assert len(await client.lease(limit=50)) == 50
        assert len(await client.lease(limit=50)) == 10

    async def test_dedup_does_not_look_at_the_need(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        assert await client.add("a/1", need="browser") == 0
        assert await client.add("a/2", need="browser") == 1
        assert await client.add("a/2") == await client.add("a/2", need="session") == 0
        assert await client.names() == ["a/1"]
        assert (await client.trace("a/2")).need == "browser"
        assert (await client.trace("a/1")).need == ""

    async def test_a_job_with_a_need_that_nobody_serves_is_not_finished(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.add("a/2", need="browser")
        await client.end(await client.one())
        assert await client.lease() == []
        assert await client.state() is State.RUNNING
        client.serves("w", "browser")
        await client.end(await client.one())
        assert await client.state() is State.FINISHED

    async def test_a_report_names_the_needs_of_what_is_queued(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        assert (await client.frontier.report()).needs == []
        await client.add("a/2", "b/1", "b/2", need="browser")
        await client.add("a/3", need="session")
        assert (await client.frontier.report()).needs == [NeedSeen("browser", 3), NeedSeen("session", 1)]
        client.serves("w", "browser")
        leases = await client.lease()
        assert (await client.frontier.report()).needs == [NeedSeen("session", 1)]
        await client.release(*leases)
        report = await client.frontier.report(queues=5)
        assert report.needs == [NeedSeen("browser", 3), NeedSeen("session", 1)]
        assert {host.key: host.queued for host in report.crowded} == {"http://a.example": 3, "http://b.example": 2}

    async def test_a_report_names_a_few_needs_at_most(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        for number in range(NEEDS_TOLD + 3):
            await client.add(f"a/{number}", need=f"n{number:02}")
        await client.add("a/twice", need="n18")
        needs = (await client.frontier.report()).needs
        assert needs[0] == NeedSeen("n18", 2)
        assert [need.name for need in needs[1:]] == [f"n{number:02}" for number in range(NEEDS_TOLD - 1)]

    async def test_a_new_run_begins_without_needs(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.add("a/1", "a/2", need="browser")
        client.serves("w", "browser")
        await client.one()
        await client.begin(fresh=True)
        assert (await client.frontier.report()).needs == []
        (seeding,) = await client.lease()
        assert seeding.work is Work.SEED
        await client.end(seeding, links=["a/1", "b/1"])
        await client.add("c/1", need="browser")
        assert sorted(await client.names()) == ["a/1", "b/1", "c/1"]

    async def test_a_call_that_is_sent_again_is_answered_as_before(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.add("a/1", "a/2", need="browser")
        client.serves("w", "browser")
        call = client.next_call("w")
        first = await client.frontier.lease("w", 1, call)
        again = await client.frontier.lease("w", 1, msgspec.structs.replace(call, again=True))
        assert names_of(first.leases) == names_of(again.leases) == ["a/1"]


class NeedsOfOthers:
    """A need that nobody serves holds up neither its host nor others; politeness is that of the host."""

    async def test_a_need_that_nobody_serves_holds_up_neither_its_host_nor_others(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(per_host=2)
        hosts = [f"h{number}" for number in range(40)]
        await client.add(*(f"{host}/needy" for host in hosts), priority=100, need="browser")
        await client.add(*(f"{host}/{page}" for host in hosts[:5] for page in range(2)), "z/1")
        served = [name for _ in range(11) for name in await client.names(limit=1)]
        assert sorted(served) == sorted([*(f"{host}/{page}" for host in hosts[:5] for page in range(2)), "z/1"])
        assert await client.names() == []
        client.serves("w", "browser")
        leases = await client.lease()
        assert len(leases) == 35, "five hosts have as many in flight as they may"

    async def test_limits_of_a_host_hold_over_all_needs(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", per_host=2)
        await client.add("a/3", need="browser")
        client.serves("w", "browser")
        plain = await client.one("plain")
        leases = await client.lease()
        assert names_of(leases) == ["a/2"]
        assert await client.lease() == []
        await client.end(plain)
        assert await client.names() == ["a/3"]

    async def test_the_delay_of_a_host_is_kept_over_all_needs(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", delay_seconds=0.5)
        await client.add("a/2", need="browser")
        client.serves("w", "browser")
        await client.end(await client.one("plain"))
        assert await client.lease() == []
        await store.elapse(0.6)
        assert await client.names() == ["a/2"]

    async def test_who_keeps_a_short_delay_is_granted_ahead_what_it_serves(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(delay_seconds=0.02, per_host=16)
        await client.add(*(f"a/{page}" for page in range(4)), need="browser")
        await client.add(*(f"a/{page}" for page in range(4, 8)), need="session")
        client.serves("w", "browser")
        leases = await client.lease()
        assert names_of(leases) == ["a/0", "a/1", "a/2", "a/3"]
        assert all(lease.pace_seconds == 0.02 for lease in leases)

    async def test_robots_txt_is_read_by_who_can_serve_the_host(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(obey_robots=True)
        await client.add("a/1", need="browser")
        assert await client.names("plain") == []
        client.serves("w", "browser")
        (gate,) = await client.lease()
        assert names_of([gate]) == ["robots:a"]
        await client.open_gate(gate)
        assert await client.names() == ["a/1"]

    async def test_a_suspect_that_a_worker_cannot_serve_is_nothing_to_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.add("a/1", need="browser")
        client.serves("doomed", "browser")
        await lost_until_suspect(client, "doomed")
        await client.add("b/1", "b/2")
        assert await client.names(limit=1) == ["b/1"]
        assert await client.names() == ["b/2"], "though the worker holds something"
        client.serves("browsing", "browser")
        (lease,) = await client.lease("browsing")
        assert names_of([lease]) == ["a/1"]
        await client.add("c/1")
        assert await client.names("browsing") == [], "it is leased alone"
        await client.end(lease)

    async def test_a_host_given_up_takes_along_what_has_needs(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("leased/0", max_attempts=1, retry_delay_seconds=0.2)
        await client.one("holder")
        await client.add("a/1", "a/2")
        await client.add("a/3", "a/4", need="browser")
        await client.unreachable(await client.one())
        assert [(await client.trace(f"a/{page}")).state for page in (2, 3, 4)] == ["failed"] * 3
        assert (await client.frontier.report()).needs == []
        await store.elapse(0.3)
        await client.add("b/1", need="browser")
        client.serves("w", "browser")
        assert await client.names() == ["b/1"]
        assert await client.frontier.revive() == 4
        assert (await client.frontier.report()).needs == [NeedSeen("browser", 2)]
        assert await client.names("plain") == ["a/1", "a/2"]
        assert await client.names() == ["a/3", "a/4"]

    async def test_what_was_not_buried_of_a_host_that_answers_again_stays_queued(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/one", "a/other", max_attempts=1, retry_delay_seconds=0.2, per_host=2)
        await client.add(*(f"a/alpha-{page}" for page in range(BATCH // 2)), need="alpha")
        await client.add(*(f"a/beta-{page}" for page in range(BATCH)), need="beta")
        one, other = await client.lease()
        await client.unreachable(one)
        assert await client.answered(other)
        report = await client.frontier.report()
        assert [need.name for need in report.needs] == ["beta"]
        assert report.needs[0].queued == report.counts.queued == BATCH // 2
        await store.elapse(0.3)
        client.serves("w", "alpha")
        assert await client.lease() == []
        client.serves("w", "alpha", "beta")
        assert await client.names() == [f"a/beta-{page}" for page in range(BATCH // 2, BATCH // 2 + 2)]

    async def test_a_host_whose_budget_is_spent_excludes_what_has_needs(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", max_pages_per_host=1)
        await client.add("a/2", "a/3", need="browser")
        await client.end(await client.one())
        assert await client.lease() == []
        assert (await client.trace("a/2")).error_class == "host_budget"
        await client.add("a/4", need="browser")
        assert await client.lease() == []
        assert await client.state() is State.FINISHED
        assert (await client.frontier.report()).needs == []

    async def test_a_need_that_nobody_serves_holds_up_no_host_of_its_address(self, store: ContractStore) -> None:
        a, b, c, d = store.together(4)
        client = store.client()
        await client.seeded(*(f"{host}/0" for host in (a, b, c, d)), per_ip=1)
        for lease in await client.lease():
            await client.answered(lease, address=ONE)
        await client.add(f"{a}/1", f"{b}/1", f"{c}/1", priority=9, need="browser")
        await client.add(f"{a}/2", f"{d}/1")
        leases = await client.lease()
        assert len(leases) == 1
        assert await client.lease() == []
        await client.answered(leases[0], address=ONE)
        leases += await client.lease()
        assert sorted(names_of(leases)) == sorted([f"{a}/2", f"{d}/1"])
        client.serves("w", "browser")
        assert await client.lease() == [], "one is in flight"
        await client.answered(leases[1], address=ONE)
        needy: list[Lease] = []
        for _ in range(3):
            (lease,) = await client.lease()
            needy.append(lease)
            await client.answered(lease, address=ONE)
        assert sorted(names_of(needy)) == sorted([f"{a}/1", f"{b}/1", f"{c}/1"])


class KeptNeeds:
    """A request keeps its need wherever it goes."""

    async def only_for_browsers(self, client: Client, name: str) -> Lease:
        """No worker is granted it but one that serves its need."""
        assert (await client.trace(name)).need == "browser"
        assert await client.names("plain") == []
        client.serves("browsing", "browser")
        (lease,) = await client.lease("browsing")
        assert names_of([lease]) == [name]
        assert lease.request.need == "browser"
        return lease

    async def test_of_a_lease_that_is_handed_back(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.add("a/1", need="browser")
        lease = await self.only_for_browsers(client, "a/1")
        await client.release(lease)
        await self.only_for_browsers(client, "a/1")

    async def test_of_a_lease_that_expires(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(lease_seconds=1.0)
        await client.add("a/1", need="browser")
        await self.only_for_browsers(client, "a/1")
        await store.elapse(1.2)
        await self.only_for_browsers(client, "a/1")

    async def test_of_a_worker_that_dies_and_of_one_that_is_held(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.add("a/1", need="browser")
        await self.only_for_browsers(client, "a/1")
        await client.lose("browsing")
        lease = await self.only_for_browsers(client, "a/1")
        held = msgspec.structs.replace(lease, epoch=lease.epoch + 1)
        assert await client.relieve("browsing", held) == 1
        await store.elapse(0.1)
        await self.only_for_browsers(client, "a/1")

    async def test_of_a_request_that_is_tried_again(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.add("a/1", need="browser")
        await client.retry(await self.only_for_browsers(client, "a/1"), 0.2)
        assert (await client.trace("a/1")).state == "delayed"
        await store.elapse(0.3)
        await self.only_for_browsers(client, "a/1")

    async def test_of_a_request_that_was_blocked(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(host_backoff_seconds=0.2)
        await client.add("a/1", need="browser")
        assert BLOCK_LIMIT > 1
        await client.blocked(await self.only_for_browsers(client, "a/1"))
        await store.elapse(0.3)
        await self.only_for_browsers(client, "a/1")

    async def test_of_a_suspect(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.add("a/1", need="browser")
        client.serves("doomed", "browser")
        await lost_until_suspect(client, "doomed")
        lease = await self.only_for_browsers(client, "a/1")
        await client.release(lease)
        await self.only_for_browsers(client, "a/1")

    async def test_of_a_dead_request_that_is_revived(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.add("a/1", need="browser")
        await client.end(await self.only_for_browsers(client, "a/1"), Ending.FAILED, error_class="http_4xx")
        assert (await client.trace("a/1")).need == "browser"
        assert await client.frontier.revive() == 1
        await self.only_for_browsers(client, "a/1")

    async def test_a_request_that_comes_back_keeps_its_place(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.add("a/1", need="browser")
        await client.add("a/2")
        await client.add("a/3", "a/4", need="browser")
        client.serves("w", "browser")
        leases = await client.lease(limit=3)
        assert names_of(leases) == ["a/1", "a/2", "a/3"]
        await client.release(*leases)
        assert await client.names("plain", 1) == ["a/2"]
        assert await client.names() == ["a/1", "a/3", "a/4"]
