"""The job ``books`` in its usual place: a seed with five links that have ended in five ways, and no live workers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from skitter.frontier.contract import Frontier
from skitter.model.job import JobSpec
from skitter.model.lease import Work
from skitter.model.outcome import Ending, HostNews, Outcome, RobotsRecord
from skitter.model.request import Fingerprinter, Request
from skitter.settings import Politeness, Settings
from skitter.testing.frontiers import open_frontier

JOB = "books"
SEED = "http://a.example/"
RULE = "robots.txt line 2: Disallow: /private (group: *)"
LINKS = ["done", "missing", "broken", "private", "waiting"]
TRACEBACK = (
    'Traceback (most recent call last):\n  File "books.py", line 8, in parse\nValueError: a \x1b[31mred\x1b[0m price'
)
WORKER = "nowhere:1:1"
WITHOUT_DELAY = Politeness(delay_seconds=0)


def write_books_job(folder: Path) -> None:
    """Write the job into ``.skitter`` of this folder, by frontier calls: nothing is fetched for it."""
    asyncio.run(_write(folder))


async def _write(folder: Path) -> None:
    frontier = open_frontier(f"sqlite:{folder / '.skitter' / JOB}.db", JOB)
    try:
        await frontier.begin(
            JobSpec(name=JOB, spider="", seeds=[SEED], settings=Settings(politeness=WITHOUT_DELAY).job_wide())
        )
        await _crawl(frontier)
    finally:
        await frontier.close()


async def _crawl(frontier: Frontier) -> None:
    fingerprinter = Fingerprinter((await frontier.job()).secret)
    seed = fingerprinter.entry(Request(SEED, seed=True))
    links = [fingerprinter.entry(Request(SEED + name, depth=1, referrer=SEED)) for name in LINKS]
    endings: dict[str, dict[str, Any]] = {
        SEED: {"ending": Ending.DONE, "status": 200, "links": links, "tally": {"bytes": 1000}},
        SEED + "done": {"ending": Ending.DONE, "status": 200},
        SEED + "missing": {"ending": Ending.FAILED, "status": 404, "error_class": "http_4xx", "error": "HTTP 404"},
        SEED + "broken": {"ending": Ending.FAILED, "status": 200, "error_class": "callback", "error": TRACEBACK},
        SEED + "private": {"ending": Ending.EXCLUDED, "error_class": "robots", "error": RULE},
    }
    robots = RobotsRecord(b"User-agent: *\nDisallow: /private\n", version=1)
    while endings:
        grant = await frontier.lease(WORKER, 10)
        assert grant.leases, "the job has to come to rest"
        outcomes, rest = [], []
        for lease in grant.leases:
            if lease.work is Work.SEED:
                outcomes.append(Outcome(lease=lease, ending=Ending.DONE, links=[seed]))
            elif lease.work is Work.ROBOTS:
                outcomes.append(Outcome(lease=lease, ending=Ending.DONE, news=HostNews(robots=robots)))
            elif lease.request.url in endings:
                outcomes.append(Outcome(lease=lease, **endings.pop(lease.request.url)))
            else:
                rest.append(lease)
        await frontier.commit(WORKER, outcomes)
        await frontier.release(rest)
    await frontier.release_worker(WORKER)
