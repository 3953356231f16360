"""Counters of spiders and hooks: added with the outcome of a page, once, and limited in number."""

from __future__ import annotations

import msgspec

from skitter.model.counters import MAX_COUNTERS
from skitter.model.outcome import Ending
from skitter.testing.contract.store import ContractStore


class Counters:
    """The counts of pages are summed over the cluster, and fenced like everything else in an outcome."""

    async def test_counts_of_all_workers_add_up(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1", "b/1", "c/1")
        leases = await first.lease("w1")
        await first.end(leases[0], tally={"stat:captchas": 1, "hook:retry:captcha": 1})
        await second.end(leases[1], tally={"stat:captchas": 2, "stat:prices": 2**40})
        report = await second.frontier.report()
        assert report.stats == {"captchas": 3, "prices": 2**40}
        assert report.decisions == {"retry:captcha": 1}

    async def test_every_ending_counts(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "b/1", "c/1")
        endings = (Ending.RETRY, Ending.FAILED, Ending.EXCLUDED)
        for lease, ending in zip(await client.lease(), endings, strict=True):
            assert await client.end(lease, ending, tally={"stat:seen": 1}, error_class="dropped", error="too old")
        assert (await client.frontier.report()).stats == {"seen": 3}

    async def test_a_stale_lease_counts_nothing(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        stale = await client.one("w")
        await client.lose("w")
        current = await client.one("v")
        assert not await client.end(stale, tally={"stat:captchas": 1, "hook:drop:x": 1})
        assert (await client.frontier.report()).tally == {}
        assert await client.end(current, tally={"stat:captchas": 1})
        assert (await client.frontier.report()).stats == {"captchas": 1}

    async def test_a_commit_that_is_sent_again_counts_once(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        outcome = await client.outcome(await client.one(), tally={"stat:captchas": 2})
        call = client.next_call("w")
        for again in (False, True):
            sent = msgspec.structs.replace(call, again=again)
            assert (await client.frontier.commit("w", [outcome], 0, sent)).accepted == [True]
        assert (await client.frontier.report()).stats == {"captchas": 2}

    async def test_a_new_run_counts_anew(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.end(await client.one(), tally={"stat:captchas": 1})
        await client.begin()
        assert (await client.frontier.report()).tally == {}

    async def test_names_without_an_end_are_counted_under_one(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3")
        first, second, third = await client.lease()
        await client.end(first, tally={"bytes": 5, **{f"stat:{number}": 1 for number in range(MAX_COUNTERS - 1)}})
        await client.end(second, tally={"stat:one more": 2, "stat:0": 1, "hook:drop:price 17": 1, "outside:host": 1})
        await client.end(third, tally={"stat:and another": 3})
        report = await client.frontier.report()
        assert (report.stats["other"], report.stats["0"], report.decisions) == (5, 2, {"other": 1})
        assert (report.tally["outside:host"], report.tally["bytes"]) == (1, 5), "the frontier's own are always told"
        assert len(report.tally) <= MAX_COUNTERS + 3
