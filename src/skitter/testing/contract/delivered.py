"""``dedup_scope=job``: a page whose items every sink holds is not queued again by a later run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skitter.model.item import ItemKind, NewItem
from skitter.model.job import Begun, SinkProgress
from skitter.model.request import Entry
from skitter.testing.contract.client import Client, name_of
from skitter.testing.contract.store import ContractStore

ITEM = (b"item",)


async def run(client: Client, pages: Mapping[str, Sequence[bytes | NewItem]], sinks: Sequence[str] = ("out",)) -> None:
    """Begin a new run and end its pages, each with its items."""
    await client.begin(fresh=True, sinks=sinks, dedup_scope="job")
    (seeding,) = await client.lease("seeder", 1)
    await client.frontier.add(entries := await client.entries(pages, is_list=True))
    client.remember(entries)
    leases = await client.lease()
    while leases:
        outcomes = [await client.outcome(lease, items=pages[name_of(lease)]) for lease in leases]
        assert all((await client.commit(*outcomes)).accepted)
        leases = await client.lease()
    assert await client.end(seeding)


async def deliver(client: Client, target: str = "out", *, limit: int = 100_000) -> None:
    assert await client.frontier.open_sink(target, "me") is not None
    items = await client.items(target, limit=limit)
    assert await client.frontier.items_done(target, "me", SinkProgress(items[-1].position))


async def queued(client: Client, entries: Sequence[Entry]) -> int:
    """Begin a new run and return how many of the entries are new in it."""
    assert await client.begin(fresh=True, sinks=["out"], dedup_scope="job") is Begun.RERUN
    return await client.frontier.add(entries)


class Delivered:
    """The job remembers pages that were delivered, and no others."""

    async def test_a_delivered_page_is_not_queued_by_a_later_run(self, store: ContractStore) -> None:
        client = store.client()
        await run(client, {"a/1": ITEM, "b/1": ITEM})
        await deliver(client)
        entries = await client.entries(["a/1", "b/1", "a/2"])
        assert await queued(client, entries) == 1
        assert (await client.frontier.report()).tally["delivered_earlier"] == 2
        assert (await client.trace("a/1")).state == "delivered"
        assert (await client.trace("a/2")).state == "queued"
        client.remember(entries[2:])
        await client.check()

    async def test_it_is_left_out_in_every_run_to_come(self, store: ContractStore) -> None:
        client = store.client()
        await run(client, {"a/1": ITEM})
        await deliver(client)
        for _ in range(3):
            assert await queued(client, await client.entries(["a/1"])) == 0

    async def test_a_page_without_items_is_queued_again(self, store: ContractStore) -> None:
        client = store.client()
        await run(client, {"a/1": (), "a/2": ITEM})
        await deliver(client)
        assert await queued(client, await client.entries(["a/1", "a/2"])) == 1

    async def test_seeds_lists_and_unfiltered_requests_are_queued_again(self, store: ContractStore) -> None:
        client = store.client()
        await run(client, {"a/1": ITEM, "a/2": ITEM})
        await deliver(client)
        seeds = await client.entries(["a/1"], seed=True)
        lists = await client.entries(["a/2"], is_list=True)
        assert await queued(client, [*await client.entries(["a/1", "a/2"]), *seeds, *lists]) == 2

    async def test_an_unfiltered_request_is_queued_again(self, store: ContractStore) -> None:
        client = store.client()
        entries = await self.unfiltered(client)
        client.remember(entries)
        assert await client.end(await client.one(), items=ITEM)
        await deliver(client)
        assert await queued(client, entries) == 1

    @staticmethod
    async def unfiltered(client: Client) -> list[Entry]:
        await client.begin(sinks=["out"], dedup_scope="job")
        (seeding,) = await client.lease("seeder", 1)
        entries = await client.entries(["a/1"], dont_filter=True)
        assert await client.frontier.add(entries) == 1
        client.remember(entries)
        assert await client.end(seeding)
        return entries

    async def test_what_a_sink_lacks_is_queued_again(self, store: ContractStore) -> None:
        client = store.client()
        await run(client, {"a/1": ITEM})
        assert await queued(client, await client.entries(["a/1"])) == 1, "a crash before the sink repeats the page"

    async def test_a_page_is_delivered_with_its_last_item(self, store: ContractStore) -> None:
        client = store.client()
        await run(client, {"a/1": (b"1", b"2", b"3")})
        await deliver(client, limit=2)
        entries = await client.entries(["a/1"])
        assert await queued(client, entries) == 1
        await run(client, {"a/1": (b"1", b"2", b"3")})
        await deliver(client, limit=2)
        await deliver(client)
        assert await queued(client, entries) == 0

    async def test_every_sink_must_hold_it(self, store: ContractStore) -> None:
        client = store.client()
        entries = await self.in_two_sinks(client)
        await deliver(client, "out")
        assert await queued(client, entries) == 1
        await self.in_two_sinks(client)
        await deliver(client, "out")
        await deliver(client, "other")
        assert await queued(client, entries) == 0

    @staticmethod
    async def in_two_sinks(client: Client) -> list[Entry]:
        await run(client, {"a/1": ITEM}, ["out", "other"])
        return await client.entries(["a/1"])

    async def test_a_rejected_item_counts_and_an_archived_page_does_not(self, store: ContractStore) -> None:
        client = store.client()
        rejected, archived = NewItem(b"x", ItemKind.REJECT), NewItem(b"x", ItemKind.PAGE)
        await run(client, {"a/1": [rejected], "a/2": [archived], "a/3": [archived, NewItem(b"x")]})
        await deliver(client)
        assert await queued(client, await client.entries(["a/1", "a/3"])) == 0
        assert await client.frontier.add(await client.entries(["a/2"])) == 1

    async def test_without_a_sink_nothing_is_remembered(self, store: ContractStore) -> None:
        client = store.client()
        await run(client, {"a/1": ITEM}, [])
        assert await queued(client, await client.entries(["a/1"])) == 1
        await run(client, {"a/1": ITEM})
        assert await client.frontier.open_sink("out", "me") is not None
        await client.frontier.close_sink("out", "me", forget=True)
        assert await queued(client, await client.entries(["a/1"])) == 1

    async def test_in_a_job_of_its_runs_alone_nothing_is_remembered(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", sinks=["out"])
        assert await client.end(await client.one(), items=ITEM)
        await deliver(client)
        assert await queued(client, await client.entries(["a/1"])) == 1

    async def test_many_are_remembered(self, store: ContractStore) -> None:
        client = store.client()
        names = [f"{host}/{page}" for host in "abc" for page in range(400)]
        await run(client, dict.fromkeys(names, ITEM))
        await deliver(client)
        assert await queued(client, await client.entries([*names, "a/400"])) == 1
