"""The end of a run with ``on_close``: one owner at a time calls it, and it is called before the next run."""

from __future__ import annotations

from typing import Any

import msgspec

from skitter.frontier.contract import SINK_OWNER_SECONDS
from skitter.model.job import Begun, CloseClaim, Command, JobSpec, State, StopReason
from skitter.testing.contract.client import Client
from skitter.testing.contract.store import ContractStore


def _spec(client: Client, **settings: Any) -> JobSpec:
    return msgspec.structs.replace(client.spec(**settings), on_close=True)


async def _seeded(client: Client, *names: str) -> None:
    await client.begin(_spec(client))
    (lease,) = await client.lease("seeder", 1)
    assert await client.end(lease, links=names)


class CloseClaims:
    """Tests of ``claim_close``, and of stops with a reason."""

    async def test_nothing_is_to_be_closed_before_the_end(self, store: ContractStore) -> None:
        client = store.client()
        await _seeded(client, "a/1")
        assert await client.frontier.claim_close("one") is CloseClaim.NONE
        await client.end(await client.one())
        assert await client.frontier.claim_close("one") is CloseClaim.MINE

    async def test_a_job_without_on_close_has_nothing_to_close(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.end(await client.one())
        assert await client.frontier.claim_close("one") is CloseClaim.NONE
        assert await client.begin() is Begun.RERUN

    async def test_one_owner_at_a_time_until_it_is_silent(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await _seeded(first)
        assert await first.frontier.claim_close("one") is CloseClaim.MINE
        assert await second.frontier.claim_close("two") is CloseClaim.OTHERS
        await store.elapse(SINK_OWNER_SECONDS - 1)
        assert await first.frontier.claim_close("one") is CloseClaim.MINE, "it goes on"
        await store.elapse(SINK_OWNER_SECONDS - 1)
        assert await second.frontier.claim_close("two") is CloseClaim.OTHERS
        await store.elapse(2)
        assert await second.frontier.claim_close("two") is CloseClaim.MINE
        assert await first.frontier.claim_close("one", done=True) is CloseClaim.OTHERS, "it is another one's now"
        assert await second.frontier.claim_close("two", done=True) is CloseClaim.NONE

    async def test_the_claim_of_a_worker_that_was_seen_to_die_ends_at_once(self, store: ContractStore) -> None:
        client = store.client()
        await _seeded(client)
        assert await client.frontier.claim_close("one") is CloseClaim.MINE
        await client.lose("two")
        assert await client.frontier.claim_close("two") is CloseClaim.OTHERS
        assert (await client.frontier.job()).awaits_close
        await client.lose("one")
        assert await client.frontier.claim_close("two") is CloseClaim.MINE
        await client.frontier.claim_close("two", done=True)
        assert not (await client.frontier.job()).awaits_close

    async def test_what_was_called_is_not_called_again(self, store: ContractStore) -> None:
        client = store.client()
        await _seeded(client)
        await client.frontier.claim_close("one")
        for _ in range(2):
            assert await client.frontier.claim_close("one", done=True) is CloseClaim.NONE
        assert await client.frontier.claim_close("two") is CloseClaim.NONE

    async def test_a_run_is_resumed_until_on_close_was_called(self, store: ContractStore) -> None:
        client = store.client()
        await _seeded(client)
        assert await client.begin(_spec(client)) is Begun.RESUMED
        assert await client.state() is State.FINISHED
        assert await client.frontier.claim_close("two") is CloseClaim.MINE
        await client.frontier.claim_close("two", done=True)
        assert await client.begin(_spec(client)) is Begun.RERUN
        assert await client.frontier.claim_close("two") is CloseClaim.NONE, "the new run is not at its end"

    async def test_fresh_forgets_what_was_not_called(self, store: ContractStore) -> None:
        client = store.client()
        await _seeded(client)
        await client.frontier.claim_close("one")
        assert await client.begin(_spec(client), fresh=True) is Begun.RERUN

    async def test_a_job_that_goes_on_is_closed_at_its_next_end(self, store: ContractStore) -> None:
        client = store.client()
        await _seeded(client)
        await client.frontier.claim_close("one")
        await client.frontier.claim_close("one", done=True)
        await client.add("a/1")
        assert await client.frontier.claim_close("one") is CloseClaim.NONE
        await client.end(await client.one())
        assert await client.frontier.claim_close("two") is CloseClaim.MINE

    async def test_a_stop_has_its_reason(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        lease = await client.one()
        await client.frontier.command(Command.STOP, StopReason.CLOSE_AFTER_ITEMS)
        job = await client.frontier.command(Command.STOP, StopReason.COMMAND)
        assert (job.state, job.reason) == (State.DRAINING, "close_after_items"), "the first reason is the reason"
        await client.end(lease)
        state = await client.frontier.state()
        assert (state.state, state.reason) == (State.STOPPED, "close_after_items")
        assert await client.begin() is Begun.RESUMED
        assert (await client.frontier.job()).reason == ""
