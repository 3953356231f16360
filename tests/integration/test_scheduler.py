"""A scheduler in this process, with commands that note their starts: clocks, lost claims, stores that are
unavailable."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rig.servers.redis import DURABLE
from skitter.app.scheduler import make_scheduler_node
from skitter.app.schedules import CommandTarget, Schedules
from skitter.model.schedule import Claim, ScheduleRecord
from skitter.observe.events import Event
from skitter.policy.schedule_ticks import StoreTime
from skitter.schedule_store.records import Change, ScheduleRecords
from skitter.schedule_store.sqlite_store import SqliteScheduleStore
from skitter.schedule_store.store_urls import open_schedule_store

NOTE_START = """
import pathlib, sys, time
words = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(words[words.index("--run-key") + 1] + "\\n")
while pathlib.Path({hold!r}).exists():
    time.sleep(0.01)
"""


class Bench:
    """A folder with a log of started commands, and a file that holds them up while it is there."""

    def __init__(self, folder: Path, frontier: str = "") -> None:
        self.frontier = frontier or f"sqlite:{folder}/jobs.db"
        self.log, self.hold = folder / "started.log", folder / "hold"
        self.log.touch()
        self.program = [sys.executable, "-c", NOTE_START.format(log=str(self.log), hold=str(self.hold))]
        self.events: list[Event] = []

    def schedules(self) -> Schedules:
        return Schedules(self.frontier, check_command=lambda words, _: CommandTarget(list(words), job="news"))

    def started(self) -> Counter[str]:
        return Counter(self.log.read_text().split())

    def told(self, name: str) -> list[Event]:
        return [event for event in self.events if event.kind.name == name]

    @asynccontextmanager
    async def scheduler(self, owner: str = "me", program: list[str] | None = None) -> Any:
        node = make_scheduler_node(
            frontier=self.frontier, owner=owner, program=program or self.program, on_event=self.events.append
        )
        running = asyncio.create_task(node.run())
        try:
            yield node
        finally:
            node.stop()
            await running
            self.hold.unlink(missing_ok=True)


async def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  what it waits for is a file, or an event of another task
            await asyncio.sleep(0.02)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_a_clock_that_is_set_back_and_forth_runs_nothing_twice(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    offset, looks = 0.0, 0
    real = SqliteScheduleStore.time

    async def shifted(store: SqliteScheduleStore) -> StoreTime:
        nonlocal looks
        looks += 1
        return (await real(store))._replace(now=(await real(store)).now + offset)

    monkeypatch.setattr(SqliteScheduleStore, "time", shifted)
    async with bench.schedules() as schedules:
        await schedules.add("news", ["crawl"], every=1, overlap="allow", catch_up="all", max_instances=100)
        async with bench.scheduler():
            for shift in (0.0, 20.0, 2.0, 0.0, -3.0, 21.0, 0.0):
                before = len(bench.told("schedule.tick_started"))
                was, offset = offset, shift
                if shift > was:
                    await until(lambda: len(bench.told("schedule.tick_started")) > before)  # noqa: B023
                else:
                    seen = looks
                    await until(lambda: looks > seen + 3)  # noqa: B023  what would run twice would begin now
            # In the end the clock is right, and what comes next is new.
            before = len(bench.told("schedule.tick_started"))
            offset = 25.0
            await until(lambda: len(bench.told("schedule.tick_started")) > before)
            await until(lambda: len(bench.told("schedule.tick_ended")) == len(bench.told("schedule.tick_started")))
    started = bench.started()
    assert len(started) >= 20
    assert set(started.values()) == {1}


async def test_a_claim_that_another_has_taken_ends_the_command_here(bench: Bench) -> None:
    bench.hold.touch()
    async with bench.schedules() as schedules, bench.scheduler():
        await schedules.add("news", ["crawl"], cron="0 0 1 1 *")
        at = await schedules.run("news")
        await until(bench.started)
        records = ScheduleRecords(open_schedule_store(bench.frontier, create=True))

        def steal(record: ScheduleRecord) -> Change:
            (tick,) = record.ticks
            stolen = msgspec.structs.replace(tick, epoch=tick.epoch + 1, claim=Claim("other", tick.claim.boot, 1e12))
            return Change(msgspec.structs.replace(record, ticks=[stolen]))

        await records.change("news", steal)
        await until(lambda: bench.told("schedule.tick_lost"))
        await records.close()
        (row,) = await schedules.history("news")
        assert (row.scheduled_at, row.outcome, row.node) == (at, "running", "other"), "the other one ends it"
    assert not bench.told("schedule.tick_ended")


async def test_a_tick_is_left_to_the_next_scheduler_which_completes_it(bench: Bench) -> None:
    bench.hold.touch()
    async with bench.schedules() as schedules:
        async with bench.scheduler("first"):
            await schedules.add("news", ["crawl"], cron="0 0 1 1 *")
            await schedules.run("news")
            await until(bench.started)
        (row,) = await schedules.history("news")
        assert "its scheduler died" in row.reason
        assert await schedules.leader() == ""
        async with bench.scheduler("second"):
            await until(lambda: bench.told("schedule.tick_ended"))
        (row,) = await schedules.history("news")
        assert (row.outcome, row.node, row.attempts) == ("done", "second", 1)
    assert list(bench.started().values()) == [2], "the same key: a job begins one run for it"


async def test_a_command_that_cannot_be_started_has_failed(bench: Bench) -> None:
    async with bench.schedules() as schedules, bench.scheduler(program=["/no/such/program"]):
        await schedules.add("news", ["crawl"], cron="0 0 1 1 *", retries=1, retry_delay=0)
        await schedules.run("news")
        await until(lambda: bench.told("schedule.tick_ended"))
        (row,) = await schedules.history("news")
        assert (row.outcome, row.exit_code, row.attempts) == ("failed", 126, 2)
        assert "cannot be started" in row.reason


async def test_a_removed_schedule_lets_its_command_end(bench: Bench) -> None:
    bench.hold.touch()
    async with bench.schedules() as schedules, bench.scheduler():
        await schedules.add("news", ["crawl"], cron="0 0 1 1 *")
        await schedules.run("news")
        await until(bench.started)
        await schedules.remove("news")
        bench.hold.unlink()
        await until(lambda: bench.told("schedule.tick_ended"))
        assert await schedules.list() == []


async def test_a_store_that_is_away_is_waited_for(tmp_path: Path, own_redis: Any) -> None:
    server = own_redis(*DURABLE)
    bench = Bench(tmp_path, server.url)
    bench.hold.touch()
    async with bench.schedules() as schedules:
        await schedules.add("news", ["crawl"], cron="0 0 1 1 *")
        await schedules.run("news")
        async with bench.scheduler():
            await until(bench.started)
            server.kill()
            await until(lambda: bench.told("scheduler.store_away"))
            bench.hold.unlink()
            server.start()
            await until(lambda: bench.told("scheduler.store_back"))
            await until(lambda: bench.told("schedule.tick_ended"))
        (row,) = await schedules.history("news")
        assert (row.outcome, row.attempts) == ("done", 1)
    assert list(bench.started().values()) == [1]
