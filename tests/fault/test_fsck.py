"""Faults that are planted in a job in the middle of a crawl: ``fsck`` finds each, and mends it where nothing is lost.

After a repair the crawl goes on to its end, and every page is crawled once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from rig.faults_in_file import IN_FILE, IN_RECRAWLED_FILE, RECRAWLED, Plant, host_with, job_with, key_of
from rig.faults_in_redis import ACROSS_SHARDS, IN_REDIS, WHOLE_JOB, WITH_SETTINGS, host_lua, job_lua, lua
from rig.job_at_work import HOSTS, JOB, Fault, JobAtWork
from skitter.frontier import contract
from skitter.frontier.contract import Frontier
from skitter.model.consistency import CODES
from skitter.model.host import Halt, Phase
from skitter.model.request import Fingerprinter, Request
from skitter.testing.clock import FakeClock
from skitter.testing.frontiers import check_job, open_frontier
from skitter.testing.redis_jobs import RawRedis, prefixes_of, shard_number

SHARDS = 3


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "BURY_BATCH", 1)


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


# ---- SQLite


class Filled(NamedTuple):
    """A job at work as its store has it, which takes a while to make: the tests of one kind of job share it."""

    whole: Any
    urls: set[str]
    at: float
    """The time at which it was made."""
    ids: tuple[int, int] = (0, 0)
    """Of a request that waits, and of one that is done."""


FILLED: dict[str, Filled] = {}


def one_of_each_code(faults: dict[str, Fault]) -> list[Any]:
    """Names of faults, of which one of each code, and of each that cannot be mended, is for every run."""
    kinds = {name: (fault.code, fault.mendable) for name, fault in faults.items()}
    first = {kind: name for name, kind in reversed(kinds.items())}
    others = {name for name, kind in kinds.items() if first[kind] != name}
    return [pytest.param(name, marks=pytest.mark.soak) if name in others else name for name in faults]


class File:
    """The job in a file, as it was and with a fault."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self._path = path
        self._settings = settings

    async def fill(self) -> None:
        kind = f"file {self._settings}"
        if kind not in FILLED:
            job = self._at_work(FakeClock())
            await job.fill()
            await job.frontier.close()
            FILLED[kind] = Filled(self._path.read_bytes(), job.urls, job.clock())
        self._filled = FILLED[kind]
        self._path.write_bytes(self._filled.whole)

    def _at_work(self, clock: FakeClock) -> JobAtWork:
        return JobAtWork(open_frontier(f"sqlite:{self._path}", JOB, clock), clock, HOSTS, **self._settings)

    def open(self) -> JobAtWork:
        job = self._at_work(FakeClock(self._filled.at))
        job.urls = set(self._filled.urls)
        return job

    def damage(self, plant: Plant) -> JobAtWork:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            plant(connection)
        return self.open()


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
    assert report.checked["requests"] == len(job.urls)
    await job.frontier.close()


@pytest.mark.parametrize("name", IN_FILE)
async def test_a_fault_in_a_file_is_found_and_mended(file: File, name: str) -> None:
    await found_and_mended(file.damage(IN_FILE[name].plant), IN_FILE[name])


@pytest.mark.parametrize("name", one_of_each_code(IN_FILE))
async def test_a_crawl_goes_on_after_a_file_was_mended(file: File, name: str) -> None:
    await found_and_mended(file.damage(IN_FILE[name].plant), IN_FILE[name], DONE)


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
    fault = IN_RECRAWLED_FILE[name]
    await found_and_mended(file.damage(fault.plant), fault, DONE)


async def found_and_mended(job: JobAtWork, fault: Fault, done: set[str] | None = None) -> None:
    """``done``: the pages that were done before; then the crawl goes on if the fault can be mended."""
    try:
        await is_found(job.frontier, fault)
        if done is not None and fault.mendable:
            await job.goes_on(done)
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
        self._server = RawRedis(url)

    def key_of(self, host: int) -> str:
        return f"http://{self.hosts[host]}.example"

    def _at_work(self, clock: FakeClock) -> JobAtWork:
        return JobAtWork(open_frontier(self.url, JOB, clock), clock, self.hosts, **self._settings)

    def open(self) -> JobAtWork:
        job = self._at_work(FakeClock(self._filled.at))
        job.urls = set(self._filled.urls)
        return job

    async def fill(self) -> None:
        await self._server.command("FLUSHALL")
        kind = f"{self._shards} {self._settings}"
        if kind not in FILLED:
            FILLED[kind] = await self._fill()
        self._filled = FILLED[kind]
        for key, dump in self._filled.whole.items():
            await self._server.command("RESTORE", key, 0, dump, "REPLACE")

    async def _fill(self) -> Filled:
        job = self._at_work(FakeClock())
        await job.fill()
        entry = Fingerprinter((await job.frontier.job()).secret).entry
        ids = (entry(Request(f"{self.key_of(2)}/queued0")).id, entry(Request(f"{self.key_of(0)}/done1")).id)
        await job.frontier.close()
        keys = await self._server.command("KEYS", "skitter:*")
        return Filled({key: await self._server.command("DUMP", key) for key in keys}, job.urls, job.clock(), ids)

    async def damage(self, body: str) -> JobAtWork:
        for number in range(len(self.hosts)):
            body = body.replace(f"{{{number}}}", self.key_of(number))
        key = prefixes_of(JOB, self._shards)[self.home] + "job"
        await self._server.command("EVAL", lua(body), 1, key, repr(self._filled.at), *self._filled.ids)
        return self.open()

    def done(self) -> set[str]:
        """The pages that are done at first."""
        return {f"{self.key_of(host)}/{name}" for host, name in ((0, "done1"), (0, "done2"), (1, "first"))}

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


ONE_SERVER, SEVERAL_SHARDS = IN_REDIS | WHOLE_JOB, IN_REDIS | ACROSS_SHARDS


@pytest.mark.parametrize("name", one_of_each_code(ONE_SERVER))
async def test_a_fault_in_redis_is_found_and_mended(keys: Keys, name: str) -> None:
    await found_and_mended(await keys.damage(ONE_SERVER[name].plant), ONE_SERVER[name], keys.done())


# Each shard is checked as a server with one job is. What differs is across them.
@pytest.mark.parametrize("name", [*ACROSS_SHARDS, *(pytest.param(name, marks=pytest.mark.soak) for name in IN_REDIS)])
async def test_a_fault_in_a_shard_is_found_and_mended(shards: Keys, name: str) -> None:
    await found_and_mended(await shards.damage(SEVERAL_SHARDS[name].plant), SEVERAL_SHARDS[name], shards.done())


@pytest.mark.parametrize("name", one_of_each_code({name: fault for name, (_, fault) in WITH_SETTINGS.items()}))
@pytest.mark.parametrize("shards", [1, pytest.param(SHARDS, marks=pytest.mark.soak)])
async def test_a_fault_of_other_settings_is_found_and_mended(services: Any, name: str, shards: int) -> None:
    settings, fault = WITH_SETTINGS[name]
    keys = Keys(services.need("redis")["url"], shards, **settings)
    try:
        await keys.fill()
        job = keys.open()
        assert (await check_job(job.frontier)).findings == []
        await job.frontier.close()
        await keys.fill()
        await found_and_mended(await keys.damage(fault.plant), fault, keys.done())
    finally:
        await keys.close()
