"""XPath answers through parsel where the extra is installed, and names the extra where it is not."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable

import pytest

from skitter.errors import ExtraMissingError
from skitter.extract.css_selectors import SelectorError
from skitter.extract.response import Response

Respond = Callable[..., Response]
PAGE = "<ul><li>1 <a href=/1>one</a></li><li>2 <a href=/2>two</a></li></ul><table><tr><td>c<td>d</table>"


def test_without_the_extra_the_error_is_the_install_line(respond: Respond, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "parsel", None)
    for ask in (respond(PAGE).xpath, respond(PAGE).css("li")[0].xpath, respond(PAGE, "image/png").xpath):
        with pytest.raises(ExtraMissingError) as caught:
            ask("//a")
        assert caught.value.hint == "pip install 'skitter[xpath]'"


def test_css_needs_no_extra() -> None:
    importlib.import_module("skitter.extract.response")
    assert "parsel" not in vars(sys.modules["skitter.extract.xpath"])


class TestWithParsel:
    @pytest.fixture(autouse=True)
    def _extra(self) -> None:
        pytest.importorskip("parsel", reason="the xpath extra is not installed")

    def test_the_page_is_searched(self, respond: Respond) -> None:
        response = respond(PAGE)
        assert response.xpath("//a/@href").getall() == ["/1", "/2"]
        assert response.xpath("//a[text()=$t]/@href", t="two").get() == "/2"
        assert response.xpath("//li").css("a::text").getall() == ["one", "two"]

    def test_an_element_is_searched_from_itself(self, respond: Respond) -> None:
        response = respond(PAGE)
        assert response.css("li")[1].xpath("./a/text()").getall() == ["two"]
        assert response.css("li").xpath("normalize-space(text())").getall() == ["1", "2"]
        assert response.css("td")[1].xpath("text()").get() == "d"
        assert response.css("body")[0].xpath(".//a/@href").getall() == ["/1", "/2"]
        assert response.css("a::text")[0].xpath("..").getall() == []

    def test_what_is_found_can_be_followed(self, respond: Respond) -> None:
        response = respond(PAGE)
        urls = ["http://site.test/1", "http://site.test/2"]
        assert [request.url for request in response.follow_all(xpath="//a")] == urls
        assert [request.url for request in response.follow_all(xpath="//a/@href")] == urls
        assert response.follow(response.xpath("//a")[0]).url == urls[0]
        assert response.follow_all(xpath="//li") == []

    def test_xml_keeps_its_names(self, respond: Respond) -> None:
        body = "<?xml version='1.0'?><rss><channel><link>http://x.test/</link></channel></rss>"
        assert respond(body, "application/rss+xml").xpath("//channel/link/text()").get() == "http://x.test/"

    def test_an_image_holds_nothing(self, respond: Respond) -> None:
        assert respond(PAGE, "image/png").xpath("//a").getall() == []

    def test_a_bad_xpath_says_so(self, respond: Respond) -> None:
        for target in (respond(PAGE), respond(PAGE).css("li")[0]):
            with pytest.raises(SelectorError, match="//a\\["):
                target.xpath("//a[")

    @pytest.mark.parametrize(
        "bomb",
        [
            "<div>" * 500_000,
            "<div></x>" * 200_000,
            "<p " + " ".join(f"a{number}" for number in range(200_000)) + ">",
            "".join(f"<p><font size={number}>x" for number in range(20_000)),
        ],
    )
    def test_a_bomb_is_cut_and_what_stands_before_it_is_found(self, respond: Respond, bomb: str) -> None:
        started = time.process_time()
        response = respond("<title>t</title><a href=/x>x</a>" + bomb)
        assert response.xpath("//title/text()").get() == "t"
        assert response.xpath("//a/@href").get() == "/x"
        assert time.process_time() - started < 10

    def test_entities_of_xml_do_not_multiply(self, respond: Respond) -> None:
        entities = "".join(f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, 12))
        page = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "ha">{entities}]><x><y>1</y>&e11;</x>'
        response = respond(page, "text/xml")
        assert len("".join(response.xpath("//text()").getall())) < 10_000

    def test_no_file_is_read_for_an_entity(self, respond: Respond) -> None:
        page = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>'
        assert "root:" not in "".join(respond(page, "text/xml").xpath("//text()").getall())

    def test_deep_xml_is_cut(self, respond: Respond) -> None:
        response = respond("<a>" * 200_000, "text/xml")
        assert len(response.xpath("//a")) < 10_000
