"""Many clients share one look at the store, and samples for charts stay few."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from skitter.errors import MissingJobError
from skitter.frontier.memory import memory_frontier
from skitter.model.job import JobSpec, Report
from skitter.web.api import live_figures
from skitter.web.api.live_figures import MAX_SAMPLES, LiveFigures, Sample, Watcher, thinned
from skitter.web.login_limits import FREE_FAILURES, MAX_WAIT_SECONDS, LoginLimits


class CountedStore:
    """A store of one job in memory, which counts how often it is read."""

    name = "main"

    def __init__(self) -> None:
        self.frontier = memory_frontier("job")
        self.reads = 0

    async def check_job(self, job: str) -> None:
        if job != "job":
            raise MissingJobError(f"no such job: {job}")

    @asynccontextmanager
    async def use(self, _job: str) -> AsyncIterator[Any]:
        self.reads += 1
        await asyncio.sleep(0)
        yield self.frontier


@pytest.fixture
def figures() -> LiveFigures:
    return LiveFigures(lambda _store, _job, report: report)


async def test_twenty_clients_share_one_read(figures: LiveFigures) -> None:
    store: Any = CountedStore()
    await store.frontier.begin(JobSpec(name="job", spider=""))
    reports = await asyncio.gather(*(figures.report(store, "job") for _ in range(20)))
    assert store.reads == 1
    assert all(report is reports[0] for report in reports)
    await figures.report(store, "job")
    assert store.reads == 1
    figures.forget(store, "job")
    await figures.report(store, "job")
    assert store.reads == 2


async def test_a_failed_read_is_told_to_all_and_tried_again(figures: LiveFigures) -> None:
    store: Any = CountedStore()
    told = await asyncio.gather(*(figures.report(store, "gone") for _ in range(5)), return_exceptions=True)
    assert [type(each) for each in told] == [MissingJobError] * 5
    with pytest.raises(MissingJobError):
        await figures.report(store, "gone")


async def test_a_topic_is_read_only_while_somebody_watches(
    figures: LiveFigures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_figures, "POLL_SECONDS", 0.001)
    reads = 0

    async def read() -> int:
        nonlocal reads
        reads += 1
        return min(reads, 3)

    watchers = [Watcher() for _ in range(20)]
    endings = []
    for watcher in watchers:
        endings += [figures.watch(watcher, (key,), key, read) for key in ("job", "sample")]
    assert len({topic for watcher in watchers for topic in await told(watcher)}) == 2, "shared by all"
    assert reads < 20
    for end in endings:
        end()
    before = reads
    await asyncio.sleep(0.02)
    assert reads == before


async def test_the_last_watcher_can_wait_for_a_reading_that_is_cut_short(figures: LiveFigures) -> None:
    reads, closed = asyncio.Event(), []

    async def read() -> None:
        try:
            reads.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            closed.append("closed")

    first, last = (figures.watch(Watcher(), ("job",), "job", read) for _ in range(2))
    await reads.wait()
    assert first() == []
    await asyncio.wait(last())
    assert closed == ["closed"]


async def told(watcher: Watcher) -> set[Any]:
    """The topics that a watcher was woken for, as soon as both have been read."""
    while len(watcher.changed) < 2:
        await watcher.woken.wait()
        watcher.woken.clear()
    return watcher.changed


def test_samples_are_thinned_with_age_and_bounded() -> None:
    def sample(at: float) -> Sample:
        zeros = dict.fromkeys(("done", "failed", "queued", "delayed", "leased", "bytes", "items", "undelivered"), 0)
        rates: Any = {"pages_per_second": 0.0, "latency_seconds": 0.0}
        return Sample(at=at, run=1, state="running", workers=1, errors={}, **zeros, **rates)

    series: list[Sample] = []
    for second in range(0, 86_400, 2):
        series.append(sample(float(second)))
        if len(series) > MAX_SAMPLES:
            series = thinned(series, float(second))
    assert len(series) <= MAX_SAMPLES
    assert series[-1].at == 86_398.0
    ages = [series[-1].at - each.at for each in series]
    assert sum(age <= 590 for age in ages) >= 295, "the last ten minutes in full"
    assert max(ages) > 4 * 3600
    assert [each.at for each in series] == sorted(each.at for each in series)


def test_wrong_passwords_wait_longer_each_time_up_to_a_bound() -> None:
    limits = LoginLimits()
    for _ in range(FREE_FAILURES):
        assert limits.wait_seconds("anna", "192.0.2.1") == 0
        limits.failed("anna", "192.0.2.1")
    waits = []
    for _ in range(12):
        waits.append(round(limits.wait_seconds("anna", "192.0.2.9"), 1))
        limits.failed("anna", "192.0.2.9")
    assert 0 < waits[0] <= 1
    assert waits == sorted(waits)
    assert waits[-1] <= MAX_WAIT_SECONDS
    assert limits.wait_seconds("otto", "192.0.2.9") > 0, "an address that tries many names"
    assert limits.wait_seconds("otto", "192.0.2.3") == 0
    limits.succeeded("anna", "192.0.2.9")
    assert limits.wait_seconds("anna", "192.0.2.9") == 0


def test_a_network_of_ipv6_is_one_address() -> None:
    limits = LoginLimits()
    for number in range(FREE_FAILURES):
        limits.failed(f"name-{number}", f"2001:db8::{number + 1:x}")
    assert limits.wait_seconds("anna", "2001:db8::ffff") > 0
    assert limits.wait_seconds("anna", "2001:db8:0:1::1") == 0
    for _ in range(FREE_FAILURES):
        limits.failed("otto", "::ffff:192.0.2.7")
    assert limits.wait_seconds("anna", "192.0.2.7") > 0


def test_a_stranger_locks_nobody_out_of_where_they_have_logged_in_before() -> None:
    limits = LoginLimits()
    limits.succeeded("anna", "192.0.2.1")
    for number in range(20):
        limits.failed("anna", f"198.51.100.{number}")
    assert limits.wait_seconds("anna", "192.0.2.2") > 0
    assert limits.wait_seconds("anna", "192.0.2.1") == 0
    for _ in range(FREE_FAILURES):
        limits.failed("anna", "192.0.2.1")
    assert limits.wait_seconds("anna", "192.0.2.1") > 0, "from there too only so often"


def test_a_report_of_this_server_knows_who_waits_here() -> None:
    seen: list[tuple[str, str]] = []

    def note(store: str, job: str, report: Report) -> Report:
        seen.append((store, job))
        return report

    async def ask() -> None:
        store: Any = CountedStore()
        await store.frontier.begin(JobSpec(name="job", spider=""))
        await LiveFigures(note).report(store, "job")

    asyncio.run(ask())
    assert seen == [("main", "job")]
