"""The client of a program on a Redis, which keeps less of a request than a file does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import skitter
from skitter.app.frontiers import drop_job, open_frontier
from skitter.extract.items import encode_item
from skitter.model.item import NewItem
from skitter.model.job import State
from skitter.model.lease import Work
from skitter.model.outcome import Ending, Outcome

URLS = ["https://a.example/1", "https://a.example/2"]


async def test_ids_states_items_and_results(services: Any, tmp_path: Path) -> None:
    url, job = services.need("redis")["url"], tmp_path.name
    async with skitter.AsyncClient(url) as client:
        first, second = await client.submit(URLS, job=job, settings={"obey_robots": False, "delay_seconds": 0})
        queued = await client.state(first)
        assert queued is not None
        assert (queued.state, queued.url) == ("queued", URLS[0])
        async with skitter.AsyncClient(url) as other:
            unknown, by_url = await other.state(first), await other.state(first, URLS[0])
            assert unknown is not None
            assert by_url is not None
            assert (unknown.state, by_url.state) == ("queued-or-ended", "queued")

        frontier = open_frontier(url, job, create=False)
        leases = (await frontier.lease("w", 10)).leases
        items = [NewItem(encode_item({"n": 1}))]
        outcomes = [
            Outcome(lease=lease, ending=Ending.DONE, items=items if lease.work is Work.PAGE else []) for lease in leases
        ]
        await frontier.commit("w", outcomes)
        leases = (await frontier.lease("w", 10)).leases
        await frontier.commit("w", [Outcome(lease=lease, ending=Ending.DONE, items=items) for lease in leases])
        await frontier.close()

        assert await client.items(second) == [{"n": 1}]
        done = await client.state(first)
        assert done is not None
        assert done.state == "ended"
        assert (await client.wait(job, timeout_seconds=60)).state is State.FINISHED
        assert {request_id async for request_id, _ in client.results(job)} == {first, second}
        assert await client.items(second) == []
        assert job in [view.job for view in await client.jobs()]
    assert await drop_job(url, job)


async def test_jobs_and_hosts_are_steered(services: Any, tmp_path: Path) -> None:
    url, job = services.need("redis")["url"], tmp_path.name
    async with skitter.AsyncClient(url) as client:
        await client.submit(["https://b.example/", *URLS], job=job, settings={"obey_robots": False, "delay_seconds": 0})
        assert (await client.pause(job)).state is State.PAUSED
        assert (await client.resume(job)).state is State.RUNNING
        await client.give_up_host(job, "https://b.example")
        frontier = open_frontier(url, job, create=False)
        leases = (await frontier.lease("w", 10)).leases
        leases += (await frontier.lease("w", 10)).leases
        await frontier.commit(
            "w",
            [
                Outcome(lease=lease, ending=Ending.FAILED, error_class="timeout")
                if lease.work is Work.PAGE
                else Outcome(lease=lease, ending=Ending.DONE)
                for lease in leases
            ],
        )
        await frontier.close()
        assert [host.key for host in await client.hosts(job)] == ["https://a.example", "https://b.example"]
        assert [host.key for host in await client.hosts(job, "given_up")] == ["https://b.example"]
        timed_out = {failed.url async for failed in client.failures(job, error_class="timeout")}
        assert timed_out == set(URLS)
        assert await client.retry(job, URLS[0]) == 1
        assert await client.retry(job, error_class="timeout") == 1
        assert (await client.stop(job)).state is State.STOPPED
    assert await drop_job(url, job)
