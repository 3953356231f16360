"""Downloaded files: their types, names and records, and which are refused."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from skitter.errors import SpiderError, UsageError
from skitter.extract.downloads import Download, failed_record
from skitter.extract.response import Response
from skitter.model.page import Page
from skitter.model.request import FILE_CALLBACK, FILE_ERRBACK, Request
from skitter.spiders.base import Spider

URL = "http://a.example/x/file"
PNG = b"\x89PNG\r\n\x1a\nrest"


def response(body: bytes, content_type: str = "", url: str = URL, **fields: Any) -> Response:
    headers = [("content-type", content_type)] if content_type else []
    return Response(Page(url=url, status=200, headers=headers, body=body), Request(url, **fields))


@pytest.mark.parametrize(
    ("body", "said", "found", "suffix"),
    [
        (PNG, "text/plain", "image/png", ".png"),
        (b"\xff\xd8\xff\xe0", "image/jpg", "image/jpeg", ".jpg"),
        (b"RIFF\x00\x00\x00\x00WEBP", "", "image/webp", ".webp"),
        (b"%PDF-1.4", "application/octet-stream", "application/pdf", ".pdf"),
        (b" \n<!DOCTYPE html><p>not found", "image/png", "text/html", ".html"),
        (b"<html>page", "text/html; charset=utf-8", "text/html", ".html"),
        (b"a,b", "Text/CSV ; header=present", "text/csv", ".csv"),
        (b"\x00\x01", "", "", ""),
        (b"\x00\x01", "application/vnd.own", "application/vnd.own", ""),
    ],
)
def test_the_content_tells_the_type_before_the_server_does(body: bytes, said: str, found: str, suffix: str) -> None:
    file = Download(response(body, said))
    assert file.content_type == found
    checksum = hashlib.sha256(body).hexdigest()
    assert file.name(file.checksum) == f"{checksum[:2]}/{checksum}{suffix}"


@pytest.mark.parametrize(
    ("url", "suffix"),
    [
        ("http://a.example/x.DOCX?v=1.php", ".docx"),
        ("http://a.example/x.tar.gz#top", ".gz"),
        ("http://a.example/x.php", ""),
        ("http://a.example/x.jsp/../y", ""),
        ("http://a.example/pdf", ""),
        ("http://a.example/", ""),
    ],
)
def test_a_url_gives_a_harmless_suffix_or_none(url: str, suffix: str) -> None:
    assert Download(response(b"\x00", url=url)).name("ab" * 32) == f"ab/{'ab' * 32}{suffix}"


@pytest.mark.parametrize(
    ("types", "max_bytes", "reason"),
    [
        ([], None, ""),
        (["image/*"], 12, ""),
        (["image/png"], None, ""),
        (["image/gif", "text/*"], None, "another content type: image/png"),
        ([], 11, "larger than 11 bytes"),
    ],
)
def test_what_is_refused(types: list[str], max_bytes: int | None, reason: str) -> None:
    assert Download(response(PNG)).objection(types, max_bytes) == reason


def test_a_record_names_the_url_that_the_page_had() -> None:
    moved = response(PNG, chain=("http://ann:secret@a.example/old", "http://a.example/older"))
    record = Download(moved).record("stored", {"of": 1}, path="p", checksum="c")
    assert record == {
        "of": 1,
        "url": "http://a.example/old",
        "path": "p",
        "checksum": "c",
        "size": 12,
        "content_type": "image/png",
        "status": "stored",
        "reason": "",
    }
    assert failed_record(moved.request, "HTTP 404", {}).keys() == record.keys() - {"of"}


def test_a_request_for_a_file_has_its_options() -> None:
    page = response(b"<p>page", "text/html")
    request = page.download("/a.png", types="image/*", max_bytes=9, item={"of": 1}, timeout=3, errback="mine")
    assert (request.url, request.callback, request.errback) == ("http://a.example/a.png", FILE_CALLBACK, "mine")
    assert request.cb_kwargs == {"types": ["image/*"], "max_bytes": 9, "item": {"of": 1}}
    assert request.timeout == 3.0
    plain = page.download("/a.png")
    assert (plain.errback, plain.cb_kwargs) == (FILE_ERRBACK, {})
    assert callable(getattr(Spider, FILE_CALLBACK))
    assert callable(getattr(Spider, FILE_ERRBACK))


@pytest.mark.parametrize("options", [{"types": ["png"]}, {"types": [1]}, {"max_bytes": 0}, {"item": {"url": "x"}}])
def test_a_wrong_option_is_an_error_of_who_wrote_it(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        response(b"").download("/a.png", **options)
    assert caught.value.hint


async def test_without_a_crawl_nothing_is_stored() -> None:
    with pytest.raises(SpiderError, match="only in a crawl"):
        await anext(Spider().save_file(response(PNG)))
