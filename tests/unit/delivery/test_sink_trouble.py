"""Delivery in trouble: targets that are unavailable are waited for, and what they will never take goes to the
rejects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import msgspec
import pytest

from skitter.delivery import sink_runner
from skitter.delivery.runner import Delivery
from skitter.errors import BadItemsError, SinkError, SinkUnavailableError
from skitter.extract.rejected_items import encode_reject
from skitter.frontier.clock import StoreClock
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.frontier.transactional import TransactionalFrontier
from skitter.model.item import Item, ItemKind, NewItem
from skitter.model.job import JobSpec, SinkProgress
from skitter.model.outcome import Ending, Outcome
from skitter.model.request import Fingerprinter, Request
from skitter.observe.events import Event
from skitter.settings import Settings
from skitter.sinks.contract import Rejected
from skitter.sinks.rejects_file import RejectsFile, rejects_of


class Crawl:
    """A job whose pages carry the records they are given."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.frontier: TransactionalFrontier = memory_frontier(
            "j", MemoryStore(StoreClock(lambda: self.now, lambda: 0.0))
        )
        self._pages = 0

    async def begin(self, sinks: Sequence[str] = ()) -> None:
        settings = Settings.from_layers([("test", {"obey_robots": False, "per_host": 64})]).job_wide()
        await self.frontier.begin(JobSpec(name="j", spider="", settings=settings), sinks=sinks)
        self._entry = Fingerprinter((await self.frontier.job()).secret).entry
        grant = await self.frontier.lease("w", 1)
        await self.frontier.commit("w", [Outcome(lease=lease, ending=Ending.DONE) for lease in grant.leases])

    async def page(self, *records: bytes | NewItem) -> None:
        self._pages += 1
        await self.frontier.add([self._entry(Request(f"http://a.example/{self._pages}"))])
        (lease,) = (await self.frontier.lease("w", 1)).leases
        self.now += 1
        items = [each if isinstance(each, NewItem) else NewItem(each) for each in records]
        await self.frontier.commit("w", [Outcome(lease=lease, ending=Ending.DONE, items=items)])


class Server:
    """A target that can be unavailable, and does not like some numbers."""

    exact = True

    def __init__(self, target: str = "server") -> None:
        self.target = target
        self.rows: list[int] = []
        self.unavailable = False
        self.away_after_reject = False
        self.bad: set[int] = set()
        self.tries = asyncio.Semaphore(0)
        self.finished = 0
        self._loop = asyncio.get_running_loop()

    def _answer(self) -> None:
        self._loop.call_soon_threadsafe(self.tries.release)
        if self.unavailable:
            raise SinkUnavailableError("connection refused: server:5432")

    def take(self) -> None:
        self._answer()

    def open(self, progress: SinkProgress) -> bytes:
        return progress.mark or b"0"

    def write(self, items: Sequence[Item]) -> bytes:
        self._answer()
        numbers = [msgspec.msgpack.decode(item.record)["n"] for item in items]
        if wrong := {item.position: f"bad number {n}" for item, n in zip(items, numbers, strict=True) if n in self.bad}:
            self.unavailable = self.away_after_reject
            raise BadItemsError(self.target, wrong)
        self.rows += numbers
        return b"%d" % len(self.rows)

    def finish(self) -> None:
        self._answer()
        self.finished += 1

    def close(self, *, complete: bool = False) -> None:
        pass


class Collected:
    def __init__(self) -> None:
        self.rejected: list[Rejected] = []

    def add(self, rejected: Sequence[Rejected]) -> None:
        self.rejected += rejected


@pytest.fixture
async def crawl() -> Crawl:
    made = Crawl()
    await made.begin()
    return made


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(sink_runner, "AWAY_SECONDS", 0.001)
    monkeypatch.setattr(sink_runner, "LONGEST_AWAY_SECONDS", 0.004)


def item(n: int) -> bytes:
    return msgspec.msgpack.encode({"n": n})


async def test_a_target_that_goes_away_gets_everything_when_it_is_back(crawl, told):
    server, other = Server(), Server("other")
    delivery = Delivery(crawl.frontier, [server, other], "me", on_event=told.append)
    await delivery.open()
    server.unavailable = True
    await crawl.page(item(1), item(2))
    stop = asyncio.Event()
    running = asyncio.create_task(delivery.run(stop))
    for _ in range(4):
        await server.tries.acquire()
    (seen, beside) = sorted((await crawl.frontier.report()).sinks, key=lambda sink: sink.target, reverse=True)
    assert (seen.trouble, seen.owner) == ("connection refused: server:5432", "me")
    assert (beside.trouble, beside.undelivered, other.rows) == ("", 0, [1, 2]), (
        "one that is unavailable holds up nobody"
    )
    await crawl.page(item(3))
    stop.set()
    await running
    server.unavailable = False
    await delivery.finish()
    assert server.rows == other.rows == [1, 2, 3]
    names = [event.kind.name for event in told]
    assert names == ["sink.unavailable", "sink.back"], "said once, however often it was tried"
    (seen, _) = sorted((await crawl.frontier.report()).sinks, key=lambda sink: sink.target, reverse=True)
    assert seen.trouble == ""


async def test_the_ownership_is_kept_while_a_target_is_away(crawl, monkeypatch):
    monkeypatch.setattr(sink_runner, "AWAY_SECONDS", 3600.0)
    monkeypatch.setattr(sink_runner, "LONGEST_AWAY_SECONDS", 3600.0)
    monkeypatch.setattr(sink_runner, "KEEP_SECONDS", 0.001)
    server, kept, reading = Server(), asyncio.Semaphore(0), crawl.frontier.items

    async def items(target: str, owner: str, limit: int) -> list[Item] | None:
        found = await reading(target, owner, limit)
        if limit == 0:
            kept.release()
        return found

    monkeypatch.setattr(crawl.frontier, "items", items)
    delivery = Delivery(crawl.frontier, [server], "me", on_event=lambda _: None)
    await delivery.open()
    server.unavailable = True
    await crawl.page(item(1))
    draining = asyncio.create_task(delivery.drain())
    for _ in range(5):
        while not kept.locked():  # calls before the clock moved
            await kept.acquire()
        await kept.acquire()
        await kept.acquire()
        crawl.now += 29
        assert await crawl.frontier.open_sink("server", "other") is None
    delivery.hurry()
    with pytest.raises(SinkUnavailableError):
        await draining
    assert server.rows == []


async def test_a_target_that_is_away_at_the_start_is_an_error(crawl):
    server = Server()
    server.unavailable = True
    with pytest.raises(SinkUnavailableError, match="connection refused"):
        await Delivery(crawl.frontier, [server], "me").open()


async def test_the_end_waits_for_a_target_that_is_away(crawl, told):
    server = Server()
    delivery = Delivery(crawl.frontier, [server], "me", on_event=told.append)
    await delivery.open()
    await crawl.page(item(1))
    await delivery.drain()
    server.unavailable = True
    finishing = asyncio.create_task(delivery.finish())
    for _ in range(5):
        await server.tries.acquire()
    assert not finishing.done()
    server.unavailable = False
    await finishing
    assert (server.rows, server.finished) == ([1], 1)
    assert [event.kind.name for event in told] == ["sink.unavailable", "sink.back"]


async def test_in_a_hurry_a_target_that_is_away_is_left_and_keeps_its_items(crawl):
    server, other = Server(), Server("other")
    delivery = Delivery(crawl.frontier, [server, other], "me", on_event=lambda _: None)
    await delivery.open()
    await crawl.page(item(1), item(2))
    server.unavailable = True
    finishing = asyncio.create_task(delivery.finish(complete=False))
    for _ in range(3):
        await server.tries.acquire()
    delivery.hurry()
    await finishing
    assert other.rows == [1, 2]
    (seen, _) = sorted((await crawl.frontier.report()).sinks, key=lambda sink: sink.target, reverse=True)
    assert (seen.owner, seen.undelivered) == ("", 2)
    server.unavailable = False
    again = Delivery(crawl.frontier, [server], "somebody else")
    await again.open()
    await again.finish()
    assert server.rows == [1, 2]


async def test_bad_items_go_to_the_rejects_and_the_rest_is_written(crawl, told):
    server, rejects = Server(), Collected()
    server.bad = {2, 3, 5}
    delivery = Delivery(crawl.frontier, [server], "me", batch=4, rejects=lambda _: rejects, on_event=told.append)
    await delivery.open()
    await crawl.page(*(item(n) for n in range(6)))
    await crawl.page(msgspec.msgpack.encode({"n": 2, "url": "http://a.example/x"}))
    await delivery.finish()
    assert server.rows == [0, 1, 4]
    assert [line.record["n"] for line in rejects.rejected] == [2, 3, 5, 2]
    assert [line.reason for line in rejects.rejected] == [f"bad number {n}" for n in (2, 3, 5, 2)]
    assert len({line.key for line in rejects.rejected}) == 4
    assert rejects.rejected[-1].url == "http://a.example/x"
    assert {line.target for line in rejects.rejected} == {"server"}
    assert (delivery.delivered, delivery.rejected) == (3, 4)
    (seen,) = (await crawl.frontier.report()).sinks
    assert (seen.rejected, seen.undelivered) == (4, 0)
    assert [(event.kind.name, event.fields["items"]) for event in told] == [
        ("items.rejected", 2),
        ("items.rejected", 2),
    ]


async def test_a_batch_of_bad_items_only_is_recorded_too(crawl):
    server, rejects = Server(), Collected()
    server.bad = {0, 1}
    delivery = Delivery(crawl.frontier, [server], "me", rejects=lambda _: rejects, on_event=lambda _: None)
    await delivery.open()
    await crawl.page(item(0), item(1))
    await delivery.finish()
    (seen,) = (await crawl.frontier.report()).sinks
    assert (server.rows, seen.rejected, seen.undelivered) == ([], 2, 0)


async def test_a_target_that_goes_away_between_rejects_and_rest_gets_no_reject_twice(crawl):
    server, rejects = Server(), Collected()
    server.bad, server.away_after_reject = {1}, True
    delivery = Delivery(crawl.frontier, [server], "me", rejects=lambda _: rejects, on_event=lambda _: None)
    await delivery.open()
    await crawl.page(item(0), item(1), item(2))
    assert not await delivery.step()
    server.unavailable = False
    await delivery.finish()
    assert (server.rows, len(rejects.rejected)) == ([0, 2], 1)


async def test_a_writer_killed_between_rejects_and_record_repeats_a_line_with_the_same_key(crawl):
    rejects = Collected()

    async def failing(*_: object) -> bool:
        raise RuntimeError("killed")

    server = Server()
    server.bad = {1}
    first = Delivery(crawl.frontier, [server], "me", rejects=lambda _: rejects, on_event=lambda _: None)
    await first.open()
    await crawl.page(item(0), item(1))
    recording = crawl.frontier.items_done
    crawl.frontier.items_done = failing  # type: ignore[method-assign]
    with pytest.raises(RuntimeError):
        await first.step()
    crawl.frontier.items_done = recording  # type: ignore[method-assign]
    server.rows = []  # what a real target takes back when it is opened again
    second = Delivery(crawl.frontier, [server], "me", rejects=lambda _: rejects, on_event=lambda _: None)
    await second.open()
    await second.finish()
    assert server.rows == [0]
    assert len(rejects.rejected) == 2
    assert len({line.key for line in rejects.rejected}) == 1
    (seen,) = (await crawl.frontier.report()).sinks
    assert seen.rejected == 1, "counted once"


async def test_without_a_place_for_rejects_a_bad_item_is_an_error(crawl):
    server = Server()
    server.bad = {1}
    delivery = Delivery(crawl.frontier, [server], "me")
    await delivery.open()
    await crawl.page(item(1))
    with pytest.raises(SinkError, match="bad number 1"):
        await delivery.drain()


async def test_what_a_worker_could_not_store_reaches_the_rejects_and_no_sink(crawl):
    server, rejects = Server(), Collected()
    delivery = Delivery(crawl.frontier, [server], "me", rejects=lambda _: rejects, on_event=lambda _: None)
    await delivery.open()
    reject = encode_reject({"n": 1, "x": object()}, "no plain form", "http://a.example/p")
    await crawl.page(item(0), NewItem(reject, ItemKind.REJECT), item(2))
    await delivery.finish()
    (line,) = rejects.rejected
    assert server.rows == [0, 2]
    assert (line.reason, line.url, line.record["n"]) == ("no plain form", "http://a.example/p", 1)
    assert line.record["x"].startswith("<object object")
    (seen,) = (await crawl.frontier.report()).sinks
    assert seen.rejected == 0, "counted where it was found: with the page"


def test_a_rejects_file_is_beside_its_file_and_elsewhere_the_jobs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asyncio.run(_check_places())


async def _check_places() -> None:
    assert rejects_of(Server("out/a.jsonl"), "j").name == "out/a.jsonl.rejects.jsonl"
    assert rejects_of(Server("out/"), "j").name == "out.rejects.jsonl"
    assert rejects_of(Server("-"), "j").name == ".skitter/j.rejects.jsonl"
    assert rejects_of(Server("postgresql://db/x#t"), "j").name == ".skitter/j.rejects.jsonl"


def test_a_torn_line_of_a_killed_writer_does_not_swallow_the_next(tmp_path):
    path = tmp_path / "a.rejects.jsonl"
    file = RejectsFile(str(path))
    line = Rejected(reason="r", target="t", key="k", record={"n": b"\xff"})
    file.add([line])
    with path.open("ab") as torn:
        torn.write(b'{"reason":"half')
    file.add([line, line])
    whole = [json.loads(text) for text in path.read_bytes().split(b"\n") if text.endswith(b"}")]
    assert [each["key"] for each in whole] == ["k", "k", "k"]
    assert whole[0]["record"] == {"n": "/w=="}
