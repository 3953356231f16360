"""What a node of a fleet sees of the jobs in its stores."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from skitter.app import fleet_jobs as module
from skitter.app.config import crawl_config
from skitter.app.crawl_source import source_of_urls
from skitter.app.fleet_jobs import FleetJobs, JobKey
from skitter.app.frontiers import open_frontier
from skitter.app.submit import submit_job
from skitter.errors import FormatError, FrontierError
from skitter.frontier.contract import Frontier
from skitter.model.job import Command, State
from skitter.model.lease import Work
from skitter.model.outcome import Ending, Outcome
from skitter.observe.events import Event
from skitter.settings import Settings

SEED = "http://a.example/"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'jobs.db'}"


@pytest.fixture
async def jobs(url: str) -> AsyncIterator[FleetJobs]:
    jobs = FleetJobs(lambda: [url], "disk", lambda _: None)
    yield jobs
    await jobs.close()


async def submit(url: str, job: str, *outputs: str, **settings: Any) -> JobKey:
    own = Settings.from_layers([("test", {"obey_robots": False, "delay_seconds": 0, **settings})])
    config = crawl_config(
        source_of_urls([SEED], []), own, job=job, frontier=url, outputs=[(output, False) for output in outputs]
    )
    await submit_job(config, on_event=lambda _: None)
    return JobKey(url, job)


async def finish(key: JobKey) -> None:
    """Do all of a job, as a worker would: its seeding finds nothing."""
    frontier: Frontier = open_frontier(*key, create=False)
    (seeding,) = (await frontier.lease("w", 1)).leases
    assert seeding.work is Work.SEED
    await frontier.commit("w", [Outcome(lease=seeding, ending=Ending.DONE)])
    await frontier.close()


async def test_a_file_that_nobody_has_made_yet_has_no_jobs(jobs: FleetJobs, url: str) -> None:
    assert await jobs.look() == ({}, {})
    key = await submit(url, "books", job_priority=7, deliver_node="disk")
    (job,) = (await jobs.look())[0].values()
    assert (job.key, job.state, job.fleet.job_priority, job.files) == (key, State.RUNNING, 7, [])


async def test_files_are_for_the_node_that_the_job_names(jobs: FleetJobs, url: str) -> None:
    await submit(url, "here", "here.jsonl", "postgresql://db.example/x#y", deliver_node="disk")
    await submit(url, "elsewhere", "elsewhere.jsonl", deliver_node="another")
    found, _ = await jobs.look()
    assert {key.job: job.files for key, job in found.items()} == {"here": ["here.jsonl"], "elsewhere": []}


async def test_a_job_that_is_over_is_looked_at_until_its_targets_are_complete(jobs: FleetJobs, url: str) -> None:
    plain = await submit(url, "plain")
    stored = await submit(url, "stored", "postgresql://db.example/x#y")
    for key in (plain, stored):
        await finish(key)
    found, _ = await jobs.look()
    assert {key.job: job.undelivered for key, job in found.items()} == {"stored": ["postgresql://db.example/x#y"]}


async def test_of_many_jobs_that_are_over_some_are_asked_each_time_and_a_new_run_is_seen(
    jobs: FleetJobs, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ENDED_PER_LOOK", 2)
    keys = [await submit(url, f"job-{number}") for number in range(5)]
    for key in keys:
        await finish(key)
    assert await jobs.look() == ({}, {})
    await submit(url, "job-4")
    looks = 0
    while not (await jobs.look())[0]:
        looks += 1
        assert looks < 3, "each is asked within three looks"
    assert [key.job for key in (await jobs.look())[0]] == ["job-4"], "and it stays in view"


async def test_a_paused_job_is_seen_as_such_and_another_priority_after_a_while(
    jobs: FleetJobs, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SPECIFICATION_SECONDS", 0.0)
    key = await submit(url, "books")
    await jobs.look()
    await (await jobs.frontier(key)).command(Command.PAUSE)
    await submit(url, "books", job_priority=9)
    (job,) = (await jobs.look())[0].values()
    assert (job.state, job.fleet.job_priority) == (State.PAUSED, 9)


async def test_a_store_that_is_away_is_an_error_at_first_and_waited_for_later(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Event] = []
    jobs, unavailable = FleetJobs(lambda: [url], "disk", told.append), False
    listing = module.list_jobs

    async def list_jobs(url: str) -> list[str]:
        if unavailable:
            raise FrontierError("nobody answers")
        return await listing(url)

    monkeypatch.setattr(module, "list_jobs", list_jobs)
    key = await submit(url, "books")
    unavailable = True
    with pytest.raises(FrontierError, match="nobody answers"):
        await jobs.look()
    unavailable = False
    assert list((await jobs.look())[0]) == [key]
    unavailable = True
    assert await jobs.look() == ({}, {})
    assert await jobs.look() == ({}, {})
    unavailable = False
    assert list((await jobs.look())[0]) == [key]
    assert [event.kind.name for event in told] == ["frontier.unavailable", "frontier.back"]
    await jobs.close()


async def test_one_job_that_cannot_be_read_hides_no_other(
    jobs: FleetJobs, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = await submit(url, "good"), await submit(url, "bad")
    opening = module.open_frontier

    def open_frontier(url: str, job: str, *, create: bool) -> Frontier:
        if job == "bad":
            raise FormatError("another version has written it")
        return opening(url, job, create=create)

    monkeypatch.setattr(module, "open_frontier", open_frontier)
    found, unreadable = await jobs.look()
    assert list(found) == [good]
    assert {key: str(error) for key, error in unreadable.items()} == {bad: "another version has written it"}


async def test_one_file_that_cannot_be_read_hides_no_other(url: str, tmp_path: Path) -> None:
    good, damaged, told = await submit(url, "good"), tmp_path / "old.db", list[Event]()
    damaged.touch(0o600)
    damaged.write_bytes(b"no database" * 1000)
    jobs = FleetJobs(lambda: [f"sqlite:{damaged}", url], "disk", told.append)
    assert list((await jobs.look())[0]) == [good]
    assert [event.kind.name for event in told] == ["frontier.unavailable"]
    await jobs.close()


async def test_a_locked_file_does_not_hold_up_the_event_loop(jobs: FleetJobs, url: str) -> None:
    key = await submit(url, "books")
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:"), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        looking = asyncio.create_task(jobs.look())
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert not looking.done()
        other.execute("ROLLBACK")
    assert list((await looking)[0]) == [key]


def test_settings_of_a_fleet_that_another_version_has_stored_are_left_out() -> None:
    job: Any = msgspec.defstruct("Job", ["spec"])(msgspec.defstruct("Spec", ["settings"])({"job_priority": "high"}))
    assert module._fleet_settings(job).job_priority == 0
