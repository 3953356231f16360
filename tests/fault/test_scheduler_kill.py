"""Schedulers that are killed or stand still at random: every tick is one run, and another goes on within 15 seconds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import skitter.schedules
from skitter.app.frontiers import open_frontier
from skitter.model.schedule import HistoryRow
from skitter.schedules import Schedules

EVERY_SECONDS = 2
FAILOVER_SECONDS = 15.0


class SchedulerFleet:
    """Some schedulers of one store; those that are killed are replaced by new ones."""

    def __init__(self, command_line: Any, frontier: str, count: int, seed: int) -> None:
        self._skitter = command_line
        self.frontier = frontier
        self.random = random.Random(seed)
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
        victim = self.processes[place]
        children = _children(victim.pid) if self.random.random() < 0.5 else []
        for pid in (victim.pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        victim.wait()
        if led == place:
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
            assert time.monotonic() - since < 4 * FAILOVER_SECONDS, self.log()
            await asyncio.sleep(0.05)
        self.failovers.append(time.monotonic() - since)

    def log(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()}" for path in self.logs)

    def close(self) -> None:
        for process in self.processes:
            for pid in (process.pid, *_children(process.pid)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class OnePage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<h1>a page</h1>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing to print."""


@pytest.fixture
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), OnePage) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


async def run_ticks(skitter_command: Any, frontier: str, site: str, ticks: int, schedulers: int, kills: int) -> None:
    """Let a schedule have so many ticks while schedulers are killed, and check what became of each."""
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
            rows = await _until_all_ended(schedules, fleet, ticks, kills)
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
    assert all(seconds < FAILOVER_SECONDS for seconds in fleet.failovers), fleet.failovers


async def _until_all_ended(schedules: Schedules, fleet: SchedulerFleet, ticks: int, kills: int) -> list[HistoryRow]:
    killed, began = 0, time.monotonic()
    while True:
        rows = list(await schedules.history("news", ticks + 10))
        ended = [row for row in rows if row.outcome in ("done", "failed")]
        if len(ended) == ticks:
            assert killed == kills
            return rows
        if killed < kills and len(ended) >= (killed + 0.5) * ticks / (kills + 1):
            killed += 1
            # At any moment of a run.
            await asyncio.sleep(fleet.random.uniform(0.0, 1.5))
            await (fleet.stop_leader(schedules) if killed % 2 == 0 else fleet.kill_one(schedules))
        assert time.monotonic() - began < 60 + ticks * 15, fleet.log()
        await asyncio.sleep(0.1)


@pytest.fixture
def frontier(request: pytest.FixtureRequest, own_redis: Any, tmp_path: Path) -> str:
    return f"sqlite:{tmp_path}/jobs.db" if request.param == "sqlite" else own_redis().url


@pytest.mark.parametrize(
    ("frontier", "schedulers", "kills"), [("sqlite", 2, 1), ("redis", 3, 2)], indirect=["frontier"]
)
async def test_every_tick_is_one_run(skitter: Any, site: str, frontier: str, schedulers: int, kills: int) -> None:
    await run_ticks(skitter, frontier, site, ticks=2 + kills, schedulers=schedulers, kills=kills)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("ticks", [200, 1000])
@pytest.mark.parametrize("schedulers", [2, 3])
@pytest.mark.parametrize("frontier", ["sqlite", "redis"], indirect=True)
async def test_hundreds_of_ticks(skitter: Any, site: str, frontier: str, schedulers: int, ticks: int) -> None:
    await run_ticks(skitter, frontier, site, ticks=ticks, schedulers=schedulers, kills=ticks // 10)
