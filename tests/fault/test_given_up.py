"""A host with a long queue goes away: by a real crawl, and with a kill -9 between two pieces of the burying."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rig.processes import HANG_SECONDS
from skitter.model.job import Counts, State
from skitter.testing.contract.given_up_hosts import MANY
from skitter.testing.frontiers import open_frontier
from skitter.testing.web import WebSpec, served

CHILD = """
import asyncio, os, signal, sys
from skitter.testing.frontiers import open_frontier
from skitter.testing.contract import Client
from skitter.testing.contract.given_up_hosts import given_up

async def main(url):
    await given_up(Client(open_frontier(url, "buried", create=True), "buried", set()))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(sys.argv[1]))
"""
SPIDER = """
from skitter import Request, Spider

class Far(Spider):
    name = "far"

    def start(self):
        yield Request(self.near)
        for number in range(int(self.many)):
            yield Request(f"{self.far}{number}")

    def parse(self, response):
        yield {"url": response.url}
"""


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, services: Any, tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'frontier.db'}" if request.param == "sqlite" else services.need("redis")["url"]


def test_who_is_killed_between_two_pieces_leaves_the_rest_to_others(url: str) -> None:
    child = subprocess.run([sys.executable, "-c", CHILD, url], capture_output=True, timeout=HANG_SECONDS, check=False)
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()

    async def go_on() -> tuple[Counts, Counts, State]:
        frontier = open_frontier(url, "buried", create=False)
        before = await frontier.counts()
        while (grant := await frontier.lease("heir", 10)).ask_again_seconds == 0 and grant.state == State.RUNNING:
            assert grant.leases == []
        after, job = await frontier.counts(), await frontier.job()
        await frontier.close()
        return before, after, job.state

    before, after, state = asyncio.run(go_on())
    assert 0 < before.failed < MANY
    assert before.failed + before.queued == after.failed == MANY + 1
    assert state is State.FINISHED


def test_a_crawl_ends_soon_after_a_host_with_a_long_queue_went_away(skitter: Any, url: str) -> None:
    skitter.write("far.py", SPIDER)
    with served(WebSpec.plain(hosts=1, pages_per_host=5).replace(dead_host=True)) as web:
        arguments = ("-a", f"near={web.urls[0]}", "-a", f"far={web.dead_url}", "-a", f"many={MANY}")
        place = ("--frontier", url, "--job", "far")
        summary = skitter.json("crawl", "far.py", *arguments, *place, "--set", "retry_delay_seconds=0.05")
    assert (summary["pages"], summary["errors"]) == (1, {"connect": MANY})
    assert summary["state"] == "finished"
    assert skitter.json("drop", *place)["dropped"]
