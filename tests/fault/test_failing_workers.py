"""Workers that fail by an error that nobody expected, in real processes: the node ends, and says what they died of."""

from __future__ import annotations

import os
from typing import Any

import pytest

from rig.damaged_job import seed_of, site_of_pages

DEFECT = """
import skitter.node.supervisor as supervisor
from skitter.testing.frontiers import wrap_frontiers

supervisor.FAILURES = 3

async def fail(*arguments, **options):
    raise KeyError("no such host")

def failing(frontier):
    frontier.lease = fail
    return frontier

wrap_frontiers(failing)
"""

BAD_PAGE = """
from skitter.testing.frontiers import wrap_frontiers

def failing(frontier):
    commit = frontier.commit

    async def fail(worker, outcomes, *rest, **options):
        if any(outcome.lease.payload and outcome.lease.request.url.endswith("bad") for outcome in outcomes):
            raise OverflowError("too large for a column")
        return await commit(worker, outcomes, *rest, **options)

    frontier.commit = fail
    return frontier

wrap_frontiers(failing)
"""


@pytest.mark.timeout(120)
def test_a_page_that_cannot_be_committed_costs_itself_alone(skitter: Any) -> None:
    skitter.write("hook/sitecustomize.py", BAD_PAGE)
    environment = os.environ | {"PYTHONPATH": str(skitter.folder / "hook")}
    with site_of_pages() as site:
        urls = [seed_of(site.port) + name for name in ("good", "bad")]
        told = skitter.run("crawl", *urls, "--job", "j", env=environment).stderr
    assert "OverflowError: too large for a column" in told
    status = skitter.json("status", "--job", "j")
    assert (status["state"], status["done"], status["errors"]) == ("finished", 1, {"lost": 1})


@pytest.mark.timeout(120)
def test_a_node_whose_workers_fail_again_and_again_ends_with_their_error(skitter: Any) -> None:
    skitter.write("hook/sitecustomize.py", DEFECT)
    environment = os.environ | {"PYTHONPATH": str(skitter.folder / "hook")}
    with site_of_pages() as site:
        told = skitter.run("crawl", seed_of(site.port), "--job", "j", code=3, env=environment).stderr
    assert "error: 3 workers have failed without committing anything: KeyError: 'no such host'" in told
    assert told.count("another worker is started") == 3
    assert "Traceback" not in told
