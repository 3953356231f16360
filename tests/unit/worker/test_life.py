"""A worker's life: it works until the job ends, pauses, drains, stops, stays, and starts over with a new run."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest

from skitter.model.job import Command, State
from skitter.model.request import Request
from skitter.spiders.base import Spider
from skitter.worker import loop as module

BASE = "http://a.example"


class Follow(Spider):
    """Follows every link, one record a page."""

    start_urls = (BASE + "/0",)

    def parse(self, response: Any) -> Any:
        yield {"url": response.url}
        yield from map(Request, response.links())


def tree(size: int) -> dict[str, Any]:
    """Pages 0 to size - 1; page n links to 2n + 1 and 2n + 2, and to the root."""
    return {
        f"/{n}": (
            200,
            {},
            "".join(f"<a href=/{m}>x</a>" for m in (0, 2 * n + 1, 2 * n + 2) if m < size).encode(),
        )
        for n in range(size)
    }


class Slow:
    """An answer that waits until it is told."""

    def __init__(self, answer: Any = 200) -> None:
        self.go_on = asyncio.Event()
        self.asked = asyncio.Event()
        self._answer = answer

    async def __call__(self, request: Any) -> Any:
        self.asked.set()
        await self.go_on.wait()
        return self._answer


async def test_a_crawl_fetches_every_page_once_and_ends(crawl: Any) -> None:
    await crawl.begin(Follow())
    crawl.fetcher.answers |= tree(300)
    assert await crawl.run() is State.FINISHED
    assert sorted(crawl.fetcher.paths) == sorted(f"/{n}" for n in range(300))
    assert len(await crawl.items()) == 300
    assert await crawl.places() == {"done": 300}
    assert crawl.workers[0].held == {}


async def test_two_workers_share_the_work(crawl: Any) -> None:
    await crawl.begin(Follow())
    crawl.fetcher.answers |= tree(300)
    states = await asyncio.gather(crawl.run(crawl.worker("w1")), crawl.run(crawl.worker("w2")))
    assert states == [State.FINISHED, State.FINISHED]
    assert sorted(crawl.fetcher.paths) == sorted(f"/{n}" for n in range(300))


async def test_there_are_never_more_in_flight_than_slots(crawl: Any) -> None:
    seen = []

    async def answer(request: Any) -> Any:
        await asyncio.sleep(0)
        seen.append(crawl.fetcher.in_flight)
        return pages[request.url.removeprefix(BASE)]

    pages = tree(200)
    await crawl.begin(Follow(), concurrency=7)
    crawl.fetcher.answers |= dict.fromkeys(pages, answer)
    await crawl.run()
    assert max(seen) == 7


async def test_slow_ones_stand_aside_for_the_others(crawl: Any) -> None:
    await crawl.begin(Follow(), concurrency=8)
    slow = Slow()

    async def wait(request: Any) -> Any:
        crawl.fetcher.slow_ones += 1
        return await slow(request)

    crawl.fetcher.answers["/0"] = (
        200,
        {},
        b"".join(b"<a href=/slow%d>x</a>" % number for number in range(8)) + (b"<a href=/good>x</a>"),
    )
    crawl.fetcher.answers |= {f"/slow{number}": wait for number in range(8)}
    crawl.fetcher.answers["/good"] = good = Slow()
    good.go_on.set()
    running = crawl.start(crawl.worker())
    await good.asked.wait()
    slow.go_on.set()
    crawl.fetcher.slow_ones = 0
    assert await running is State.FINISHED


@pytest.mark.parametrize(("concurrency", "most"), [(1, 1), (2, 9), (8, 57)])
async def test_slow_ones_have_an_end_too(concurrency: int, most: int, crawl: Any) -> None:
    await crawl.begin(Follow(), concurrency=concurrency)
    slow = Slow()
    crawl.fetcher.slow_ones = 1_000
    crawl.fetcher.answers["/0"] = 200, {}, b"".join(b"<a href=/slow%d>x</a>" % number for number in range(100))
    crawl.fetcher.answers |= {f"/slow{number}": slow for number in range(100)}
    running = crawl.start(crawl.worker())
    await crawl.until(lambda: crawl.fetcher.in_flight >= most)
    await asyncio.sleep(3 * module.SLOW_LOOK_SECONDS)
    assert crawl.fetcher.in_flight == most
    slow.go_on.set()
    crawl.fetcher.slow_ones = 0
    assert await running is State.FINISHED


async def test_an_idle_worker_does_not_spin(crawl: Any) -> None:
    await crawl.begin(Follow())
    slow = crawl.fetcher.answers["/0"] = Slow()
    asked = []
    lease = crawl.frontier.lease

    async def counting(*arguments: Any, **call: Any) -> Any:
        asked.append(True)
        return await lease(*arguments, **call)

    crawl.frontier.lease = counting
    running = crawl.start(crawl.worker())
    await slow.asked.wait()
    before = len(asked)
    await asyncio.sleep(0.2)
    assert len(asked) - before <= 1
    slow.go_on.set()
    assert await running is State.FINISHED


async def test_paused_work_ends_and_nothing_new_begins_until_resume(crawl: Any) -> None:
    await crawl.begin(Follow())
    slow = Slow(tree(3)["/0"])
    crawl.fetcher.answers |= tree(3) | {"/0": slow}
    running = crawl.start(crawl.worker())
    await slow.asked.wait()
    await crawl.command(Command.PAUSE)
    slow.go_on.set()
    await crawl.until(lambda: not crawl.workers[0].held)
    await crawl.elapse(10)
    assert await crawl.places() == {"done": 1, "queued": 2}
    assert not running.done()
    await crawl.command(Command.RESUME)
    assert await running is State.FINISHED
    assert await crawl.places() == {"done": 3}


async def test_a_drained_job_is_stopped_with_its_queue_kept(crawl: Any) -> None:
    await crawl.begin(Follow())
    slow = Slow(tree(3)["/0"])
    crawl.fetcher.answers |= tree(3) | {"/0": slow}
    running = crawl.start(crawl.worker())
    await slow.asked.wait()
    await crawl.command(Command.STOP)
    slow.go_on.set()
    assert await running is State.STOPPED
    assert await crawl.places() == {"done": 1, "queued": 2}
    assert len(await crawl.items()) == 1


async def test_a_worker_that_is_asked_to_stop_finishes_what_is_in_flight(crawl: Any) -> None:
    await crawl.begin(Follow())
    slow = crawl.fetcher.answers["/0"] = Slow()
    worker = crawl.worker()
    running = crawl.start(worker)
    await slow.asked.wait()
    await crawl.add("/more")
    worker.stop()
    await asyncio.sleep(0)
    slow.go_on.set()
    assert await running is State.RUNNING
    assert await crawl.places() == {"done": 1, "queued": 1}
    assert worker.held == {}


async def test_what_does_not_end_in_time_is_released_without_a_loss(crawl: Any) -> None:
    await crawl.begin(Follow(), shutdown_seconds=0.01)
    slow = crawl.fetcher.answers["/0"] = Slow()
    worker = crawl.worker()
    running = crawl.start(worker)
    await slow.asked.wait()
    worker.stop()
    await running
    assert await crawl.places() == {"queued": 1}
    assert crawl.fetcher.in_flight == 0
    (lease,) = (await crawl.frontier.lease("w2", 5)).leases
    trace = await crawl.frontier.trace(lease.id)
    assert (trace.attempts, trace.losses) == (0, 0)


async def test_what_was_broken_off_has_touched_its_host(crawl: Any) -> None:
    await crawl.begin(Follow(), shutdown_seconds=0, delay_seconds=60)
    slow = crawl.fetcher.answers["/0"] = Slow()
    worker = crawl.worker()
    running = crawl.start(worker)
    await slow.asked.wait()
    worker.stop()
    await running
    assert (await crawl.frontier.lease("w2", 5)).leases == [], "its delay has not passed"
    crawl.clock.advance(61)
    assert len((await crawl.frontier.lease("w2", 5)).leases) == 1


async def test_stop_before_run_leases_nothing(crawl: Any) -> None:
    await crawl.begin(Follow())
    worker = crawl.worker()
    worker.stop()
    await crawl.run(worker)
    assert crawl.fetcher.requests == []
    assert await crawl.places() == {}


async def test_what_is_granted_to_a_worker_that_stops_goes_back_at_once(crawl: Any) -> None:
    await crawl.begin(Spider())
    await crawl.add("/1", "/2")

    class Stopping:
        """The signal comes while the worker waits for its leases."""

        def __getattr__(self, name: str) -> Any:
            return getattr(crawl.frontier, name)

        async def lease(self, *arguments: Any, **call: Any) -> Any:
            grant = await crawl.frontier.lease(*arguments, **call)
            worker.stop()
            return grant

    worker = crawl.worker(source=Stopping())
    await crawl.run(worker)
    assert crawl.fetcher.requests == []
    assert await crawl.places() == {"queued": 2}


async def test_a_callback_that_cannot_be_cancelled_is_left_behind(
    crawl: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "CANCEL_SECONDS", 0.05)
    entered, freed = asyncio.Event(), asyncio.Event()

    class Stubborn(Follow):
        async def parse(self, response: Any) -> Any:
            entered.set()
            while not freed.is_set():
                try:
                    await freed.wait()
                except asyncio.CancelledError:
                    continue
            yield {"too": "late"}

    await crawl.begin(Stubborn(), shutdown_seconds=0)
    crawl.fetcher.answers["/0"] = 200
    worker = crawl.worker()
    running = crawl.start(worker)
    await entered.wait()
    worker.stop()
    await running
    assert await crawl.places() == {"queued": 1}
    assert "cannot be cancelled" in caplog.text
    freed.set()
    await crawl.until(lambda: not worker._tasks)
    assert await crawl.items() == []


async def test_a_worker_that_stays_waits_for_more(crawl: Any) -> None:
    await crawl.begin(Follow())
    crawl.fetcher.answers |= {"/0": 200, "/more": 200}
    worker = crawl.worker(stay=True)
    running = crawl.start(worker)
    await crawl.until(lambda: crawl.fetcher.paths == ["/0"] and not worker.held)
    await crawl.until(lambda: worker._state is State.FINISHED)
    await crawl.add("/more")
    await crawl.elapse(0)
    await crawl.until(lambda: crawl.fetcher.paths == ["/0", "/more"])
    assert not running.done()
    worker.stop()
    await running
    assert await crawl.places() == {"done": 2}


async def test_a_new_run_is_not_the_old_workers_business(crawl: Any) -> None:
    await crawl.begin(Follow())
    crawl.fetcher.answers["/0"] = 200
    worker = crawl.worker(stay=True)
    running = crawl.start(worker)
    await crawl.until(lambda: worker._state is State.FINISHED)
    other = Spider()
    other.start_urls = [BASE + "/other"]
    await crawl.begin(other, fresh=True)
    await crawl.elapse(0)
    await running
    assert worker.superseded
    assert crawl.fetcher.paths == ["/0"], "it would have seeded what the old run was about"
    assert await crawl.run() is State.FINISHED
    assert crawl.fetcher.paths == ["/0", "/other"]


async def test_work_of_an_older_run_is_dropped(crawl: Any) -> None:
    await crawl.begin(Follow())
    slow = crawl.fetcher.answers["/0"] = Slow()
    worker = crawl.worker()
    running = crawl.start(worker)
    await slow.asked.wait()
    await crawl.begin(Follow(), fresh=True)
    await crawl.elapse(0)
    await running
    assert worker.superseded
    assert crawl.fetcher.in_flight == 0
    assert await crawl.places() == {}


async def test_a_worker_that_is_cancelled_leaves_no_task_behind(crawl: Any) -> None:
    await crawl.begin(Follow())
    slow = crawl.fetcher.answers["/0"] = Slow()
    running = crawl.start(crawl.worker())
    await slow.asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert crawl.fetcher.in_flight == 0


async def test_the_first_failing_callback_of_a_kind_is_told_in_full_and_the_others_are_counted(
    crawl: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Follow):
        start_urls = tuple(f"{BASE}/{n}" for n in range(50))

        def parse(self, response: Any) -> Any:
            raise ValueError("no title")

    await crawl.begin(Broken())
    crawl.fetcher.answers |= {f"/{n}": 200 for n in range(50)}
    with caplog.at_level(logging.INFO):
        assert await crawl.run() is State.FINISHED
    told = [record.getMessage() for record in caplog.records if "fail" in record.getMessage()]
    assert len(told) == 2, told
    assert told[0].startswith(f"{BASE}/0 failed in the spider's code")
    assert told[0].endswith("ValueError: no title")
    assert "Traceback (most recent call last)" in told[0]
    assert re.fullmatch(r"ValueError in parse, test_life\.py line \d+: 50 pages failed in this way", told[1])
    assert {failed.error_class for failed in (await crawl.failures()).values()} == {"callback"}
