"""kill -9 of workers and of a master of a Redis Cluster that writes everything to disk, in the middle of a crawl:
nothing is lost, nothing is doubled."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from skitter.model.url import canonical
from skitter.testing.web import WebSpec, served

MASTERS = 3
PAUSE_SECONDS, AWAY_SECONDS = 0.9, 0.5
QUICK = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.2", "--set", "lease_seconds=3")


class DurableCluster:
    """Masters with ``appendfsync always``, each on one port through all its lives."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._nodes: dict[int, subprocess.Popen[bytes]] = {}
        for _ in range(MASTERS):
            port = self._free_port()
            (folder / str(port)).mkdir(parents=True)
            self.start(port)
        places = [f"127.0.0.1:{port}" for port in self.ports]
        client = shutil.which("redis-cli")
        assert client is not None
        subprocess.run([client, "--cluster", "create", *places, "--cluster-yes"], check=True, capture_output=True)
        for port in self.ports:
            self._wait_for(port, b"CLUSTER INFO", b"cluster_state:ok")
        self.url = "redis+cluster://" + ",".join(places)

    @property
    def ports(self) -> list[int]:
        return list(self._nodes)

    def start(self, port: int) -> None:
        program = shutil.which("redis-server")
        assert program is not None
        settings = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]
        cluster = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]
        command = [program, *settings, "--appendfsync", "always", *cluster, "--dir", str(self._folder / str(port))]
        self._nodes[port] = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self._wait_for(port, b"PING", b"PONG")

    def kill(self, port: int) -> None:
        self._nodes[port].kill()
        self._nodes[port].wait()

    def stop(self) -> None:
        for port in self.ports:
            self.kill(port)

    @staticmethod
    def _free_port() -> int:
        """With room for the bus port, which is 10000 higher."""
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port: int = probe.getsockname()[1]
            if port <= 55535:
                return port

    @staticmethod
    def _wait_for(port: int, question: bytes, answer: bytes) -> None:
        for _ in range(2000):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as connection:
                connection.sendall(question + b"\r\n")
                if answer in connection.recv(65536):
                    return
            time.sleep(0.01)
        pytest.fail("a node of the cluster did not start")


def workers_of(supervisor: int) -> list[int]:
    """Its child processes."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == supervisor:
                found.append(int(stat.parent.name))
    return found


def crawl_under_kills(skitter, folder: Path, spec: WebSpec, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    cluster = DurableCluster(folder)
    place = ("--frontier", cluster.url, "--job", "killed")
    try:
        with served(spec) as web:
            command = ("crawl", *web.urls, "-o", "out.jsonl", "--workers", 3, "--json", *place, *QUICK)
            crawl = skitter.start(*command)
            target = skitter.folder / "out.jsonl"
            while crawl.poll() is None and not (target.exists() and target.stat().st_size):
                time.sleep(0.05)
            for _ in range(kills):
                assert crawl.poll() is None, crawl.communicate()
                if workers := workers_of(crawl.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(chance.choice(workers), signal.SIGKILL)
                victim = chance.choice(cluster.ports)
                cluster.kill(victim)
                time.sleep(AWAY_SECONDS)
                cluster.start(victim)
                time.sleep(PAUSE_SECONDS)
            out, error = crawl.communicate(timeout=80 + 4 * kills)
            expected = web.expected()
        assert crawl.returncode == 0, out + error
        assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == Counter(expected.done)
        status = skitter.json("status", *place)
        assert (status["state"], status["exact"], status["leased"]) == ("finished", True, 0)
        assert status["done"] == len(expected.done)
        assert status["seen"] == status["done"] + status["redirected"] + status["dead"] + status["excluded"]
    finally:
        cluster.stop()


@pytest.mark.timeout(110)
def test_a_cluster_whose_masters_and_workers_are_killed_loses_nothing(skitter, services, tmp_path) -> None:
    services.need("redis-cluster")  # installs it where it is missing
    spec = WebSpec(hosts=6, pages_per_host=200, latency_seconds=0.01)
    crawl_under_kills(skitter, tmp_path / "cluster", spec, kills=2, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
def test_a_cluster_whose_masters_and_workers_are_killed_again_and_again_loses_nothing(
    skitter, services, tmp_path, seed
) -> None:
    services.need("redis-cluster")
    spec = WebSpec(hosts=12, pages_per_host=600, latency_seconds=0.01)
    crawl_under_kills(skitter, tmp_path / "cluster", spec, kills=8, seed=seed)
