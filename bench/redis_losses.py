"""What a Redis that dies takes back of what it had answered, by how it is set up.

redis_losses.py [--kills 20] [--only NAME ...] [--json FILE]

For each setup a private server is loaded with adds and commits, killed with kill -9 at a random moment, and started
again on what its disk holds, or its replica is promoted. Then every add and every commit that had been answered is
looked up: lost is one that the server no longer knows. ``oldest`` is how long before the end the earliest of them had
been answered. Everything is on this machine; three things stand in for what cannot be had on it:

- a power cut: the append-only file is cut to what had been synced (bench/power_cut.c, needs cc);
- a replica elsewhere: its link has a delay, and what is on the way when the master dies never arrives;
- the load: one process, as fast as it gets answers. Counts of losses depend on it; whether there are any does not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rig.servers.redis import OwnRedis
from skitter.errors import JobError
from skitter.frontier.redis import redis_frontier
from skitter.frontier.redis.frontier import RedisFrontier
from skitter.model.job import JobSpec
from skitter.model.outcome import Ending, Outcome
from skitter.model.request import Entry, Fingerprinter, Request
from skitter.settings import Settings

ADDERS = 4
BATCH = 8
LINK_SECONDS = 0.02
PRESSED_SECONDS = (0.3, 1.5)
"""How long the load lasts before the end comes."""
CHECKED = 50_000
"""The newest answers that are looked up: older ones can only be lost with all of these."""
AOF = ("--save", "", "--appendonly", "yes", "--appendfsync")
NOTHING = ("--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0")


COLUMNS = (
    "kills",
    "kills_with_loss",
    "answered_adds",
    "lost_adds",
    "answered_commits",
    "lost_commits",
    "oldest_lost_seconds",
)


class Setup(NamedTuple):
    settings: tuple[str, ...]
    power: bool = False
    """The power fails, and not only the process."""
    link_seconds: float | None = None
    """There is a replica, so far unavailable, which is promoted."""
    wait: int = 0


SETUPS = {
    "AOF always, killed": Setup((*AOF, "always")),
    "AOF always, power cut": Setup((*AOF, "always"), power=True),
    "AOF everysec, killed": Setup((*AOF, "everysec")),
    "AOF everysec, power cut": Setup((*AOF, "everysec"), power=True),
    "RDB only (save 60 1), killed": Setup(("--save", "60 1", "--appendonly", "no")),
    "nothing on disk, killed": Setup(NOTHING),
    "replica on loopback promoted": Setup(NOTHING, link_seconds=0.0),
    "replica 20 ms away promoted": Setup(NOTHING, link_seconds=LINK_SECONDS),
    "replica 20 ms away promoted, wait_replicas=1": Setup(NOTHING, link_seconds=LINK_SECONDS, wait=1),
}


class Link:
    """A wire to a server with a delay each way. What is on it when it is cut is lost."""

    def __init__(self, port: int, seconds: float) -> None:
        self._port = port
        self._seconds = seconds
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        for source, target in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._carry(source, target))
            self._tasks.add(task)

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due, data = await under_way.get()
                await asyncio.sleep(due - time.monotonic())
                target.write(data)

        delivering = asyncio.create_task(deliver())
        try:
            while data := await source.read(65536):
                under_way.put_nowait((time.monotonic() + self._seconds, data))
        except OSError:
            pass
        finally:
            delivering.cancel()
            target.close()


class Answered:
    """What was answered, and when."""

    def __init__(self) -> None:
        self.adds: list[tuple[int, str, float]] = []
        self.commits: list[tuple[int, str, float]] = []


async def press(frontier: RedisFrontier, entry: Callable[[Request], Entry], answered: Answered, name: int) -> None:
    """Add, lease and commit, until cancelled."""
    number = 0
    while True:
        requests = [Request(f"http://h{name}-{one % 50}.example/{number}/{one}") for one in range(BATCH)]
        entries = [entry(request) for request in requests]
        await frontier.add(entries)
        now = time.monotonic()
        answered.adds += [(one.id, one.host_key, now) for one in entries]
        grant = await frontier.lease(f"w{name}", BATCH)
        await frontier.commit(f"w{name}", [Outcome(lease=lease, ending=Ending.DONE) for lease in grant.leases])
        now = time.monotonic()
        answered.commits += [(lease.id, lease.host_key, now) for lease in grant.leases]
        number += 1


async def lost_of(frontier: RedisFrontier, answered: Answered, end: float) -> dict[str, float]:
    lost: dict[str, float] = {"adds": 0, "commits": 0, "oldest_seconds": 0.0}
    try:
        await frontier.job()
    except JobError:
        # The job itself is gone.
        first = answered.adds[0][2] if answered.adds else end
        return {"adds": len(answered.adds), "commits": len(answered.commits), "oldest_seconds": end - first}
    for what, pairs in (("adds", answered.adds), ("commits", answered.commits)):
        for request_id, host_key, when in pairs[-CHECKED:]:
            trace = await frontier.trace(request_id, host_key)
            if trace is None or (what == "commits" and trace.state != "ended"):
                lost[what] += 1
                lost["oldest_seconds"] = max(lost["oldest_seconds"], end - when)
    return lost


@contextlib.asynccontextmanager
async def frontier_at(url: str) -> AsyncIterator[RedisFrontier]:
    frontier = redis_frontier(url, "losses")
    try:
        yield frontier
    finally:
        await frontier.close()


class Pair:
    """A server, and perhaps a replica of it at the end of a link."""

    def __init__(self, setup: Setup, folder: Path, library: Path | None) -> None:
        self._setup = setup
        self._folder = folder
        if setup.power:
            os.environ["LD_PRELOAD"] = str(library)
        try:
            self.master = OwnRedis(folder / "master", *setup.settings)
        finally:
            os.environ.pop("LD_PRELOAD", None)
        self._link: Link | None = None
        self._replica: OwnRedis | None = None

    async def connect(self) -> None:
        if self._setup.link_seconds is None:
            return
        self._link = Link(self.master.port, self._setup.link_seconds)
        await self._link.open()
        source = ("--replicaof", "127.0.0.1", str(self._link.port))
        # In a thread: the link is carried by this loop.
        self._replica = await asyncio.to_thread(OwnRedis, self._folder / "replica", *NOTHING, *source)
        while "master_link_status:up" not in self._replica.say("INFO", "replication"):  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.02)

    def end(self) -> None:
        """At once, as a host dies: what it had sent and the link had not delivered is gone too."""
        self.master.freeze()
        if self._link is not None:
            self._link.cut()

    def succeed(self) -> OwnRedis:
        """Whoever comes after the master."""
        self.master.kill()
        if self._replica is not None:
            self._replica.say("REPLICAOF", "NO", "ONE")
            return self._replica
        if self._setup.power:
            cut_the_power(self.master.folder)
        self.master.start()
        while self.master.say("PING") != "PONG":
            time.sleep(0.02)
        return self.master

    def close(self) -> None:
        for server in (self.master, self._replica):
            if server is not None:
                server.kill()


async def one_end(setup: Setup, folder: Path, library: Path | None) -> dict[str, float]:
    """One life of a server, and what its successor knows of it."""
    pair = Pair(setup, folder, library)
    answered = Answered()
    try:
        await pair.connect()
        async with frontier_at(f"{pair.master.url}?wait_replicas={setup.wait}") as frontier:
            entry = await begun(frontier)
            if "60 1" in setup.settings:
                pair.master.say("SAVE")
            pressing = [asyncio.create_task(press(frontier, entry, answered, name)) for name in range(ADDERS)]
            await asyncio.sleep(random.uniform(*PRESSED_SECONDS))
            pair.end()
            end = time.monotonic()
            for task in pressing:
                task.cancel()
            await asyncio.gather(*pressing, return_exceptions=True)
        async with frontier_at(pair.succeed().url) as frontier:
            lost = await lost_of(frontier, answered, end)
    finally:
        pair.close()
    return {"answered_adds": len(answered.adds), "answered_commits": len(answered.commits), **lost}


async def begun(frontier: RedisFrontier) -> Callable[[Request], Entry]:
    """A job without seeds; how its requests are made."""
    settings = Settings.from_layers([("bench", {"obey_robots": False, "per_host": 1000})]).job_wide()
    await frontier.begin(JobSpec(name="losses", spider="", settings=settings))
    seed = await frontier.lease("seeder", 1)
    await frontier.commit("seeder", [Outcome(lease=lease, ending=Ending.DONE) for lease in seed.leases])
    return Fingerprinter((await frontier.job()).secret).entry


def cut_the_power(folder: Path) -> None:
    """Append-only files become as long as they were when last synced."""
    for file in [*folder.rglob("*.incr.aof"), *folder.glob("appendonly.aof")]:
        note = file.with_name(file.name + ".synced")
        os.truncate(file, int(note.read_text()) if note.exists() else 0)


def built_library(folder: Path) -> Path | None:
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "power_cut.so"
    source = Path(__file__).with_name("power_cut.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


async def measure(name: str, kills: int, library: Path | None) -> dict[str, float | str]:
    setup = SETUPS[name]
    if setup.power and library is None:
        return {"setup": name, "error": "cc is not on the PATH"}
    ends = []
    for _ in range(kills):
        folder = Path(tempfile.mkdtemp(prefix="skitter-losses-"))
        try:
            ends.append(await one_end(setup, folder, library))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return {
        "setup": name,
        "kills": kills,
        "kills_with_loss": sum(bool(end["adds"] or end["commits"]) for end in ends),
        "answered_adds": sum(end["answered_adds"] for end in ends),
        "lost_adds": sum(end["adds"] for end in ends),
        "answered_commits": sum(end["answered_commits"] for end in ends),
        "lost_commits": sum(end["commits"] for end in ends),
        "oldest_lost_seconds": round(max(end["oldest_seconds"] for end in ends), 3),
    }


def row(name: str, *cells: object) -> str:
    return f"{name:46}" + "".join(f"{cell!s:>21}" for cell in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--only", nargs="*", choices=list(SETUPS), default=list(SETUPS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        library = built_library(Path(folder))
        print(row("setup", *COLUMNS))
        for name in options.only:
            one = asyncio.run(measure(name, options.kills, library))
            found.append(one)
            print(row(name, *(one.get(column, "-") for column in COLUMNS)), one.get("error", ""), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
