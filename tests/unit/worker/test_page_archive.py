"""The worker's side of an archive: which pages are kept, durable before their commit, and what a failure costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from pathlib import Path
from typing import Any

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType

from skitter.delivery.runner import Delivery
from skitter.errors import SinkError
from skitter.model.archive_ref import Archived, archived
from skitter.model.item import ItemKind
from skitter.model.job import State
from skitter.model.page import Page
from skitter.model.request import Request
from skitter.sinks.file_targets import file_sink, machine_name
from skitter.sinks.page_spool import PageSpool
from skitter.sinks.warc_sink import WarcSink
from skitter.spiders.base import Spider

BASE = "http://a.example"


class Pages(Spider):
    start_urls = (BASE + "/0",)

    def parse(self, response: Any) -> Any:
        if "fails" in response.url:
            raise ValueError("no")
        yield {"url": response.url}
        yield from map(Request, response.links())


class Kept:
    """An archive in memory."""

    def __init__(self, failing: str = "") -> None:
        self.added: list[str] = []
        self.durable = 0
        self.committed_epochs: list[int] = []
        self._failing = failing

    async def add(self, epoch: int, request: Request, page: Page) -> bytes:
        if self._failing == "add":
            raise SinkError("the disk is full")
        self.added.append(page.url)
        return Archived("here", str(epoch), len(self.added), 0, 0, page.url, "", "").encoded()

    async def sync(self, held: Container[int]) -> None:
        if self._failing == "sync":
            raise SinkError("the disk is full")
        self.durable = len(self.added)

    def committed(self, epoch: int) -> None:
        self.committed_epochs.append(epoch)

    def close(self) -> None:
        pass


async def outbox(crawl: Any, kind: ItemKind = ItemKind.PAGE) -> list[bytes]:
    assert await crawl.frontier.open_sink("out.jsonl", "test") is not None
    return [item.record for item in await crawl.frontier.items("out.jsonl", "test", 1000) if item.kind is kind]


async def test_every_answer_that_ends_a_request_is_kept_once_and_is_no_item(crawl: Any) -> None:
    await crawl.begin(Pages(), max_attempts=2)
    body = "".join(f"<a href=/{name}>x</a>" for name in ("1", "gone", "moved", "fails", "busy")).encode()
    crawl.fetcher.answers |= {
        "/0": (200, {}, body),
        "/1": 200,
        "/moved": (301, {"Location": "/1"}, b""),
        "/fails": 200,
        "/busy": 500,
    }
    archive = Kept()
    assert await crawl.run_through(crawl.worker(archive=archive)) is State.FINISHED
    pages = Counter(archived(record).url.removeprefix(BASE) for record in await outbox(crawl))
    assert pages == Counter(["/0", "/1", "/gone", "/moved", "/fails", "/busy"]), "the first 500 was tried again"
    assert len(await outbox(crawl, ItemKind.RECORD)) == 2
    tally = await crawl.tally()
    assert (tally["items"], tally["archived"]) == (2, 6)


@pytest.mark.parametrize("obeys", [True, False])
async def test_a_page_whose_owner_wants_nothing_kept_is_not_archived_where_the_job_obeys(
    crawl: Any, obeys: bool
) -> None:
    await crawl.begin(Pages(), obey_noindex=obeys, obey_tdm=obeys)
    body = b"<a href=/1>x</a><a href=/2>x</a><a href=/3>x</a>"
    crawl.fetcher.answers |= {
        "/0": (200, {}, body),
        "/1": (200, {"X-Robots-Tag": "noindex"}, b""),
        "/2": (200, {"tdm-reservation": "1"}, b""),
        "/3": 200,
    }
    archive = Kept()
    assert await crawl.run(crawl.worker(archive=archive)) is State.FINISHED
    kept = ["/0", "/3"] if obeys else ["/0", "/1", "/2", "/3"]
    assert sorted(url.removeprefix(BASE) for url in archive.added) == kept


async def test_a_page_is_durable_before_its_commit_refers_to_it(crawl: Any) -> None:
    archive = Kept()

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(crawl.frontier, name)

        async def commit(self, worker: str, outcomes: Any, want: int = 0, **call: Any) -> Any:
            for outcome in outcomes:
                for item in outcome.items:
                    if item.kind is ItemKind.PAGE:
                        assert archived(item.record).offset <= archive.durable
            return await crawl.frontier.commit(worker, outcomes, want, **call)

    await crawl.begin(Pages())
    crawl.fetcher.answers |= {
        f"/{n}": (200, {}, f"<a href=/{n + 1}>x</a><a href=/{n + 2}>x</a>".encode()) for n in range(40)
    }
    assert await crawl.run(crawl.worker(source=Watched(), archive=archive)) is State.FINISHED
    assert len(archive.added) == 42
    references = [archived(record) for record in await outbox(crawl)]
    assert {int(each.file) for each in references} <= set(archive.committed_epochs)


@pytest.mark.parametrize("failing", ["add", "sync"])
async def test_an_archive_that_cannot_be_written_ends_the_work_and_costs_no_page(crawl: Any, failing: str) -> None:
    await crawl.begin(Pages())
    await crawl.add("/x")
    crawl.fetcher.answers |= {"/0": 200, "/x": 200}
    with pytest.raises(SinkError, match="the disk is full"):
        await crawl.run(crawl.worker(archive=Kept(failing)))
    assert await crawl.failures() == {}
    await crawl.frontier.release_worker("w1")
    assert await crawl.run(crawl.worker("w2", archive=Kept())) is State.FINISHED
    pages = [archived(record).url for record in await outbox(crawl)]
    assert sorted(pages) == [BASE + "/0", BASE + "/x"]


async def test_what_was_written_ahead_goes_while_the_crawl_goes_on(crawl: Any, tmp_path: Path) -> None:
    sink = file_sink(f"{tmp_path}/pages.warc", overwrite=False, job="job")
    assert isinstance(sink, WarcSink)
    await crawl.begin(Pages())
    await crawl.frontier.close_sink("out.jsonl", "", forget=True)
    delivery = Delivery(crawl.frontier, [sink], "test", batch=10)
    await delivery.open()
    ahead = PageSpool(sink.ahead, "w1", node=machine_name(), sent={}, file_bytes=2000)
    written, left = [], []

    def page(number: int) -> Any:
        return 200, {}, f"<a href=/{number + 1}>{number}</a>".encode()

    async def page_with_delivery(number: int) -> Any:
        """Each page is found on the one before it, so nothing else is in flight and all of those are committed."""
        written.append(len(list(sink.ahead.glob("*.warc.gz"))))
        while await delivery.step():
            pass
        left.append(len(list(sink.ahead.glob("*.warc.gz"))))
        return page(number)

    crawl.fetcher.answers |= {f"/{n}": page(n) for n in range(200)}
    crawl.fetcher.answers |= {f"/{n}": lambda _, n=n: page_with_delivery(n) for n in range(50, 200, 50)}
    assert await crawl.run(crawl.worker(archive=ahead)) is State.FINISHED
    assert len(left) == 3
    assert min(written) > 10
    assert max(left) <= 5, "the one that grows, and those of the last batch: they go when the next one is written"
    await delivery.finish()
    ahead.close()
    assert not sink.ahead.exists()
    with (tmp_path / "pages.warc").open("rb") as file:
        kinds = WarcRecordType.response | WarcRecordType.revisit
        found = [record.headers["WARC-Target-URI"] for record in ArchiveIterator(file, record_types=kinds)]
    assert found == [f"{BASE}/{n}" for n in range(201)]
