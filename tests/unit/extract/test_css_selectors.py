"""CSS selectors find what parsel finds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.extract.css_selectors import SelectorError
from skitter.extract.response import Response
from skitter.extract.selector import Selector, SelectorList

Respond = Callable[..., Response]
parsel = pytest.importorskip("parsel", reason="the xpath extra is not installed")

PAGE = """<!DOCTYPE html><html><head><title>T</title></head><body>
<div id="outer" class="box">one<div id="inner" class="box deep">two<a href="/a" title="x &amp; y" data-empty="">A
<b>B</b>C</a><!-- no --></div>three</div>
<ul class="list"><li class="first">1</li><li>2 <i>two</i></li><li data-n="3">3</li></ul>
<p>&lt;p&amp;q</p><p class="a,b">comma</p><a name="n">no href</a><area href="/m">
<table><tbody><tr><td>c1</td><td>c2 <span>s</span></td></tr></tbody></table>
</body></html>"""

SELECTORS = [
    "div",
    "DIV",
    "*",
    "a, div",
    "div, .box, #inner",
    "div div",
    "div > a",
    "ul > li + li",
    "li ~ li",
    "li:first-child, li:last-child",
    "li:nth-child(2n+1)",
    "li:not(.first)",
    "div:has(a)",
    "body > :first-child",
    'a[href^="/"]',
    'a[href="/a"], p[class="a,b"]',
    "[data-empty]",
    "nothing",
    "a::attr(href)",
    "a::attr( href )",
    "a::attr('title')",
    "A::ATTR(href)",
    "a::attr(data-empty)",
    "a::attr(nope)",
    "::attr(class)",
    "div ::attr(href)",
    "a::attr(href), area::attr(href)",
    "p::text",
    "li::text",
    "td::text",
    "div::text",
    "a ::text",
    "a *::text",
    "*::text",
    "::text",
    "ul ::text",
    "div > ::text",
    "a ::text, li ::text",
    "ul > li::text, p::text",
    "li::TEXT",
]
NESTED = [
    "div",
    ".box",
    "a",
    "#outer a",
    "div a",
    ".box .box",
    "body a",
    "#outer > #inner",
    "html",
    ":root",
    ":root a",
    "div > a",
    "div:nth-child(1)",
    ":scope > a",
    ":scope > a::text",
    ":scope > div > a, b",
    "p",
    "::text",
    "a::attr(href)",
    "*::attr(id)",
    "a ::text",
    "div ::attr(id)",
    "#outer ::text",
    ":scope ::text",
    "div b::text",
]


def found(selectors: object) -> list[tuple[str, object]]:
    """Elements by name and attributes, texts as they are: serialised HTML is each library's own."""
    plain: list[tuple[str, object]] = []
    for selector in selectors:  # type: ignore[attr-defined]
        root = getattr(selector, "root", None)
        tag = selector.tag if isinstance(selector, Selector) else None if isinstance(root, str) else root.tag
        plain.append(("text", selector.get()) if tag is None else (tag, dict(selector.attrib)))
    return plain


@pytest.mark.parametrize("selector", SELECTORS)
def test_the_page_answers_as_in_parsel(respond: Respond, selector: str) -> None:
    page = PAGE.replace("<area", "<map><area").replace("\n", "")
    assert found(respond(page).css(selector)) == found(parsel.Selector(text=page).css(selector))


@pytest.mark.parametrize("scope", ["#outer", "#inner", "a", "ul", "td", "table"])
@pytest.mark.parametrize("selector", NESTED)
def test_an_element_answers_as_in_parsel(respond: Respond, scope: str, selector: str) -> None:
    page = PAGE.replace("\n", "")
    ours = respond(page).css(scope)[0]
    before = ours.get()
    theirs = parsel.Selector(text=page).css(scope)[0]
    assert found(ours.css(selector)) == found(theirs.css(selector))
    assert ours.get() == before, "a query leaves no trace in the page"


def test_a_list_with_different_endings_keeps_the_order_of_its_parts(respond: Respond) -> None:
    page = respond('<h1>t</h1><a href="/1">x</a><h1>u</h1>')
    assert page.css("a::attr(href), h1::text, a").getall() == ["/1", "t", "u", '<a href="/1">x</a>']


@pytest.mark.parametrize(
    "selector",
    [
        "", " ", "div[", "a::foo", "a::text b", "a::text::text", "a::attr()", "a::attr(x, y)", "a :: text", "> a",
        "a >", "a,", ",a", "a,,b", "a:nope", "a:not(::text)", "a[href=/x]", "\ud800", "a\0b[", "((",
        ":contains()", ":contains('')", ":contains(a b)",
    ],
)  # fmt: skip
def test_a_bad_selector_says_so(respond: Respond, selector: str) -> None:
    page = respond(PAGE)
    for target in (page, page.css("div")[0]):
        with pytest.raises(SelectorError) as caught:
            target.css(selector)
        assert isinstance(caught.value, ValueError)
        assert caught.value.hint
    assert len(page.css("div")) == 2


def test_lists_are_sliced_counted_and_searched_again(respond: Respond) -> None:
    items = respond(PAGE).css("li")
    assert isinstance(items[1:], SelectorList)
    assert (len(items), len(items[1:]), bool(items), bool(items[3:])) == (3, 2, True, False)
    assert items[1:].css("i::text").get() == "two"
    assert [item.attrib.get("data-n") for item in items] == [None, None, "3"]
    assert items.attrib == {"class": "first"}


def test_nothing_found_is_no_error(respond: Respond) -> None:
    nothing = respond(PAGE).css("nope")
    assert (nothing.get(), nothing.get("d"), nothing.getall(), nothing.attrib, nothing.text) == (None, "d", [], {}, "")
    text = respond(PAGE).css("p::text")[0]
    assert (text.css("a"), text.attrib, text.tag, text.text) == ([], {}, None, "<p&q")


def test_text_is_all_the_text_inside(respond: Respond) -> None:
    assert respond(PAGE).css("#inner").text == "twoA\nBC"
    assert respond("<p> a <b> b </b> </p>").css("p")[0].text == "a  b"


@pytest.mark.parametrize(
    ("selector", "pattern"),
    [
        ("li::text", r"\d"),
        ("li", r"<(\w+)[^>]*>(\d)"),
        ("p", r".*"),
        ("p", r"(?P<extract>q)"),
        ("p", r"(?P<extract>z)?<p>"),
        ("a::attr(title)", r"\w & \w"),
        ("li", "nope"),
    ],
)
def test_regular_expressions_answer_as_in_parsel(respond: Respond, selector: str, pattern: str) -> None:
    ours, theirs = respond(PAGE).css(selector), parsel.Selector(text=PAGE).css(selector)
    assert ours.re(pattern) == theirs.re(pattern)
    assert ours.re_first(pattern) == theirs.re_first(pattern)
    assert ours.re_first(pattern, "d") == theirs.re_first(pattern, default="d")
    assert ours[0].re_first(pattern) == theirs[0].re_first(pattern)


def test_a_number_without_an_end_is_no_entity(respond: Respond) -> None:
    text = f"&#{'9' * 5_000}; &#x{'f' * 5_000}; &#65; &#x41;"
    assert respond(f"<script>{text}</script>").css("script::text").re(".+") == [text.replace("&#65; &#x41;", "A A")]


def test_entities_in_matches_are_replaced_as_in_parsel(respond: Respond) -> None:
    text = "<script>a &eacute; &lt; &amp; &#65; &#x42; &quot;</script>"
    for replace in (True, False):
        ours = respond(text).css("script::text").re(".+", replace_entities=replace)
        assert ours == parsel.Selector(text=text).css("script::text").re(".+", replace_entities=replace)


PIECES = ["div", "a", "*", ".x", "#i", " ", ">", "+", "~", ",", "::text", "::attr(href)", ":scope", ":not(", ")", "[h",
          "]", '"', "'", "\\", "(", ":", "=", "/*", "*/", "é", "\0", ":nth-child(2n", ":is(", ":has("]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join) | st.text(max_size=12))
def test_no_selector_does_worse_than_selector_error(respond: Respond, selector: str) -> None:
    page = respond('<div id=i class=x>a<a href="/1">b<b>c</b></a></div>')
    for target in (page, page.css("div")[0]):
        with contextlib.suppress(SelectorError):
            target.css(selector).getall()
    assert page.css("a::attr(href)").getall() == ["/1"]
    assert page.css("div")[0].attrib == {"id": "i", "class": "x"}


CONTAINS = """<html><body><div id=a>Hello <b>World</b></div><div id=b><p>hello</p> <p title=':contains(x)'>say "hi"</p>
</div><ul><li>red <i>sh</i>oes<li>blue shirt</ul></body></html>"""


@pytest.mark.parametrize(
    "selector",
    [
        'div:contains("Hello World")', "b:contains(World)", ":contains('World')", "div:contains('hello') p::text",
        'li:contains("shoes")', "li:not(:contains('shoes'))::text", 'p:contains("say \\"hi\\"")',
        "p[title=':contains(x)']",
        "div:contains('Hello'):contains('World')", "li:contains('red'), p:contains('hello')", "div:contains('nothing')",
        "ul > li:contains(blue)::text", ":scope div:contains('World') b",
    ],
)  # fmt: skip
def test_contains_matches_what_it_does_in_parsel(respond: Respond, selector: str) -> None:
    parsel = pytest.importorskip("parsel")
    expected = parsel.Selector(text=CONTAINS).css(selector).getall()
    page = respond(CONTAINS)
    before = page.css("html").get()
    found = page.css(selector)
    assert [item.get() if item.tag is None else item.text for item in found] == [
        text
        if not text.startswith("<")
        else "".join(parsel.Selector(text=text).xpath("//body//text()").getall()).strip()
        for text in expected
    ]
    assert page.css("html").get() == before, "no mark is left"


def test_contains_looks_below_its_element_only(respond: Respond) -> None:
    first, second = respond("<div><p>a<p>b</div><div><p>b</div>").css("div")
    assert first.css("p:contains('b')").getall() == second.css("p:contains(b)").getall() == ["<p>b</p>"]
    assert second.css("div:contains(a) p") == []


@given(
    st.recursive(st.text("ab", max_size=3), lambda inner: st.lists(inner, max_size=4), max_leaves=20),
    st.text("ab", min_size=1, max_size=3),
)
def test_elements_that_contain_a_text(respond: Respond, tree: Any, needle: str) -> None:
    def html(node: Any) -> str:
        return node if isinstance(node, str) else f"<div>{''.join(map(html, node))}</div>"

    page = respond(f"<body>{html(tree)}</body>")
    assert page.css(f"div:contains({needle})").getall() == [
        div.get() for div in page.css("div") if needle in "".join(div.css("::text").getall())
    ]


def test_older_names_of_get(respond: Respond) -> None:
    page = respond("<p>a<p>b")
    assert page.css("p::text").extract() == ["a", "b"]
    assert (page.css("p::text").extract_first(), page.css("p::text")[1].extract()) == ("a", "b")
    assert (page.css("q").extract_first(), page.css("q").extract_first("none")) == (None, "none")
