"""Jobs with failures, queued requests and workers, written by frontier calls: no crawl has to fail for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from skitter.frontier.contract import Frontier
from skitter.model.job import JobSpec
from skitter.model.lease import Call
from skitter.model.outcome import Ending, Outcome
from skitter.model.request import Fingerprinter, Request
from skitter.model.worker import WorkerHeartbeat
from skitter.testing.frontiers import open_frontier

SETTINGS = {"delay_seconds": 0.0, "per_host": 1000, "obey_robots": False}
CLASSES = ("dns", "http_4xx", "callback")
BATCH = 1000


def fill_job(url: str, job: str, *, failures: int = 0, hosts: int = 3, queued: int = 0, workers: int = 0) -> None:
    """Begin a job and write these into it; failures go round the hosts, each of some class."""
    asyncio.run(_fill(url, job, failures, hosts, queued, workers))


async def _fill(url: str, job: str, failures: int, hosts: int, queued: int, workers: int) -> None:
    frontier = open_frontier(url, job, create=True)
    try:
        await frontier.begin(JobSpec(name=job, spider="", seeds=["http://h0.example/"], settings=dict(SETTINGS)))
        identity = Fingerprinter.of_job(await frontier.job())
        (seeding,) = (await frontier.lease("filler", 1)).leases
        await frontier.commit("filler", [Outcome(lease=seeding, ending=Ending.DONE)])
        for batch in _batches(failures, hosts, "failed"):
            await frontier.add([identity.entry(Request(each, seed=True)) for each in batch])
            await _fail(frontier, len(batch))
        for batch in _batches(queued, hosts, "queued"):
            await frontier.add([identity.entry(Request(each, seed=True)) for each in batch])
        for number in range(workers):
            heartbeat = WorkerHeartbeat(
                host_name=f"node{number % 20}", pid=number + 1, version="0", slots=16, in_flight=3
            )
            await frontier.tell(f"node{number % 20}:{number + 1}:1", heartbeat)
        await frontier.tell("filler", None)
    finally:
        await frontier.close()


def _batches(number: int, hosts: int, word: str) -> Iterator[list[str]]:
    urls = [f"http://h{place % hosts}.example/{word}/{place}" for place in range(number)]
    for first in range(0, number, BATCH):
        yield urls[first : first + BATCH]


async def _fail(frontier: Frontier, number: int) -> None:
    while number > 0:
        leases = (await frontier.lease("filler", number, Call())).leases
        assert leases, "nothing may be leased"
        outcomes = []
        for lease in leases:
            error_class = CLASSES[lease.id % len(CLASSES)]
            traceback = f"Traceback (most recent call last):\n  {error_class} <script>alert(1)</script>"
            outcomes.append(
                Outcome(lease=lease, ending=Ending.FAILED, error_class=error_class, error=traceback, status=404)
            )
        await frontier.commit("filler", outcomes)
        number -= len(leases)
