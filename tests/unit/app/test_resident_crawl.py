"""Between two runs of a resident crawl: what it waits for."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from skitter.app import resident_crawl
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.frontier.transactional import TransactionalFrontier
from skitter.model.job import JobSpec, State
from skitter.model.outcome import Ending, Outcome
from skitter.model.page_record import PageRecord
from skitter.model.request import Fingerprinter, Request
from skitter.stop_request import StopRequest
from skitter.testing.clock import FakeClock


class Resident:
    """A job whose first run is over, and a crawl that waits for the next."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.frontier: TransactionalFrontier = memory_frontier("job", MemoryStore(self.clock.of_store()))
        self.stop = StopRequest()

    async def run_once(self, due_seconds: float | None) -> None:
        """``due_seconds``: from the end of the run until its page is due; None: the page fails."""
        settings = {"obey_robots": False, "recrawl": "due", "stay": True}
        await self.frontier.begin(JobSpec(name="job", spider="", settings=settings))
        self.fingerprinter = Fingerprinter((await self.frontier.job()).secret)
        (seeding,) = (await self.frontier.lease("w", 1)).leases
        entry = self.fingerprinter.entry(Request("http://a.example/"))
        await self.frontier.commit("w", [Outcome(lease=seeding, ending=Ending.DONE, links=[entry])])
        (lease,) = (await self.frontier.lease("w", 1)).leases
        if due_seconds is None:
            outcome = Outcome(lease=lease, ending=Ending.FAILED, error_class="timeout")
        else:
            at = lease.leased_at
            outcome = Outcome(lease=lease, ending=Ending.DONE, page=PageRecord(at, at + due_seconds, due_seconds))
        await self.frontier.commit("w", [outcome])
        assert (await self.frontier.state()).state is State.FINISHED

    async def wait(self) -> bool:
        async with asyncio.timeout(60):
            return await resident_crawl.wait_for_due_page(self.frontier, self.stop)


@pytest.fixture
def resident(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(resident_crawl, "POLL_SECONDS", 0.01)
    return Resident()


async def test_the_next_run_begins_when_a_page_is_due(resident: Resident) -> None:
    await resident.run_once(0.05)
    assert await resident.wait()


async def test_what_failed_waits_for_an_hour(resident: Resident, monkeypatch: pytest.MonkeyPatch) -> None:
    await resident.run_once(None)
    assert len(await resident.frontier.known_pages(0.0, math.inf, 1)) == 1
    has_looked, looks, state = asyncio.Event(), [], resident.frontier.state

    async def looked_at() -> Any:
        looks.append(1)
        if len(looks) == 3:
            has_looked.set()
        return await state()

    monkeypatch.setattr(resident.frontier, "state", looked_at)
    waiting = asyncio.create_task(resident.wait())
    await has_looked.wait()
    assert not waiting.done()
    monkeypatch.setattr(resident_crawl, "MIN_INTERVAL_SECONDS", 0.0)
    assert await waiting


async def test_requests_that_somebody_adds_are_fetched(resident: Resident) -> None:
    await resident.run_once(3600.0)
    waiting = asyncio.create_task(resident.wait())
    await resident.frontier.add([resident.fingerprinter.entry(Request("http://a.example/2", seed=True))])
    assert await waiting


async def test_a_stop_ends_the_wait(resident: Resident) -> None:
    await resident.run_once(3600.0)
    waiting = asyncio.create_task(resident.wait())
    await asyncio.sleep(0)
    resident.stop.stop()
    assert not await waiting
