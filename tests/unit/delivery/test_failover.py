"""Sink failover: a target without an owner is served by whoever works for the job, and no other is touched."""

from __future__ import annotations

import asyncio
import sys

import pytest

from skitter.cluster.process_identity import worker_id
from skitter.delivery import failover as module
from skitter.delivery import sink_runner
from skitter.delivery.failover import SinkFailover, sink_failover
from skitter.errors import SinkError
from skitter.frontier.contract import Frontier
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.model.item import NewItem
from skitter.model.job import JobSpec
from skitter.model.outcome import Ending, Outcome
from skitter.observe.events import Event
from skitter.settings import Settings
from skitter.sinks.targets import parse_target, sink_of
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
    records = [NewItem(msgspec.msgpack.encode({"n": n})) for n in range(3)]
    await frontier.commit("w", [Outcome(lease=seed, ending=Ending.DONE, items=records)])
    failover = SinkFailover(frontier, "j", password=None, on_event=told.append, trusted=("failover_sinks",))
    watching = asyncio.create_task(failover.watch())
    async with asyncio.timeout(60):
        while len(told) < 2 or {sink.undelivered for sink in await frontier.sinks() if sink.target == good} != {0}:  # noqa: ASYNC110
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


async def test_a_target_that_another_node_was_faster_to_take_is_not_given_up(sinks) -> None:
    good = "python:failover_sinks:Good"
    told: list[Event] = []
    frontier = memory_frontier("j", MemoryStore())
    await frontier.begin(JobSpec(name="j", spider="", settings=Settings().job_wide()), sinks=[good])
    failover = SinkFailover(frontier, "j", password=None, on_event=told.append, trusted=("failover_sinks",))
    await frontier.open_sink(good, "another node")
    await failover._start(good)
    assert told == []
    await frontier.close_sink(good, "another node")
    await failover._start(good)
    assert [event.kind.name for event in told] == ["sink.taken_over"]
    await failover.close()


async def job_with_archive() -> tuple[Frontier, str]:
    frontier = memory_frontier("j", MemoryStore())
    archive = sink_of(parse_target("pages.warc", job="j")).target
    await frontier.begin(JobSpec(name="j", spider="", settings=Settings().job_wide()), sinks=[archive])
    return frontier, archive


async def owner_becomes(frontier: Frontier, owner: str) -> None:
    async with asyncio.timeout(60):
        while [sink.owner for sink in (await frontier.report()).sinks] != [owner]:  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.001)


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "ARCHIVE_POLL_SECONDS", 0.001)
    monkeypatch.setattr(module, "POLL_SECONDS", 0.001)


@pytest.mark.usefixtures("in_folder")
async def test_the_archive_of_this_machine_is_served_at_once_and_completed_when_the_job_is_finished() -> None:
    frontier, archive = await job_with_archive()
    told: list[Event] = []
    failover = SinkFailover(frontier, "j", password=None, on_event=told.append, archives=True)
    async with sink_failover(failover, StopRequest(), told.append):
        await owner_becomes(frontier, worker_id())
        (seed,) = (await frontier.lease("w", 1)).leases
        await frontier.commit("w", [Outcome(lease=seed, ending=Ending.DONE)])
        assert (await frontier.job()).state == "finished"
        await owner_becomes(frontier, "")
    assert told == [], "nobody else served it before"
    assert [(sink.target, sink.undelivered) for sink in (await frontier.report()).sinks] == [(archive, 0)]


@pytest.mark.usefixtures("in_folder")
async def test_a_node_whose_own_sinks_hold_the_archive_leaves_it_to_them(monkeypatch) -> None:
    frontier, _ = await job_with_archive()
    polled = asyncio.Event()
    failover = SinkFailover(frontier, "j", password=None, on_event=lambda _: None)
    check = failover._check

    async def checked() -> None:
        await check()
        polled.set()

    monkeypatch.setattr(failover, "_check", checked)
    async with sink_failover(failover, StopRequest(), lambda _: None):
        await polled.wait()
        assert [sink.owner for sink in (await frontier.report()).sinks] == [""]


@pytest.mark.usefixtures("in_folder")
async def test_an_archive_that_cannot_be_written_stops_the_work_and_is_raised_at_its_end(monkeypatch) -> None:
    frontier, _ = await job_with_archive()
    told: list[Event] = []
    stop, stopped = StopRequest(), asyncio.Event()
    stop.set_handlers(stopped.set, lambda: None)
    failover = SinkFailover(frontier, "j", password=None, on_event=told.append, archives=True)

    async def fail(runner, stop) -> None:
        raise SinkError("the disk is gone: pages.warc")

    monkeypatch.setattr(sink_runner.SinkRunner, "run", fail)
    with pytest.raises(SinkError, match="the disk is gone"):
        async with sink_failover(failover, stop, told.append):
            await asyncio.wait_for(stopped.wait(), 60)
    assert [event.kind.name for event in told] == ["sink.failed"]
    assert not stop.requested, "what comes after the work is not stopped"
    assert [sink.owner for sink in (await frontier.report()).sinks] == [""]


async def test_a_takeover_that_is_under_way_when_the_work_ends_is_completed(sinks, monkeypatch) -> None:
    import threading

    import msgspec

    opening, go_on = threading.Event(), threading.Event()

    def slow_sink_of(target):
        sink = sink_of(target)
        really_open = sink.open

        def open_slowly(progress):
            opening.set()
            assert go_on.wait(60)
            return really_open(progress)

        sink.open = open_slowly
        return sink

    monkeypatch.setattr(module, "sink_of", slow_sink_of)
    frontier = memory_frontier("j", MemoryStore())
    spec = JobSpec(name="j", spider="", settings=Settings().job_wide())
    await frontier.begin(spec, sinks=["python:failover_sinks:Good"])
    (seed,) = (await frontier.lease("w", 1)).leases
    records = [NewItem(msgspec.msgpack.encode({"n": n})) for n in range(3)]
    await frontier.commit("w", [Outcome(lease=seed, ending=Ending.DONE, items=records)])
    failover = SinkFailover(frontier, "j", password=None, on_event=lambda _: None, trusted=("failover_sinks",))
    async with sink_failover(failover, StopRequest(), lambda _: None):
        await asyncio.to_thread(opening.wait, 60)
        asyncio.get_running_loop().call_later(0.05, go_on.set)
    assert [(sink.owner, sink.undelivered) for sink in await frontier.sinks()] == [("", 0)]
    assert sinks.rows == [0, 1, 2]


async def test_a_takeover_that_is_cancelled_lets_the_target_go(sinks, monkeypatch) -> None:
    import threading

    opening, go_on = threading.Event(), threading.Event()

    def slow_sink_of(target):
        sink = sink_of(target)

        def open_slowly(_):
            opening.set()
            go_on.wait(60)
            return b""

        sink.open = open_slowly
        return sink

    monkeypatch.setattr(module, "sink_of", slow_sink_of)
    frontier = memory_frontier("j", MemoryStore())
    spec = JobSpec(name="j", spider="", settings=Settings().job_wide())
    await frontier.begin(spec, sinks=["python:failover_sinks:Good"])
    failover = SinkFailover(frontier, "j", password=None, on_event=lambda _: None, trusted=("failover_sinks",))
    watching = asyncio.create_task(failover.watch())
    await asyncio.to_thread(opening.wait, 60)
    assert [sink.owner for sink in await frontier.sinks()] == [worker_id()]
    asyncio.get_running_loop().call_later(0.05, go_on.set)
    watching.cancel()
    await asyncio.wait([watching])
    assert [sink.owner for sink in await frontier.sinks()] == [""]


async def test_an_archive_that_is_being_completed_when_the_work_ends_is_completed(in_folder, monkeypatch) -> None:
    begun, go_on, ended = asyncio.Event(), asyncio.Event(), []

    async def finish_slowly(delivery, *, complete):
        begun.set()
        await go_on.wait()
        await really_finish(delivery, complete=complete)
        ended.append(complete)

    really_finish = module.Delivery.finish
    monkeypatch.setattr(module.Delivery, "finish", finish_slowly)
    frontier, _ = await job_with_archive()
    (seed,) = (await frontier.lease("w", 1)).leases
    failover = SinkFailover(frontier, "j", password=None, on_event=lambda _: None, archives=True)
    async with sink_failover(failover, StopRequest(), lambda _: None):
        await owner_becomes(frontier, worker_id())
        await frontier.commit("w", [Outcome(lease=seed, ending=Ending.DONE)])
        await asyncio.wait_for(begun.wait(), 60)
        asyncio.get_running_loop().call_later(0.05, go_on.set)
    assert ended == [True]
    assert [(sink.owner, sink.undelivered) for sink in await frontier.sinks()] == [("", 0)]
