"""``fetch``, ``parse`` and ``shell``: single pages, fetched as a crawl would fetch them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rig.processes import HANG_SECONDS

SHOP = """
    from skitter import DropItem, Request, Spider

    class Shop(Spider):
        name = "shop"
        allowed_domains = ["127.0.0.1"]
        custom_settings = {"user_agent": "shop-bot/1"}
        item_functions = ["clean"]

        def parse(self, response):
            print("this is not data")
            for book in response.css("li::text").getall():
                yield {"title": book, "page": response.meta.get("page"), "shelf": getattr(self, "shelf", None)}
            yield Request("/book", self.parse_book, meta={"of": 1}, priority=3)
            yield Request("http://other.example/")

        def parse_book(self, response):
            yield {"title": response.title}
            raise ValueError("broken here")

        def clean(self, item):
            if item["title"] == "bad":
                raise DropItem("bad ones")
            return item
"""


@pytest.fixture
def shop(site: Any, skitter: Any) -> Any:
    site.page("/robots.txt", "User-agent: *\nDisallow: /private", content_type="text/plain")
    site.page("/", "<head><title>Shop</title></head><li>one</li><li>bad</li><a href='/book'>b</a>")
    site.page("/book", "<title>Book</title>")
    site.page("/private", "<title>Private</title>")
    site.page("/moved", status=302, location="/book")
    site.page("/bytes", b"\0\xff\r\n", content_type="application/octet-stream")
    site.page("/gone", "nothing here", status=404)
    site.on("/echo", lambda seen, _: (200, {"Set-Cookie": "k=v"}, seen.headers.get("cookie", "-").encode()))
    skitter.write("spiders/shop.py", SHOP)
    return site


def test_fetch_prints_the_body_as_it_came(skitter: Any, shop: Any) -> None:
    command = [*skitter.python, "-m", "skitter", "fetch", shop.url("/bytes")]
    ended = subprocess.run(command, cwd=skitter.folder, capture_output=True, timeout=HANG_SECONDS, check=True)
    assert (ended.stdout, ended.stderr) == (b"\0\xff\r\n", b"")
    told = skitter.json("fetch", shop.url("/moved"), "--spider", "shop")
    assert (told["url"], told["status"], told["text"]) == (shop.url("/book"), 200, "<title>Book</title>")
    assert ["content-type", "text/html; charset=utf-8"] in told["headers"]
    assert shop.seen[-1].headers["user-agent"] == "shop-bot/1"
    headers = skitter.run("fetch", shop.url("/gone"), "--headers", code=1)
    assert headers.stdout.splitlines()[0] == f"404 {shop.url('/gone')}"
    assert headers.stderr == f"HTTP 404: {shop.url('/gone')}\n"
    assert not (skitter.folder / ".skitter").exists(), "nothing is stored"


def test_fetch_obeys_robots_and_the_guard_as_a_crawl_does(skitter: Any, shop: Any, make_site: Any) -> None:
    refused = skitter.run("fetch", shop.url("/private"), code=1)
    private = f"error: {shop.url('/private')} is excluded by robots.txt line 2: Disallow: /private"
    assert private in refused.stderr
    assert "hint: use --ignore-robots" in refused.stderr
    assert shop.paths() == []
    assert "Private" in skitter.run("fetch", shop.url("/private"), "--ignore-robots").stdout
    # What was typed may be private; where a stranger leads to may not.
    inside = make_site()
    inside.page("/", "secret")
    shop.page("/trap", status=302, location=inside.url("/").replace("127.0.0.1", "127.0.0.2"))
    refused = skitter.run("fetch", shop.url("/trap"), code=1)
    assert "127.0.0.2" in refused.stderr
    assert inside.seen == []
    dead = skitter.run("fetch", "http://127.0.0.1:1/", code=1)
    assert dead.stderr == "error: http://127.0.0.1:1/ could not be reached: connection refused\n"


def test_parse_shows_what_a_crawl_would_keep(skitter: Any, shop: Any) -> None:
    words = ("parse", shop.url("/"), "--spider", "shop", "-a", "shelf=7", "--meta", '{"page": 2}')
    told = skitter.json(*words)
    assert told["items"] == [{"title": "one", "page": 2, "shelf": "7"}]
    assert told["requests"] == [
        {
            "url": shop.url("/book"),
            "method": "GET",
            "callback": "parse_book",
            "meta": {"of": 1},
            "priority": 3,
            "depth": 1,
        }
    ]
    assert told["left_out"] == {"dropped:bad ones": 1, "outside:offsite": 1}
    printed = skitter.run(*words)
    assert printed.stdout.splitlines() == [
        "# 1 item by parse",
        '{"title": "one", "page": 2, "shelf": "7"}',
        "# 1 request",
        f"GET {shop.url('/book')} parse_book",
    ]
    assert "this is not data" in printed.stderr
    broken = skitter.run("parse", shop.url("/book"), "--spider", "shop", "--callback", "parse_book", code=1)
    assert (broken.stdout, "ValueError: broken here" in broken.stderr) == ("", True)
    assert 'spiders/shop.py", line 19' in broken.stderr
    missing = skitter.run("parse", shop.url("/book"), "--spider", "shop", "--callback", "parse_it", code=2)
    assert "error: no such callback: Shop has no parse_it" in missing.stderr
    assert "error: HTTP 404" in skitter.run("parse", shop.url("/gone"), code=1).stderr


def test_shell_runs_code_on_a_page_a_file_and_standard_input(skitter: Any, shop: Any) -> None:
    def run(*words: str, **options: Any) -> str:
        return str(skitter.run("shell", *words, **options).stdout)

    assert run(shop.url("/"), "-c", "response.css('title::text').get()") == "Shop\n"
    # One session: cookies are kept, and robots.txt is read once.
    before = len(shop.seen)
    code = "fetch(BASE + '/echo'); print(fetch(BASE + '/echo').text, response.url, settings.fetch.user_agent)"
    told = run("--spider", "shop", "-c", f"BASE = {shop.base!r}; {code}")
    assert told == f"k=v {shop.url('/echo')} shop-bot/1\n"
    assert [seen.path for seen in shop.seen[before:]] == ["/robots.txt", "/echo", "/echo"]
    (skitter.folder / "page.html").write_text("<a href='/x'>x</a>")
    assert (
        run("page.html", "--url", "https://shop.example/", "-c", "response.links()") == "['https://shop.example/x']\n"
    )
    assert skitter.json("shell", "page.html", "-c", "response.css('a::text').getall()") == ["x"]
    assert "error: NameError" in skitter.run("shell", "-c", "nowhere", code=1).stderr


def test_shell_has_a_prompt_and_shows_pages_in_a_browser(skitter: Any, shop: Any, tmp_path: Path) -> None:
    (tmp_path / "browser").write_text(
        f"#!{sys.executable}\nimport sys\nopen({str(tmp_path / 'opened')!r}, 'w').write(sys.argv[1])\n"
    )
    (tmp_path / "browser").chmod(0o700)
    typed = "response.title\nfetch(response.urljoin('/book'))\nresponse.title\nopen(view(response)).read()"
    ended = subprocess.run(
        [*skitter.python, "-m", "skitter", "shell", shop.url("/")],
        input=typed + "\n",
        cwd=skitter.folder,
        env=os.environ | {"BROWSER": str(tmp_path / "browser") + " %s", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=True,
    )
    for part in ("'Shop'", f"<Response 200 {shop.url('/book')}>", "'Book'", f'<base href="{shop.url("/book")}">'):
        assert part in ended.stdout
    assert (tmp_path / "opened").read_text().startswith("file:///")
