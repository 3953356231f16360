"""Links of a page are chosen by expressions, domains, extensions and regions, in the order of the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.errors import UsageError
from skitter.extract.css_selectors import SelectorError
from skitter.extract.link_filter import LinkFilter, _outermost, extension_of
from skitter.extract.response import Response
from skitter.model.request import Links

Respond = Callable[..., Response]

PAGE = """<nav><a href="/">home</a><a href="/cart">cart</a></nav>
<main><ul class=list><li><a href="/item/1">1</a><li><a href="/item/2#reviews">2</a>
<li><a href="/item/1">1 again</a></ul>
<a href="/list?page=2" class=next>next</a> <a href="/manual.PDF?v=2">manual</a>
<a href="mailto:a@b.test">mail</a></main>
<footer><a href="https://shop.other.test/x">other</a> <a href="https://notother.test/">not other</a>
<map><area href="/map.html"></map></footer>"""
BASE = "http://site.test"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"allow": "/item/"}, ["/item/1", "/item/2"]),
        ({"allow": re.compile("/ITEM/", re.IGNORECASE)}, ["/item/1", "/item/2"]),
        ({"allow": ["/item/1$", r"page=\d"]}, ["/item/1", "/list?page=2"]),
        ({"allow": "/item/", "deny": ("/1$",)}, ["/item/2"]),
        ({"deny": ["/item/", "other", "map", "PDF", "list", "cart"]}, ["/"]),
        ({"restrict": "nav"}, ["/", "/cart"]),
        ({"restrict": "a.next"}, ["/list?page=2"]),
        ({"restrict": ".list a::attr(href)"}, ["/item/1", "/item/2"]),
        ({"restrict": ["ul.list", "main"]}, ["/item/1", "/item/2", "/list?page=2", "/manual.PDF?v=2"]),
        ({"restrict": "main, main ul, li", "unique": False, "allow": "item"}, ["/item/1", "/item/2", "/item/1"]),
        ({"restrict": "//nav"}, ["/", "/cart"]),
        ({"restrict": "//main | //main//li", "unique": False, "allow": "1$"}, ["/item/1", "/item/1"]),
        ({"restrict": "(//a[@class='next']/@href)[1]"}, ["/list?page=2"]),
        ({"restrict": "p.none"}, []),
        ({"domains": "other.test"}, ["https://shop.other.test/x"]),
        ({"domains": ["site.test"], "extensions": ["html"]}, ["/map.html"]),
        ({"extensions": ".pdf"}, ["/manual.PDF?v=2"]),
        ({"extensions": ("", "html"), "allow": "cart|map|PDF"}, ["/cart", "/map.html"]),
        ({"unique": False, "allow": "/1"}, ["/item/1", "/item/1"]),
    ],
)
def test_links_are_chosen(respond: Respond, arguments: dict[str, Any], expected: list[str]) -> None:
    links = respond(PAGE).links(**arguments)
    assert isinstance(links, Links)
    assert links == [path if "://" in path else BASE + path for path in expected]


def test_flaws_are_counted_once_however_often_links_are_chosen(respond: Respond) -> None:
    response = respond(PAGE)
    for allow in ("/item/", "page=", "nothing"):
        response.links(allow)
    assert response.flaws == {"scheme": 1}


def test_a_chosen_link_is_escaped_in_the_encoding_of_its_page(respond: Respond) -> None:
    response = respond("<p><a href='/s?q=ü'>".encode("cp1252"), "text/html; charset=latin1")
    assert response.links(restrict="p") == response.links(restrict="//p") == ["http://site.test/s?q=%FC"]


def test_what_is_no_page_has_no_links(respond: Respond) -> None:
    assert respond(PAGE, "image/png").links(restrict="main", unique=False) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"allow": "("}, "not a regular expression: '('"),
        ({"deny": [3]}, "deny of links must be one or several regular expressions, not int"),
        ({"domains": [None]}, "domains of links must be one or several texts, not NoneType"),
    ],
)
def test_a_wrong_argument_is_named(respond: Respond, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        respond(PAGE).links(**arguments)


def test_a_wrong_region_is_named(respond: Respond) -> None:
    with pytest.raises(SelectorError, match="invalid selector"):
        respond(PAGE).links(restrict="a[")
    with pytest.raises(SelectorError, match="invalid XPath"):
        respond(PAGE).links(restrict="//a[")


@pytest.mark.parametrize(
    ("url", "extension"),
    [
        ("http://a.test/", ""),
        ("http://a.test/x.tar.GZ?b=c.d", "gz"),
        ("http://a.test/v1.2/x", ""),
        ("http://a.test/x.?y", ""),
    ],
)
def test_the_extension_is_that_of_the_last_part_of_the_path(url: str, extension: str) -> None:
    assert extension_of(url) == extension


def test_a_domain_is_no_part_of_another_name() -> None:
    chosen = LinkFilter(domains=["other.test", "xn--bcher-kva.test"])
    urls = ["http://other.test/", "http://a.other.test:8080/", "http://another.test/", "http://xn--bcher-kva.test/"]
    assert [chosen(url) for url in urls] == [True, True, False, True]


@pytest.mark.parametrize("region", ["div", "//div"])
def test_regions_inside_each_other_are_read_once(respond: Respond, region: str) -> None:
    response = respond("<div>" * 100 + "<p><a href=/x>x</a></p>" * 3 + "</div>" * 100)
    assert len(response.links(restrict=region, unique=False)) == 3


def test_each_ancestor_of_regions_is_visited_once() -> None:
    parents = {number: number - 1 for number in range(1, 1000)}
    visits: list[int] = []

    def parent_of(node: int) -> int | None:
        visits.append(node)
        return parents.get(node)

    assert list(_outermost([999, *range(500, 999)], int, parent_of)) == [500]
    # Siblings, all of them below one long row of ancestors.
    parents |= dict.fromkeys(range(2000, 3000), 400)
    assert len(list(_outermost(range(2000, 3000), int, parent_of))) == 1000
    assert len(visits) < 3 * 1000


@given(st.binary(max_size=300), st.sampled_from(["div, p", "//*", "a::attr(href)", "*"]))
def test_no_page_makes_links_raise(respond: Respond, noise: bytes, region: str) -> None:
    body = b"<div><p><a href='" + noise + b"'>" + noise + b"</a><area href=" + noise + b">"
    links = respond(body).links(allow=".", restrict=region, unique=False)
    assert all(url.startswith("http") for url in links)
