"""Locks of several processes: exact counts, growing tokens and no second writer, through kill -9 and SIGSTOP."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import guarded_file
import pytest
from guarded_file import GuardedFile

from own_redis import DURABLE, OwnRedis
from skitter.cluster import connect

KINDS = ("sqlite", "redis", "redlock", "zookeeper")
END_SECONDS = 100.0
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
                return f"{services.need('zookeeper')['url']}/{tmp_path.name}?session_seconds=2"
            case _:
                return f"sqlite:{tmp_path / 'cluster.db'}"

    return make


class Crowd:
    """Processes that count in a file under one lock."""

    def __init__(self, url: str, folder: Path, target: int, lifetime_seconds: float) -> None:
        self.file = GuardedFile(folder / "count")
        self.file.create()
        self.target = target
        words = [guarded_file.__file__, url, folder / "count", target, lifetime_seconds]
        self._command = [sys.executable, *map(str, words)]
        self._folder = folder
        self._errors = (folder / "errors").open("ab")
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, number: int) -> None:
        self.processes += [subprocess.Popen(self._command, stderr=self._errors) for _ in range(number)]

    def holder(self) -> subprocess.Popen[bytes] | None:
        """The process that has shown its token last."""
        pid = self.file.look().pid
        return next((process for process in self.processes if process.pid == pid and process.poll() is None), None)

    def is_done(self) -> bool:
        return self.file.look().count >= self.target

    def wait(self, seconds: float = END_SECONDS) -> None:
        until = time.monotonic() + seconds
        for process in self.processes:
            code = process.wait(max(0.1, until - time.monotonic()))
            assert code in (0, -signal.SIGKILL), (self._folder / "errors").read_text()[-2000:]

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


def counted(crowd: Crowd, processes: int, seconds: float = END_SECONDS) -> None:
    crowd.start(processes)
    crowd.wait(seconds)
    crowd.check()


@pytest.mark.parametrize("kind", KINDS)
def test_counts_under_a_lock_are_exact(
    kind: str, url_of: Callable[[str], str], crowd: Callable[[str, int, float], Crowd]
) -> None:
    # Every write of a redlock waits for the disks of three servers.
    counted(crowd(url_of(kind), 100 if kind == "redlock" else 200, 5.0), 4)


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
    chance = random.Random(seed)
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


@pytest.mark.parametrize("kind", ["sqlite", "redis", "zookeeper", pytest.param("redlock", marks=pytest.mark.soak)])
def test_killed_and_stopped_holders_write_nothing_twice(
    kind: str, url_of: Callable[[str], str], crowd: Callable[[str, int, float], Crowd]
) -> None:
    one = crowd(url_of(kind), 60 if kind == "zookeeper" else 100, 0.8)
    one.start(4)
    harm(one, 0.8, seed=1)
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
    one = crowd(f"{'redis' if number == 1 else 'redlock'}://{hosts}", 100, 2.0)
    one.start(4)
    chance = random.Random(3)
    until = time.monotonic() + END_SECONDS
    restarts = 0
    while not one.is_done() and time.monotonic() < until:
        before = one.file.look().count
        server = chance.choice(servers)
        server.kill()
        server.start()
        restarts += 1
        for each in servers:
            each.say("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        while one.file.look().count < before + 15 and not one.is_done() and time.monotonic() < until:
            time.sleep(0.01)
    one.wait()
    one.check()
    assert restarts > 3


HOLDER = """
import asyncio, sys
from skitter.cluster import connect

async def hold():
    async with connect(sys.argv[1]) as cluster, cluster.lock("file", lifetime_seconds=float(sys.argv[2])):
        print("held", flush=True)
        await asyncio.sleep(600)

asyncio.run(hold())
"""


def start_holder(url: str, lifetime_seconds: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", HOLDER, url, str(lifetime_seconds)], stdout=subprocess.PIPE)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_crash_frees_the_lock_within_its_lifetime(
    kind: str, url_of: Callable[[str], str], tmp_path: Path
) -> None:
    lifetime = 2.5
    url = url_of(kind)
    holder = await asyncio.to_thread(start_holder, url, lifetime)
    try:
        assert holder.stdout is not None
        assert await asyncio.to_thread(holder.stdout.readline) == b"held\n"
        async with connect(url) as cluster:
            lock = cluster.lock("file", retry_seconds=0.02)
            with pytest.raises(TimeoutError):
                await lock.acquire(timeout_seconds=0)
            holder.kill()
            holder.wait()
            # The rest is room for a busy machine.
            held = await lock.acquire(timeout_seconds=lifetime + 5.0)
            await held.release()
    finally:
        holder.kill()
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()
