"""Archives of pages: what the records say, that other programs read them, and that each page is there once."""

from __future__ import annotations

import gzip
import io
import random
import socket
import tracemalloc
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator as FastIterator
from fastwarc.warc import WarcRecordType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from skitter.errors import BadItemsError, SinkError, UsageError
from skitter.model.archive_ref import Archived, archived
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.model.page import Page
from skitter.model.request import Request
from skitter.sinks import page_spool_reader as pages_module
from skitter.sinks.contract import PageSink
from skitter.sinks.file_targets import file_sink
from skitter.sinks.page_spool import PageSpool

HERE = socket.gethostname()
BOTH = pytest.mark.parametrize("name", ["pages.warc.gz", "pages.warc"])


class Job:
    """A worker that writes ahead, the sink of its archive, and what the frontier would remember."""

    def __init__(
        self, target: Path | str, *, overwrite: bool = False, file_bytes: int = 1 << 20, worker: str = "w:1:2"
    ) -> None:
        self.target, self.overwrite = str(target), overwrite
        self.progress = SinkProgress()
        self.sink: PageSink | None = None
        self.opened().sink.close()
        self.worker = PageSpool(self.sink.ahead, worker, node=HERE, sent={"User-Agent": "tests"}, file_bytes=file_bytes)
        self._position = 0

    def opened(self) -> Job:
        self.sink = file_sink(self.target, overwrite=self.overwrite, job="books")
        assert isinstance(self.sink, PageSink)
        return self

    def open(self) -> Job:
        self.opened()
        self.sink.take()
        self.progress = SinkProgress(self.progress.position, self.sink.open(self.progress))
        return self

    async def add(self, *pages: Page, request: Request | None = None) -> list[Item]:
        """Written ahead and committed."""
        items = []
        for page in pages:
            self._position += 1
            record = await self.worker.add(self._position, request or Request(page.url), page)
            items.append(Item(self._position, self._position, 0, record))
        await self.worker.sync(())
        return items

    def write(self, items: list[Item], *, recorded: bool = True) -> Job:
        mark = self.sink.write(items)
        if recorded:
            self.progress = SinkProgress(items[-1].position, mark)
        return self

    def crash(self) -> Job:
        self.sink.close()
        return self

    def finish(self) -> Job:
        self.sink.finish()
        self.progress = SinkProgress(self.progress.position, self.progress.mark, closed=True)
        self.sink.close(complete=True)
        self.worker.close()
        return self


def page(number: int, body: bytes | None = None, **changes) -> Page:
    fields = {
        "url": f"http://a.example/{number}",
        "status": 200,
        "headers": [("content-type", "text/html")],
        "body": b"page %d" % number if body is None else body,
        "address": "192.0.2.1",
        "http_version": "1.1",
        "started_at": 1_767_225_600.25,
    }
    return Page(**(fields | changes))


def read(path: Path) -> list[tuple[str, dict[str, str], bytes]]:
    """Type, head and block of each record, by warcio, which has compared every digest."""
    with path.open("rb") as file:
        for record in ArchiveIterator(file, check_digests="raise"):
            record.raw_stream.read()
    with path.open("rb") as file:
        records = ArchiveIterator(file, no_record_parse=True)
        found = [(each.rec_type, dict(each.rec_headers.headers), each.raw_stream.read()) for each in records]
    with path.open("rb") as file:
        fast = list(FastIterator(file, verify_digests=True, parse_http=False))
        assert len(fast) == len(found)
    return found


def answers(path: Path) -> list[str]:
    return [head["WARC-Target-URI"] for kind, head, _ in read(path) if kind in ("response", "revisit")]


def urls(*numbers: int) -> list[str]:
    return [f"http://a.example/{number}" for number in numbers]


@BOTH
async def test_a_page_is_a_request_and_a_response_that_name_each_other(tmp_path, name):
    job = Job(tmp_path / name).open()
    request = Request("http://a.example/7?x=1", headers={"X-Mine": "yes", "Authorization": "secret", "Cookie": "a=b"})
    job.write(await job.add(page(7, url="http://a.example/7?x=1"), request=request)).finish()
    info, asked, answered = read(tmp_path / name)
    assert info[0] == "warcinfo"
    assert b"software: skitter/" in info[2]
    assert asked[0] == "request"
    assert asked[2] == b"GET /7?x=1 HTTP/1.1\r\nHost: a.example\r\nUser-Agent: tests\r\nX-Mine: yes\r\n\r\n"
    assert asked[1]["WARC-Concurrent-To"] == answered[1]["WARC-Record-ID"]
    assert answered[0] == "response"
    assert answered[1]["WARC-Target-URI"] == asked[1]["WARC-Target-URI"] == "http://a.example/7?x=1"
    assert answered[1]["WARC-Date"] == "2026-01-01T00:00:00.250000Z"
    assert answered[1]["WARC-IP-Address"] == "192.0.2.1"
    assert answered[1]["WARC-Payload-Digest"].startswith("sha1:")
    assert answered[2] == b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nContent-Length: 6\r\n\r\npage 7"


async def test_a_password_in_a_url_is_left_out(tmp_path):
    path = tmp_path / "pages.warc"
    job = Job(path).open()
    job.write(await job.add(page(1, url="http://me:secret@a.example/@1"), page(2, b"page 1"))).finish()
    assert answers(path) == ["http://a.example/@1", "http://a.example/2"]
    assert b"secret" not in path.read_bytes()


async def test_what_is_no_longer_so_has_another_name(tmp_path):
    path = tmp_path / "pages.warc.gz"
    job = Job(path).open()
    headers = [
        ("content-encoding", "gzip"),
        ("transfer-encoding", "chunked"),
        ("content-length", "17"),
        ("x", "a\r\ninjected: \xfc"),
    ]
    posted = Request("http://a.example/1", method="POST", body=b"a=1")
    job.write(
        await job.add(page(1, b"decoded", headers=headers, http_version="2", status=299), request=posted)
    ).finish()
    _, asked, answered = read(path)
    assert asked[2].endswith(b"Content-Length: 3\r\n\r\na=1")
    assert answered[2] == (
        b"HTTP/1.1 299 \r\nX-Crawler-Content-Encoding: gzip\r\nX-Crawler-Transfer-Encoding: chunked\r\n"
        b"X-Crawler-Content-Length: 17\r\nx: a injected: \xfc\r\nContent-Length: 7\r\n\r\ndecoded"
    )


@BOTH
async def test_a_payload_that_is_there_already_becomes_a_revisit(tmp_path, name):
    job = Job(tmp_path / name).open()
    job.write(await job.add(page(1, b"same"), page(2, b"same"), page(3, b""), page(4, b""))).finish()
    found = [record for record in read(tmp_path / name) if record[0] in ("response", "revisit")]
    assert [kind for kind, _, _ in found] == ["response", "revisit", "response", "response"]
    (_, original, _), (_, again, block) = found[:2]
    assert again["WARC-Profile"] == "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
    assert again["WARC-Refers-To"] == original["WARC-Record-ID"]
    assert again["WARC-Refers-To-Target-URI"] == "http://a.example/1"
    assert again["WARC-Refers-To-Date"] == original["WARC-Date"]
    assert again["WARC-Payload-Digest"] == original["WARC-Payload-Digest"]
    assert block == b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nContent-Length: 4\r\n\r\n"


async def test_payloads_are_remembered_up_to_a_number(tmp_path, monkeypatch):
    monkeypatch.setattr(pages_module, "REMEMBERED", 2)
    job = Job(tmp_path / "pages.warc").open()
    for number, body in enumerate([b"a", b"b", b"c", b"a", b"c"]):
        job.write(await job.add(page(number, body)))
    job.finish()
    kinds = [kind for kind, _, _ in read(tmp_path / "pages.warc") if kind in ("response", "revisit")]
    assert kinds == ["response", "response", "response", "response", "revisit"]


@BOTH
async def test_a_page_that_was_written_ahead_and_never_committed_is_not_there(tmp_path, name):
    job = Job(tmp_path / name).open()
    one, _, three = await job.add(page(1), page(2), page(3))
    job.write([one, three]).finish()
    assert answers(tmp_path / name) == urls(1, 3)
    assert sorted(each.name for each in tmp_path.iterdir()) == [name], "what was written ahead is gone"


@BOTH
@pytest.mark.parametrize("lost", [0, 1, 200])
async def test_what_was_written_and_not_recorded_is_cut_back(tmp_path, name, lost):
    job = Job(tmp_path / name).open()
    job.write(await job.add(page(1, b"same")))
    second = await job.add(page(2, b"same"), page(3), page(4))
    job.write(second[:2], recorded=False).crash()
    with (tmp_path / name).open("r+b") as file:
        file.truncate(file.seek(0, 2) - lost)
    # Another process: it knows no payloads, so what it writes is not what was there. More has been committed meanwhile.
    job.open().write(second).finish()
    assert answers(tmp_path / name) == urls(1, 2, 3, 4)


@BOTH
async def test_zeros_that_a_power_cut_leaves_are_cut_back(tmp_path, name):
    job = Job(tmp_path / name).open()
    job.write(await job.add(page(1))).crash()
    with (tmp_path / name).open("ab") as file:
        file.write(bytes(100))
    job.open().write(await job.add(page(2))).finish()
    assert answers(tmp_path / name) == urls(1, 2)


@BOTH
async def test_records_that_another_program_has_appended_meanwhile_stay(tmp_path, name):
    job = Job(tmp_path / name).open()
    job.write(await job.add(page(1))).crash()
    other = Job(tmp_path / name, worker="other").open()
    other.write(await other.add(page(100))).crash()
    job.open().write(await job.add(page(2))).finish()
    assert answers(tmp_path / name) == urls(1, 100, 2)


@BOTH
async def test_a_batch_that_could_not_be_written_is_written_in_full_the_next_time(tmp_path, name, monkeypatch):
    job = Job(tmp_path / name).open()
    items = await job.add(page(1, b"same"), page(2, b"same"))

    def fail(pieces):
        list(pieces)
        raise SinkError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(job.sink._file, "append", fail)
        with pytest.raises(SinkError):
            job.sink.write(items)
    job.write(items).finish()
    assert [kind for kind, _, _ in read(tmp_path / name)][1:] == ["request", "response", "request", "revisit"]


async def test_pages_of_other_machines_are_theirs(tmp_path):
    job = Job(tmp_path / "pages.warc.gz").open()
    ours = await job.add(page(1))
    theirs = Archived("elsewhere", "/nowhere", 0, 1, 1, "http://b.example/", "", "")
    job.write([Item(9, 9, 0, theirs.encoded()), *ours]).finish()
    assert answers(tmp_path / "pages.warc.gz") == urls(1)


@pytest.mark.parametrize("name", ["pages.warc.gz", "{part}.warc.gz"])
async def test_what_is_no_page_is_a_bad_item_and_nothing_is_written(tmp_path, name):
    job = Job(tmp_path / name).open()
    good = await job.add(page(1))
    with pytest.raises(BadItemsError) as raised:
        job.sink.write([*good, Item(5, 5, 0, b"\x91\x01")])
    assert list(raised.value.reasons) == [5]
    job.write(good).finish()
    assert answers(next(tmp_path.glob("*.warc.gz"))) == urls(1)


@pytest.mark.parametrize("name", ["pages.warc.gz", "{part}.warc.gz"])
async def test_a_batch_of_large_pages_is_not_held_in_memory(tmp_path, name):
    job = Job(tmp_path / name).open()
    items = [item for n in range(20) for item in await job.add(page(n, random.Random(n).randbytes(1 << 20)))]
    tracemalloc.start()
    job.write(items)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    job.finish()
    assert most < 6 << 20
    assert answers(next(tmp_path.glob("*.warc.gz"))) == urls(*range(20))


async def test_a_process_that_works_for_a_job_twice_goes_on_in_its_file(tmp_path):
    job = Job(tmp_path / "pages.warc.gz").open()
    first = await job.add(page(1))
    job.worker.close()
    job.worker = PageSpool(job.sink.ahead, "w:1:2", node=HERE, sent={})
    job.write(first + await job.add(page(2))).finish()
    assert answers(tmp_path / "pages.warc.gz") == urls(1, 2)


@pytest.mark.parametrize("left", [-1, None])
async def test_a_file_that_was_written_ahead_and_is_gone_is_said(tmp_path, left):
    job = Job(tmp_path / "pages.warc.gz").open()
    items = await job.add(page(1))
    (ahead,) = job.sink.ahead.iterdir()
    whole = ahead.read_bytes()
    ahead.unlink()
    if left is not None:
        ahead.write_bytes(whole[:left])
    with pytest.raises(SinkError, match="missing or truncated"):
        job.sink.write(items)
    ahead.write_bytes(whole)
    job.write(items).finish()
    assert answers(tmp_path / "pages.warc.gz") == urls(1)


@BOTH
async def test_o_goes_on_after_what_is_there_and_capital_o_overwrites(tmp_path, name):
    for number, overwrite in ((1, False), (2, False), (3, True)):
        job = Job(tmp_path / name, overwrite=overwrite).open()
        job.write(await job.add(page(number))).finish()
        assert answers(tmp_path / name) == (urls(3) if overwrite else urls(*range(1, number + 1)))


@BOTH
@pytest.mark.parametrize("content", [b"no archive\r\n\r\n", b"WARC/1.1\r\n"])
def test_nothing_is_appended_to_what_is_no_archive(tmp_path, name, content):
    content = gzip.compress(content) if name.endswith(".gz") else content
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SinkError, match="cannot append to the existing archive"):
        Job(tmp_path / name).open()
    assert (tmp_path / name).read_bytes() == content


async def test_an_archive_in_parts_begins_each_with_a_head(tmp_path):
    job = Job(f"{tmp_path}/{{job}}-{{part}}.warc.gz?part_bytes=500").open()
    for number in range(6):
        items = await job.add(page(number, bytes([65 + number]) * 100))
        job.write(items, recorded=False).crash()
        job.open().write(items)
    job.finish()
    parts = sorted(tmp_path.iterdir())
    assert len(parts) > 2
    assert all(path.name.startswith("books-0000") for path in parts), "nothing hidden is left"
    assert [url for path in parts for url in answers(path)] == urls(*range(6))
    assert all(read(path)[0][0] == "warcinfo" for path in parts)


async def test_a_file_that_was_written_ahead_goes_when_all_of_it_is_in_the_archive(tmp_path):
    job = Job(tmp_path / "pages.warc", file_bytes=100).open()
    worker, held = job.worker, {1, 2, 3, 4}
    items = [Item(n, n, 0, await worker.add(n, Request(f"http://a.example/{n}"), page(n))) for n in (1, 2, 3, 4)]
    files = [Path(archived(item.record).file) for item in items]
    assert len(set(files)) == 4
    await worker.sync(held)
    for epoch in (1, 3):
        worker.committed(epoch)
        held.discard(epoch)
    held.discard(4)  # lost
    await worker.sync(held)
    # The third comes first: a frontier in shards keeps no order between them.
    job.write([items[2]])
    assert all(file.exists() for file in files)
    job.write([items[0]])
    assert [file.exists() for file in files] == [True, True, False, True]
    worker.committed(2)
    await worker.sync(set())
    job.write([items[1]])
    job.write(await job.add(page(5)))
    assert [file.exists() for file in files] == [False, False, False, True]
    job.finish()
    assert answers(tmp_path / "pages.warc") == urls(3, 1, 2, 5)


async def test_a_page_that_comes_twice_does_not_make_up_for_one_that_is_missing(tmp_path):
    job = Job(tmp_path / "pages.warc").open()
    one, two = await job.add(page(1), page(2))
    (file,) = job.sink.ahead.iterdir()
    file.with_suffix(".total").write_text("2")
    for items in ([one], [one], [two]):
        job.write(items)
        assert len(list(job.sink.ahead.iterdir())) == 2
    job.sink.write([])
    assert list(job.sink.ahead.iterdir()) == []


def test_another_machines_archive_is_not_opened():
    assert file_sink("x/../pages.warc.gz", overwrite=False).target == f"pages.warc.gz@{HERE}"
    assert file_sink(f"pages.warc.gz@{HERE}", overwrite=False).target == f"pages.warc.gz@{HERE}"
    with pytest.raises(UsageError, match="another machine") as raised:
        file_sink("pages.warc.gz@elsewhere", overwrite=False)
    assert "elsewhere" in raised.value.hint


HEADER = st.tuples(
    st.sampled_from(["server", "content-length", "content-encoding", "set-cookie", "x"]),
    st.text(st.characters(max_codepoint=255), max_size=20),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    headers=st.lists(HEADER, max_size=5),
    body=st.binary(max_size=400),
    status=st.integers(100, 599),
    sent=st.dictionaries(st.sampled_from(["A", "Host", "user-agent"]), st.text(max_size=10), max_size=2),
)
async def test_whatever_a_server_says_the_archive_is_whole(tmp_path_factory, headers, body, status, sent):
    path = tmp_path_factory.mktemp("archive") / "pages.warc.gz"
    job = Job(path).open()
    request = Request("http://a.example/1", headers=sent)
    job.write(await job.add(page(1, body, headers=headers, status=status), page(2), request=request)).finish()
    assert answers(path) == urls(1, 2)
    response = next(block for kind, _, block in read(path) if kind == "response")
    assert response.partition(b"\r\n\r\n")[2] == body
    with path.open("rb") as file:
        kinds = WarcRecordType.response
        records = list(FastIterator(io.BytesIO(file.read()), record_types=kinds, parse_http=True))
    assert records[0].http_headers.status_code == status
