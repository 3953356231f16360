"""Locks of several processes: exact counts, growing tokens and no second writer, through kill -9 and SIGSTOP."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import guarded_file
import pytest
from guarded_file import GuardedFile

from rig.processes import HANG_SECONDS, ForkedProcess, wait_until
from rig.servers.redis import DURABLE, OwnRedis
from rig.soak import chance_of
from skitter.cluster import connect

KINDS = ("sqlite", "redis", "redlock", "zookeeper")
SOAK_SECONDS = 3000.0


@pytest.fixture
def url_of(tmp_path: Path, own_redis: Callable[..., OwnRedis], services: Any) -> Callable[[str], str]:
    """Makes the servers of a coordinator, and gives its URL."""

    def make(kind: str) -> str:
        match kind:
            case "redis":
                return own_redis().url
            case "redlock":
                servers = [own_redis(*DURABLE) for _ in range(3)]
                return "redlock://" + ",".join(f"127.0.0.1:{server.port}" for server in servers)
            case "zookeeper":
                # A lock of a holder that was killed ends with its session.
                return f"{services.need('zookeeper')['url']}/{uuid4().hex}?session_seconds=2"
            case _:
                return f"sqlite:{tmp_path / 'cluster.db'}"

    return make


class Crowd:
    """Processes that count in a file under one lock."""

    def __init__(self, url: str, folder: Path, target: int, lifetime_seconds: float) -> None:
        self.file = GuardedFile(folder / "count")
        self.file.create()
        self.target = target
        self._words = [url, str(folder / "count"), str(target), str(lifetime_seconds)]
        self._folder = folder
        self._errors = (folder / "errors").open("ab")
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, number: int) -> None:
        program = guarded_file.__file__
        self.processes += [ForkedProcess(program, self._words, stderr=self._errors) for _ in range(number)]

    def holder(self) -> subprocess.Popen[bytes] | None:
        """The process that has shown its token last."""
        pid = self.file.look().pid
        return next((process for process in self.processes if process.pid == pid and process.poll() is None), None)

    def is_done(self) -> bool:
        return self.file.look().count >= self.target

    def wait(self, seconds: float = HANG_SECONDS) -> None:
        until = time.monotonic() + seconds
        for process in self.processes:
            code = process.wait(max(0.1, until - time.monotonic()))
            assert code in (0, -signal.SIGKILL), (self._folder / "errors").read_text()[-2000:]

    def wait_for(self, count: int) -> None:
        wait_until(lambda: self.file.look().count >= count, what=f"count {count}")

    def kill_holder(self) -> None:
        """Kill the process that has the lock, and start another one."""
        with self.file.exclusive():
            holder = wait_until(self.holder, what="a holder")
            holder.kill()
            holder.wait()
        self.start(1)

    def stop_holder(self) -> None:
        """Let the process that has the lock stand still until another one has been in the file."""
        while True:
            holder = wait_until(self.holder, what="a holder")
            os.kill(holder.pid, signal.SIGSTOP)
            wait_until(partial(stands_still, holder.pid), what="a process that stands still")
            # One that was stopped while it was in the file keeps all others out of it.
            if holder is self.holder() and self.file.is_free():
                break
            os.kill(holder.pid, signal.SIGCONT)
        before = self.file.look().token
        wait_until(lambda: self.file.look().token > before, what="another holder")
        os.kill(holder.pid, signal.SIGCONT)

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        self._errors.close()

    def check(self) -> None:
        """Every count once and in order, and every token greater than the one before."""
        writes = self.file.writes()
        assert [count for _, count in writes] == list(range(1, self.target + 1))
        tokens = [token for token, _ in writes]
        assert all(before < after for before, after in itertools.pairwise(tokens))


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Callable[[str, int, float], Crowd]]:
    made: list[Crowd] = []

    def make(url: str, target: int, lifetime_seconds: float) -> Crowd:
        made.append(Crowd(url, tmp_path, target, lifetime_seconds))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def stands_still(pid: int) -> bool:
    """Whether a process has been stopped or has ended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "TZ"


def counted(crowd: Crowd, processes: int, seconds: float = HANG_SECONDS) -> None:
    crowd.start(processes)
    crowd.wait(seconds)
    crowd.check()


# What differs between the kinds is in tests/integration/cluster. Every write of a redlock waits for three disks.
@pytest.mark.parametrize(
    ("kind", "target"),
    [("redlock", 30), *(pytest.param(kind, 200, marks=pytest.mark.soak) for kind in KINDS if kind != "redlock")],
)
def test_counts_under_a_lock_are_exact(
    kind: str, target: int, url_of: Callable[[str], str], crowd: Callable[[str, int, float], Crowd]
) -> None:
    counted(crowd(url_of(kind), target, 5.0), 4)


@pytest.mark.soak
@pytest.mark.timeout(SOAK_SECONDS)
@pytest.mark.parametrize("increments", [2_000, 10_000])
@pytest.mark.parametrize("kind", KINDS)
def test_counts_of_sixteen_processes_are_exact(
    kind: str, increments: int, url_of: Callable[[str], str], crowd: Callable[[str, int, float], Crowd]
) -> None:
    counted(crowd(url_of(kind), increments, 5.0), 16, SOAK_SECONDS)


def harm(crowd: Crowd, lifetime_seconds: float, seed: int) -> dict[str, int]:
    """Kill and stop holders until the target is reached; one that was killed is replaced."""
    chance = chance_of(seed)
    done = {"killed": 0, "stopped": 0}
    until = time.monotonic() + SOAK_SECONDS
    while not crowd.is_done() and time.monotonic() < until:
        time.sleep(chance.uniform(0.05, 0.2))
        holder = crowd.holder()
        if holder is None:
            continue
        if chance.random() < 0.5:
            holder.kill()
            holder.wait()
            crowd.start(1)
            done["killed"] += 1
        else:
            # Past its lifetime: when it goes on, another has been in the file.
            os.kill(holder.pid, signal.SIGSTOP)
            before = crowd.file.look().token
            stopped_until = time.monotonic() + lifetime_seconds * 3
            while crowd.file.look().token == before and time.monotonic() < stopped_until:
                time.sleep(0.02)
            time.sleep(lifetime_seconds / 4)
            with contextlib.suppress(ProcessLookupError):
                os.kill(holder.pid, signal.SIGCONT)
            done["stopped"] += 1
    return done


@pytest.mark.parametrize(
    "kind", ["redis", *(pytest.param(kind, marks=pytest.mark.soak) for kind in KINDS if kind != "redis")]
)
def test_killed_and_stopped_holders_write_nothing_twice(
    kind: str, url_of: Callable[[str], str], crowd: Callable[[str, int, float], Crowd]
) -> None:
    one = crowd(url_of(kind), 60, 0.8)
    one.start(4)
    one.wait_for(10)
    one.kill_holder()
    one.wait_for(30)
    one.stop_holder()
    one.wait()
    one.check()


@pytest.mark.soak
@pytest.mark.timeout(SOAK_SECONDS)
@pytest.mark.parametrize("kind", KINDS)
def test_killed_and_stopped_holders_of_sixteen_write_nothing_twice(
    kind: str, url_of: Callable[[str], str], crowd: Callable[[str, int, float], Crowd]
) -> None:
    one = crowd(url_of(kind), 2_000, 1.0)
    one.start(16)
    done = harm(one, 1.0, seed=2)
    one.wait(SOAK_SECONDS)
    one.check()
    assert min(done.values()) > 5


@pytest.mark.parametrize("number", [1, pytest.param(3, marks=pytest.mark.soak)], ids=["redis", "redlock"])
def test_restarted_servers_and_cut_connections_change_nothing(
    number: int, own_redis: Callable[..., OwnRedis], crowd: Callable[[str, int, float], Crowd]
) -> None:
    servers = [own_redis(*DURABLE) for _ in range(number)]
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    one = crowd(f"{'redis' if number == 1 else 'redlock'}://{hosts}", 60, 2.0)
    one.start(4)
    chance = chance_of(3)
    for count in (5, 25, 45):
        one.wait_for(count)
        # Nobody comes to the end meanwhile.
        with one.file.exclusive():
            server = chance.choice(servers)
            server.kill()
            server.start()
            for each in servers:
                each.say("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    one.wait()
    one.check()


HOLDER = """
import asyncio, sys
from skitter.cluster import connect

async def hold():
    async with connect(sys.argv[1]) as cluster, cluster.lock("file", lifetime_seconds=float(sys.argv[2])):
        print("held", flush=True)
        await asyncio.sleep(600)

asyncio.run(hold())
"""


def start_holder(folder: Path, url: str, lifetime_seconds: float) -> subprocess.Popen[bytes]:
    program = folder / "holder.py"
    program.write_text(HOLDER)
    return ForkedProcess(str(program), [url, str(lifetime_seconds)], stdout=subprocess.PIPE)


@pytest.mark.parametrize(
    "kind", ["redis", "sqlite", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("redlock", "zookeeper"))]
)
async def test_a_crash_frees_the_lock_within_its_lifetime(
    kind: str, url_of: Callable[[str], str], tmp_path: Path
) -> None:
    lifetime = 2.5
    url = url_of(kind)
    holder = await asyncio.to_thread(start_holder, tmp_path, url, lifetime)
    try:
        assert holder.stdout is not None
        assert await asyncio.to_thread(holder.stdout.readline) == b"held\n"
        async with connect(url) as cluster:
            lock = cluster.lock("file", retry_seconds=0.02)
            with pytest.raises(TimeoutError):
                await lock.acquire(timeout_seconds=0)
            holder.kill()
            holder.wait()
            # The holder would have kept it for ten minutes; the time is room for a busy machine.
            held = await lock.acquire(timeout_seconds=HANG_SECONDS)
            await held.release()
    finally:
        holder.kill()
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()
