"""Leases: started in time or released, dropped when lost, and never committed by a store that fails."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from skitter.errors import FetchError, FormatError, FrontierError, LateError
from skitter.model.job import State
from skitter.model.request import Entry
from skitter.spiders.base import Spider
from skitter.worker import loop as loop_module
from skitter.worker import page_yield as harvest_module

BASE = "http://a.example"


class Plain(Spider):
    def parse(self, response: Any) -> Any:
        return {"url": response.url}


class Through:
    """A WorkSource before the frontier; a method that a test gives it takes precedence."""

    def __init__(self, crawl: Any, **methods: Any) -> None:
        self._crawl = crawl
        self.__dict__.update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._crawl.frontier, name)


async def seeded(crawl: Any, *paths: str, **values: Any) -> None:
    """A job whose seeding is over."""
    await crawl.begin(Plain(), **values)
    await crawl.run()
    await crawl.add(*paths)
    crawl.fetcher.answers |= dict.fromkeys(paths, 200)


# ---- start windows


async def test_a_lease_that_cannot_start_in_time_is_released_and_widens_the_window(crawl: Any) -> None:
    await seeded(crawl, "/1", delay_seconds=5)
    windows: list[float] = []

    async def lease(*arguments: Any, **call: Any) -> Any:
        grant = await crawl.frontier.lease(*arguments, **call)
        if grant.leases:
            windows.append(grant.leases[0].start_seconds)
            if len(windows) < 3:
                # The answer takes its time: the machine is slow, or the store.
                await asyncio.sleep(windows[-1] + 0.01)
        return grant

    assert await crawl.run(crawl.worker(source=Through(crawl, lease=lease))) is State.FINISHED
    assert windows[:3] == [0.05, 0.1, 0.2]
    assert crawl.fetcher.paths == ["/1"], "it was at the socket once, and in time"
    assert await crawl.places() == {"done": 1}


@pytest.mark.parametrize("path", ["/robots.txt", "/1"])
async def test_what_is_too_late_at_the_socket_is_released_and_not_sent(crawl: Any, path: str) -> None:
    """The fetch engine looks once more, at the last instant."""
    await seeded(crawl, "/1", delay_seconds=5, obey_robots=path == "/robots.txt")
    asked: list[float | None] = []

    def answer(request: Any) -> Any:
        asked.append(request.start_by)
        return 200 if len(asked) == 3 else LateError("too late to be sent")

    crawl.fetcher.answers[path] = answer
    began = time.monotonic()
    assert await crawl.run_through() is State.FINISHED
    assert [at > began for at in asked] == [True] * 3
    assert await crawl.places() == {"done": 1}


async def test_a_lease_that_has_run_out_before_it_is_started_is_not_started(
    crawl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process stood still, and others may be at the page by now."""
    await seeded(crawl, "/1", lease_seconds=600)
    leases: list[Any] = []
    stood_still_seconds = 0.0

    def monotonic() -> float:
        return time.monotonic() + stood_still_seconds

    monkeypatch.setattr(loop_module, "time", SimpleNamespace(monotonic=monotonic, gmtime=time.gmtime))

    async def lease(*arguments: Any, **call: Any) -> Any:
        nonlocal stood_still_seconds
        grant = await crawl.frontier.lease(*arguments, **call)
        leases.extend(grant.leases)
        if len(leases) == 1:
            stood_still_seconds = 601.0
        return grant

    await crawl.run(crawl.worker(source=Through(crawl, lease=lease)))
    assert crawl.fetcher.paths == ["/1"], "when it was leased again"
    assert len(leases) == 2
    assert await crawl.places() == {"done": 1}


async def test_without_a_delay_there_is_no_hurry(crawl: Any) -> None:
    await seeded(crawl, "/1")

    async def lease(*arguments: Any, **call: Any) -> Any:
        grant = await crawl.frontier.lease(*arguments, **call)
        await asyncio.sleep(0.06)
        return grant

    await crawl.run(crawl.worker(source=Through(crawl, lease=lease)))
    assert await crawl.places() == {"done": 1}


# ---- lost leases


class Held:
    """An answer that waits, so that its lease can be lost meanwhile."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, request: Any) -> int:
        self.asked.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return 200


async def test_a_lost_lease_is_dropped_and_its_slot_is_free(crawl: Any) -> None:
    await seeded(crawl, "/1", lease_seconds=30, concurrency=1)
    held = crawl.fetcher.answers["/1"] = Held()
    worker = crawl.worker()
    running = crawl.start(worker)
    await held.asked.wait()
    (lease,) = worker.held.values()
    crawl.clock.advance(31)
    assert len((await crawl.frontier.lease("w2", 1)).leases) == 1
    assert await crawl.frontier.renew("w1", [lease]) == [False]
    worker.lost([lease])
    await held.cancelled.wait()
    assert worker.held == {}
    crawl.fetcher.answers["/2"] = 200
    await crawl.add("/2")
    await crawl.elapse(0)
    await crawl.until(lambda: "/2" in crawl.fetcher.paths)
    assert not running.done()
    await crawl.frontier.release_worker("w2")
    crawl.fetcher.answers["/1"] = 200
    await crawl.elapse(0)
    assert await running is State.FINISHED
    assert await crawl.places() == {"done": 2}


async def test_a_worker_that_was_held_and_comes_back_ends_its_page_and_breaks_off_the_others(crawl: Any) -> None:
    await seeded(crawl, "/1", "/2", lease_seconds=30)
    own, others = crawl.fetcher.answers["/1"], crawl.fetcher.answers["/2"] = Held(), Held()
    worker = crawl.worker()
    running = crawl.start(worker)
    await own.asked.wait()
    await others.asked.wait()
    page = next(lease for lease in worker.held.values() if lease.request.url.endswith("/1"))
    assert await crawl.frontier.relieve_worker("w1", page, 0.0) == 1
    # As its supervisor says when it is back.
    worker.stop()
    await others.cancelled.wait()
    own.go_on.set()
    await running
    assert await crawl.places() == {"done": 1, "queued": 1}


async def test_a_late_outcome_is_refused_and_counts_once(crawl: Any, caplog: pytest.LogCaptureFixture) -> None:
    await seeded(crawl, "/1", lease_seconds=30)
    held = crawl.fetcher.answers["/1"] = Held()
    first = crawl.start(crawl.worker("w1"))
    await held.asked.wait()
    crawl.clock.advance(31)
    crawl.fetcher.answers["/1"] = 200
    assert await crawl.run(crawl.worker("w2")) is State.FINISHED
    # Nobody has told the first one that its lease is lost.
    held.go_on.set()
    assert await first is State.FINISHED
    assert "came too late and was refused" in caplog.text
    assert len(await crawl.items()) == 1
    assert await crawl.places() == {"done": 1}


async def test_the_same_request_may_come_back_to_the_same_worker(crawl: Any) -> None:
    await seeded(crawl, "/1", lease_seconds=30)
    old, new = Held(), Held()
    crawl.fetcher.answers["/1"] = old
    worker = crawl.worker()
    running = crawl.start(worker)
    await old.asked.wait()
    (lease,) = worker.held.values()
    crawl.clock.advance(31)
    crawl.fetcher.answers["/1"] = new
    # Told that it is lost, and granted anew, before the old task has had a step to end in.
    await crawl.frontier.reap()
    worker.lost([lease])
    await crawl.elapse(0)
    await new.asked.wait()
    assert old.cancelled.is_set()
    assert [task_lease.epoch for task_lease in worker._tasks.values()] == list(worker.held)
    new.go_on.set()
    assert await running is State.FINISHED
    assert await crawl.places() == {"done": 1}
    assert len(await crawl.items()) == 1


async def test_a_lease_that_is_lost_before_its_first_step_frees_its_slot(crawl: Any) -> None:
    await seeded(crawl, "/1", concurrency=1)

    async def robots(host_keys: Any) -> Any:
        raise AssertionError("robots.txt is not obeyed here")

    worker = crawl.worker(source=Through(crawl, robots=robots))
    start = worker._start
    lost: list[Any] = []

    async def started(grant: Any, *times: float) -> None:
        await start(grant, *times)
        if grant.leases and not lost:
            lost.extend(grant.leases)
            crawl.clock.advance(31)
            await crawl.frontier.reap()
            worker.lost(lost)

    worker._start = started
    assert await crawl.run(worker) is State.FINISHED
    assert lost
    assert await crawl.places() == {"done": 1}


async def test_what_is_being_handed_in_is_not_taken_for_lost(crawl: Any) -> None:
    await seeded(crawl, "/1")

    async def commit(worker_id: str, outcomes: Any, want: int = 0, **call: Any) -> Any:
        answer = await crawl.frontier.commit(worker_id, outcomes, want, **call)
        # The renewal asks between the commit and its answer.
        leases = list(worker.held.values())
        kept = await crawl.frontier.renew(worker_id, leases)
        assert kept == [False]
        worker.lost(leases)
        return answer

    worker = crawl.worker(source=Through(crawl, commit=commit))
    assert await crawl.run(worker) is State.FINISHED
    assert await crawl.places() == {"done": 1}


async def test_what_ends_while_another_worker_has_the_store_goes_with_the_same_commit(crawl: Any) -> None:
    paths = [f"/{number}" for number in range(4)]
    await seeded(crawl, *paths, concurrency=4)
    last = asyncio.Event()
    batches: list[int] = []

    async def slow(_request: Any) -> int:
        await last.wait()
        return 200

    async def wait_for_turn() -> None:
        last.set()
        await crawl.until(lambda: worker._commit_queue.waiting == len(paths))

    async def commit(worker_id: str, outcomes: Any, want: int = 0, **call: Any) -> Any:
        batches.append(len(outcomes))
        return await crawl.frontier.commit(worker_id, outcomes, want, **call)

    crawl.fetcher.answers[paths[-1]] = slow
    worker = crawl.worker(source=Through(crawl, commit=commit, wait_for_turn=wait_for_turn))
    assert await crawl.run(worker) is State.FINISHED
    assert batches == [len(paths)]


# ---- what the worker knows


class Linking(Spider):
    def parse(self, response: Any) -> Any:
        return response.follow_all(css="a")


async def test_links_of_a_refused_commit_are_not_known(crawl: Any) -> None:
    await seeded(crawl, "/1", lease_seconds=30)
    crawl.spider = Linking()
    crawl.fetcher.answers |= {"/1": (200, {}, b"<a href=/2>x</a>"), "/2": 200}
    refused: list[bool] = []
    sent: list[int] = []

    async def commit(worker_id: str, outcomes: Any, want: int = 0, **call: Any) -> Any:
        if not refused:
            # Too late: in the meantime it was leased again, and not committed there.
            crawl.clock.advance(31)
            await crawl.frontier.reap()
        sent.append(sum(len(outcome.links) for outcome in outcomes))
        answer = await crawl.frontier.commit(worker_id, outcomes, want, **call)
        refused.append(not answer.accepted[0])
        return answer

    assert await crawl.run(crawl.worker(source=Through(crawl, commit=commit))) is State.FINISHED
    assert refused[:2] == [True, False]
    assert sent[:2] == [1, 1], "the second time the link is sent again"
    assert await crawl.places() == {"done": 2}


async def test_a_link_that_is_known_is_not_sent_again(crawl: Any) -> None:
    await seeded(crawl, "/1", "/2", concurrency=1)
    crawl.spider = Linking()
    crawl.fetcher.answers |= {path: (200, {}, b"<a href=/3>x</a><a href=/1>y</a>") for path in ("/1", "/2", "/3")}
    sent: list[Entry] = []

    async def commit(worker_id: str, outcomes: Any, want: int = 0, **call: Any) -> Any:
        sent.extend(link for outcome in outcomes for link in outcome.links)
        return await crawl.frontier.commit(worker_id, outcomes, want, **call)

    await crawl.run(crawl.worker(source=Through(crawl, commit=commit)))
    assert len(sent) == 2
    assert (await crawl.tally())["duplicates"] == 5


# ---- large pages


class Large(Spider):
    def parse(self, response: Any) -> Any:
        for n in range(5_000):
            yield {"n": n}
            yield from response.follow_all([f"/link/{n}"])
        self.after()

    def after(self) -> None: ...


async def test_a_large_page_takes_effect_as_a_whole(crawl: Any) -> None:
    await seeded(crawl, "/1")
    crawl.spider = Large()
    await crawl.run()
    assert [record["n"] for record in await crawl.items()] == list(range(5_000))
    assert await crawl.places() == {"done": 1, "failed": 5_000}


async def test_a_large_page_that_fails_shows_no_item(crawl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any) -> None:
        raise ValueError("at the very end")

    monkeypatch.setattr(Large, "after", fail)
    await seeded(crawl, "/1")
    crawl.spider = Large()
    await crawl.run()
    assert await crawl.items() == []
    assert (await crawl.failures())["/1"].error_class == "callback"


async def test_a_large_page_that_is_lost_in_the_middle_takes_effect_once(
    crawl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harvest_module, "PART_ITEMS", 1_000)
    await seeded(crawl, "/1", lease_seconds=30)
    crawl.spider = Large()
    parts: list[bool] = []

    async def commit(worker_id: str, outcomes: Any, want: int = 0, **call: Any) -> Any:
        if outcomes and outcomes[0].more and len(parts) == 2:
            crawl.clock.advance(31)
            await crawl.frontier.reap()
        answer = await crawl.frontier.commit(worker_id, outcomes, want, **call)
        parts.extend(answer.accepted if outcomes and outcomes[0].more else [])
        return answer

    assert await crawl.run(crawl.worker(source=Through(crawl, commit=commit))) is State.FINISHED
    assert parts[:3] == [True, True, False]
    assert [record["n"] for record in await crawl.items()] == list(range(5_000))
    assert (await crawl.places())["done"] == 1
    assert (await crawl.places())["failed"] == 5_000


# ---- a store that fails


@pytest.mark.parametrize("method", ["lease", "commit", "release", "robots"])
async def test_a_store_that_fails_ends_the_worker_with_its_error(crawl: Any, method: str) -> None:
    await seeded(crawl, "/1", "/2", delay_seconds=1 if method == "release" else 0, obey_robots=method == "robots")
    crawl.fetcher.answers["/robots.txt"] = (200, {}, b"User-agent: *\nDisallow: /x")

    async def fail(*arguments: Any, **options: Any) -> Any:
        raise FrontierError("the disk is full")

    async def slow_lease(*arguments: Any, **call: Any) -> Any:
        grant = await crawl.frontier.lease(*arguments, **call)
        await asyncio.sleep(0.06)
        return grant

    methods = {"lease": slow_lease} if method == "release" else {}
    worker = crawl.worker(source=Through(crawl, **methods, **{method: fail}))
    with pytest.raises(FrontierError, match="disk is full"):
        await crawl.run(worker)
    assert worker._tasks == {}, "nothing goes on behind its back"
    assert "done" not in await crawl.places()
    # Whoever comes next does the work.
    await crawl.frontier.release_worker("w1")
    await crawl.run_through(crawl.worker("w2"))
    assert await crawl.places() == {"done": 2}
    assert len(await crawl.items()) == 2


async def test_a_store_that_fails_on_the_way_out_is_told(crawl: Any) -> None:
    await seeded(crawl, "/1")
    held = crawl.fetcher.answers["/1"] = Held()

    async def commit(*arguments: Any, **call: Any) -> Any:
        raise FrontierError("the disk is full")

    worker = crawl.worker(source=Through(crawl, commit=commit))
    running = crawl.start(worker)
    await held.asked.wait()
    worker.stop()
    held.go_on.set()
    with pytest.raises(FrontierError):
        await running


async def test_a_renewal_that_cannot_go_on_ends_the_worker(crawl: Any) -> None:
    await seeded(crawl, "/1")
    held = crawl.fetcher.answers["/1"] = Held()
    worker = crawl.worker()
    running = crawl.start(worker)
    await held.asked.wait()
    worker.fail(RuntimeError("no more renewals"))
    with pytest.raises(RuntimeError, match="no more renewals"):
        await running
    assert held.cancelled.is_set()


async def test_a_request_of_a_newer_skitter_ends_the_worker_and_is_not_lost(crawl: Any) -> None:
    await seeded(crawl)
    await crawl.frontier.add([Entry(1, BASE, 0, b"\x02whatever")])
    with pytest.raises(FormatError, match="unknown version"):
        await crawl.run()
    assert await crawl.places() == {"leased": 1}


async def test_a_request_that_cannot_be_read_is_dead(crawl: Any, caplog: pytest.LogCaptureFixture) -> None:
    await seeded(crawl, "/1")
    await crawl.frontier.add([Entry(1, BASE, 0, b"\x01" + msgspec.msgpack.encode({"url": 7}))])
    assert await crawl.run() is State.FINISHED
    assert await crawl.places() == {"done": 1, "failed": 1}
    assert f"{BASE}: the stored request 1 cannot be read: " in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_defect_of_our_own_costs_one_page(crawl: Any, caplog: pytest.LogCaptureFixture) -> None:
    await seeded(crawl, "/1", "/2")
    crawl.fetcher.answers["/1"] = ZeroDivisionError("not a FetchError")
    assert await crawl.run() is State.FINISHED
    assert await crawl.places() == {"done": 1, "failed": 1}
    failed = (await crawl.failures())["/1"]
    assert failed.error_class == "internal"
    assert "ZeroDivisionError" in failed.error
    assert "a defect in skitter" in caplog.text


# ---- hosts


async def test_a_blocked_host_is_left_alone_for_as_long_as_it_asked(crawl: Any) -> None:
    await seeded(crawl, "/1", "/2", per_host=1)
    answers = iter([(429, {"Retry-After": "100"}, b""), 200])
    crawl.fetcher.answers["/1"] = lambda request: next(answers)
    worker = crawl.worker()
    running = crawl.start(worker)
    await crawl.until(lambda: crawl.fetcher.paths == ["/1"] and not worker.held)
    for _ in range(5):
        await crawl.elapse(19)
    assert crawl.fetcher.paths == ["/1"]
    await crawl.elapse(10)
    assert await running is State.FINISHED
    assert crawl.fetcher.paths == ["/1", "/1", "/2"]
    assert await crawl.places() == {"done": 2}


async def test_a_host_that_is_away_takes_its_queue_along(crawl: Any) -> None:
    paths = [f"/{n}" for n in range(10)]
    await seeded(crawl, *paths, max_attempts=3, per_host=2)
    crawl.fetcher.answers |= dict.fromkeys(paths, FetchError("connect", "refused"))
    assert await crawl.run_through() is State.FINISHED
    assert await crawl.places() == {"failed": 10}
    assert {failed.error_class for failed in (await crawl.failures()).values()} == {"connect"}
    assert len(crawl.fetcher.paths) < 10, "its queue was not tried one by one"


async def test_a_page_that_fails_again_and_again_is_dead_after_its_attempts(crawl: Any) -> None:
    await seeded(crawl, "/1", max_attempts=3)
    crawl.fetcher.answers["/1"] = 500
    await crawl.run_through()
    failed = (await crawl.failures())["/1"]
    assert (failed.attempts, failed.status, failed.error_class) == (3, 500, "http_5xx")
    assert crawl.fetcher.paths == ["/1"] * 3
