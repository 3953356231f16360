"""How long each read of the REST API takes on a large job, and what twenty streams cost a server.

bench_dashboard.py [--frontier redis://HOST] [--failures 100000] [--hosts 10000] [--workers 200] [--queued 20000]
                   [--rounds 40] [--seconds 20]

The job is written by frontier calls into a store of its own: a SQLite file in a temporary folder, or the Redis that is
named, where the job ``dashboard`` is dropped before and after. Then ``skitter serve`` runs on it, each read is asked
``--rounds`` times over one connection, and 20 streams of the job are open for ``--seconds``. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skitter.app.frontiers import drop_job, open_frontier
from skitter.model.job import JobSpec
from skitter.model.outcome import Ending, Outcome
from skitter.model.request import Fingerprinter, Request
from skitter.model.worker import WorkerHeartbeat

JOB = "dashboard"
BATCH = 1000
STREAMS = 20
SETTINGS = {"delay_seconds": 0.0, "per_host": 1000, "obey_robots": False}
CLASSES = ("dns", "http_4xx", "callback", "timeout")
TRACEBACK = "Traceback (most recent call last):\n" + '  File "spider.py", line 10, in parse\n    raise ValueError\n' * 8
READS = (
    "jobs",
    f"jobs/{JOB}",
    f"jobs/{JOB}/history",
    f"jobs/{JOB}/hosts?kind=slow",
    f"jobs/{JOB}/hosts?kind=deep",
    f"jobs/{JOB}/workers?limit=200",
    f"jobs/{JOB}/failures",
    f"jobs/{JOB}/failures?class=dns",
    f"jobs/{JOB}/failures?host=h77.example",
    f"jobs/{JOB}/failures?after=MIDDLE",
    f"jobs/{JOB}/failures/summary",
    f"jobs/{JOB}/items",
    f"jobs/{JOB}/sinks",
    f"jobs/{JOB}/settings",
    f"jobs/{JOB}/why?url=http%3A%2F%2Fh1.example%2Ff%2F1",
    "schedules",
)


async def fill(url: str, failures: int, hosts: int, workers: int, queued: int) -> None:
    """Write the job."""
    frontier = open_frontier(url, JOB, create=True)
    try:
        await frontier.begin(JobSpec(name=JOB, spider="", seeds=["http://h0.example/"], settings=dict(SETTINGS)))
        identity = Fingerprinter.of_job(await frontier.job())
        (seeding,) = (await frontier.lease("filler", 1)).leases
        await frontier.commit("filler", [Outcome(lease=seeding, ending=Ending.DONE)])
        for first in range(0, failures, BATCH):
            places = range(first, min(first + BATCH, failures))
            await frontier.add(
                [identity.entry(Request(f"http://h{n % hosts}.example/f/{n}", seed=True)) for n in places]
            )
            left = len(places)
            while left:
                leases = (await frontier.lease("filler", left)).leases
                if not leases:
                    raise SystemExit("nothing may be leased")
                outcomes = [
                    Outcome(
                        lease=one, ending=Ending.FAILED, error_class=CLASSES[one.id % 4], error=TRACEBACK, status=404
                    )
                    for one in leases
                ]
                await frontier.commit("filler", outcomes)
                left -= len(leases)
        for first in range(0, queued, BATCH):
            places = range(first, min(first + BATCH, queued))
            await frontier.add(
                [identity.entry(Request(f"http://h{n % hosts}.example/q/{n}", seed=True)) for n in places]
            )
        for number in range(workers):
            heartbeat = WorkerHeartbeat(
                host_name=f"node{number % 20}", pid=number + 1, version="0", slots=16, in_flight=3
            )
            await frontier.tell(f"node{number % 20}:{number + 1}:1", heartbeat)
    finally:
        await frontier.close()


@contextlib.contextmanager
def served(url: str, folder: Path) -> Iterator[tuple[int, int]]:
    """A server on the store; its port and process number."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    command = [sys.executable, "-P", "-m", "skitter", "serve", "--bind", f"127.0.0.1:{port}", "--frontier", url]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        for _ in range(400):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1).close()
                break
            time.sleep(0.05)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


def measured_reads(port: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of each read: median, 95th percentile and most; between two of a kind all others are asked."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    told: dict[str, list[float]] = {path: [] for path in READS}

    def ask(path: str) -> Any:
        connection.request("GET", f"/api/v1/{path}")
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {body[:200]!r}")
        return json.loads(body)

    middle = ask(f"jobs/{JOB}/failures?limit=1&order=newest")["next"]
    for _ in range(rounds):
        for path in READS:
            started = time.perf_counter()
            ask(path.replace("MIDDLE", str(int(middle) // 2)))
            told[path].append(1000 * (time.perf_counter() - started))
    connection.close()
    return {path: _figures(sorted(times)) for path, times in told.items()}


def _figures(times: list[float]) -> dict[str, float]:
    at = {"median": times[len(times) // 2], "p95": times[int(0.95 * (len(times) - 1))], "most": times[-1]}
    return {name: round(value, 1) for name, value in at.items()}


def measured_streams(port: int, pid: int, seconds: float) -> dict[str, float]:
    """CPU share and memory of the server with 20 streams of the job open."""
    url = f"http://127.0.0.1:{port}/api/v1/events?job={JOB}"
    streams = [urllib.request.urlopen(url, timeout=60) for _ in range(STREAMS)]
    for stream in streams:
        stream.readline()
    before, memory = _ticks(pid), _resident(pid)
    time.sleep(seconds)
    share = (_ticks(pid) - before) / os.sysconf("SC_CLK_TCK") / seconds
    after = _resident(pid)
    for stream in streams:
        stream.close()
    return {
        "cpu_share": round(share, 3),
        "rss_mb_before": round(memory / 1e6, 1),
        "rss_mb_after": round(after / 1e6, 1),
    }


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frontier", default="")
    sizes = {"failures": 100_000, "hosts": 10_000, "workers": 200, "queued": 20_000}
    for name, number in (sizes | {"rounds": 40}).items():
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = options.frontier or f"sqlite:{folder / 'dashboard.db'}"
        if options.frontier:
            asyncio.run(drop_job(url, JOB))
        started = time.monotonic()
        asyncio.run(fill(url, options.failures, options.hosts, options.workers, options.queued))
        filled = time.monotonic() - started
        with served(url, folder) as (port, pid):
            reads = measured_reads(port, options.rounds)
            streams = measured_streams(port, pid, options.seconds)
        if options.frontier:
            asyncio.run(drop_job(url, JOB))
    given = {name: getattr(options, name) for name in sizes}
    print(json.dumps({**given, "fill_seconds": round(filled, 1), "milliseconds": reads, "streams": streams}, indent=1))


if __name__ == "__main__":
    main()
