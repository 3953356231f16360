"""Workers that fail by an error that nobody expected, in real processes: the node ends, and says what they died of."""

from __future__ import annotations

import os
from typing import Any

import pytest
from rig.damaged_job import Site, seed_of

DEFECT = """
import skitter.worker.loop as loop
import skitter.worker.supervisor as supervisor

supervisor.FAILURES = 3

async def fail(self):
    raise KeyError("no such host")

loop.Worker._turn = fail
"""


@pytest.mark.timeout(120)
def test_a_node_whose_workers_fail_again_and_again_ends_with_their_error(skitter: Any) -> None:
    skitter.write("hook/sitecustomize.py", DEFECT)
    environment = os.environ | {"PYTHONPATH": str(skitter.folder / "hook")}
    with Site() as site:
        told = skitter.run("crawl", seed_of(site.port), "--job", "j", code=3, env=environment).stderr
    assert "error: 3 workers have failed without committing anything: KeyError: 'no such host'" in told
    assert told.count("takes its place") == 3
    assert "Traceback" not in told
