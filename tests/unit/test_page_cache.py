"""The cache of answers: what is kept, under which key, for how long, and what damage does."""

from __future__ import annotations

import asyncio
import stat
import time
from pathlib import Path

import pytest

from skitter.errors import SettingsError
from skitter.fetch.contract import FetchRequest
from skitter.fetch.page_cache import CachingFetcher, PageCache
from skitter.model.page import Page


class Counting:
    """A fetcher that answers with what it is asked for."""

    def __init__(self, status: int = 200, headers: list[tuple[str, str]] | None = None) -> None:
        self.status = status
        self.headers = headers or []
        self.asked: list[FetchRequest] = []

    async def fetch(self, request: FetchRequest) -> Page:
        self.asked.append(request)
        body = f"{request.method} {request.url} {request.body!r} {len(self.asked)}".encode()
        return Page(
            url=request.url, status=self.status, headers=self.headers, body=body, wire_bytes=9, started_at=time.time()
        )

    async def close(self) -> None:
        pass


def asked(fetcher: CachingFetcher, **fields: object) -> Page:
    return asyncio.run(fetcher.fetch(FetchRequest(**{"url": "https://a.example/"} | fields)))


def test_an_answer_is_given_again_to_any_cache_of_the_folder(tmp_path: Path) -> None:
    inner = Counting(headers=[("x", "é"), ("x", "2")])
    first = asked(CachingFetcher(inner, PageCache(tmp_path / "a" / "pages")))
    again = asked(CachingFetcher(inner, PageCache(tmp_path / "a" / "pages")), headers={"accept": "x"})
    assert (first.cached, again.cached, len(inner.asked)) == (False, True, 1)
    assert (again.body, again.headers, again.status, again.wire_bytes) == (first.body, first.headers, 200, 0)
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a" / "pages").stat().st_mode) == 0o700


def test_method_url_and_body_are_the_key(tmp_path: Path) -> None:
    inner = Counting()
    fetcher = CachingFetcher(inner, PageCache(tmp_path))
    requests = [
        {},
        {"method": "POST"},
        {"method": "POST", "body": b"a"},
        {"method": "POST", "body": b"b"},
        {"url": "https://a.example/?b"},
    ]
    bodies = [asked(fetcher, **fields).body for fields in requests]
    assert len(set(bodies)) == len(inner.asked) == 5
    assert [asked(fetcher, **fields).body for fields in requests] == bodies


@pytest.mark.parametrize(
    ("status", "headers", "kept"),
    [
        (200, [], True),
        (204, [], True),
        (206, [], False),
        (301, [("location", "/x")], True),
        (302, [], False),
        (304, [], False),
        (404, [], False),
        (429, [], False),
        (503, [], False),
    ],
)
def test_successes_and_redirects_are_kept(
    tmp_path: Path, status: int, headers: list[tuple[str, str]], kept: bool
) -> None:
    fetcher = CachingFetcher(Counting(status, headers), PageCache(tmp_path))
    asked(fetcher)
    assert asked(fetcher).cached is kept


def test_a_body_that_was_cut_is_not_kept(tmp_path: Path) -> None:
    fetcher = CachingFetcher(Counting(), PageCache(tmp_path))
    asked(fetcher, truncate_bytes=5)
    assert not asked(fetcher).cached


def test_a_page_whose_body_a_hook_did_not_want_is_not_kept(tmp_path: Path) -> None:
    class WithoutBody(Counting):
        async def fetch(self, request: FetchRequest) -> Page:
            page = await super().fetch(request)
            if request.on_headers is not None and not request.on_headers(page):
                page.body = b""
            return page

    fetcher = CachingFetcher(WithoutBody(), PageCache(tmp_path))
    assert asked(fetcher, on_headers=lambda _page: False).body == b""
    whole = asked(fetcher, on_headers=lambda _page: True)
    assert not whole.cached
    assert whole.body
    assert asked(fetcher).cached


def test_an_old_answer_is_fetched_again(tmp_path: Path) -> None:
    inner = Counting()
    asked(CachingFetcher(inner, PageCache(tmp_path)))
    request = FetchRequest(url="https://a.example/")
    cache = PageCache(tmp_path, 60.0)
    assert cache.get(request, time.time() + 30) is not None
    assert cache.get(request, time.time() + 90) is None
    assert cache.get(request, time.time() - 90) is None, "a clock that was set back"


@pytest.mark.parametrize("damage", [b"", b"\x01", b"\x02\x80", b"\x01\xff\xff", b"\x01\x81\xa3url"])
def test_a_damaged_file_is_fetched_again_and_replaced(tmp_path: Path, damage: bytes) -> None:
    inner = Counting()
    fetcher = CachingFetcher(inner, PageCache(tmp_path))
    asked(fetcher)
    (file,) = tmp_path.rglob("*.page")
    file.write_bytes(damage)
    assert not asked(fetcher).cached
    assert asked(fetcher).cached


def test_a_folder_that_cannot_be_had_is_an_error_and_a_full_disk_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="the cache folder cannot be used: cache_dir="):
        PageCache(tmp_path / "file" / "pages")
    cache = PageCache(tmp_path / "pages")
    # A file where a folder is to be made: as good as a disk without room.
    for first in range(256):
        (tmp_path / "pages" / f"{first:02x}").write_text("")
    fetcher = CachingFetcher(Counting(), cache)
    assert [asked(fetcher).status, asked(fetcher).status] == [200, 200]
    assert caplog.text.count("pages cannot be cached") == 1
    assert list(tmp_path.rglob("*.page*")) == []
