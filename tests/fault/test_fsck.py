"""Faults that are planted in a job in the middle of a crawl: ``fsck`` finds each, and mends it where nothing is lost.

After a repair the crawl goes on to its end, and every page is crawled once.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from rig.faults_in_file import IN_FILE, IN_RECRAWLED_FILE, RECRAWLED, Plant, host_with, job_with, key_of
from rig.faults_in_redis import ACROSS_SHARDS, IN_REDIS, WHOLE_JOB, WITH_SETTINGS, host_lua, job_lua, lua
from rig.job_at_work import HOSTS, JOB, Fault, JobAtWork

from skitter.app.views.fsck import check_job
from skitter.frontier import contract
from skitter.frontier.contract import Frontier
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.frontier.redis import redis_frontier
from skitter.frontier.redis.client import RedisServer
from skitter.frontier.redis.jobs import prefixes_of
from skitter.frontier.redis.shards.shard_set import shard_number
from skitter.frontier.sqlite import sqlite_frontier
from skitter.model.consistency import CODES
from skitter.model.host import Halt, Phase
from skitter.model.request import Fingerprinter, Request
from skitter.redis_driver.address import parse_address
from skitter.testing.clock import FakeClock

SHARDS = 3


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "BURY_BATCH", 1)


async def goes_on(job: JobAtWork, before: set[str]) -> None:
    """The crawl ends, and every page that was not crawled before is crawled once."""
    done = await job.finish()
    counts = await job.frontier.counts()
    assert [url for url, times in Counter(done).items() if times > 1] == []
    # What has ended before is not crawled again. The queue of the last host dies, or is crawled.
    ended = before | {f"{job.key_of(0)}/{name}" for name in ("failed", "excluded", "redirected")}
    down = {url for url in job.urls if url.startswith(job.key_of(6))}
    assert set(done) - down == job.urls - ended - down
    assert (counts.unfinished, counts.seen) == (0, len(job.urls))
    assert counts.done == len(before) + len(done)
    report = await job.frontier.check_consistency()
    assert report.findings == []


async def is_found(frontier: Frontier, fault: Fault) -> None:
    """It is found; a repair mends it if it can be mended, and says so if not."""
    report = await check_job(frontier)
    assert fault.code in report.counts, report
    assert set(report.counts) <= set(CODES)
    repaired = await check_job(frontier, repair=True)
    left = await check_job(frontier)
    if fault.mendable:
        assert (left.findings, left.unchecked) == ([], []), repaired
        assert repaired.mended == repaired.total
        assert all(finding.mended for finding in repaired.findings)
    else:
        assert left.counts, "nothing is told of what cannot be mended"
        assert repaired.mended < repaired.total


# ---- memory, where nothing can be planted but in its records


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
    await goes_on(job, {f"{key_of(0)}/done1", f"{key_of(0)}/done2", f"{key_of(1)}/first"})


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


# ---- SQLite


class File:
    """The job in a file, as it was and with a fault."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self._path = path
        self._settings = settings
        self._clock = FakeClock()
        self._whole = b""
        self.urls: set[str] = set()

    async def fill(self) -> None:
        job = self.open()
        await job.fill()
        self.urls = job.urls
        await job.frontier.close()
        self._whole = self._path.read_bytes()

    def open(self) -> JobAtWork:
        frontier = sqlite_frontier(self._path, JOB, clock=self._clock.of_store())
        return JobAtWork(frontier, self._clock, HOSTS, **self._settings)

    def damage(self, plant: Plant) -> JobAtWork:
        self._path.write_bytes(self._whole)
        with closing(sqlite3.connect(self._path)) as connection, connection:
            plant(connection)
        job = self.open()
        job.urls = self.urls
        return job


DONE = {f"{key_of(0)}/done1", f"{key_of(0)}/done2", f"{key_of(1)}/first"}


@pytest_asyncio.fixture
async def file(tmp_path: Path) -> File:
    file = File(tmp_path / "job.db")
    await file.fill()
    return file


async def test_a_job_in_a_file_at_work_is_consistent(file: File) -> None:
    job = file.open()
    report = await check_job(job.frontier)
    assert (report.findings, report.unchecked) == ([], [])
    assert report.checked["requests"] == len(file.urls)
    await job.frontier.close()


@pytest.mark.parametrize("name", IN_FILE)
async def test_a_fault_in_a_file_is_found_and_mended(file: File, name: str) -> None:
    await found_and_mended_in_file(file, IN_FILE[name])


async def test_a_host_in_a_file_that_is_given_up_and_not_marked_is_found_and_buried(file: File) -> None:
    def plant(connection: sqlite3.Connection) -> None:
        host_with(2, phase=Phase.FULL, halt=Halt.GIVEN_UP)(connection)
        job_with(given_up_hosts="+1")(connection)

    job = file.damage(plant)
    await is_found(job.frontier, Fault("host_phase", plant))
    await is_buried(job)


async def is_buried(job: JobAtWork) -> None:
    """What was queued at the third host fails with the next call that buries."""
    try:
        await job.frontier.reap()
        assert (await job.frontier.report()).errors["given_up"] > 0
        assert (await check_job(job.frontier)).findings == []
    finally:
        await job.frontier.close()


@pytest.mark.parametrize("name", IN_RECRAWLED_FILE)
async def test_a_fault_in_a_file_of_a_job_that_recrawls_is_found_and_mended(tmp_path: Path, name: str) -> None:
    file = File(tmp_path / "job.db", **RECRAWLED)
    await file.fill()
    await found_and_mended_in_file(file, IN_RECRAWLED_FILE[name])


async def found_and_mended_in_file(file: File, fault: Fault) -> None:
    job = file.damage(fault.plant)
    try:
        await is_found(job.frontier, fault)
        if fault.mendable:
            await goes_on(job, DONE)
    finally:
        await job.frontier.close()


# ---- Redis


def names_in_shard(number: int, count: int, letter: str) -> list[str]:
    """Names of hosts that belong to a shard."""
    names = (f"{letter}{n}" for n in range(1000))
    found = [name for name in names if shard_number(f"http://{name}.example", SHARDS) == number]
    return found[:count]


class Keys:
    """The job in a Redis, as it was and with a fault in one of its shards."""

    def __init__(self, url: str, shards: int, **settings: Any) -> None:
        self._settings = settings
        self.url = url if shards == 1 else f"{url}?shards={shards}"
        self._shards = shards
        # All of the job's life is in a shard that is not the lead; the others have queues.
        if shards == 1:
            self.hosts = list(HOSTS)
            self.home = 0
        else:
            self.hosts = [*names_in_shard(1, 7, "h"), *names_in_shard(0, 1, "x"), *names_in_shard(2, 1, "y")]
            self.home = 1
        self._clock = FakeClock()
        self._server = RedisServer(parse_address(url))
        self._whole: dict[bytes, bytes] = {}
        self._urls: set[str] = set()

    def key_of(self, host: int) -> str:
        return f"http://{self.hosts[host]}.example"

    def open(self) -> JobAtWork:
        job = JobAtWork(redis_frontier(self.url, JOB, clock=self._clock), self._clock, self.hosts, **self._settings)
        job.urls = set(self._urls)
        return job

    async def fill(self) -> None:
        await self._server.command("FLUSHALL")
        job = self.open()
        await job.fill()
        self._urls = job.urls
        entry = Fingerprinter((await job.frontier.job()).secret).entry
        self._queued = entry(Request(f"{self.key_of(2)}/queued0")).id
        self._done = entry(Request(f"{self.key_of(0)}/done1")).id
        await job.frontier.close()
        for key in await self._server.command("KEYS", "skitter:*"):
            self._whole[key] = await self._server.command("DUMP", key)

    async def damage(self, body: str) -> JobAtWork:
        await self._server.command("FLUSHALL")
        for key, dump in self._whole.items():
            await self._server.command("RESTORE", key, 0, dump)
        for number in range(len(self.hosts)):
            body = body.replace(f"{{{number}}}", self.key_of(number))
        key = prefixes_of(JOB, self._shards)[self.home] + "job"
        await self._server.command("EVAL", lua(body), 1, key, repr(self._clock()), self._queued, self._done)
        return self.open()

    async def close(self) -> None:
        await self._server.close()


@pytest_asyncio.fixture
async def keys(services: Any) -> AsyncIterator[Keys]:
    keys = Keys(services.need("redis")["url"], 1)
    await keys.fill()
    yield keys
    await keys.close()


@pytest_asyncio.fixture
async def shards(services: Any) -> AsyncIterator[Keys]:
    keys = Keys(services.need("redis")["url"], SHARDS)
    await keys.fill()
    yield keys
    await keys.close()


async def found_and_mended(keys: Keys, fault: Fault) -> None:
    job = await keys.damage(fault.plant)
    try:
        await is_found(job.frontier, fault)
        if fault.mendable:
            names = {(0, "done1"), (0, "done2"), (1, "first")}
            await goes_on(job, {f"{keys.key_of(host)}/{name}" for host, name in names})
    finally:
        await job.frontier.close()


async def test_a_job_in_redis_at_work_is_consistent(keys: Keys) -> None:
    job = keys.open()
    report = await check_job(job.frontier)
    assert (report.findings, report.unchecked) == ([], [])
    assert report.checked["requests"] == len(job.urls)
    await job.frontier.close()


async def test_a_job_in_shards_at_work_is_consistent(shards: Keys) -> None:
    job = shards.open()
    report = await check_job(job.frontier)
    assert (report.findings, report.unchecked) == ([], [])
    assert report.checked["requests"] == len(job.urls)
    await job.frontier.close()


async def test_a_host_in_redis_that_is_given_up_and_not_marked_is_found_and_buried(keys: Keys) -> None:
    host = host_lua(2, "h[PHASE] = FULL h[HALT] = HALT_GIVEN_UP call('ZREM', RUN .. 'ready:57', key)")
    plant = f"{host} {job_lua('J.given_up_hosts = 1')}"
    job = await keys.damage(plant)
    await is_found(job.frontier, Fault("host_phase", plant))
    await is_buried(job)


@pytest.mark.parametrize("name", [*IN_REDIS, *WHOLE_JOB])
async def test_a_fault_in_redis_is_found_and_mended(keys: Keys, name: str) -> None:
    await found_and_mended(keys, (IN_REDIS | WHOLE_JOB)[name])


@pytest.mark.parametrize("name", [*IN_REDIS, *ACROSS_SHARDS])
async def test_a_fault_in_a_shard_is_found_and_mended(shards: Keys, name: str) -> None:
    await found_and_mended(shards, (IN_REDIS | ACROSS_SHARDS)[name])


@pytest.mark.parametrize("name", WITH_SETTINGS)
@pytest.mark.parametrize("shards", [1, SHARDS])
async def test_a_fault_of_other_settings_is_found_and_mended(services: Any, name: str, shards: int) -> None:
    settings, fault = WITH_SETTINGS[name]
    keys = Keys(services.need("redis")["url"], shards, **settings)
    try:
        await keys.fill()
        job = keys.open()
        assert (await check_job(job.frontier)).findings == []
        await job.frontier.close()
        await found_and_mended(keys, fault)
    finally:
        await keys.close()
