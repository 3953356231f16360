"""A worker over HTTP next to the same worker on SQLite, and what idle workers cost a master.

bench_master.py [--pages 4000] [--rounds 3] [--idle 2000] [--seconds 55]

The crawl: one worker on a site like that of a documentation (37 KB a page, 94 links), on an SQLite file of its own and
through a master with one; the two take turns, and the ratio of their medians counts. The idle workers: as many as
``--idle`` wait at a master for work that does not come, each with a connection for its poll and one for its renewals,
and the CPU of the master is read over ``--seconds``. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skitter.bench.measured_process import measured
from skitter.frontier.contract import DistantSource
from skitter.frontier.http import http_frontier
from skitter.model.job import JobSpec
from skitter.model.worker import WorkerHeartbeat
from skitter.node.process_rlimits import allow_open_files
from skitter.policy.polling import silence_seconds
from skitter.settings import Limits
from skitter.testing.web import WebSpec, served
from skitter.worker.long_poll import WAIT_SECONDS

PAGE_BYTES, LINKS = 37_000, 94
JOIN_SECONDS = 20.0
TICKS = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def master(folder: Path) -> Iterator[tuple[str, int]]:
    """A master on SQLite; its URL and process number."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-P", "-m", "skitter", "serve", "--bind", f"127.0.0.1:{port}"]
    process = subprocess.Popen([*command, "--frontier", "sqlite:master.db"], cwd=folder, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(200):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{url}/healthz", timeout=1).close()
                break
            time.sleep(0.05)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait()


def crawl(site: str, folder: Path, frontier: str) -> dict[str, float]:
    command = ["skitter", "crawl", site, "-o", "out.jsonl", "--json", "-q", "--frontier", frontier, "--job", "bench"]
    run = measured([*command, "--per-host", "64", "--delay", "0"], folder=folder)
    return {
        "pages": run.answer["pages"],
        "pages_per_second": run.answer["pages_per_second"],
        "cpu_ms_per_page": run.cpu_seconds * 1000 / run.answer["pages"],
    }


def compare(pages: int, rounds: int) -> dict[str, Any]:
    spec = WebSpec.plain(hosts=1, pages_per_host=pages, links_per_page=LINKS, page_bytes=PAGE_BYTES)
    runs: dict[str, list[dict[str, float]]] = {"sqlite": [], "http": []}
    with served(spec) as web:
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                runs["sqlite"].append(crawl(web.urls[0], Path(folder), "sqlite:bench.db"))
            with tempfile.TemporaryDirectory() as folder, master(Path(folder)) as (url, _):
                runs["http"].append(crawl(web.urls[0], Path(folder), url))
    assert all(run["pages"] == pages for kind in runs.values() for run in kind), runs
    medians = {
        kind: {name: round(statistics.median(run[name] for run in found), 3) for name in found[0]}
        for kind, found in runs.items()
    }
    ratio = medians["http"]["pages_per_second"] / medians["sqlite"]["pages_per_second"]
    return {**medians, "http_to_sqlite": round(ratio, 3)}


async def idle_worker(url: str, number: int, workers: int) -> None:
    """The calls of a worker that finds nothing to do: as ``worker.loop`` and ``worker.lease_renewal`` make them."""
    frontier, renewal = http_frontier(url, "idle"), http_frontier(url, "idle")
    assert isinstance(frontier, DistantSource)
    worker, heartbeat = f"bench:{number}:0", WorkerHeartbeat(host_name="bench", pid=number, slots=64)
    await asyncio.sleep(random.uniform(0, JOIN_SECONDS))
    await frontier.tell(worker, heartbeat)

    async def renew() -> None:
        while True:
            await asyncio.sleep(silence_seconds(Limits().lease_seconds, workers))
            await renewal.tell(worker, heartbeat)

    renewing = asyncio.create_task(renew())
    try:
        while True:
            await frontier.lease(worker, 64)
            while not await frontier.wait_for_work(worker, WAIT_SECONDS * random.uniform(0.8, 1.0)):
                pass
    finally:
        renewing.cancel()
        await frontier.close()
        await renewal.close()


async def idle(workers: int, seconds: float) -> dict[str, Any]:
    allow_open_files()
    with tempfile.TemporaryDirectory() as folder, master(Path(folder)) as (url, pid):
        seeder = http_frontier(url, "idle")
        # Its seeding goes on, so that the job does not end.
        await seeder.begin(JobSpec(name="idle", spider="", settings={"obey_robots": False}))
        held = (await seeder.lease("seeder:0:0", 1)).leases
        tasks = [asyncio.create_task(idle_worker(url, number, workers)) for number in range(workers)]
        await asyncio.sleep(JOIN_SECONDS + 5)
        await seeder.renew("seeder:0:0", held)
        before, began = cpu_of(pid), time.monotonic()
        while time.monotonic() < began + seconds:
            await asyncio.sleep(min(5.0, began + seconds - time.monotonic()))
            await seeder.renew("seeder:0:0", held)
        used, passed = cpu_of(pid) - before, time.monotonic() - began
        listed = len(await seeder.workers())
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        failed = [repr(error) for error in ended if not isinstance(error, asyncio.CancelledError)]
        assert not failed, failed[:3]
        await seeder.close()
    return {"workers": workers, "listed": listed, "cores": round(used / passed, 4)}


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def main() -> None:
    parser = argparse.ArgumentParser(description="a worker over HTTP, and idle workers")
    parser.add_argument("--pages", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=55.0)
    options = parser.parse_args()
    found = {}
    if options.rounds:
        found["crawl"] = compare(options.pages, options.rounds)
    if options.idle:
        found["idle"] = asyncio.run(idle(options.idle, options.seconds))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
