"""``acrawl``, ``stream`` and ``get``: crawls of a program, with and without an event loop, interrupted and resumed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

import pytest
from pydantic import BaseModel

import skitter
from skitter.errors import CrawlError, FetchError, JobError, UsageError
from skitter.testing.frontiers import open_frontier
from skitter.testing.web import ServedWeb, WebSpec, served

PAGES = 40
ALLOWED = {"allow_private": True}


@pytest.fixture(scope="module")
def web() -> Iterator[ServedWeb]:
    with served(WebSpec.plain(hosts=1, pages_per_host=PAGES, latency_seconds=0.005)) as web:
        yield web


@pytest.fixture
def base(web: ServedWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return web.urls[0]


class Pages(skitter.Spider):
    """Workers of their own load it from this file."""

    base = ""

    def start(self) -> Iterator[skitter.Request]:
        yield skitter.Request(self.base)

    def parse(self, response: skitter.Response) -> Iterator[Any]:
        yield {"url": response.url}
        yield response.links()


def in_notebook(name: str, parse: Callable[[Any, skitter.Response], Any] | None = None) -> type[skitter.Spider]:
    """A class that no other process could load, as those of a notebook."""

    class Local(Pages):
        pass

    Local.name = name
    if parse is not None:
        Local.parse = parse  # type: ignore[method-assign]
    return Local


def workers_of(kind: type[skitter.Spider]) -> dict[str, int]:
    """Several workers, in processes of their own, for a class with a file."""
    return {"workers": 2} if kind is Pages else {}


class Told:
    """Waits for events of crawls, from any thread."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._changed = threading.Condition()
        self._handler = logging.Handler()
        self._handler.emit = self._emit  # type: ignore[method-assign]

    def _emit(self, record: logging.LogRecord) -> None:
        with self._changed:
            self._names.append(record.event.kind.name)  # type: ignore[attr-defined]
            self._changed.notify_all()

    def wait_for(self, name: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: name in self._names, timeout=60), self._names

    def __enter__(self) -> Self:
        logger = logging.getLogger("skitter.events")
        logger.addHandler(self._handler)
        logger.setLevel(logging.INFO)
        return self

    def __exit__(self, *_: object) -> None:
        logger = logging.getLogger("skitter.events")
        logger.removeHandler(self._handler)
        logger.setLevel(logging.NOTSET)


def crawl_threads() -> list[threading.Thread]:
    """Those that go on; one that has told its end may take a moment to go."""
    found = [thread for thread in threading.enumerate() if thread.name == "skitter-crawl"]
    for thread in found:
        thread.join(timeout=100)
    return [thread for thread in found if thread.is_alive()]


async def leased(name: str) -> int:
    frontier = open_frontier(f"sqlite:.skitter/{name}.db", name, create=False)
    try:
        return (await frontier.counts()).leased
    finally:
        await frontier.close()


# ---- stream


def test_a_loop_gets_every_item_once_and_knows_how_the_crawl_ended(base: str) -> None:
    items = skitter.stream(Pages, arguments={"base": base}, settings=ALLOWED, job="all")
    assert items.summary is None
    urls = [item["url"] for item in items]
    assert len(urls) == len(set(urls)) == PAGES
    assert items.summary is not None
    assert (items.summary.state, items.summary.items, items.summary.undelivered) == ("finished", PAGES, 0)
    assert list(items) == []


@pytest.mark.parametrize("kind", [Pages, in_notebook("cut")])
def test_a_loop_that_is_left_goes_on_with_the_item_that_it_had_in_its_hands(
    base: str, kind: type[skitter.Spider]
) -> None:
    def stream(**options: Any) -> skitter.ItemStream:
        settings = ALLOWED | workers_of(kind)
        return skitter.stream(kind, arguments={"base": base}, settings=settings, job="cut", **options)

    by_break = []
    for item in stream():
        by_break.append(item["url"])
        if len(by_break) == 3:
            break
    assert asyncio.run(leased("cut")) == 0, "what was in flight is finished or handed back"
    by_error = []
    with pytest.raises(ZeroDivisionError):  # noqa: PT012  the loop is what is left
        for item in stream():
            by_error.append(item["url"])
            if len(by_error) == 3:
                raise ZeroDivisionError
    assert by_error[0] == by_break[-1]
    confirmed = []
    for item in (items := stream()):
        confirmed.append(item["url"])
        items.confirm()
        break
    items.close()
    items.close()
    assert list(items) == []
    assert confirmed == [by_error[-1]]
    with stream() as items:
        in_block = [next(items)["url"]]
    assert not crawl_threads(), "nothing of a crawl that was left goes on"
    rest = [item["url"] for item in stream()]
    given = [*by_break[:-1], *by_error[:-1], *confirmed, *in_block, *rest]
    assert len(given) == len(set(given)) == PAGES
    assert len(list(stream())) == PAGES, "a new run"


@pytest.mark.parametrize("shards", ["", "?shards=3"])
def test_a_stream_on_redis_goes_on_in_the_middle_of_a_batch(base: str, services: Any, shards: str) -> None:
    options: dict[str, Any] = {
        "arguments": {"base": base},
        "settings": ALLOWED,
        "job": f"stream-{Path.cwd().name}",
        "frontier": services.need("redis")["url"] + shards,
    }
    urls = []
    for _ in range(2):
        with skitter.stream(in_notebook("redis"), **options) as items:
            urls += [next(items)["url"] for _ in range(5)]
    urls += [item["url"] for item in skitter.stream(in_notebook("redis"), **options)]
    assert len(urls) == len(set(urls)) == PAGES


def test_a_stream_that_is_collected_stops_its_crawl(base: str) -> None:
    items = skitter.stream(in_notebook("ring"), arguments={"base": base}, settings=ALLOWED)
    next(items)
    ring: list[Any] = [items]
    ring.append(ring)
    del items, ring
    gc.collect()
    assert not crawl_threads()


def test_a_slow_program_holds_the_crawl_and_not_the_memory(base: str) -> None:
    settings = ALLOWED | {"max_outbox_items": 15, "per_host": 1}
    with (
        Told() as told,
        skitter.stream(in_notebook("slow"), arguments={"base": base}, settings=settings, job="slow") as items,
    ):
        urls = [next(items)["url"]]
        told.wait_for("sink.blocking")
        counts = asyncio.run(_counts("slow"))
        assert counts.done < PAGES / 2, "leasing has stopped"
        urls += [item["url"] for item in items]
    assert len(set(urls)) == PAGES


async def _counts(name: str) -> Any:
    frontier = open_frontier(f"sqlite:.skitter/{name}.db", name, create=False)
    try:
        return await frontier.counts()
    finally:
        await frontier.close()


def test_a_crawl_that_goes_on_with_the_job_of_a_stream_loses_none_of_its_items(base: str) -> None:
    options: dict[str, Any] = {"arguments": {"base": base}, "settings": ALLOWED, "job": "both"}
    spider = in_notebook("both")
    for item in skitter.stream(spider, **options):
        first = item
        break
    with Told() as told:
        summary = skitter.crawl(spider, output="both.jsonl", **options)
        told.wait_for("sink.for_program")
    assert (summary.state, summary.items, summary.undelivered > 0) == ("finished", PAGES, True)
    rest = list(skitter.stream(spider, **options))
    assert (len(rest), rest[0]) == (PAGES, first), "what was found and not given out, and no new run"
    assert skitter.crawl(spider, fresh=True, **options).begun == "rerun"


def test_what_a_program_prints_is_not_what_its_spider_prints(base: str, capsys: pytest.CaptureFixture[str]) -> None:
    def parse(self: Any, response: skitter.Response) -> Any:
        print("from the spider")  # noqa: T201
        yield {"url": response.url}

    for item in skitter.stream(
        in_notebook("printed", parse), arguments={"base": base}, settings=ALLOWED, frontier="memory:"
    ):
        print("from the loop", item["url"])  # noqa: T201
    out, error = capsys.readouterr()
    assert out == f"from the loop {base}\n"
    assert "from the spider" in error


def test_a_redirection_that_begins_or_ends_during_a_crawl_leaves_standard_output_usable(base: str) -> None:
    def items() -> skitter.ItemStream:
        return skitter.stream(in_notebook("redirected"), arguments={"base": base}, settings=ALLOWED)

    before = sys.stdout
    with contextlib.redirect_stdout(io.StringIO()) as ended_first:
        first = items()
        next(first)
        print("inside")  # noqa: T201
    ended_first.close()
    print("between")  # noqa: T201
    first.close()
    assert sys.stdout is before
    second = items()
    next(second)
    with contextlib.redirect_stdout(io.StringIO()) as ended_last:
        second.close()
        print("kept")  # noqa: T201
    assert ended_last.getvalue() == "kept\n"
    print("after")  # noqa: T201
    next(third := items())
    third.close()
    assert sys.stdout is before


def test_what_ends_a_crawl_is_raised_in_the_loop(base: str) -> None:
    items = skitter.stream(Pages, arguments={"base": base}, settings=ALLOWED, frontier="redis://127.0.0.1:1/0")
    with pytest.raises(skitter.SkitterError) as caught:
        next(items)
    assert any(note.startswith("hint: ") for note in caught.value.__notes__)
    assert list(items) == []
    with pytest.raises(UsageError, match="nothing to crawl"):
        skitter.stream()


def test_a_stream_of_a_failed_crawl_is_told_from_an_empty_one(base: str) -> None:
    options: dict[str, Any] = {"settings": ALLOWED | {"max_attempts": 1}}
    items = skitter.stream(in_notebook("failed"), arguments={"base": "http://127.0.0.1:1/"}, **options)
    with pytest.raises(CrawlError, match="has not ended"):
        items.raise_for_state()
    assert list(items) == []
    with pytest.raises(CrawlError, match=r"no page was fetched: http://127.0.0.1:1/ could not be reached"):
        items.raise_for_state()
    items = skitter.stream(in_notebook("empty", lambda *_: None), arguments={"base": base}, **options)
    assert list(items) == []
    items.raise_for_state()


@pytest.mark.parametrize("frontier", ["memory:", "sqlite:arguments.db"])
def test_an_argument_that_is_no_text_is_refused_on_every_store(base: str, frontier: str) -> None:
    arguments: Any = {"base": base, "pages": 3}
    with pytest.raises(UsageError, match="an argument must be text: pages=3\nhint: give pages as '3'"):
        skitter.crawl(in_notebook("arguments"), arguments=arguments, frontier=frontier)


@dataclass
class Book:
    title: str
    price: Decimal


def test_items_come_back_as_what_was_yielded_where_all_of_it_is_in_this_process(base: str) -> None:
    class Model(BaseModel):
        tags: set[str]

    at = datetime(2026, 5, 4, tzinfo=UTC)
    reused = {"at": at, "n": 0}

    def parse(self: Any, response: skitter.Response) -> Any:
        yield Book("One", Decimal("1.50"))
        yield Model(tags={"a"})
        for reused["n"] in (1, 2):
            yield reused
        yield {"plain": [1, "a"]}

    options: dict[str, Any] = {"arguments": {"base": base}, "settings": ALLOWED | {"max_depth": 0}}
    found = list(skitter.stream(in_notebook("objects", parse), **options))
    yielded = [Book("One", Decimal("1.50")), Model(tags={"a"}), {"at": at, "n": 1}, {"at": at, "n": 2}]
    assert found == [*yielded, {"plain": [1, "a"]}]
    stored = list(skitter.stream(in_notebook("objects", parse), job="stored", **options))
    assert stored[0] == {"title": "One", "price": "1.50"}
    assert stored[2] == {"at": "2026-05-04T00:00:00Z", "n": 1}


def test_a_stream_says_which_items_cannot_be_stored(base: str, caplog: pytest.LogCaptureFixture) -> None:
    def parse(self: Any, response: skitter.Response) -> Any:
        yield {"file": Path("a/b"), "at": Timestamp(2026, 5, 4)}
        yield {"many": 2**70}

    class Timestamp(datetime):
        """As that of pandas."""

    settings = ALLOWED | {"max_depth": 0}
    items = skitter.stream(in_notebook("odd", parse), arguments={"base": base}, settings=settings, job="odd")
    assert list(items) == [{"file": "a/b", "at": "2026-05-04T00:00:00"}]
    assert items.summary is not None
    assert (items.summary.items, items.summary.rejected) == (1, 1)
    assert "rejected 1 items, which are in the rejects file: an item's field cannot be stored: many" in caplog.text


def test_a_stream_tells_its_progress_and_what_it_is(base: str) -> None:
    items = skitter.stream(in_notebook("progress"), arguments={"base": base}, settings=ALLOWED)
    assert (repr(items), items.counts().seen) == ("<ItemStream of job 'progress': not begun, 0 pages>", 0)
    assert len(list(items)) == PAGES
    assert (items.counts().done, items.counts().seen) == (PAGES, PAGES)
    assert repr(items) == f"<ItemStream of job 'progress': finished, {PAGES} pages>"


@pytest.mark.parametrize("kind", [Pages, in_notebook("late")])
async def test_a_crawl_that_takes_too_long_stops_and_is_resumed(base: str, kind: type[skitter.Spider]) -> None:
    options: dict[str, Any] = {"arguments": {"base": base}, "output": "late.jsonl", "job": "late"}
    slow = ALLOWED | {"per_host": 1, "delay_seconds": 60} | workers_of(kind)
    with pytest.raises(TimeoutError, match=r"job late was stopped after 0.1 s and") as caught:
        await skitter.acrawl(kind, settings=slow, timeout=0.1, **options)
    assert isinstance(caught.value, CrawlError)
    assert await leased("late") == 0
    with pytest.raises(TimeoutError):
        await asyncio.to_thread(skitter.crawl, kind, settings=slow, timeout=0.1, **options)
    summary = await skitter.acrawl(kind, settings=ALLOWED, timeout=600, **options)
    assert (summary.begun, summary.state, summary.items) == ("resumed", "finished", PAGES)


def test_wrong_places_are_plain_errors(base: str) -> None:
    options: dict[str, Any] = {"arguments": {"base": base}, "settings": ALLOWED}
    with pytest.raises(UsageError, match="not an output: <built-in function print>\nhint: give a path"):
        skitter.crawl(Pages, output=print, **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"not an output: \[3\]"):
        skitter.crawl(Pages, output=[3], **options)  # type: ignore[list-item]
    with pytest.raises(UsageError, match=r'hint: as in frontier="sqlite:jobs.db"'):
        skitter.crawl(Pages, frontier=Path("jobs.db"), **options)  # type: ignore[arg-type]


async def test_a_closed_client_says_so(base: str) -> None:
    client = skitter.connect("sqlite:jobs.db")
    assert repr(client) == "<Client of sqlite:jobs.db>"
    client.close()
    client.close()
    assert repr(client) == "<Client of sqlite:jobs.db, closed>"
    with pytest.raises(UsageError, match="the client is closed"):
        client.submit(base, job="j")
    async with skitter.AsyncClient("sqlite:jobs.db") as beside:
        pass
    with pytest.raises(UsageError, match="the client is closed"):
        await beside.submit(base, job="j")


# ---- with a running loop


async def test_a_running_loop_goes_on_while_it_takes_items(base: str) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    counting = asyncio.create_task(count())
    urls = []
    spider = in_notebook("loop")
    options: dict[str, Any] = {"arguments": {"base": base}, "settings": ALLOWED, "job": "loop"}
    async with skitter.stream(spider, **options) as items:
        async for item in items:
            urls.append(item["url"])
            if len(urls) == 5:
                assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
                break
    # Of one without a block the crawl may still be stopping: whoever comes next waits for it.
    async for item in skitter.stream(spider, **options):
        urls.append(item["url"])
        break
    urls += [item["url"] async for item in skitter.stream(spider, **options)]
    counting.cancel()
    assert len(set(urls)) == PAGES
    assert len(urls) == PAGES + 1, "the one that was in hand without a block"
    assert turns > 100
    # A loop that blocks the notebook's.
    assert len(list(skitter.stream(spider, arguments={"base": base}, settings=ALLOWED))) == PAGES


@pytest.mark.parametrize("kind", [Pages, in_notebook("c")])
async def test_a_crawl_that_is_cancelled_stops_in_order_and_is_resumed(base: str, kind: type[skitter.Spider]) -> None:
    def crawl() -> Any:
        return skitter.acrawl(
            kind,
            arguments={"base": base},
            settings=ALLOWED | {"per_host": 1, "delay_seconds": 0.05} | workers_of(kind),
            job="c",
            output="c.jsonl",
        )

    with Told() as told:
        crawling = asyncio.create_task(crawl())
        await asyncio.to_thread(told.wait_for, "job.begun")
        crawling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await crawling
    assert await leased("c") == 0
    summary = await skitter.acrawl(kind, arguments={"base": base}, settings=ALLOWED, job="c", output="c.jsonl")
    assert (summary.begun, summary.state, summary.pages) == ("resumed", "finished", PAGES)
    urls = [json.loads(line)["url"] for line in Path("c.jsonl").read_text().splitlines()]  # noqa: ASYNC240
    assert len(urls) == len(set(urls)) == PAGES


async def test_a_wait_for_an_item_that_is_cancelled_stops_the_crawl(base: str) -> None:
    """As the cell of a notebook that is interrupted."""

    async def take() -> None:
        settings = ALLOWED | {"per_host": 1, "delay_seconds": 5}
        async for _ in skitter.stream(in_notebook("cell"), arguments={"base": base}, settings=settings, job="cell"):
            pass

    with Told() as told:
        cell = asyncio.create_task(take())
        await asyncio.to_thread(told.wait_for, "job.begun")
        cell.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cell
    assert not crawl_threads()
    assert await leased("cell") == 0


async def test_several_crawls_run_at_a_time_and_one_of_each_job(base: str) -> None:
    arguments = {"base": base}
    first, second, twice = await asyncio.gather(
        skitter.acrawl(Pages, arguments=arguments, settings=ALLOWED, output="first.jsonl", job="first"),
        skitter.acrawl(in_notebook("second"), arguments=arguments, settings=ALLOWED, output="second.jsonl"),
        skitter.acrawl(Pages, arguments=arguments, settings=ALLOWED, job="first"),
        return_exceptions=True,
    )
    assert isinstance(twice, JobError)
    assert "is already crawling the job: first" in str(twice)
    for summary in (first, second):
        assert isinstance(summary, type(first))
        assert (summary.state, summary.items) == ("finished", PAGES)
    # One after the other, in one script and in a loop.
    assert skitter.crawl(in_notebook("second"), arguments=arguments, settings=ALLOWED).begun == "rerun"


# ---- get


async def test_get_fetches_one_page_as_a_crawl_would(base: str, site: Any) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow: /private", content_type="text/plain")
    site.page("/old", status=301, location="/new")
    site.page("/new", "<h1>new</h1>")
    found = skitter.get(site.url("/old"))
    assert (found.url, found.css("h1::text").get(), found.request.chain) == (
        site.url("/new"),
        "new",
        (site.url("/old"),),
    )
    missing = await skitter.aget(skitter.Request(site.url("/missing"), method="POST", body="a=1", meta={"n": 1}))
    assert (missing.status, missing.meta, site.seen[-1].method, site.seen[-1].body) == (404, {"n": 1}, "POST", b"a=1")
    with pytest.raises(FetchError) as caught:
        await skitter.aget(site.url("/private"))
    assert caught.value.error_class == "robots"
    assert (await skitter.aget(site.url("/private"), settings={"obey_robots": False})).status == 404
    with pytest.raises(FetchError) as caught:
        skitter.get("http://127.0.0.1:1/", settings={"max_attempts": 1})
    assert caught.value.error_class == "connect"
    with pytest.raises(UsageError, match="not an absolute URL"):
        skitter.get("nowhere")


async def test_get_sends_headers_keeps_cookies_in_a_session_and_ends_in_time(base: str, site: Any) -> None:
    site.page("/login", "", "Set-Cookie: user=me; Path=/")
    site.page("/members", "hello")
    session = skitter.Session(settings={"obey_robots": False})
    session.get(site.url("/login"))
    await session.aget(site.url("/members"), headers={"X-Key": "7"})
    assert (site.seen[-1].headers["cookie"], site.seen[-1].headers["x-key"]) == ("user=me", "7")
    skitter.get(skitter.Request(site.url("/members"), headers={"X-Key": "6"}), headers={"Accept-Language": "de"})
    assert "cookie" not in site.seen[-1].headers
    assert (site.seen[-1].headers["x-key"], site.seen[-1].headers["accept-language"]) == ("6", "de")
    held = site.hold("/slow")
    with pytest.raises(FetchError, match="not fetched within") as caught:
        await skitter.aget(site.url("/slow"), timeout=0.1)
    held.release()
    assert (caught.value.error_class, str(caught.value).count("/slow")) == ("timeout", 1)


# ---- scripts that end in the middle

SCRIPT = """
    import os, signal, sys, time
    import skitter

    class Pages(skitter.Spider):
        name = "pages"

        def start(self):
            yield skitter.Request(self.base)

        def parse(self, response):
            yield {"url": response.url}
            yield response.links()

    if __name__ == "__main__":
        end, stop_at = sys.argv[2], int(sys.argv[3])
        arguments = {"base": sys.argv[1]}
        items = skitter.stream(Pages, arguments=arguments, settings={"allow_private": True, "workers": 2})
        for count, item in enumerate(items, 1):
            os.write(1, item["url"].encode() + b"\\n")
            if count == stop_at:
                if end == "raise":
                    raise ValueError("of the loop")
                os.kill(os.getpid(), {"kill": signal.SIGKILL, "interrupt": signal.SIGINT}[end])
                if end == "interrupt":
                    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("raise", 1),
        pytest.param("interrupt", -signal.SIGINT, marks=pytest.mark.soak),
        ("kill", -signal.SIGKILL),
    ],
)
def test_a_script_that_ends_in_the_middle_goes_on_where_it_was(base: str, end: str, code: int) -> None:
    Path("pages.py").write_text(textwrap.dedent(SCRIPT))

    def run(stop_at: int) -> tuple[int, list[str], str]:
        command = [sys.executable, "pages.py", base, end, str(stop_at)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
        return ended.returncode, ended.stdout.split(), ended.stderr

    returned, first, error = run(7)
    assert returned == code, error
    assert len(first) == 7
    if end != "kill":
        assert asyncio.run(leased("pages")) == 0
        assert error.count("Traceback") == 1, error
    returned, second, error = run(1000)
    assert returned == 0, error
    assert len({*first, *second}) == PAGES
    again = set(first) & set(second)
    if end == "kill":
        # At most what was confirmed since the frontier was told.
        assert again <= set(first)
        assert first[-1] in again
    else:
        assert again == {first[-1]}
    assert len(second) == len(set(second))
