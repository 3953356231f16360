"""What pages ask for, in headers and in their heads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.extract.response import Response
from skitter.extract.robots_directives import MAX_DIRECTIVES, Directives
from skitter.model.page import Page
from skitter.model.request import Request

URL = "https://a.example/dir/page"


def response(html: str = "", *headers: tuple[str, str], kind: str = "text/html", **fields: Any) -> Response:
    page = Page(url=URL, status=200, headers=[("content-type", kind), *headers], body=html.encode())
    return Response(page, Request(URL), **fields)


def robots(html: str = "", *headers: tuple[str, str], **fields: Any) -> tuple[str, ...]:
    return response(html, *headers, **fields).directives.robots


def meta(content: str, name: str = "robots") -> str:
    return f'<head><meta name="{name}" content="{content}"></head>'


def tag(value: str) -> tuple[str, str]:
    return ("x-robots-tag", value)


def test_a_page_that_asks_for_nothing() -> None:
    assert response("<title>x</title><p>hello").directives == Directives()


@pytest.mark.parametrize(
    ("html", "noindex", "nofollow"),
    [
        (meta("noindex"), True, False),
        (meta("NoFollow , noArchive"), False, True),
        (meta("none"), True, True),
        (meta("index, follow, all"), False, False),
        ("<META CONTENT=noindex NAME=ROBOTS>", True, False),
        (meta("noindex", "skitter"), True, False),
        (meta("noindex", "SKITTER"), True, False),
        (meta("noindex", "googlebot"), False, False),
        (meta("noindex") + meta("nofollow"), True, True),
        ("<body>" + meta("noindex"), False, False),
        (meta(""), False, False),
        ("<meta name=robots>", False, False),
    ],
)
def test_meta_robots(html: str, noindex: bool, nofollow: bool) -> None:
    directives = response(html).directives
    assert (directives.noindex, directives.nofollow) == (noindex, nofollow)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["noindex"], ("noindex",)),
        (["noindex, nofollow", "noarchive"], ("noindex", "nofollow", "noarchive")),
        (["skitter: noindex, nofollow"], ("noindex", "nofollow")),
        (["Skitter : none"], ("none",)),
        (["googlebot: noindex, nofollow"], ()),
        (["noarchive, googlebot: noindex, nofollow, skitter: none"], ("noarchive", "none")),
        (["max-snippet: 20, max-image-preview:large"], ("max-snippet:20", "max-image-preview:large")),
        (["unavailable_after: 25 Jun 2010 15:00:00 PST"], ("unavailable_after:25 Jun 2010 15:00:00 PST",)),
        (["unavailable_after: Friday, 01-Jan-27 10:00:00 GMT, noindex"], ("unavailable_after:Friday", "noindex")),
        (["googlebot: unavailable_after: 1 Jan 2027", "noindex"], ("noindex",)),
        (["noindex, noindex"], ("noindex",)),
        ([",, ;; 7, \t"], ()),
        ([""], ()),
    ],
)
def test_x_robots_tag(values: list[str], words: tuple[str, ...]) -> None:
    assert robots("", *map(tag, values), kind="application/pdf") == words


def test_another_crawler_has_another_name() -> None:
    html = meta("noindex", "acme-bot") + meta("nofollow", "skitter")
    assert robots(html, tag("acme-bot: noarchive"), tag("skitter: none"), product="acme-bot") == (
        "noindex",
        "noarchive",
    )


@pytest.mark.parametrize(
    ("html", "header", "canonical"),
    [
        ('<link rel="canonical" href="/x">', None, "https://a.example/x"),
        ('<link rel="alternate CANONICAL" href="x#part">', None, "https://a.example/dir/x"),
        ('<base href="https://b.example/c/"><link rel=canonical href=d>', None, "https://b.example/c/d"),
        ("<link rel=canonical href=/1><link rel=canonical href=/2>", None, "https://a.example/1"),
        ("", '<https://a.example/y>; rel="canonical"', "https://a.example/y"),
        ("", "</next>; rel=next, </y>; rel=canonical", "https://a.example/y"),
        ("", '</next>; rel="next prefetch"; title="canonical"', None),
        ("<link rel=canonical href=/x>", "</y>; rel=canonical", "https://a.example/x"),
        ("<link rel=canonical href=javascript:x>", None, None),
        ("<link rel=canonical>", None, None),
        ("<p><link rel=canonical href=/x>", None, None),
    ],
)
def test_the_canonical_url_is_absolute(html: str, header: str | None, canonical: str | None) -> None:
    headers = [("link", header)] if header else []
    assert response(html, *headers).directives.canonical == canonical


@pytest.mark.parametrize(
    ("html", "headers", "reserved", "policy"),
    [
        ("", [("tdm-reservation", "1"), ("tdm-policy", "https://a.example/p.json")], True, "https://a.example/p.json"),
        ("", [("tdm-reservation", " 0 ")], False, None),
        (meta("1", "tdm-reservation") + meta("/p", "TDM-policy"), [], True, "/p"),
        (meta("0", "tdm-reservation"), [("tdm-reservation", "1")], True, None),
        (meta("1", "tdm-reservation"), [("tdm-reservation", "0")], True, None),
        ("", [("tdm-reservation", "yes")], False, None),
        ("", [], None, None),
    ],
)
def test_the_reservation_of_text_and_data_mining(
    html: str, headers: list[tuple[str, str]], reserved: bool | None, policy: str | None
) -> None:
    directives = response(html, *headers).directives
    assert (directives.tdm_reservation, directives.tdm_policy) == (reserved, policy)


def test_links_that_say_nofollow() -> None:
    html = """<a href=/1 rel=nofollow>1</a> <a href=/2 rel="external NOFOLLOW">2</a> <a href=/3 rel=ugc>3</a>
      <area href=/4 rel=sponsored> <a href=/5 rel=noopener>5</a> <a href=/6>6</a> <link href=/7 rel=nofollow>
      <a rel=nofollow>none</a> <a href=mailto:x rel=nofollow>m</a> <a href="/1#again" rel=nofollow>1</a>"""
    assert response(html).nofollow_links() == [f"https://a.example/{number}" for number in range(1, 5)]


def test_a_link_that_stands_on_the_page_twice_is_followed_if_one_of_them_may_be() -> None:
    assert response("<a href=/1 rel=nofollow>1</a><a href=../1#x>1</a>").nofollow_links() == []


def test_nothing_is_read_of_what_is_no_page() -> None:
    assert response("<a href=/1 rel=nofollow>1</a>", kind="image/png").nofollow_links() == []


@given(st.text(max_size=200), st.text(max_size=200))
def test_garbage_never_raises_and_is_bounded(value: str, link: str) -> None:
    directives = response(meta(value.replace('"', "")), tag(value), ("link", link)).directives
    assert len(directives.robots) <= MAX_DIRECTIVES


def test_a_header_without_end_is_bounded() -> None:
    words = robots("", tag(",".join(f"word-{number}" for number in range(10_000))))
    assert len(words) == MAX_DIRECTIVES
