"""Workers without work wait at the master: who is woken, when, and beside what."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.web.conftest import Service
from tests.unit.web.test_roles import begun, done

from skitter.frontier.contract import DistantSource, Frontier
from skitter.frontier.http.wire import MAX_POLL_SECONDS
from skitter.model.job import Command
from skitter.model.request import Fingerprinter, Request
from skitter.web import work_waiters
from skitter.web.work_waiters import WorkWaiters


@pytest.fixture(autouse=True)
def no_look_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is woken is woken for a reason."""
    monkeypatch.setattr(work_waiters, "POLL_SECONDS", 600.0)


def wait_for_work(client: Frontier, worker: str, seconds: float = MAX_POLL_SECONDS) -> asyncio.Task[bool]:
    assert isinstance(client, DistantSource)
    return asyncio.create_task(client.wait_for_work(worker, seconds))


async def waiting(service: Service, number: int) -> None:
    """Until so many wait."""
    waiters = service.master._work["master"]._waiters
    while waiters.count != number:  # noqa: ASYNC110  the master has no event for it
        await asyncio.sleep(0.005)


async def test_nothing_happens_and_the_worker_need_not_ask(service: Service) -> None:
    await begun(service)
    assert await wait_for_work(service.client("worker"), "w", 0.05) is False


async def test_an_added_request_wakes_one_of_those_that_wait(service: Service) -> None:
    await begun(service, pages=0)
    operator = service.client("operator")
    await operator.add([Fingerprinter((await operator.job()).secret).entry(Request("http://b.example/"))])
    (held,) = (await operator.lease("holder", 1)).leases
    polls = [wait_for_work(service.client("worker"), f"w{number}") for number in range(3)]
    await waiting(service, 3)
    await operator.release([held])
    finished, pending = await asyncio.wait(polls, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    assert (len(finished), len(pending)) == (1, 2)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)


async def test_who_gets_all_that_it_asked_for_wakes_two_more(service: Service) -> None:
    await begun(service, pages=8)
    clients = {f"w{number}": service.client("worker") for number in range(4)}
    polls = {worker: wait_for_work(client, worker) for worker, client in clients.items()}
    await waiting(service, 4)
    await service.client("operator").reap()
    await asyncio.wait(polls.values(), return_when=asyncio.FIRST_COMPLETED)
    (first,) = [worker for worker, poll in polls.items() if poll.done()]
    assert len((await clients[first].lease(first, 2)).leases) == 2
    left = [poll for worker, poll in polls.items() if worker != first]
    for _, woken in zip(range(2), asyncio.as_completed(left), strict=False):
        assert await asyncio.wait_for(woken, 60)
    assert sum(poll.done() for poll in left) == 2
    for poll in left:
        poll.cancel()
    await asyncio.gather(*left, return_exceptions=True)


async def test_everybody_is_woken_at_the_end_of_a_job(service: Service) -> None:
    await begun(service, pages=1)
    worker = service.client("worker")
    (lease,) = (await worker.lease("busy", 1)).leases
    polls = [wait_for_work(service.client("worker"), f"w{number}") for number in range(3)]
    await waiting(service, 3)
    await worker.commit("busy", [done(lease)], want=1)
    assert await asyncio.wait_for(asyncio.gather(*polls), 60) == [True] * 3


async def test_everybody_is_woken_at_the_end_of_a_master() -> None:
    waiters = WorkWaiters()
    polls = [asyncio.create_task(waiters.wait("job", f"w{number}", 20, lambda: False)) for number in range(3)]
    await asyncio.sleep(0)
    assert waiters.count == 3
    waiters.close()
    assert await asyncio.gather(*polls) == [True] * 3


async def test_renewals_and_other_calls_do_not_wait_behind_a_poll(service: Service) -> None:
    await begun(service)
    worker = service.client("worker")
    (lease,) = (await worker.lease("w", 1)).leases
    # Nothing is ready, so that nobody is woken.
    await service.client("operator").command(Command.PAUSE)
    poll = wait_for_work(worker, "w")
    await waiting(service, 1)
    assert await asyncio.wait_for(worker.renew("w", [lease]), 60) == [True]
    assert not poll.done()
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)


async def test_a_worker_that_waits_is_shown_as_alive(service: Service) -> None:
    await begun(service)
    worker = service.client("worker")
    await worker.renew("w", [])
    poll = wait_for_work(worker, "w")
    await waiting(service, 1)
    (seen,) = [seen for seen in await worker.workers() if seen.id == "w"]
    assert seen.silent_seconds == 0.0
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)


async def test_a_job_that_is_dropped_wakes_everybody_who_waits_for_it(service: Service) -> None:
    await begun(service, pages=0)
    polls = [wait_for_work(service.client("worker"), f"w{number}") for number in range(5)]
    await waiting(service, 5)
    assert (await service.post("/v1/jobs/job/drop", token="admin"))[0] == 200
    assert await asyncio.wait_for(asyncio.gather(*polls), 60) == [True] * 5
