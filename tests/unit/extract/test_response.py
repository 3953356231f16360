"""A response reads its page on demand, finds its links, and makes requests of them."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.errors import UrlError, UsageError
from skitter.extract.response import Response
from skitter.extract.response_headers import Headers

Respond = Callable[..., Response]

PAGE = """<!DOCTYPE html><html><head><title> A
 title </title></head><body>
<a href="/root">1</a> <a href="next.html#part">2</a> <a href="next.html#other">3</a> <a href="next.html">4</a>
<a href="https://other.test/x?b=1&amp;a=2">5</a> <a name="no">6</a> <a href="#top">7</a>
<a href="mailto:x@y.test">8</a> <a href="javascript:void(0)">9</a> <a href="http://[bad">10</a> <a href="data:,x">11</a>
<map><area href=" /area "></map><link href="/style.css"><img src="/image.png"></body></html>"""


def test_what_the_page_and_the_request_know_is_passed_on(respond: Respond) -> None:
    response = respond(PAGE, meta={"m": 1}, cb_kwargs={"k": 2})
    assert (response.url, response.status, response.body) == ("http://site.test/dir/page.html", 200, PAGE.encode())
    assert (response.meta, response.cb_kwargs, response.request.url) == ({"m": 1}, {"k": 2}, response.url)
    assert (response.address, response.seconds, response.http_version) == ("", 0.0, "")
    assert (response.encoding, response.text, response.is_html) == ("utf-8", PAGE, True)


def test_header_names_have_no_case_and_repeated_headers_are_kept() -> None:
    headers = Headers([("set-cookie", "a=1"), ("content-type", "text/html"), ("set-cookie", "b=2")])
    assert headers["Content-Type"] == headers.get("CONTENT-TYPE") == "text/html"
    assert headers["set-cookie"] == "a=1"
    assert headers.getlist("Set-Cookie") == ["a=1", "b=2"]
    assert (headers.get("x"), headers.get("x", "d"), headers.getlist("x")) == (None, "d", [])
    assert ("Set-Cookie" in headers, "x" in headers, len(headers)) == (True, False, 2)
    with pytest.raises(KeyError):
        headers["x"]


def test_links_are_absolute_and_each_once_in_order(respond: Respond) -> None:
    response = respond(PAGE)
    assert response.links() == [
        "http://site.test/root",
        "http://site.test/dir/next.html",
        "https://other.test/x?b=1&a=2",
        "http://site.test/dir/page.html",
        "http://site.test/area",
    ]
    assert response.flaws == {"scheme": 3, "unparsable": 1}
    response.links().clear()
    assert len(response.links()) == 5
    assert response.flaws.total() == 4, "asking twice does not count twice"


@pytest.mark.parametrize(
    ("base", "link"),
    [
        ('<base href="/other/">', "http://site.test/other/x"),
        ('<BASE HREF="http://cdn.test/a/b">', "http://cdn.test/a/x"),
        ("<base target=_top><base href=up/><base href=/no/>", "http://site.test/dir/up/x"),
        ('<base href="javascript:1">', "http://site.test/dir/x"),
        ('<base href="http://[bad">', "http://site.test/dir/x"),
        ('<base href="">', "http://site.test/dir/x"),
        ("<base>", "http://site.test/dir/x"),
    ],
)
def test_base_href_is_respected(respond: Respond, base: str, link: str) -> None:
    page = f"<head>{base}</head><a href=x>"
    assert respond(page).links() == [link]
    assert respond(page).urljoin("x") == link
    assert respond(page).follow("x").url == link
    assert [request.url for request in respond(page).follow_all(css="a")] == [link]


def test_svg_links_and_hrefs_without_a_value_are_left_alone(respond: Respond) -> None:
    assert respond('<svg><a xlink:href="/x">t</a></svg><a href>e</a><a href="/y">').links() == ["http://site.test/y"]


def test_a_query_is_escaped_in_the_encoding_of_the_page(respond: Respond) -> None:
    body = '<a href="/поиск?q=мир&x=☃#я">'.encode("cp1251", "xmlcharrefreplace")
    response = respond(body, "text/html; charset=windows-1251")
    url = "http://site.test/%D0%BF%D0%BE%D0%B8%D1%81%D0%BA?q=%EC%E8%F0&x=%26%239731%3B"
    assert response.links() == [url]
    assert response.follow("/поиск?q=мир&x=☃#я").url == url
    assert respond('<a href="?q=мир">').links() == ["http://site.test/dir/page.html?q=%D0%BC%D0%B8%D1%80"]


def test_title_is_the_first_one_with_its_white_space_collapsed(respond: Respond) -> None:
    assert respond(PAGE).title == "A title"
    assert respond("<p>x<svg><title>icon</title></svg>").title == "icon"
    assert respond("<title>&lt;b&gt; &eacute;</title>").title == "<b> é"
    assert respond("<noscript><img></noscript><title>late</title>").title == "late"
    assert respond("<title></title>").title == ""
    assert respond("<p>x").title is None


def test_follow_takes_text_attributes_and_elements(respond: Respond) -> None:
    response = respond(PAGE)
    by_text = response.follow("next.html", "parse_next", meta={"a": 1}, priority=3)
    assert (by_text.url, by_text.callback, by_text.meta, by_text.priority) == (
        "http://site.test/dir/next.html",
        "parse_next",
        {"a": 1},
        3,
    )
    assert response.follow(response.css("a::attr(href)")[1]).url == "http://site.test/dir/next.html"
    assert response.follow(response.css("a")[0]).url == "http://site.test/root"
    assert response.follow(response.css("img")[0]).url == "http://site.test/image.png"


@pytest.mark.parametrize(
    ("link", "rule"),
    [
        ("javascript:void(0)", "scheme"),
        ("mailto:a@b.test", "scheme"),
        ("data:text/plain,x", "scheme"),
        ("http://[bad", "unparsable"),
        ("/" + "x" * 5000, "too_long"),
        ("http://a\ud800b/", "unparsable"),
    ],
)
def test_following_a_bad_link_raises_and_following_many_skips_it(respond: Respond, link: str, rule: str) -> None:
    response = respond(PAGE)
    with pytest.raises(UrlError) as caught:
        response.follow(link)
    assert caught.value.rule == rule
    assert [request.url for request in response.follow_all([link, "/ok"])] == ["http://site.test/ok"]
    assert response.flaws == {rule: 1}


def test_half_a_surrogate_pair_is_replaced_as_in_browsers(respond: Respond) -> None:
    assert respond(PAGE).follow("/\ud800x\ud83d\ude00").url == "http://site.test/%EF%BF%BDx%F0%9F%98%80"
    assert respond(PAGE).urljoin("/\udc00") == "http://site.test/%EF%BF%BD"


def test_elements_without_a_link_are_skipped_or_refused(respond: Respond) -> None:
    response = respond(PAGE)
    with pytest.raises(UrlError):
        response.follow(response.css("a[name]")[0])
    assert response.follow_all(css="body") == []
    assert response.flaws == {"unparsable": 1}
    with pytest.raises(UsageError):
        response.follow(response.css("a"))


def test_follow_all_wants_exactly_one_source(respond: Respond) -> None:
    response = respond(PAGE)
    assert response.follow_all([]) == []
    assert [request.callback for request in response.follow_all(css="a[href^='/']", callback="cb", depth=2)] == ["cb"]
    for sources in ({}, {"urls": [], "css": "a"}, {"css": "a", "xpath": "//a"}):
        with pytest.raises(UsageError):
            response.follow_all(**sources)


def test_urljoin_keeps_fragments_and_other_schemes(respond: Respond) -> None:
    response = respond(PAGE)
    assert response.urljoin("a#b") == "http://site.test/dir/a#b"
    assert response.urljoin("mailto:x@y.test") == "mailto:x@y.test"
    with pytest.raises(UrlError):
        response.urljoin("http://[bad")


def test_json_reads_the_text_and_says_where_it_is_wrong(respond: Respond) -> None:
    assert respond(b'\xef\xbb\xbf{"a": [1, "\xc3\xa9"]}', "application/json").json() == {"a": [1, "é"]}
    with pytest.raises(ValueError, match="line 1"):
        respond("{", "application/json").json()


@pytest.mark.parametrize(
    "content_type", ["image/png", "application/pdf", "text/plain", "application/json", "application/octet-stream"]
)
def test_what_is_not_markup_is_not_parsed(respond: Respond, content_type: str) -> None:
    response = respond(PAGE, content_type)
    assert (response.is_html, response.links(), response.css("a"), response.title) == (False, [], [], None)
    assert response._root is None
    assert response.text == PAGE
    assert response.follow("x").url == "http://site.test/dir/x"


@pytest.mark.parametrize(
    ("content_type", "body", "kind"),
    [
        ("TEXT/HTML ;charset=x", b"", "html"),
        ("application/xhtml+xml", b"", "html"),
        ("application/rss+xml", b"", "xml"),
        ("text/xml", b"", "xml"),
        (None, b" \n<p>x", "html"),
        ("", b"\xef\xbb\xbf<!doctype html>", "html"),
        ("html", b"<p>", "html"),
        ("*/*", "\ufeff<p>é".encode("utf-16-le"), "html"),
        (None, b"<?xml version='1.0'?><urlset>", "xml"),
        (None, b"<?xml version='1.0'?><!DOCTYPE html><html>", "html"),
        (None, b"plain text <p>", "other"),
        (None, b"<\0\0\1", "other"),
        (None, b"\x89PNG", "other"),
        (None, b"", "other"),
    ],
)
def test_kind_is_what_the_server_says_or_else_what_it_looks_like(
    respond: Respond, content_type: str | None, body: bytes, kind: str
) -> None:
    assert respond(body, content_type).kind == kind


def test_pages_in_other_encodings_are_read_and_parsed(respond: Respond) -> None:
    text = "<title>Привет</title><a href=/x title=мир>ссылка</a>"
    for codec, label in [("cp1251", "windows-1251"), ("koi8_r", "koi8-r"), ("utf-8", "utf-8")]:
        response = respond(text.encode(codec), f"text/html; charset={label}")
        assert (response.title, response.css("a::attr(title)").get(), response.css("a").text) == (
            "Привет",
            "мир",
            "ссылка",
        )
    marked = respond(b"\xef\xbb\xbf" + text.encode())
    assert marked.css("head > title::text").get() == "Привет", "the mark does not end the head"
    assert respond(("\ufeff" + text).encode("utf-16-le"), None).title == "Привет"


def test_wrongly_labelled_bytes_are_replaced_not_raised(respond: Respond) -> None:
    response = respond(b"<title>caf\xe9 \xff</title><a href='/\xe9'>\xe9</a>", "text/html; charset=utf-8")
    assert response.title == "caf\ufffd \ufffd"
    assert response.links() == ["http://site.test/%EF%BF%BD"]
    assert "\ufffd" in response.text


def exercise(response: Response) -> None:
    """Everything a spider may do to a page."""
    for link in response.links():
        link.encode("ascii")
    assert response.title is None or isinstance(response.title, str)
    response.text.encode("utf-8")
    for selector in response.css("*"):
        selector.get().encode("utf-8")
        selector.attrib  # noqa: B018
        selector.css("a::attr(href), b ::text").getall()
    response.css("::text").getall()
    response.follow_all(css="a, img")


BROKEN = [
    b"",
    b"<",
    b"<a href=",
    b"<a href='",
    b"</a><//><!-- <a href=x>",
    b"<!doctype",
    b"\0<a href=\0>\0</a\0><a hr\0ef=x>",
    b"<a href=/x><a href=/y><table><a href=/z></table>",
    b"<select><a href=/x><option><frameset>",
    b"<svg><foreignObject><p><math><mi><a href=/x></svg>",
    b"<template><a href=/x></template><plaintext><a href=/y>",
    b"<a " + b"x" * 100_000 + b"=y href=/x>",
    b"<a href='" + b"x" * 200_000 + b"'>",
    "<a href=/\ud800\udfff>".encode("utf-8", "surrogatepass"),
    b"&#xD800;&#0;&#x110000;&notit;&" * 10,
]


@pytest.mark.parametrize("body", BROKEN, ids=range(len(BROKEN)))
def test_broken_pages_do_not_raise(respond: Respond, body: bytes) -> None:
    for content_type in ("text/html", "text/html; charset=utf-8", "text/html; charset=shift_jis", "text/xml", None):
        exercise(respond(body, content_type))


@given(
    st.binary(max_size=300),
    st.sampled_from(["text/html", "text/html; charset=utf-16", "text/html; charset=big5", None]),
)
def test_random_bytes_do_not_raise(respond: Respond, body: bytes, content_type: str | None) -> None:
    exercise(respond(body, content_type))


@given(st.integers(min_value=0), st.integers(min_value=1, max_value=30))
def test_damaged_pages_do_not_raise(respond: Respond, seed: int, damages: int) -> None:
    chance = random.Random(seed)
    body = bytearray(PAGE.encode() * 2)
    for _ in range(damages):
        start = chance.randrange(len(body))
        end = start + chance.randrange(1, 20)
        body[start:end] = chance.choice(
            [b"", b"<", b">", b'"', b"\0", b"</", b"<a href=", b"<!--", b"\xff", bytes(body[start:end]) * 5]
        )
    exercise(respond(bytes(body)))
