"""kill -9 of a Redis that writes everything to disk, in the middle of a crawl: nothing is lost, nothing is doubled."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from skitter.model.url import canonical
from skitter.testing.web import WebSpec, served

KILLS = 3
PAUSE_SECONDS = 0.9


class Durable:
    """A redis-server with ``appendfsync always``, on one port through all its lives."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._folder = folder
        self.start()

    def start(self) -> None:
        program = shutil.which("redis-server")
        assert program is not None
        settings = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]
        command = [program, *settings, "--appendfsync", "always", "--dir", str(self._folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.01)
            else:
                return
        pytest.fail("redis-server did not start")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.mark.timeout(110)
def test_a_redis_that_is_killed_and_restarted_loses_nothing(skitter, services, tmp_path) -> None:
    services.need("redis")  # installs it where it is missing
    (tmp_path / "redis").mkdir()
    redis = Durable(tmp_path / "redis")
    place = ("--frontier", f"redis://127.0.0.1:{redis.port}", "--job", "killed")
    quick = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.2", "--set", "lease_seconds=3")
    try:
        with served(WebSpec(hosts=3, pages_per_host=400, latency_seconds=0.01)) as web:
            crawl = skitter.start("crawl", *web.urls, "-o", "out.jsonl", "--workers", 2, "--json", *place, *quick)
            for _ in range(KILLS):
                time.sleep(PAUSE_SECONDS)
                assert crawl.poll() is None, crawl.communicate()
                redis.kill()
                time.sleep(0.5)
                redis.start()
            out, error = crawl.communicate(timeout=90)
            expected = web.expected()
        assert crawl.returncode == 0, out + error
        assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == Counter(expected.done)
        status = skitter.json("status", *place)
        assert status["state"] == "finished"
        assert status["seen"] == status["done"] + status["redirected"] + status["dead"] + status["excluded"]
    finally:
        redis.kill()
