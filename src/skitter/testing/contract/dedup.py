"""Promise 3: exact dedup; also the hosts that a seed permits."""

from __future__ import annotations

import asyncio

from skitter.model.job import State
from skitter.model.lease import Work
from skitter.model.outcome import Ending
from skitter.model.request import Fingerprinter, Request
from skitter.testing.contract.client import url_of
from skitter.testing.contract.store import ContractStore


class Dedup:
    """Dedup and enqueue are one step."""

    async def test_a_request_is_queued_once(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        assert await client.add("a/1", "a/2", "a/1") == 2
        assert await client.add("a/2", "a/3") == 1
        assert await client.names() == ["a/1", "a/2", "a/3"]

    async def test_the_first_of_two_equal_requests_wins(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        near, far = await client.entries(["a/1"], depth=1), await client.entries(["a/1"], depth=9)
        assert near[0].id == far[0].id
        assert await client.add_entries([*near, *far]) == 1
        assert await client.add_entries(far) == 0
        assert (await client.one()).request.depth == 1

    async def test_adding_nothing_changes_nothing(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        assert await client.add() == 0
        assert await client.state() is State.FINISHED

    async def test_clients_that_add_at_once_queue_each_request_once(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded(per_host=64)
        entries = await first.entries(f"h{number % 7}/{number}" for number in range(120))
        batches = [entries[start : start + 30] for start in range(0, 120, 15)]
        new = await asyncio.gather(
            *(first.frontier.add(batch) for batch in batches), *(second.frontier.add(batch) for batch in batches[::-1])
        )
        first.remember(entries)
        await first.check()
        assert sum(new) == 120
        names = await first.names()
        assert len(names) == len(set(names)) == 120

    async def test_nothing_that_was_seen_in_the_run_is_queued_again(self, store: ContractStore) -> None:
        client = store.client()
        endings = [ending for ending in Ending if ending is not Ending.RETRY]
        names = [f"a/{ending}" for ending in endings]
        await client.seeded(*names, "a/retry", "a/leased", "a/queued")
        leases = await client.lease(limit=len(names) + 2)
        for lease, ending in zip(leases, endings, strict=False):
            await client.end(lease, ending, error_class="test")
        await client.retry(leases[len(names)], 60)
        assert await client.add(*names, "a/retry", "a/leased", "a/queued") == 0

    async def test_links_that_were_seen_are_counted_as_duplicates(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.end(await client.one(), links=["a/1", "a/2", "a/2", "a/3"])
        assert (await client.frontier.report()).tally["duplicates"] == 2

    async def test_duplicates_that_a_worker_did_not_know_are_told_apart(self, store: ContractStore) -> None:
        """The two counts show how much work of the frontier a worker's memory of URLs saves."""
        client = store.client()
        await client.seeded("a/1")
        await client.end(await client.one(), links=["a/1", "b/2", "b/2"], tally={"duplicates": 5})
        tally = (await client.frontier.report()).tally
        assert (tally["duplicates"], tally["duplicates_sent"]) == (7, 2)

    async def test_an_unfiltered_request_is_queued_beside_its_twin_and_once_itself(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        fingerprinter = Fingerprinter((await client.frontier.job()).secret)
        twins = [fingerprinter.entry(Request(url_of("a/1"), dont_filter=True), 7, place) for place in (0, 1)]
        assert await client.add_entries(twins) == 2
        assert await client.add_entries(twins) == 0
        assert await client.names() == ["a/1"] * 3


class Permits:
    """A seed that the user typed permits its host, for every worker."""

    async def test_a_seed_permits_its_host_and_every_client_is_told_once(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1")
        assert await first.add("b/1", "b/2", "c/1", seed=True) == 3
        assert (await first.grant(limit=1)).permitted == ["http://b.example", "http://c.example"]
        assert (await first.grant(limit=1)).permitted == []
        assert (await second.grant(limit=1)).permitted == ["http://b.example", "http://c.example"]
        await first.add("d/1", seed=True)
        committed = await first.commit(want=1)
        assert committed.grant is not None
        assert committed.grant.permitted == ["http://d.example"]

    async def test_only_hosts_of_seeds_are_trusted(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.add("b/1", seed=True)
        await client.add("b/2")
        trusted = {lease.host_key: lease.trusted for lease in await client.lease()}
        assert trusted == {"http://a.example": False, "http://b.example": True}

    async def test_where_a_seed_is_redirected_to_joins_the_scope_and_is_not_trusted(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        hop = ("http://a.example/1",)
        await client.add("b/1", "c/1", seed=True, chain=hop)
        await client.add("c/2", seed=True)
        await client.add("c/3", seed=True, chain=hop)
        grant = await client.grant()
        assert grant.permitted == ["http://b.example", "http://c.example"]
        trusted = {lease.host_key: lease.trusted for lease in grant.leases}
        assert trusted == {"http://a.example": False, "http://b.example": False, "http://c.example": True}

    async def test_a_redirect_of_a_seed_that_a_commit_brings_joins_the_scope(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.add("a/1", seed=True)
        [lease] = await client.lease()
        outcome = await client.outcome(lease, Ending.REDIRECTED)
        outcome.links = await client.entries(["b/1"], seed=True, chain=("http://a.example/1",))
        committed = await client.commit(outcome, want=9)
        assert committed.grant is not None
        assert committed.grant.permitted == ["http://b.example"]
        assert [lease.trusted for lease in committed.grant.leases] == [False]

    async def test_a_seed_that_a_link_found_first_still_permits_its_host(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        assert await client.add("a/1", seed=True) == 0
        grant = await client.grant()
        assert grant.permitted == ["http://a.example"]
        assert grant.leases[0].trusted

    async def test_a_new_run_forgets_what_was_permitted(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin(seeds=["x"])
        await client.add("a/1", seed=True)
        assert (await client.grant()).permitted == ["http://a.example"]
        await client.begin(seeds=["y"], fresh=True)
        assert (await client.grant()).permitted == []
        await client.add("a/1")
        assert [lease.trusted for lease in await client.lease() if lease.work is Work.PAGE] == [False]
        await client.add("a/2", seed=True)
        assert (await client.grant()).permitted == ["http://a.example"]
