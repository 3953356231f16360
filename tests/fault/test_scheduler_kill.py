"""Schedulers that are killed or stand still: every tick is one run, and another scheduler goes on.

The soak measures that it does within 15 seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import skitter.schedules
from rig.gate import Gate
from rig.processes import HANG_SECONDS, children
from rig.soak import chance_of
from rig.web import Seen, Site, Whole
from rig.web_connection import Connection
from skitter.model.schedule import HistoryRow
from skitter.schedules import Schedules
from skitter.testing.frontiers import open_frontier

EVERY_SECONDS = 2
FAILOVER_SECONDS = 15.0
"""What the soak measures."""


class SchedulerFleet:
    """Some schedulers of one store; those that are killed are replaced by new ones."""

    def __init__(self, command_line: Any, frontier: str, count: int, seed: int) -> None:
        self._skitter = command_line
        self.frontier = frontier
        self.random = chance_of(seed)
        self.failovers: list[float] = []
        self.logs: list[Path] = []
        self.processes = [self._start() for _ in range(count)]

    def _start(self) -> subprocess.Popen[str]:
        path = self._skitter.folder / f"scheduler-{len(self.logs)}.log"
        self.logs.append(path)
        with path.open("w") as log:
            return self._skitter.start("scheduler", "--frontier", self.frontier, stdout=log, stderr=log)

    async def kill_one(self, schedules: Schedules) -> None:
        """Kill the leader or another, alone or with all that it runs."""
        leader = await schedules.leader()
        place = self.random.randrange(len(self.processes))
        led = self._place_of(leader)
        if led is not None and self.random.random() < 0.7:
            place = led
        await self._kill(place, leader, with_commands=self.random.random() < 0.5, schedules=schedules)

    async def kill_leader(self, schedules: Schedules) -> None:
        """Kill the leader with all that it runs."""
        leader = await schedules.leader()
        place = self._place_of(leader)
        assert place is not None, leader
        await self._kill(place, leader, with_commands=True, schedules=schedules)

    async def _kill(self, place: int, leader: str, *, with_commands: bool, schedules: Schedules) -> None:
        victim = self.processes[place]
        is_leader = place == self._place_of(leader)
        for pid in (victim.pid, *(children(victim.pid) if with_commands else [])):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        victim.wait()
        if is_leader:
            await self._wait_for_another(schedules, leader)
        self.processes[place] = self._start()

    async def stop_leader(self, schedules: Schedules) -> None:
        """Let the leader stand still until another leads, while its command goes on; then it comes back."""
        leader = await schedules.leader()
        place = self._place_of(leader)
        if place is None:
            return
        os.kill(self.processes[place].pid, signal.SIGSTOP)
        try:
            await self._wait_for_another(schedules, leader)
        finally:
            os.kill(self.processes[place].pid, signal.SIGCONT)

    def _place_of(self, owner: str) -> int | None:
        return next((n for n, process in enumerate(self.processes) if f":{process.pid}:" in owner), None)

    async def _wait_for_another(self, schedules: Schedules, leader: str) -> None:
        """Time until somebody else leads."""
        since = time.monotonic()
        while await schedules.leader() in ("", leader):
            assert time.monotonic() - since < HANG_SECONDS, self.log()
            await asyncio.sleep(0.05)
        self.failovers.append(time.monotonic() - since)

    def log(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()}" for path in self.logs)

    def close(self) -> None:
        for process in self.processes:
            for pid in (process.pid, *children(process.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def site(make_site: Callable[..., Site], gate: Gate) -> str:
    numbers = itertools.count()

    def answer(_seen: Seen, _: Connection) -> Whole:
        gate.arrive(next(numbers))
        return 200, {"Content-Type": "text/html"}, b"<h1>a page</h1>"

    return make_site({"*": answer}).url()


Harm = Callable[[Schedules, SchedulerFleet, int], Awaitable[None]]
"""What is done to the schedulers while a schedule has so many ticks."""


async def run_ticks(
    skitter_command: Any, frontier: str, site: str, ticks: int, schedulers: int, harm: Harm
) -> SchedulerFleet:
    """Let a schedule have so many ticks while schedulers are harmed, and check what became of each."""
    command = ["crawl", site, "--job", "news", "--ignore-robots"]
    async with skitter.schedules.connect(frontier) as schedules:
        # A busy machine takes seconds to check the first command, and the ticks of these would be missing.
        await schedules.add("other", command, cron="0 0 29 2 *")
        view = await schedules.add(
            "news",
            command,
            every=EVERY_SECONDS,
            overlap="queue",
            catch_up="all",
            until=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + EVERY_SECONDS * (ticks + 0.5))),
        )
        assert view.until is not None
        ticks = int((view.until - int(view.added_at)) // EVERY_SECONDS)
        fleet = SchedulerFleet(skitter_command, frontier, schedulers, seed=ticks + schedulers)
        try:
            await harm(schedules, fleet, ticks)
            rows = await _until_all_ended(schedules, fleet, ticks)
        finally:
            fleet.close()
    times = [row.scheduled_at for row in rows]
    assert len(times) == len(set(times)) == ticks, fleet.log()
    assert [later - earlier for later, earlier in pairwise(times)] == [EVERY_SECONDS] * (ticks - 1)
    # One run of the job for each tick, and one tick for each run.
    store = open_frontier(frontier, "news", create=False)
    runs = (await store.state()).run
    await store.close()
    assert runs == ticks, fleet.log()
    done = [row.summary["run"] for row in rows if row.summary]
    assert len(done) == len(set(done)), fleet.log()
    # A crawl that is killed with its scheduler is completed by the next: no tick is left without its run.
    assert {str(row.outcome) for row in rows} == {"done"}, fleet.log()
    return fleet


async def _until_all_ended(schedules: Schedules, fleet: SchedulerFleet, ticks: int) -> list[HistoryRow]:
    began = time.monotonic()
    while len(rows := await _ended(schedules, ticks)) < ticks:
        assert time.monotonic() - began < HANG_SECONDS + ticks * 15, fleet.log()
        await asyncio.sleep(0.1)
    return rows


async def _ended(schedules: Schedules, ticks: int) -> list[HistoryRow]:
    """Of the newest ticks, those whose run is over."""
    return [row for row in await schedules.history("news", ticks + 10) if row.outcome in ("done", "failed")]


@pytest.fixture
def frontier(request: pytest.FixtureRequest, own_redis: Any, tmp_path: Path) -> str:
    return f"sqlite:{tmp_path}/jobs.db" if request.param == "sqlite" else own_redis().url


@pytest.mark.parametrize("frontier", ["sqlite", pytest.param("redis", marks=pytest.mark.soak)], indirect=True)
async def test_every_tick_is_one_run_when_the_leader_is_killed_with_its_crawl(
    skitter: Any, site: str, gate: Gate, frontier: str
) -> None:
    async def kill_leader_in_a_crawl(schedules: Schedules, fleet: SchedulerFleet, _ticks: int) -> None:
        shut = gate.shut_at(1)
        await asyncio.to_thread(shut.__enter__)
        try:
            await fleet.kill_leader(schedules)
        finally:
            shut.__exit__(None, None, None)

    await run_ticks(skitter, frontier, site, ticks=2, schedulers=2, harm=kill_leader_in_a_crawl)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("ticks", [5, 200, 1000])
@pytest.mark.parametrize("schedulers", [2, 3])
@pytest.mark.parametrize("frontier", ["sqlite", "redis"], indirect=True)
async def test_many_ticks(skitter: Any, site: str, frontier: str, schedulers: int, ticks: int) -> None:
    kills = max(2, ticks // 10)

    async def kill_at_random(schedules: Schedules, fleet: SchedulerFleet, ticks: int) -> None:
        for killed in range(kills):
            while len(await _ended(schedules, ticks)) < (killed + 0.5) * ticks / (kills + 1):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            # At any moment of a run.
            await asyncio.sleep(fleet.random.uniform(0.0, 1.5))
            await (fleet.kill_one(schedules) if killed % 2 == 0 else fleet.stop_leader(schedules))

    fleet = await run_ticks(skitter, frontier, site, ticks=ticks, schedulers=schedulers, harm=kill_at_random)
    assert all(seconds < FAILOVER_SECONDS for seconds in fleet.failovers), fleet.failovers
