"""The target of a refresh is a link of its page, read as the HTML standard's shared declarative refresh steps do."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.extract.links import read_refresh
from skitter.extract.response import Response
from skitter.model.page import Page
from skitter.model.request import Request
from skitter.settings import REFRESH_SECONDS, Settings

Respond = Callable[..., Response]

URL = "http://site.test/dir/page.html"
EN = "http://site.test/en/"


@pytest.mark.parametrize(
    ("content", "refresh"),
    [
        ("0; url=/en/", (0, "/en/")),
        ("0;url=/en/", (0, "/en/")),
        ("0,url=/en/", (0, "/en/")),
        ("0 url=/en/", (0, "/en/")),
        ("0 ; url=/en/", (0, "/en/")),
        ("0\n;\turl=/en/", (0, "/en/")),
        ("\f 0; url=/en/", (0, "/en/")),
        ("5; URL=/en/", (5, "/en/")),
        ("5; Url \t= \n/en/", (5, "/en/")),
        ("5; /en/", (5, "/en/")),
        ("5 /en/", (5, "/en/")),
        ("5, '/en/'", (5, "/en/")),
        ('5; "/en/" and more', (5, "/en/")),
        ("5; url='/en/'", (5, "/en/")),
        ('5; url="/en/', (5, "/en/")),
        ("5; url='/e\"n/' x", (5, '/e"n/')),
        ("5; url=/e'n/", (5, "/e'n/")),
        ("5; url=''", (5, "")),
        ("5; url=", (5, "")),
        ("5;", (5, "")),
        ("5", (5, "")),
        ("5 ", (5, "")),
        ("007; url=/en/", (7, "/en/")),
        ("1.5; url=/en/", (1, "/en/")),
        ("1.5.7...; url=/en/", (1, "/en/")),
        (".5; url=/en/", (0, "/en/")),
        (".; url=/en/", (0, "/en/")),
        ("5; u", (5, "u")),
        ("5; ur=/en/", (5, "ur=/en/")),
        ("5; url/en/", (5, "url/en/")),
        ("5; url;/en/", (5, "url;/en/")),
        ("5; url==/en/", (5, "=/en/")),
        ("5;; url=/en/", (5, "; url=/en/")),
        ("5; url=/en/; 6", (5, "/en/; 6")),
        ("5; 'url=/en/'", (5, "url=/en/")),
        ("9" * 5_000 + "; url=/en/", (float("inf"), "/en/")),
        ("", None),
        (" ", None),
        ("url=/en/", None),
        ("; url=/en/", None),
        ("-1; url=/en/", None),
        ("+1; url=/en/", None),
        ("5s; url=/en/", None),
        ("5url=/en/", None),
        ("5\u00a0; url=/en/", None),
        ("\u0665; url=/en/", None),
        ("\u00a05; url=/en/", None),
    ],
)
def test_a_refresh_is_parsed_by_the_steps_of_the_standard(content: str, refresh: tuple[float, str] | None) -> None:
    assert read_refresh(content) == refresh


def meta(content: str = "0; url=/en/") -> str:
    return f'<meta http-equiv="refresh" content="{html.escape(content)}">'


@pytest.mark.parametrize(
    ("page", "links"),
    [
        (meta(), [EN]),
        (f"<title>Moved</title>{meta()}<p>Moved.", [EN]),
        (f"<body><p>Moved.{meta()}", [EN]),
        (f"<body><div><div>{meta()}</div></div>", [EN]),
        ("<META HTTP-EQUIV=ReFresh CONTENT=0;URL=/en/>", [EN]),
        ("<meta content='0; url=/en/' http-equiv=refresh />", [EN]),
        ("<meta http-equiv=refresh content='&#48;&semi; url&equals;/en/'>", [EN]),
        ("<meta http-equiv=refresh content='0; url=/en/?a=1&amp;b=2'>", [EN + "?a=1&b=2"]),
        (meta("0; url=/en/#top"), [EN]),
        (meta("0; url= \t/e\nn/ "), [EN]),
        (meta("0; url=next.html"), ["http://site.test/dir/next.html"]),
        (meta("0; url=?page=2"), [URL + "?page=2"]),
        (meta("0; url=//other.test"), ["http://other.test/"]),
        (meta("0; url=https://other.test/x"), ["https://other.test/x"]),
        (f"<base href=/base/>{meta('0; url=en/')}", ["http://site.test/base/en/"]),
        (f"{meta('0; url=en/')}<base href=/base/>", ["http://site.test/dir/en/"]),
        (meta(f"{REFRESH_SECONDS:.0f}; url=/en/"), [EN]),
        (meta("11; url=/en/"), []),
        (meta("300; url=/en/"), []),
        (meta("0"), []),
        (meta("0; url="), []),
        (meta(f"0; url={URL}"), []),
        (meta("0; url=page.html#x"), []),
        (meta("0; url=#x"), []),
        (meta("0; url=javascript:location='/en/'"), []),
        (meta("0; url=mailto:a@b.test"), []),
        (meta("0; url=http://[/"), []),
        (f"{meta('0; url=/1')}{meta('0; url=/2')}", ["http://site.test/1"]),
        (f"{meta('soon; url=/1')}{meta('0; url=/2')}", ["http://site.test/2"]),
        (f"{meta('0; url=http://[/')}{meta('0; url=/2')}", ["http://site.test/2"]),
        (f"{meta('')}{meta('0; url=/2')}", ["http://site.test/2"]),
        (f"<meta http-equiv=refresh>{meta('0; url=/2')}", ["http://site.test/2"]),
        (f"{meta('300')}{meta('0; url=/2')}", []),
        (f"<noscript>{meta('0; url=/1')}</noscript>{meta('0; url=/2')}", ["http://site.test/2"]),
        (f"<noscript>{meta()}</noscript>", []),
        (f"<body><noscript><div>{meta()}</div></noscript>", []),
        (f"<template>{meta()}</template>", []),
        (f"<!-- {meta()} -->", []),
        (f"<script>'{meta()}'</script>", []),
        (f"<style>{meta()}</style>", []),
        (f"<title>{meta()}</title>", []),
        (f"<textarea>{meta()}</textarea>", []),
        ("<meta name=refresh content='0; url=/en/'>", []),
        ("<meta http-equiv='refresh ' content='0; url=/en/'>", []),
        ("<link http-equiv=refresh content='0; url=/en/' href=/x>", []),
        (f"<a href=/1>1</a>{meta()}<a href=/en/>en</a>", [EN, "http://site.test/1"]),
    ],
)
def test_the_target_of_a_refresh_is_a_link_of_its_page(respond: Respond, page: str, links: list[str]) -> None:
    response = respond(page, url=URL)
    assert response.links() == links
    assert response.links(unique=False)[: len(links)] == links
    assert response.links(allow="/none") == []


def answer(refresh: str | None, body: str = "", content_type: str | None = None, **fields: Any) -> Response:
    headers = [("refresh", refresh)] if refresh is not None else []
    if content_type is not None:
        headers.append(("content-type", content_type))
    return Response(Page(url=URL, status=200, headers=headers, body=body.encode()), Request(URL), **fields)


@pytest.mark.parametrize(
    ("refresh", "body", "content_type", "links"),
    [
        ("0; url=/en/", "", None, [EN]),
        ("0;URL='/en/'", "", "text/html", [EN]),
        ("0; url=/en/", "moved", "text/plain", [EN]),
        ("0; url=/en/", "<r/>", "text/xml", [EN]),
        ("0; url=en/", "<base href=/base/>", "text/html", ["http://site.test/dir/en/"]),
        ("0; url=/1", meta("0; url=/2"), "text/html", ["http://site.test/1"]),
        ("never", meta("0; url=/2"), "text/html", ["http://site.test/2"]),
        ("60", meta("0; url=/2"), "text/html", []),
        ("60; url=/en/", "", "text/html", []),
    ],
)
def test_the_header_refresh_comes_before_the_page(
    refresh: str, body: str, content_type: str | None, links: list[str]
) -> None:
    response = answer(refresh, body, content_type)
    assert response.links() == response.links(unique=False) == links
    assert response.links(restrict="body") == []


def test_a_query_is_escaped_in_the_encoding_of_the_page(respond: Respond) -> None:
    page = '<meta http-equiv=refresh content="0; url=/s?q=\u00fc">'.encode("latin1")
    assert respond(page, "text/html; charset=latin1").links() == ["http://site.test/s?q=%FC"]


def test_the_setting_says_how_long_a_refresh_may_wait() -> None:
    assert Settings().links.max_refresh_seconds == REFRESH_SECONDS
    assert answer("30; url=/en/", refresh_seconds=60.0).links() == [EN]
    assert answer("0; url=/en/", refresh_seconds=0.0).links() == [EN]
    assert answer("1; url=/en/", refresh_seconds=0.0).links() == []
    assert answer("0; url=/en/", meta(), "text/html", refresh_seconds=None).links() == []
    for text, value in (("none", None), ("2.5", 2.5)):
        assert Settings.from_layers([("a", {"max_refresh_seconds": text})]).links.max_refresh_seconds == value


def test_a_refresh_makes_its_target_a_link_that_is_not_nofollow(respond: Respond) -> None:
    response = respond(f"{meta()}<a rel=nofollow href=/en/>en</a><a rel=nofollow href=/fr/>fr</a>", url=URL)
    assert response.nofollow_links() == ["http://site.test/fr/"]
    assert response.links() == [EN, "http://site.test/fr/"]


def test_a_page_without_a_question_for_links_is_not_parsed() -> None:
    response = answer("0; url=/en/", meta(), "text/html")
    assert response.text
    assert response._root is None
    assert answer("0; url=/en/", "%PDF", "application/pdf").links() == [EN]


@given(st.text(alphabet="0159.;, \t\n'\"=urlURL/x#\u00e9", max_size=30))
def test_no_refresh_raises(content: str) -> None:
    links = answer(content, meta(content), "text/html").links()
    assert links == [] or links[0].startswith("http")
