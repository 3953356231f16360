"""Faults in the records of a job in memory, where nothing else can be planted: the check finds and mends them."""

from __future__ import annotations

import pytest

from rig.faults_in_file import key_of
from rig.job_at_work import HOSTS, JOB, JobAtWork
from skitter.frontier import contract
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.model.host import Phase
from skitter.testing.clock import FakeClock


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "BURY_BATCH", 1)


async def test_a_job_in_memory_is_consistent_and_mends_its_records() -> None:
    clock = FakeClock()
    store = MemoryStore(clock.of_store())
    job = JobAtWork(memory_frontier(JOB, store), clock, HOSTS)
    await job.fill()
    assert (await job.frontier.check_consistency()).findings == []
    record, host = store.tables.load_job(), store.tables.hosts([key_of(2)])[key_of(2)]
    assert record is not None
    record.queued += 1
    host.waiting, host.phase = False, Phase.IDLE
    store.tables.save_hosts([host])
    report = await job.frontier.check_consistency(repair=True)
    assert (report.counts, report.mended) == ({"host_queue": 1, "count": 1}, 2)
    await job.goes_on({f"{key_of(0)}/done1", f"{key_of(0)}/done2", f"{key_of(1)}/first"})


async def test_a_filter_in_memory_has_no_more_than_has_ended() -> None:
    clock = FakeClock()
    store = MemoryStore(clock.of_store())
    job = JobAtWork(memory_frontier(JOB, store), clock, HOSTS, dedup="bloom")
    await job.fill()
    assert (await job.frontier.check_consistency()).findings == []
    record = store.tables.load_job()
    assert record is not None
    record.done -= 1
    record.needy += 1
    report = await job.frontier.check_consistency(repair=True)
    assert (report.counts, report.mended) == ({"remembered": 1, "pages_count": 1, "need_count": 1}, 1)
    record.done += 1
    assert (await job.frontier.check_consistency()).findings == []
