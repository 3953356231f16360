"""Crawls that render: the example, patterns in settings, and nodes without a browser."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.browser_sites import html, until
from rig.processes import HANG_SECONDS
from rig.web import Site

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "rendered" / "shop.py"
LIST = """<div id=banner><button onclick="banner.remove()">I agree</button></div><ol id=list></ol>
<button id=all onclick="show(4)">Show all</button><script>
const show = count => { list.innerHTML = [...Array(count).keys()].map(
    n => `<li class=product><a href=/product/${n}>Lamp ${n}</a>`).join("") };
setTimeout(show, 50, 2)</script>"""
PRODUCT = """<h1></h1><script>const number = location.pathname.slice(9);
document.querySelector("h1").textContent = "Lamp " + number;
setTimeout(() => document.body.insertAdjacentHTML("beforeend", `<b class=price>${number}.50</b>`), 50)</script>"""


@pytest.fixture
def shop(services: Any) -> Iterator[Site]:
    services.need("chromium")
    products = {f"/product/{n}": html(PRODUCT) for n in range(4)}
    site = Site({"/": html(LIST), **products})
    yield site
    site.close()


def test_the_example_renders_clicks_and_stores_pictures(skitter: Any, shop: Site) -> None:
    shutil.copy(EXAMPLE, skitter.folder)
    skitter.run("crawl", "shop.py", "-a", f"shop={shop.url('/')}", "--workers", "1", "-O", "products.jsonl")
    items = sorted(skitter.lines("products.jsonl"), key=lambda item: item["name"])
    assert [(item["name"], item["price"]) for item in items] == [(f"Lamp {n}", f"{n}.50") for n in range(4)]
    for item in items:
        picture = (skitter.folder / "files" / item["path"]).read_bytes()
        assert (picture[:8], len(picture), item["content_type"]) == (b"\x89PNG\r\n\x1a\n", item["size"], "image/png")
    assert sorted(shop.asked()) == ["/", "/product/0", "/product/1", "/product/2", "/product/3", "/robots.txt"]


SPIDER = """
from skitter import Request, Spider

class Both(Spider):
    def start(self):
        yield Request(self.site + "app/one")
        yield Request(self.site + "plain")
        yield Request(self.site + "plain", render=True)

    def parse(self, response):
        yield {"path": response.url.rpartition("/")[2], "has_run": b"has run" in response.body}
"""


def test_by_pattern_and_what_waits_for_a_node_with_a_browser(skitter: Any, services: Any) -> None:
    services.need("chromium")
    page = html("<script>document.body.append('has ' + 'run')</script>")
    site = Site({"/app/one": page, "/plain": page})
    skitter.write("both.py", SPIDER)
    skitter.write("skitter.toml", "[browser]\nrender_patterns = ['/app/']\n")
    crawl = skitter.start(
        *("crawl", "both.py", "-a", f"site={site.url('/')}", "-O", "out.jsonl", "--workers", "1"),
        *("--set", "browser_pages=0"),
    )
    try:
        # This node renders nothing: it fetches the plain page, and status says what the others wait for.
        def needs() -> Any:
            told = skitter.run("status", "--json", code=None).stdout
            report = json.loads(told) if told else {"done": 0}
            return report["done"] == 1 and [need["name"] for need in report["needs"]] == ["browser"]

        assert until(needs)
        shown = skitter.run("status").stdout
        assert "need browser: 2 requests, no worker serves it" in shown
        skitter.run("worker", "both.py", "--job", "Both")
        assert "wait for a worker with a browser: this one has none" in crawl.communicate(timeout=HANG_SECONDS)[1]
        assert crawl.returncode == 0
    finally:
        crawl.kill()
        crawl.communicate()
        site.close()
    items = sorted(skitter.lines("out.jsonl"), key=str)
    assert items == [
        {"path": "one", "has_run": True},
        {"path": "plain", "has_run": False},
        {"path": "plain", "has_run": True},
    ]
