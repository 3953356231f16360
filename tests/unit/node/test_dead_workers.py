"""Workers that died on this machine are recovered, beside the work, without waiting for their leases to expire."""

from __future__ import annotations

import asyncio
import socket

import pytest

from skitter.cluster.process_identity import is_alive, live_workers, worker_id
from skitter.frontier.contract import Frontier
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.model.job import JobSpec
from skitter.model.request import Fingerprinter, Request
from skitter.model.worker import WorkerHeartbeat, WorkerSeen
from skitter.node import dead_workers as module
from skitter.node.dead_workers import dead_worker_recovery, recover_dead_workers
from skitter.observe.events import Event
from skitter.settings import Settings

DEAD = f"{socket.gethostname()}:999999999:1"
ELSEWHERE = "elsewhere:999999999:1"


async def job(**settings: float) -> Frontier:
    frontier = memory_frontier("j", MemoryStore())
    await frontier.begin(JobSpec(name="j", spider="", settings=settings or Settings().job_wide()), sinks=["out.jsonl"])
    return frontier


async def test_the_leases_and_sinks_of_a_dead_process_go_back_and_those_of_other_machines_stay() -> None:
    frontier, told = await job(), []
    await frontier.lease(DEAD, 1)
    await frontier.open_sink("out.jsonl", DEAD)
    await recover_dead_workers(frontier, told.append)
    assert [(event.kind.name, event.fields["leases"]) for event in told] == [("worker.gone", 1)]
    assert (await frontier.report()).sinks[0].owner == ""
    await frontier.lease(ELSEWHERE, 1)
    await frontier.open_sink("out.jsonl", ELSEWHERE)
    await recover_dead_workers(frontier, told.append)
    assert len(told) == 1
    assert (await frontier.report()).sinks[0].owner == ELSEWHERE


async def test_beside_the_work_a_dead_worker_is_recovered_after_its_supervisor_had_time_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.001)
    monkeypatch.setattr(module, "GRACE_SECONDS", 600.0)
    frontier, recovered = await job(), asyncio.Event()
    told: list[Event] = []

    def on_event(event: Event) -> None:
        told.append(event)
        recovered.set()

    await frontier.lease(DEAD, 1)
    async with dead_worker_recovery(frontier, on_event):
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert told == [], "its supervisor may live, and knows which page is to blame"
        monkeypatch.setattr(module, "GRACE_SECONDS", 0.0)
        await asyncio.wait_for(recovered.wait(), 60)
    assert [event.kind.name for event in told] == ["worker.gone"]


class Group:
    """A membership whose group has these."""

    def __init__(self, *present: str) -> None:
        self.present = set(present)
        self.asked: list[set[str]] = []

    async def gone(self, members: set[str]) -> set[str]:
        self.asked.append(members)
        return members - self.present


async def test_the_leases_of_a_node_that_has_left_its_group_go_back_with_a_loss_and_those_of_others_stay() -> None:
    frontier, told = await job(), []
    await frontier.add([Fingerprinter((await frontier.job()).secret).entry(Request("http://a.example/"))])
    for worker, member in (("a:1:1", "gone"), ("b:1:1", "there"), ("c:1:1", ""), (worker_id(), "gone")):
        await frontier.tell(worker, WorkerHeartbeat(member=member))
        await frontier.lease(worker, 1)
    group = Group("there")
    await recover_dead_workers(frontier, told.append, membership=group)  # type: ignore[arg-type]
    assert group.asked == [{"gone", "there"}]
    assert [event.fields for event in told] == [{"worker": "a:1:1", "leases": 1}]
    left = {worker.id: worker.leased for worker in await frontier.workers()}
    assert "a:1:1" not in left
    assert worker_id() in left, "it lives, and this machine can see that"
    await recover_dead_workers(frontier, told.append, membership=group)  # type: ignore[arg-type]
    assert len(told) == 1, "a second one finds nothing"


@pytest.mark.parametrize(
    ("worker", "silent_seconds", "alive"),
    [
        (worker_id(), 30.0, True),
        (worker_id(), 30.1, False),
        (ELSEWHERE, 30.0, True),
        (ELSEWHERE, 30.1, False),
        (DEAD, 0.0, False),
    ],
    # Not by their values: the id of a process differs between the processes that collect tests.
    ids=["here", "here, silent", "elsewhere", "elsewhere, silent", "dead"],
)
async def test_a_worker_is_alive_within_the_length_of_a_lease_unless_it_is_known_to_be_dead(
    worker: str, silent_seconds: float, alive: bool
) -> None:
    found = await (await job()).job()
    assert is_alive(WorkerSeen(worker, 0, silent_seconds), found) is alive


async def test_the_length_of_a_lease_is_the_jobs_own() -> None:
    frontier = await job(**(Settings().job_wide() | {"lease_seconds": 5.0}))
    assert not is_alive(WorkerSeen(ELSEWHERE, 0, 6.0), await frontier.job())
    await frontier.lease(ELSEWHERE, 1)
    assert [worker.id for worker in live_workers(await frontier.report())] == [ELSEWHERE]


async def test_a_job_that_says_nothing_has_the_default_of_the_settings() -> None:
    found = await (await job()).job()
    import msgspec

    bare = msgspec.structs.replace(found, spec=JobSpec(name="j", spider=""))
    lease_seconds = Settings().limits.lease_seconds
    assert is_alive(WorkerSeen(ELSEWHERE, 0, lease_seconds), bare)
    assert not is_alive(WorkerSeen(ELSEWHERE, 0, lease_seconds + 0.1), bare)
