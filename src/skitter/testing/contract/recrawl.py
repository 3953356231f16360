"""Jobs that recrawl: known pages, their records, and when they are due."""

from __future__ import annotations

import math

from skitter.frontier.contract import Frontier
from skitter.model.job import Begun, State
from skitter.model.lease import Call, Lease
from skitter.model.outcome import Ending
from skitter.model.page_record import PageRecord, Visit
from skitter.testing.contract.client import Client, name_of
from skitter.testing.contract.resent_calls import again
from skitter.testing.contract.store import ContractStore

HOUR = 3600.0
LEASE, COMMIT = (Call(token=token) for token in ("lease", "commit"))


def record_of(lease: Lease, interval_seconds: float = HOUR, etag: str = '"1"') -> PageRecord:
    """Return a record as the commit of a page brings it."""
    at, visits = lease.leased_at, [Visit(7.5, True), Visit(9.0, False)]
    return PageRecord(at, at + interval_seconds, interval_seconds, at, visits, b"\x00\xff", etag, vary="Accept")


async def end_with_record(client: Client, lease: Lease, interval_seconds: float = HOUR) -> PageRecord:
    record = record_of(lease, interval_seconds)
    assert await client.end(lease, page=record)
    return record


async def known(frontier: Frontier, until: float = math.inf, limit: int = 1000) -> list[int]:
    """Return the ids of known pages, read in batches."""
    found: list[int] = []
    after = 0.0
    while pages := await frontier.known_pages(after, until, limit):
        assert [page.due_at for page in pages] == sorted(page.due_at for page in pages)
        assert pages[0].due_at > after
        found += [page.id for page in pages]
        after = pages[-1].due_at
    return found


class Recrawl:
    """Records outlive the run. Pages that are not due are not fetched, and no request ever added is forgotten."""

    async def test_a_lease_brings_the_record_that_the_last_run_left(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "b/1", recrawl="all")
        leases = {name_of(lease): lease for lease in await client.lease()}
        assert [lease.page for lease in leases.values()] == [None, None]
        record = await end_with_record(client, leases["a/1"])
        await client.end(leases["b/1"], Ending.FAILED, error_class="timeout")
        (entry,) = await client.entries(["a/1"])
        assert await client.frontier.page_record(entry.id, entry.host_key) == record
        assert await client.begin(fresh=True, recrawl="all") is Begun.RERUN
        await client.end(await client.one("seeder"), links=["a/1", "b/1"])
        again = {name_of(lease): lease.page for lease in await client.lease()}
        assert again == {"a/1": record, "b/1": None}

    async def test_a_lost_lease_leaves_no_record(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", recrawl="due")
        lost = await client.one("w1")
        await client.lose("w1")
        (entry,) = await client.entries(["a/1"])
        assert not await client.end(lost, page=record_of(lost))
        assert await client.frontier.page_record(entry.id, entry.host_key) is None
        record = await end_with_record(client, await client.one("w2"))
        assert not await client.end(lost, page=record_of(lost, 9 * HOUR))
        assert await client.frontier.page_record(entry.id, entry.host_key) == record

    async def test_a_call_that_is_sent_again_brings_the_record_again_and_leaves_it_once(
        self, store: ContractStore
    ) -> None:
        client = store.client()
        await client.seeded("a/1", recrawl="all")
        record = await end_with_record(client, await client.one())
        await client.begin(fresh=True, recrawl="all")
        await client.end(await client.one("seeder"), links=["a/1"])
        (lease,) = (await client.frontier.lease("w", 1, LEASE)).leases
        assert lease.page == record
        (same,) = (await client.frontier.lease("w", 1, again(LEASE))).leases
        assert (same.epoch, same.page) == (lease.epoch, record)
        outcome = await client.outcome(lease, Ending.UNCHANGED, page=record_of(lease, 2 * HOUR))
        for call in (COMMIT, again(COMMIT)):
            committed = await client.frontier.commit("w", [outcome], 0, call)
            assert committed.accepted == [True]
        assert await client.frontier.page_record(outcome.lease.id, outcome.lease.host_key) == outcome.page
        assert await known(client.frontier) == [outcome.lease.id]
        assert (await client.counts()).done == 1

    async def test_what_is_not_due_is_left_out_unless_the_user_typed_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", recrawl="due")
        for lease in await client.lease():
            await end_with_record(client, lease, 1.0 if name_of(lease) == "a/1" else HOUR)
        await client.begin(fresh=True, recrawl="due")
        await client.end(await client.one("seeder"), links=["a/3"])
        await store.elapse(1.2)
        later, typed = await client.entries(["a/2"]), await client.entries(["a/2"], seed=True)
        assert await client.frontier.add(later) == 0
        assert (await client.counts()).seen == 1
        assert await client.add("a/1") == 1, "it is due"
        assert await client.add_entries(typed) == 1
        assert sorted(await client.names()) == ["a/1", "a/2", "a/3"]

    async def test_where_a_crawl_stays_what_the_user_typed_is_fetched_when_it_is_due_and_permits_its_host(
        self, store: ContractStore
    ) -> None:
        client = store.client()
        await client.seeded("a/1", recrawl="due", stay=True)
        await end_with_record(client, await client.one(), 1.0)
        await client.begin(fresh=True, recrawl="due", stay=True)
        seeding = await client.one("seeder")
        typed = await client.entries(["a/1"], seed=True)
        assert await client.frontier.add(typed) == 0
        assert (await client.frontier.lease("other", 1)).permitted == [typed[0].host_key]
        await store.elapse(1.2)
        assert await client.add_entries(typed) == 1
        await client.end(seeding)
        (lease,) = await client.lease()
        assert (name_of(lease), lease.trusted) == ("a/1", True)

    async def test_links_to_what_is_not_due_are_left_out(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", recrawl="due")
        await end_with_record(client, await client.one())
        await client.begin(fresh=True, recrawl="due")
        await client.end(await client.one("seeder"), links=["b/1"])
        outcome = await client.outcome(await client.one(), links=["a/1"])
        committed = await client.frontier.commit("w", [outcome])
        assert (committed.accepted, committed.new_links) == ([True], 0)
        assert await client.state() is State.FINISHED

    async def test_with_all_nothing_is_left_out(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", recrawl="all")
        await end_with_record(client, await client.one())
        await client.begin(fresh=True, recrawl="all")
        await client.end(await client.one("seeder"), links=["a/1"])
        assert await client.names() == ["a/1"]

    async def test_what_died_or_was_excluded_or_never_fetched_stays_due(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "b/4", recrawl="due")
        one, two, three = await client.lease(limit=3)
        now = one.leased_at
        await client.end(one, Ending.FAILED, error_class="timeout")
        await client.end(two, Ending.EXCLUDED, error_class="robots")
        await end_with_record(client, three)
        await client.begin(fresh=True, recrawl="due")
        names = [name for name in ("a/1", "a/2", "a/3", "b/4") if name != name_of(three)]
        assert sorted(await known(client.frontier, now)) == sorted([await client.id(name) for name in names])

    async def test_known_pages_come_in_pieces_by_their_times_and_those_of_one_time_together(
        self, store: ContractStore
    ) -> None:
        client = store.client()
        names = [f"{host}/{path}" for path in range(4) for host in "abc"]
        await client.seeded(*names, recrawl="due")
        for number, lease in enumerate(await client.lease()):
            # Four pages are due at each of three times.
            await end_with_record(client, lease, HOUR * (1 + number % 3))
        everything = await known(client.frontier)
        assert sorted(everything) == sorted([await client.id(name) for name in names])
        for limit in (1, 3, 4, 5):
            assert sorted(await known(client.frontier, limit=limit)) == sorted(everything)
            first = await client.frontier.known_pages(0.0, math.inf, limit)
            assert len(first) == (4 if limit < 5 else 8)
        (entry,) = await client.entries(["a/1"])
        page = next(page for page in await client.frontier.known_pages(0.0, math.inf, 1000) if page.id == entry.id)
        assert (page.host_key, page.payload) == (entry.host_key, entry.payload)

    async def test_an_unchanged_page_is_done_and_brings_no_items(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin(sinks=["out"], recrawl="due")
        await client.end(await client.one("seeder"), links=["a/1"])
        assert await client.end(await client.one(), Ending.UNCHANGED, status=304, tally={"unchanged": 1})
        assert (await client.counts()).done == 1
        assert (await client.frontier.report()).tally["unchanged"] == 1
        assert await client.frontier.peek(0, 10) == []
        assert await client.state() is State.FINISHED

    async def test_an_unchanged_page_counts_against_the_budget_of_its_host(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", recrawl="due", max_pages_per_host=1)
        await client.end(await client.one(), Ending.UNCHANGED, status=304)
        assert await client.names() == []
        assert (await client.counts()).excluded == 1

    async def test_without_recrawl_nothing_is_known(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        one, two = await client.lease()
        await client.end(one, page=record_of(one))
        assert await known(client.frontier) == []
        assert await client.frontier.page_record(one.id, one.host_key) is None
        await client.end(two)

    async def test_what_was_added_before_the_job_recrawled_gets_no_record(self, store: ContractStore) -> None:
        """A record alone would not lead to the page, and the page that links to it has none either: it is parsed."""
        client = store.client()
        await client.seeded("a/1", "b/1")
        await client.begin(recrawl="due")
        await client.add("c/1")
        for lease in await client.lease():
            await end_with_record(client, lease)
        assert await known(client.frontier) == [await client.id("c/1")]
