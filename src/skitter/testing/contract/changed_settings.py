"""Settings that change while the job runs, for all workers and from the next call on."""

from __future__ import annotations

from typing import Any

import pytest

from skitter.errors import JobError, UsageError
from skitter.frontier.contract import BATCH
from skitter.model.job import Begun, State
from skitter.model.lease import Call, Lease
from skitter.testing.contract.client import Client, names_of
from skitter.testing.contract.store import ContractStore

WINDOW = 0.05
"""Start window of a host where no worker was late yet."""
LONGER_WINDOW = 0.4
"""Time added to a shortened delay, because the start window of the last request is not known."""
TICK = 0.005


class ChangedSettings:
    """``change_settings`` takes effect in the whole cluster, and is remembered until the run is over."""

    async def test_a_longer_delay_holds_from_the_next_grant_on(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1", "a/2", "a/3", delay_seconds=0.5)
        assert await second.names("w2") == ["a/1"]
        job = await first.frontier.change_settings({"delay_seconds": 5})
        assert job.spec.settings["delay_seconds"] == 5.0
        await store.elapse(0.5 + WINDOW + TICK)
        assert await second.names("w2") == ["a/2"], "it was due by the delay of its grant"
        await store.elapse(4.9)
        assert await second.names("w2") == await first.names("w1") == []
        await store.elapse(0.1 + WINDOW + TICK)
        assert await first.names("w1") == ["a/3"]

    async def test_a_delay_where_there_was_none(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "a/4", per_host=2)
        leases = await client.lease()
        await client.frontier.change_settings({"delay_seconds": 5})
        await client.end_all(leases)
        assert await client.names() == ["a/3"]
        await store.elapse(4.9)
        assert await client.names() == []

    async def test_a_host_that_waits_is_brought_forward_by_a_shorter_delay(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1", "a/2", "a/3", delay_seconds=1000)
        await first.end(await first.one())
        assert await second.names() == []
        await first.frontier.change_settings({"delay_seconds": 1})
        assert await second.names() == [], "the last request may have been sent this instant"
        await store.elapse(1.0 + LONGER_WINDOW + TICK)
        assert await second.names() == ["a/2"]

    async def test_without_a_delay_a_host_that_waits_is_ready_at_once(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "b/1", "b/2", delay_seconds=1000)
        assert sorted(await client.names()) == ["a/1", "b/1"]
        await client.frontier.change_settings({"delay_seconds": 0})
        # One more call may be needed, as for all housekeeping.
        assert sorted(await client.names() + await client.names()) == ["a/2", "b/2"]

    async def test_a_shorter_delay_reaches_hosts_that_are_full_or_idle(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("full/1", "full/2", "idle/1", delay_seconds=1000, per_host=1)
        full, idle = sorted(await client.lease(), key=lambda lease: lease.host_key)
        await client.end(idle)
        await client.frontier.change_settings({"delay_seconds": 1})
        assert await client.names() == []
        await client.end(full, links=["idle/2"])
        await store.elapse(1.0 + LONGER_WINDOW + TICK)
        assert sorted(await client.names()) == ["full/2", "idle/2"]

    async def test_pauses_that_a_host_asked_for_stay(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", delay_seconds=1000)
        await client.blocked(await client.one(), 20)
        await client.frontier.change_settings({"delay_seconds": 1})
        assert await client.names() == []
        await store.elapse(15)
        assert await client.names() == []
        await store.elapse(6)
        assert await client.names() == ["a/1"]

    async def test_more_hosts_than_a_batch_are_brought_forward_by_the_next_calls(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(delay_seconds=1000)
        hosts = 2 * BATCH + 200
        await client.add(*(f"h{number}/{page}" for number in range(hosts) for page in (1, 2)))
        while (await client.counts()).done < hosts:
            # Hosts that are due at the same time are handled together; this must not leave out other hosts.
            await client.end_all(await client.lease())
            await store.elapse(TICK)
        await client.frontier.change_settings({"delay_seconds": 1})
        calls = 1
        while (await client.grant()).ask_again_seconds == 0.0:
            calls += 1
            assert calls <= 4
        assert calls >= 3 or not store.order_across_hosts
        await store.elapse(1.0 + LONGER_WINDOW + TICK)
        more: list[Lease] = []
        while found := await client.lease():
            more += found
        assert len(more) == hosts

    async def test_a_lower_limit_of_a_host_holds_at_once(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "a/4", per_host=4)
        leases = await client.lease(limit=3)
        await client.frontier.change_settings({"per_host": 2})
        assert await client.names() == []
        await client.end_all(leases[:2])
        assert await client.names() == ["a/4"]

    async def test_max_in_flight_bounds_the_leases_of_all_workers(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded(*(f"h{number}/1" for number in range(30)))
        await first.frontier.change_settings({"max_in_flight": 6})
        held = await first.lease("w1", 2) + await second.lease("w2")
        # In a job with shards, each shard has its part of the limit and cannot give it to another.
        assert len(held) == 6 or (2 < len(held) < 6 and not store.order_across_hosts)
        assert await first.names("w1") == []
        await second.end(held[0])
        assert len(await first.lease("w1")) == 1
        await first.frontier.change_settings({"max_in_flight": None})
        await first.lease("w1")
        assert (await first.counts()).queued == 0

    async def test_a_lower_max_in_flight_holds_at_once(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*(f"a/{number}" for number in range(6)))
        first, second, third = await client.lease(limit=3)
        await client.frontier.change_settings({"max_in_flight": 1})
        await client.end_all([first, second])
        assert await client.names() == []
        await client.end(third)
        assert await client.names() == ["a/3"]

    async def test_a_limit_that_is_reached_already_stops_the_job(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3", "a/4")
        await client.end_all(await client.lease(limit=2))
        job = await client.frontier.change_settings({"max_pages": 1})
        assert (job.state, job.reason) == (State.STOPPED, "max_pages")
        assert await client.names() == []
        job = await client.frontier.change_settings({"max_pages": 3})
        assert job.state is State.STOPPED, "only resume goes on"
        assert await client.begin(max_pages=3) is Begun.RESUMED
        await client.end(await client.one())
        assert await client.state() is State.STOPPED

    async def test_several_at_once_and_values_as_they_are_typed(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", per_ip=4, per_host=3)
        job = await client.frontier.change_settings({"per_ip": "none", "burst_seconds": "1.5", "per_host": "6"})
        settings = job.spec.settings
        assert (settings["per_ip"], settings["burst_seconds"], settings["per_host"]) == (None, 1.5, 6)
        assert settings["obey_robots"] is False, "the others stay"

    @pytest.mark.parametrize(
        ("values", "words"),
        [
            (
                {"dedup": "bloom"},
                "cannot be changed while a job runs: dedup, the record of seen pages depends on it",
            ),
            ({"recrawl": "all"}, "cannot be changed while a job runs: recrawl"),
            ({"timeout_seconds": 5}, "cannot be changed while a job runs: timeout_seconds, workers read it when they"),
            ({"concurrency": 5}, "cannot be changed while a job runs: concurrency, each node has its own"),
            ({"delay_second": 5}, "unknown setting in the change: delay_second"),
            ({"delay_seconds": -1}, "bad value in the change: delay_seconds=-1"),
            ({"per_host": 5, "max_pages": "many"}, "bad value in the change: max_pages='many'"),
        ],
    )
    async def test_what_cannot_be_changed_is_refused(
        self, store: ContractStore, values: dict[str, Any], words: str
    ) -> None:
        client = store.client()
        await client.seeded("a/1", per_host=3)
        before = (await client.frontier.job()).spec
        with pytest.raises(UsageError) as caught:
            await client.frontier.change_settings(values)
        assert words in str(caught.value)
        assert caught.value.hint
        assert (await client.frontier.job()).spec == before, "all of it, or nothing"

    async def test_a_finished_job_has_no_settings_to_change(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        await client.end(await client.one())
        with pytest.raises(JobError, match="the job is finished"):
            await client.frontier.change_settings({"delay_seconds": 1})

    async def test_a_job_that_is_not_there(self, store: ContractStore) -> None:
        with pytest.raises(JobError, match="no such job"):
            await store.client().frontier.change_settings({"delay_seconds": 1})


class RememberedChanges:
    """Changes are reported, and a command that resumes the run keeps them."""

    async def changed(self, client: Client) -> tuple[Any, dict[str, Any]]:
        """Return the delay, and the changes that the job reports."""
        spec = (await client.frontier.job()).spec
        return spec.settings["delay_seconds"], spec.changed_from

    async def test_what_the_command_gave_is_remembered(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", delay_seconds=0.5)
        await client.frontier.change_settings({"delay_seconds": 2.0})
        await client.frontier.change_settings({"delay_seconds": 3.0})
        assert await self.changed(client) == (3.0, {"delay_seconds": 0.5})
        await client.frontier.change_settings({"delay_seconds": 0.5})
        assert await self.changed(client) == (0.5, {})

    async def test_a_report_that_was_sent_before_has_the_change_too(self, store: ContractStore) -> None:
        first, second = store.client(), store.client()
        await first.seeded("a/1", delay_seconds=0.5)
        assert (await second.frontier.report()).job.spec.changed_from == {}
        await first.frontier.change_settings({"delay_seconds": 2.0})
        spec = (await second.frontier.report()).job.spec
        assert (spec.settings["delay_seconds"], spec.changed_from) == (2.0, {"delay_seconds": 0.5})

    async def test_the_same_command_keeps_the_change(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", delay_seconds=0.5)
        await client.frontier.change_settings({"delay_seconds": 20.0})
        assert await client.begin(delay_seconds=0.5, per_host=3) is Begun.RESUMED
        assert await self.changed(client) == (20.0, {"delay_seconds": 0.5})
        assert (await client.frontier.job()).spec.settings["per_host"] == 3
        assert await client.names() == ["a/1"]
        await store.elapse(10)
        assert await client.names() == []

    async def test_a_node_that_joins_with_the_settings_of_the_job_keeps_the_change(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", delay_seconds=0.5)
        await client.frontier.change_settings({"delay_seconds": 20.0})
        assert await client.begin(delay_seconds=20.0) is Begun.RESUMED
        assert await self.changed(client) == (20.0, {"delay_seconds": 0.5})

    async def test_a_command_with_another_value_has_its_way(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", delay_seconds=0.5)
        await client.frontier.change_settings({"delay_seconds": 20.0, "per_host": 2})
        assert await client.begin(delay_seconds=1.0) is Begun.RESUMED
        delay, changed_from = await self.changed(client)
        assert (delay, list(changed_from)) == (1.0, ["per_host"])

    async def test_a_new_run_begins_with_the_settings_of_its_command(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", delay_seconds=0.5)
        await client.frontier.change_settings({"delay_seconds": 20.0})
        assert await client.begin(delay_seconds=0.5, fresh=True) is Begun.RERUN
        assert await self.changed(client) == (0.5, {})

    async def test_a_shorter_delay_of_the_command_that_resumes_brings_hosts_forward(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", delay_seconds=1000)
        await client.end(await client.one())
        assert await client.begin(delay_seconds=1) is Begun.RESUMED
        assert await client.names() == []
        await store.elapse(1.0 + LONGER_WINDOW + TICK)
        assert await client.names() == ["a/2"]

    async def test_the_round_trip_of_the_last_request_is_within_the_window(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", delay_seconds=1000)
        grant = await client.frontier.lease("w1", 5, Call(round_trip_seconds=0.3))
        assert names_of(grant.leases) == ["a/1"]
        await client.frontier.change_settings({"delay_seconds": 1})
        await store.elapse(1.0 + WINDOW + 0.3 - TICK)
        assert await client.names() == []
