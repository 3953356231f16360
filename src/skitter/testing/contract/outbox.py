"""The outbox: items between their commit and their delivery to a sink, and the limit of promise 7."""

from __future__ import annotations

from skitter.model.item import ItemKind, NewItem
from skitter.model.job import SinkProgress, State
from skitter.model.outcome import Ending
from skitter.testing.contract.client import Client
from skitter.testing.contract.store import ContractStore

OWNER_SECONDS = 30.0


async def yielding(client: Client, *records: bytes) -> None:
    """End the next page with these items."""
    assert await client.end(await client.one(), items=list(records))


class Outbox:
    """Items are returned in the order of their commits, each once, until a sink has stored them durably."""

    async def test_an_item_keeps_its_kind_and_is_counted_under_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        await client.frontier.open_sink("out", "me")
        kinds = [ItemKind.PAGE, ItemKind.RECORD, ItemKind.REJECT, ItemKind.RECORD]
        # All kinds have the same bytes, so that the kind cannot be guessed from them.
        made = [NewItem(b"x", kind) for kind in kinds]
        first, second = await client.lease(limit=2)
        assert await client.end(first, items=made[:1], more=True)
        assert await client.end(first, items=made[1:3], more=True)
        assert await client.end(first, items=made[3:])
        assert await client.end(second, items=made[2:])
        assert [(item.kind, item.record) for item in await client.items()] == [
            (kind, b"x") for kind in (*kinds, *kinds[2:])
        ]
        assert [item.kind for item in await client.frontier.peek(0, 10)] == [*kinds, *kinds[2:]]
        tally = (await client.frontier.report()).tally
        assert (tally["items"], tally["rejected"], tally["archived"]) == (3, 2, 1)

    async def test_items_of_a_page_that_fails_in_its_last_part_are_not_counted(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.open_sink("out", "me")
        lease = await client.one()
        assert await client.end(lease, items=[b"x", NewItem(b"y", ItemKind.REJECT)], more=True)
        assert await client.end(lease, Ending.FAILED, error_class="callback")
        tally = (await client.frontier.report()).tally
        assert (tally.get("items", 0), tally.get("rejected", 0)) == (0, 0)
        assert await client.items() == []

    async def test_a_sink_is_seen_closed_once_that_is_recorded(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.open_sink("out", "me")
        await yielding(client, b"x")
        assert await client.items()
        for closed in (False, True):
            assert await client.frontier.items_done("out", "me", SinkProgress(1, b"m", closed=closed))
            (seen,) = await client.frontier.sinks()
            assert (seen.undelivered, seen.closed, seen.is_incomplete) == (0, closed, not closed)

    async def test_items_come_in_the_order_of_commits_with_keys_of_their_own(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        assert await client.frontier.open_sink("out", "me") == SinkProgress()
        first, second = await client.lease()
        await client.end(second, items=[b"2-0", b"2-1"])
        await client.end(first, items=[b"1-0"])
        items = await client.items()
        assert [item.record for item in items] == [b"2-0", b"2-1", b"1-0"]
        assert [(item.request_id, item.place) for item in items] == [(second.id, 0), (second.id, 1), (first.id, 0)]
        assert [item.position for item in items] == [1, 2, 3]

    async def test_items_are_read_in_batches_until_they_are_done(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.open_sink("out", "me")
        await yielding(client, *(b"%d" % number for number in range(10)))
        assert len(await client.items(limit=4)) == 4
        assert [item.record for item in await client.items(limit=4)] == [b"0", b"1", b"2", b"3"], "none is done yet"
        assert await client.frontier.items_done("out", "me", SinkProgress(4, b"length 40"))
        assert [item.record for item in await client.items(limit=4)] == [b"4", b"5", b"6", b"7"]
        assert (await client.frontier.report()).undelivered == 6

    async def test_progress_and_mark_are_found_again(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        await client.frontier.open_sink("out", "me")
        await yielding(client, b"x", b"y")
        progress = SinkProgress(1, b"\x00 length 7", closed=False, rejected=3, trouble="the server is unavailable")
        assert await client.frontier.items_done("out", "me", progress)
        await client.frontier.close_sink("out", "me")
        assert await store.client().frontier.open_sink("out", "other") == progress
        assert await client.records("out", "other") == [b"y"]

    async def test_what_an_owner_waits_for_is_reported_as_long_as_it_is_the_owner(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.open_sink("out", "me")
        await client.frontier.items_done("out", "me", SinkProgress(0, b"m", rejected=2, trouble="unavailable"))
        (seen,) = (await client.frontier.report()).sinks
        assert (seen.rejected, seen.trouble) == (2, "unavailable")
        await client.frontier.items_done("out", "me", SinkProgress(0, b"m", rejected=2))
        (seen,) = (await client.frontier.report()).sinks
        assert (seen.rejected, seen.trouble) == (2, "")
        await client.frontier.items_done("out", "me", SinkProgress(0, b"m", rejected=2, trouble="unavailable"))
        await client.frontier.close_sink("out", "me")
        (seen,) = (await client.frontier.report()).sinks
        assert (seen.rejected, seen.trouble) == (2, "")

    async def test_the_outbox_can_be_read_without_moving_anybody(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "b/1", "c/1")
        await client.frontier.open_sink("out", "me")
        assert await client.frontier.peek(0, 10) == []
        for page in range(3):
            await yielding(client, *(b"%d-%d" % (page, number) for number in range(4)))
        (first, *_) = await client.items(limit=1)
        assert await client.frontier.items_done("out", "me", SinkProgress(first.position))
        read, after = [], 0
        while items := await client.frontier.peek(after, 5):
            assert len(items) <= 5
            read += items
            after = items[-1].position
        left = await client.items()
        assert sorted(item.record for item in read) == sorted(item.record for item in left)
        assert {item.key for item in read} == {item.key for item in left}
        assert len(left) == 11

    async def test_a_sink_has_one_owner_at_a_time(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1")
        await first.frontier.open_sink("out", "first")
        assert await second.frontier.open_sink("out", "second") is None
        assert await second.frontier.items("out", "second", 10) is None
        assert not await second.frontier.items_done("out", "second", SinkProgress(1))
        await second.frontier.close_sink("out", "second")
        assert await second.frontier.open_sink("out", "second") is None, "only the owner may give it up"
        assert await first.frontier.open_sink("out", "first") == SinkProgress()
        await first.frontier.close_sink("out", "first")
        assert await second.frontier.open_sink("out", "second") == SinkProgress()
        assert await first.frontier.items("out", "first", 10) is None

    async def test_a_sink_whose_owner_is_silent_may_be_taken_over(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1", "a/2")
        await first.frontier.open_sink("out", "first")
        await yielding(first, b"x")
        for _ in range(2):
            await store.elapse(OWNER_SECONDS - 1)
            assert await second.frontier.open_sink("out", "second") is None
            await first.items("out", "first")
        await first.frontier.items_done("out", "first", SinkProgress(0, b"m"))
        await store.elapse(OWNER_SECONDS + 1)
        assert await second.frontier.open_sink("out", "second") == SinkProgress(0, b"m")
        assert await first.frontier.items("out", "first", 10) is None
        assert not await first.frontier.items_done("out", "first", SinkProgress(1)), "the late owner is fenced off"
        assert await second.records("out", "second") == [b"x"]

    async def test_items_are_kept_until_every_sink_has_them(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.open_sink("one", "me")
        await client.frontier.open_sink("two", "me")
        await yielding(client, b"x", b"y")
        await client.frontier.items_done("one", "me", SinkProgress(2))
        assert await client.records("one") == []
        assert await client.records("two") == [b"x", b"y"]
        await client.frontier.items_done("two", "me", SinkProgress(1))
        report = await client.frontier.report()
        assert report.undelivered == 1
        assert {sink.target: sink.undelivered for sink in report.sinks} == {"one": 0, "two": 1}
        await client.frontier.items_done("two", "me", SinkProgress(2))
        assert (await client.frontier.report()).undelivered == 0

    async def test_a_job_keeps_items_for_its_sinks_from_its_beginning(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin(sinks=["out", "other"])
        await client.add("a/1", "a/2")
        await client.end((await client.lease(limit=2))[1], items=[b"x"])
        await client.begin(sinks=["out", "late"])
        await client.end(await client.one(), items=[b"y"])
        for target, records in {"out": [b"x", b"y"], "other": [b"x", b"y"], "late": [b"y"]}.items():
            assert await client.frontier.open_sink(target, "me") is not None
            assert await client.records(target) == records

    async def test_a_target_that_is_forgotten_holds_up_nothing(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", max_outbox_items=2)
        await client.frontier.open_sink("gone", "me")
        await client.frontier.open_sink("stays", "me")
        await yielding(client, b"x", b"y")
        await client.frontier.items_done("stays", "me", SinkProgress(1))
        assert (await client.grant()).blocked_by == "sink"
        await client.frontier.close_sink("gone", "somebody else", forget=True)
        assert len((await client.frontier.report()).sinks) == 2, "only the owner may"
        await client.frontier.close_sink("gone", "me", forget=True)
        assert [sink.target for sink in (await client.frontier.report()).sinks] == ["stays"]
        assert await client.records("stays") == [b"y"]
        assert await client.frontier.items("gone", "me", 10) is None
        await yielding(client, b"z")
        progress = await client.frontier.open_sink("gone", "me")
        assert progress is not None
        assert progress.position == 3, "it begins anew"

    async def test_without_a_sink_nothing_is_kept_but_counted(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", max_outbox_items=1)
        await yielding(client, b"x", b"y")
        report = await client.frontier.report()
        assert (report.tally["items"], report.undelivered, report.sinks) == (2, 0, [])
        await client.frontier.open_sink("out", "me")
        assert await client.records() == [], "from the first open_sink on"
        await yielding(client, b"z")
        assert await client.records() == [b"z"]

    async def test_a_full_outbox_stops_the_leasing_and_nothing_else(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "a/4", max_outbox_items=3)
        await client.frontier.open_sink("out", "me")
        held = await client.lease(limit=2)
        await yielding(client, b"1", b"2", b"3", b"4")
        grant = await client.grant()
        assert (grant.leases, grant.blocked_by, grant.state) == ([], "sink", State.RUNNING)
        assert [sink.blocking for sink in (await client.frontier.report()).sinks] == [True]
        assert await client.end(held[0], items=[b"5"]), "what is in flight may end: nothing is dropped"
        assert await client.records() == [b"1", b"2", b"3", b"4", b"5"]
        await client.frontier.items_done("out", "me", SinkProgress(2))
        assert (await client.grant()).blocked_by == "sink"
        await client.frontier.items_done("out", "me", SinkProgress(3))
        grant = await client.grant()
        assert (len(grant.leases), grant.blocked_by) == (1, "")

    async def test_items_of_a_dead_page_are_kept(self, store: ContractStore) -> None:
        """An errback may yield items for a failed page."""
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.open_sink("out", "me")
        await client.end(await client.one(), Ending.FAILED, items=[b"failed"], error_class="http_4xx")
        assert await client.records() == [b"failed"]

    async def test_a_new_run_has_an_empty_outbox_and_positions_that_grow(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.open_sink("out", "me")
        await yielding(client, b"old")
        await client.begin(fresh=True)
        assert (await client.frontier.report()).sinks == []
        progress = await client.frontier.open_sink("out", "me")
        assert progress is not None
        assert await client.records() == []
        await client.add("a/1")
        _, page = await client.lease()
        await client.end(page, items=[b"new"])
        (item,) = await client.items()
        assert item.record == b"new"
        assert item.position == progress.position + 1 > 1

    async def test_large_and_odd_records_are_kept_as_they_are(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.frontier.open_sink("out", "me")
        records = [b"", b"\x00\xff", b"x" * 300_000]
        await yielding(client, *records)
        assert await client.records() == records
