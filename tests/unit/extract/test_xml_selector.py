"""XML is read as XML, safely, and JSON by JMESPath."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.errors import ExtraMissingError
from skitter.extract.css_selectors import SelectorError
from skitter.extract.response import Response

Respond = Callable[..., Response]
RSS = """<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/"><channel><title>News</title>
<item><title>One</title><link>http://site.test/1</link><description><![CDATA[<b>bold</b>]]></description>
<media:thumbnail url="/1.png"/></item>
<item><title>Two &amp; more</title><link>http://site.test/2</link><image>x</image></item></channel></rss>"""
ATOM = '<feed xmlns="http://www.w3.org/2005/Atom"><entry><title>A</title><link href="/a"/></entry></feed>'


@pytest.fixture(autouse=True)
def _extra(request: pytest.FixtureRequest) -> None:
    if "without" not in request.node.name:
        pytest.importorskip("parsel", reason="the xpath extra is not installed")


def test_a_feed_is_read_by_css(respond: Respond) -> None:
    page = respond(RSS, "application/rss+xml")
    assert page.css("item > link::text").getall() == ["http://site.test/1", "http://site.test/2"]
    assert page.css("item title").get() == "<title>One</title>"
    first, second = page.css("item")
    assert (first.tag, first.css("description").text, second.css("title").text) == ("item", "<b>bold</b>", "Two & more")
    assert first.css("thumbnail").attrib == {"url": "/1.png"}
    assert first.css("thumbnail::attr(url)").get() == "/1.png"
    assert second.css("image::text").extract_first() == "x"
    assert page.css("item:contains('Two') link::text").re(r"/(\d)") == ["2"]
    assert first.xpath("string(title)").get() == "One"
    assert page.follow(first.css("link::text")[0]).url == "http://site.test/1"
    assert "XmlSelector item" in repr(first)
    with pytest.raises(SelectorError, match=r"invalid selector: item\["):
        page.css("item[")


def test_names_count_without_namespaces_in_css_and_with_them_in_xpath(respond: Respond) -> None:
    page = respond(ATOM, "application/atom+xml")
    assert page.css("entry title::text").get() == "A"
    assert page.follow(page.css("entry link")[0]).url == "http://site.test/a"
    assert page.xpath("//entry").getall() == []
    names = {"a": "http://www.w3.org/2005/Atom"}
    assert page.xpath("//a:entry/a:title/text()", namespaces=names).get() == "A"
    assert page.xpath("//a:entry", names).xpath("a:title/text()", namespaces=names).get() == "A"
    page.remove_namespaces()
    assert page.xpath("//entry/title/text()").get() == "A"
    page = respond(ATOM, "application/atom+xml")
    page.selector.register_namespace("a", names["a"])
    assert page.xpath("//a:title/text()").get() == "A"


def test_without_the_extra_xml_is_read_by_the_rules_of_html(respond: Respond, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "parsel", None)
    page = respond(ATOM, "application/xml")
    assert page.css("title::text").get() == "A"
    with pytest.raises(ExtraMissingError):
        page.xpath("//title")
    with pytest.raises(ExtraMissingError):
        page.jmespath("a")


def test_links_of_xml_are_those_they_were(respond: Respond) -> None:
    page = respond('<r><a href="/x">x</a><p><a href="/y">y</a></p></r>', "text/xml")
    assert page.links() == ["http://site.test/x", "http://site.test/y"]
    assert page.links(restrict="p") == page.links(restrict="//p") == ["http://site.test/y"]


BOMB = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 20))


@pytest.mark.parametrize(
    "xml",
    [
        f'<!DOCTYPE r [<!ENTITY e0 "lol">{BOMB}]><r><t>&e19;</t></r>',
        '<!DOCTYPE r [<!ENTITY e SYSTEM "file:///etc/passwd">]><r><t>&e;</t></r>',
        '<!DOCTYPE r [<!ENTITY e SYSTEM "http://127.0.0.1:9/x">]><r><t>&e;</t></r>',
        '<!DOCTYPE r SYSTEM "http://127.0.0.1:9/x.dtd"><r><t>&e;</t></r>',
        '<!DOCTYPE r [<!ENTITY % p SYSTEM "file:///etc/passwd">%p;]><r><t></t></r>',
        '<r xmlns:xi="http://www.w3.org/2001/XInclude"><t><xi:include href="file:///etc/passwd" parse="text"/></t></r>',
    ],
    ids=["bomb", "file", "network", "definition", "parameter", "include"],
)
def test_nothing_is_expanded_or_fetched(respond: Respond, xml: str) -> None:
    assert Path("/etc/passwd").exists()
    page = respond(f'<?xml version="1.0"?>{xml}', "text/xml")
    assert page.css("t").text == page.xpath("string(//t)").get() == ""
    assert len(page.css("r").get()) < 500


@given(st.text(max_size=60), st.binary(max_size=60))
def test_no_xml_raises(respond: Respond, text: str, noise: bytes) -> None:
    for body in (noise, text, f"<r><a>{text}</a><b", f"<?xml {text}?>", "<a>" * len(text) + text):
        page = respond(body, "text/xml")
        assert isinstance(page.css("a").getall(), list)
        assert isinstance(page.xpath("//a | //@*").getall(), list)


def test_json_is_searched(respond: Respond) -> None:
    page = respond(json.dumps({"items": [{"name": "a", "price": 1}, {"name": "b"}]}), "application/json")
    assert page.jmespath("items[].name").getall() == ["a", "b"]
    assert page.jmespath("items[?price].price").get() == 1
    assert page.jmespath("nothing").getall() == []
    with pytest.raises(SelectorError, match="invalid JMESPath") as caught:
        page.jmespath("items[")
    assert caught.value.hint
    with pytest.raises(ValueError, match="Expecting value"):
        respond("<p>", "application/json").jmespath("a")
    with pytest.raises(SelectorError, match="nested too deep"):
        respond("[" * 100_000, "application/json").jmespath("a")


def test_json_in_a_page_is_searched(respond: Respond) -> None:
    page = respond('<script type="application/ld+json">{"offers": {"price": "9.5"}}</script>')
    script = page.css('script[type="application/ld+json"]::text')
    assert script.jmespath("offers.price").get() == script[0].jmespath("offers.price").get() == "9.5"
