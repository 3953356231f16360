"""Sink failover: a target without an owner is served by whoever works for the job, and no other is touched."""

from __future__ import annotations

import asyncio
import sys

import pytest

from skitter.cluster.process_identity import worker_id
from skitter.delivery import failover as module
from skitter.delivery.failover import SinkFailover
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.model.job import JobSpec
from skitter.model.outcome import Ending, Outcome
from skitter.observe.events import Event
from skitter.settings import Settings
from skitter.stop_request import StopRequest

SINKS = """
rows = []
class Good:
    def write(self, batch):
        rows.extend(record["n"] for _, record in batch)
class Bad:
    def __init__(self, target):
        raise PermissionError("no password")
"""


@pytest.fixture
def sinks(tmp_path, monkeypatch):
    (tmp_path / "failover_sinks.py").write_text(SINKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "failover_sinks", raising=False)
    monkeypatch.setattr(module, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(module, "UNOWNED_SECONDS", 0.01)
    import importlib

    return importlib.import_module("failover_sinks")


async def test_only_what_is_left_and_can_be_served_from_here_is_served(sinks) -> None:
    import msgspec

    good, taken, bad = "python:failover_sinks:Good", "python:failover_sinks:Good#other", "python:failover_sinks:Bad"
    told: list[Event] = []
    frontier = memory_frontier("j", MemoryStore())
    spec = JobSpec(name="j", spider="", settings=Settings().job_wide())
    await frontier.begin(spec, sinks=[good, bad, taken, "file.jsonl", "-"])
    await frontier.open_sink(taken, "somebody else")
    (seed,) = (await frontier.lease("w", 1)).leases
    records = [msgspec.msgpack.encode({"n": n}) for n in range(3)]
    await frontier.commit("w", [Outcome(lease=seed, ending=Ending.DONE, items=records)])
    failover = SinkFailover(frontier, "j", password=None, on_event=told.append, trusted=("failover_sinks",))
    watching = asyncio.create_task(failover.watch())
    for _ in range(10_000):
        lacking = {sink.target: sink.undelivered for sink in (await frontier.report()).sinks}
        if not lacking[good] and len(told) == 2:
            break
        await asyncio.sleep(0.001)
    watching.cancel()
    await asyncio.wait([watching])
    owners = {sink.target: sink.owner for sink in (await frontier.report()).sinks}
    await failover.finish(StopRequest())
    assert owners == {good: worker_id(), taken: "somebody else", bad: "", "file.jsonl": "", "-": ""}
    assert sinks.rows == [0, 1, 2]
    assert sorted(event.kind.name for event in told) == ["sink.left", "sink.taken_over"]
    left = {sink.target: (sink.undelivered, sink.owner) for sink in (await frontier.report()).sinks}
    assert left[good] == (0, "")
    assert left["file.jsonl"] == (3, "")
