"""Delivery: every committed item reaches every sink once, in order, whatever fails in between."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import threading
from collections.abc import Callable, Sequence

import msgspec
import pytest

from skitter.delivery import sink_runner as module
from skitter.delivery.runner import Delivery
from skitter.errors import FrontierError, SinkError
from skitter.frontier import contract
from skitter.frontier.clock import StoreClock
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.frontier.transactional import TransactionalFrontier
from skitter.model.item import Item, NewItem
from skitter.model.job import Begun, JobSpec, SinkProgress
from skitter.model.outcome import Ending, Outcome
from skitter.model.request import Fingerprinter, Request
from skitter.settings import Settings
from skitter.sinks.file_targets import file_sink

SPEC = JobSpec(
    name="books",
    spider="",
    settings=Settings.from_layers([("test", {"obey_robots": False, "per_host": 64})]).job_wide(),
)


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Crawl:
    """A job whose pages carry numbered items."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.frontier: TransactionalFrontier = memory_frontier(
            "books", MemoryStore(StoreClock(self.clock, lambda: 0.0))
        )
        self._n = self._pages = 0

    async def begin(self) -> Begun:
        begun = await self.frontier.begin(SPEC)
        self._entry = Fingerprinter((await self.frontier.job()).secret).entry
        grant = await self.frontier.lease("w", 1)
        await self.frontier.commit("w", [Outcome(lease=lease, ending=Ending.DONE) for lease in grant.leases])
        return begun

    async def page(self, items: int) -> None:
        self._n += items
        self._pages += 1
        numbers = range(self._n - items, self._n)
        await self.frontier.add([self._entry(Request(f"http://a.example/{self._pages}"))])
        grant = await self.frontier.lease("w", 1)
        self.clock.now += 1
        await self.frontier.commit(
            "w",
            [
                Outcome(
                    lease=grant.leases[0],
                    ending=Ending.DONE,
                    items=[NewItem(msgspec.msgpack.encode({"n": n})) for n in numbers],
                )
            ],
        )

    async def sink_seen(self, target: str) -> tuple[int, str]:
        (seen,) = [sink for sink in (await self.frontier.report()).sinks if sink.target == target]
        return seen.undelivered, seen.owner


class ListSink:
    """A target in memory, with the promises of a real one: ``open`` cuts back to the mark."""

    exact = True

    def __init__(self, target: str = "list", rows: list[int] | None = None) -> None:
        self.target = target
        self.rows: list[int] = [] if rows is None else rows
        self.batches: list[int] = []
        self.finished = self.closed = 0
        self.complete = False
        self.threads: set[int] = set()
        self.before_write: Callable[[], object] = lambda: None

    def take(self) -> None:
        pass

    def open(self, progress: SinkProgress) -> bytes:
        del self.rows[int(progress.mark or b"0") :]
        return b"%d" % len(self.rows)

    def write(self, items: Sequence[Item]) -> bytes:
        self.threads.add(threading.get_ident())
        self.before_write()
        self.batches.append(len(items))
        self.rows += [msgspec.msgpack.decode(item.record)["n"] for item in items]
        return b"%d" % len(self.rows)

    def finish(self) -> None:
        self.finished += 1

    def close(self, *, complete: bool = False) -> None:
        self.closed += 1
        self.complete = complete


class Failing:
    """The outbox, until one of its methods is told to fail: before it does its work, or after."""

    def __init__(self, frontier: TransactionalFrontier) -> None:
        self._frontier = frontier
        self.before: set[str] = set()
        self.after: set[str] = set()
        self.kept = asyncio.Semaphore(0)

    async def _call(self, name, *arguments):
        if name in self.before:
            raise FrontierError("unavailable")
        result = await getattr(self._frontier, name)(*arguments)
        if name in self.after:
            raise FrontierError("unavailable")
        return result

    async def open_sink(self, target, owner):
        return await self._call("open_sink", target, owner)

    async def items(self, target, owner, limit):
        if limit == 0:
            self.kept.release()
        return await self._call("items", target, owner, limit)

    async def items_done(self, target, owner, progress):
        return await self._call("items_done", target, owner, progress)

    async def close_sink(self, target, owner):
        return await self._call("close_sink", target, owner)


@pytest.fixture
async def crawl() -> Crawl:
    made = Crawl()
    await made.begin()
    return made


async def test_everything_reaches_every_sink_once_in_order(crawl):
    sinks = [ListSink("a"), ListSink("b")]
    delivery = Delivery(crawl.frontier, sinks, "me", batch=4)
    await delivery.open()
    for items in (3, 0, 5, 2):
        await crawl.page(items)
    assert await delivery.step()
    assert [sink.batches for sink in sinks] == [[4], [4]]
    await delivery.finish()
    assert [sink.rows for sink in sinks] == [list(range(10))] * 2
    assert delivery.delivered == 20
    assert all(sink.finished == 1 and sink.complete and len(sink.threads) == 1 for sink in sinks)
    assert threading.get_ident() not in sinks[0].threads | sinks[1].threads
    assert await crawl.sink_seen("a") == (0, "")
    assert await crawl.frontier.begin(SPEC) is Begun.RERUN, "the targets are complete"


async def test_a_job_whose_targets_are_not_complete_is_not_over(crawl):
    delivery = Delivery(crawl.frontier, [ListSink()], "me")
    await delivery.open()
    await crawl.page(2)
    await delivery.drain()
    await delivery.close()
    assert await crawl.sink_seen("list") == (0, "")
    assert await crawl.frontier.begin(SPEC) is Begun.RESUMED


async def test_run_delivers_what_comes_and_ends_when_told(crawl):
    sink = ListSink()
    delivery = Delivery(crawl.frontier, [sink], "me")
    await delivery.open()
    stop, written = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    sink.before_write = lambda: loop.call_soon_threadsafe(written.set)
    running = asyncio.create_task(delivery.run(stop))
    for _ in range(3):
        await crawl.page(2)
        delivery.nudge()
        await written.wait()
        written.clear()
    stop.set()
    await running
    await delivery.finish()
    assert sink.rows == list(range(6))


async def test_run_does_not_wait_for_a_poll_to_see_stop(crawl, monkeypatch):
    monkeypatch.setattr(module, "POLL_SECONDS", 3600.0)
    monkeypatch.setattr(module, "IDLE_SECONDS", 3600.0)
    for sinks in ([ListSink()], []):
        delivery = Delivery(crawl.frontier, sinks, "me")
        await delivery.open()
        stop = asyncio.Event()
        running = asyncio.create_task(delivery.run(stop))
        await asyncio.sleep(0)
        stop.set()
        await running
        await delivery.close()


async def test_a_full_batch_is_followed_by_the_next_at_once(crawl, monkeypatch):
    monkeypatch.setattr(module, "POLL_SECONDS", 3600.0)
    sink = ListSink()
    delivery = Delivery(crawl.frontier, [sink], "me", batch=3)
    await delivery.open()
    await crawl.page(10)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    sink.before_write = lambda: len(sink.batches) == 3 and loop.call_soon_threadsafe(stop.set)
    await delivery.run(stop)
    await delivery.close()
    assert sink.batches == [3, 3, 3, 1]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("method", ["open_sink", "items", "items_done"])
async def test_a_frontier_that_fails_at_any_call_doubles_and_loses_nothing(crawl, tmp_path, method, when):
    path = tmp_path / "out.jsonl"
    outbox = Failing(crawl.frontier)
    if method != "open_sink":
        delivery = Delivery(outbox, [file_sink(str(path), overwrite=False)], "me", batch=2)
        await delivery.open()
        await crawl.page(5)
        await delivery.step()
    else:
        delivery = Delivery(outbox, [file_sink(str(path), overwrite=False)], "me", batch=2)
    getattr(outbox, when).add(method)
    with pytest.raises(FrontierError):
        await (delivery.open() if method == "open_sink" else delivery.drain())
    getattr(outbox, when).clear()
    again = Delivery(outbox, [file_sink(str(path), overwrite=True)], "me", batch=3)
    await again.open()
    if method == "open_sink":
        await crawl.page(5)
    await again.finish()
    assert [json.loads(line)["n"] for line in path.read_text().splitlines()] == list(range(5))


async def test_a_failed_record_of_completeness_is_made_good(crawl, tmp_path):
    path = tmp_path / "out.csv"
    outbox = Failing(crawl.frontier)
    delivery = Delivery(outbox, [file_sink(str(path), overwrite=False)], "me")
    await delivery.open()
    await crawl.page(3)
    await delivery.drain()
    outbox.before.add("items_done")
    with pytest.raises(FrontierError):
        await delivery.finish()
    outbox.before.clear()
    again = Delivery(outbox, [file_sink(str(path), overwrite=False)], "me")
    await again.open()
    await again.finish()
    assert path.read_text() == "n\n0\n1\n2\n"
    assert [made.name for made in tmp_path.iterdir()] == ["out.csv"]


async def test_a_cancelled_wait_does_not_write_the_batch_twice(crawl):
    sink, inside, go_on = ListSink(), threading.Event(), threading.Event()

    def block() -> None:
        inside.set()
        go_on.wait()

    sink.before_write = block
    delivery = Delivery(crawl.frontier, [sink], "me", batch=2)
    await delivery.open()
    await crawl.page(3)
    step = asyncio.create_task(delivery.step())
    await asyncio.to_thread(inside.wait)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    go_on.set()
    await delivery.finish()
    assert sink.rows == [0, 1, 2]
    assert sink.batches == [2, 1]


async def test_a_cancelled_run_is_closed_behind_the_write_it_left(crawl):
    sink, inside, go_on = ListSink(), threading.Event(), threading.Event()

    def block() -> None:
        inside.set()
        go_on.wait()

    sink.before_write = block
    delivery = Delivery(crawl.frontier, [sink], "me")
    await delivery.open()
    await crawl.page(3)
    running = asyncio.create_task(delivery.run(asyncio.Event()))
    await asyncio.to_thread(inside.wait)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    closing = asyncio.create_task(delivery.close())
    await asyncio.sleep(0)
    assert not sink.closed
    go_on.set()
    await closing
    assert sink.rows == [0, 1, 2]
    again = ListSink(rows=sink.rows)
    second = Delivery(crawl.frontier, [again], "me")
    await second.open()
    await second.finish()
    assert again.rows == [0, 1, 2], "written, not recorded, cut back and written again"


async def test_a_sink_that_fails_does_not_stop_the_others_and_is_raised_at_the_end(crawl):
    good, bad = ListSink("good"), ListSink("bad")

    def fail() -> None:
        raise SinkError("the disk is full", hint="free some space")

    delivery = Delivery(crawl.frontier, [good, bad], "me")
    await delivery.open()
    await crawl.page(3)
    bad.before_write = fail
    stop = asyncio.Event()
    running = asyncio.create_task(delivery.run(stop))
    await delivery.failed.wait()
    assert bad.closed == 1, "it is let go at once"
    assert (await crawl.sink_seen("bad")) == (3, "")
    await crawl.page(2)
    stop.set()
    await running
    with pytest.raises(SinkError, match="the disk is full") as raised:
        await delivery.finish()
    assert raised.value.hint == "free some space"
    assert good.rows == [0, 1, 2, 3, 4]
    assert (good.finished, good.complete, bad.finished) == (1, True, 0)
    assert (good.closed, bad.closed) == (1, 1)
    await delivery.close()
    again = ListSink("bad", bad.rows)
    second = Delivery(crawl.frontier, [again], "somebody else")
    await second.open()
    await second.finish()
    assert again.rows == [0, 1, 2, 3, 4]


async def test_a_sink_that_cannot_be_opened_is_given_up(crawl, tmp_path):
    (tmp_path / "out.json").write_text("no json")
    sink = file_sink(str(tmp_path / "out.json"), overwrite=False)
    with pytest.raises(SinkError, match="cannot append"):
        await Delivery(crawl.frontier, [ListSink(), sink], "me").open()
    assert (await crawl.sink_seen(sink.target))[1] == ""
    assert (await crawl.sink_seen("list"))[1] == ""
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


async def test_processes_of_one_owner_do_not_disturb_each_other(crawl, tmp_path):
    """A machine may be the owner: the lock of the target says which of its processes is at work."""
    path = tmp_path / "out.jsonl"
    first = Delivery(crawl.frontier, [file_sink(str(path), overwrite=True)], "this machine")
    await first.open()
    await crawl.page(2)
    await first.drain()
    with pytest.raises(SinkError, match="in use by another process"):
        await Delivery(crawl.frontier, [file_sink(str(path), overwrite=True)], "this machine").open()
    assert (await crawl.sink_seen(str(path)))[1] == "this machine"
    await crawl.page(2)
    await first.finish()
    assert len(path.read_text().splitlines()) == 4


async def test_a_target_that_another_machine_has_is_not_made_here(crawl, tmp_path):
    await crawl.frontier.open_sink(str(tmp_path / "out.jsonl"), "another machine")
    with pytest.raises(SinkError, match="another process is writing"):
        await Delivery(crawl.frontier, [file_sink(str(tmp_path / "out.jsonl"), overwrite=False)], "me").open()
    assert list(tmp_path.iterdir()) == []


async def test_a_target_has_one_owner_until_its_time_has_run_out(crawl):
    first, second = ListSink(), ListSink()
    gone = Delivery(crawl.frontier, [first], "first")
    await gone.open()
    await crawl.page(2)
    await gone.drain()
    with pytest.raises(SinkError, match="another process is writing to this output: list") as raised:
        await Delivery(crawl.frontier, [second], "second").open()
    assert raised.value.hint
    assert (await crawl.sink_seen("list"))[1] == "first"
    crawl.clock.now += contract.SINK_OWNER_SECONDS + 1
    second.rows = first.rows
    taken = Delivery(crawl.frontier, [second], "second")
    await taken.open()
    await crawl.page(1)
    with pytest.raises(SinkError, match="has taken over"):
        await gone.step()
    assert first.closed == 1
    assert (await crawl.sink_seen("list"))[1] == "second", "the loser does not give away what is not its own"
    await taken.finish()
    assert second.rows == [0, 1, 2]


async def test_a_slow_write_keeps_the_ownership(crawl, monkeypatch):
    monkeypatch.setattr(module, "KEEP_SECONDS", 0.01)
    sink, outbox, enough = ListSink(), Failing(crawl.frontier), threading.Event()
    sink.before_write = enough.wait
    delivery = Delivery(outbox, [sink], "me")
    await delivery.open()
    await crawl.page(2)
    step = asyncio.create_task(delivery.step())
    for _ in range(3):
        await outbox.kept.acquire()
    enough.set()
    assert await step
    await delivery.close()


async def test_the_first_mark_is_recorded_before_anything_is_written(crawl, tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text('{"n":-1}\n')
    outbox = Failing(crawl.frontier)
    delivery = Delivery(outbox, [file_sink(str(path), overwrite=False)], "me")
    await delivery.open()
    await crawl.page(2)
    outbox.before.add("items_done")
    with pytest.raises(FrontierError):
        await delivery.drain()
    outbox.before.clear()
    again = Delivery(outbox, [file_sink(str(path), overwrite=False)], "me")
    await again.open()
    await again.finish()
    assert [json.loads(line)["n"] for line in path.read_text().splitlines()] == [-1, 0, 1]


@pytest.mark.parametrize("name", ["out.jsonl", "out.json"])
async def test_a_stopped_run_leaves_a_readable_target_and_goes_on(crawl, tmp_path, name):
    path = tmp_path / name

    def rows() -> list[int]:
        text = path.read_text()
        return [each["n"] for each in (json.loads(text) if name == "out.json" else map(json.loads, text.splitlines()))]

    stopped = Delivery(crawl.frontier, [file_sink(str(path), overwrite=True)], "me")
    await stopped.open()
    await crawl.page(2)
    await stopped.finish(complete=False)
    assert rows() == [0, 1]
    again = Delivery(crawl.frontier, [file_sink(str(path), overwrite=True)], "me")
    await again.open()
    await crawl.page(2)
    await again.finish()
    assert rows() == [0, 1, 2, 3]
    assert [made.name for made in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.json", "out.csv"])
async def test_what_is_left_goes_into_a_new_file_when_the_old_one_is_lost(crawl, tmp_path, name):
    target = str(tmp_path / name)
    await crawl.begin()
    first = Delivery(crawl.frontier, [file_sink(target, overwrite=False)], "o1")
    await first.open()
    await crawl.page(5)
    await first.drain()
    await first.close()
    await crawl.page(3)
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(SinkError, match="missing") as caught:
        await Delivery(crawl.frontier, [file_sink(target, overwrite=False)], "o2").open()
    assert "--rest" in caught.value.hint
    second = Delivery(crawl.frontier, [file_sink(target, overwrite=False)], "o2")
    await second.open(anew=True)
    await second.finish()
    assert second.delivered == 3
    assert (await crawl.sink_seen(target))[0] == 0
    text = (gzip.decompress if name.endswith(".gz") else bytes)((tmp_path / name).read_bytes()).decode()
    assert [int(number) for number in re.findall(r"\d+", text)] == [5, 6, 7]
