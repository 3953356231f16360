"""A crawl sends and keeps cookies as a browser would, over http, TLS and several ports of a host."""

from __future__ import annotations

import json
from typing import Any

SPIDER = """
from skitter import Request, Spider

class Shopper(Spider):
    name = "shopper"

    def start(self):
        yield Request(self.plain + "/start", cookies={"own": "1"})

    def parse(self, response):
        for path in ("/x", "/x/page"):
            yield Request(self.tls + path, self.shown)
        yield Request(self.tls + "/leave", self.shown, cookies={"own": "2"})

    def shown(self, response):
        yield {"path": response.url.rpartition("/")[2], "cookies": response.json()}
"""


def test_cookies_are_sent_and_kept_as_browsers_do_it(skitter: Any, make_site: Any) -> None:
    plain, tls = make_site(), make_site(tls=True)

    def shown(seen: Any, _connection: object) -> Any:
        return 200, {"Content-Type": "application/json"}, json.dumps(seen.headers.get("cookie", "")).encode()

    headers = [
        "b=1; Path=/",
        "a=1; Domain=other.example; Domain=127.0.0.1; Path=/other; Path=/",
        "folder=1; Path=/x/",
        "secure=1; Path=/; Secure",
        "old=1; Path=/; Expires=Wed, 01 January 2020 00:00:00.500 GMT",
        "b=2; Path=/; Expires=31 February 2020 25:00:00",
    ]
    plain.page("/start", status=302, location=tls.url("/landed"))
    tls.page("/landed", "<title>t</title>", set_cookie="\n".join(headers))
    tls.page("/leave", status=302, location=plain.url("/left"))
    for site, path in ((tls, "/x"), (tls, "/x/page"), (plain, "/left")):
        site.on(path, shown)
    skitter.write("shopper.py", SPIDER)
    options = ("-a", f"plain={plain.base}", "-a", f"tls={tls.base}", "--set", "verify_tls=false", "-q")
    skitter.run("crawl", "shopper.py", "-o", "out.jsonl", *options)
    (landed,) = [seen for seen in tls.seen if seen.path == "/landed"]
    assert landed.headers["cookie"] == "own=1", "a cookie of a request follows its redirect to TLS and another port"
    (left,) = [seen for seen in tls.seen if seen.path == "/leave"]
    assert left.headers["cookie"] == "b=2; a=1; secure=1; own=2"
    assert {line["path"]: line["cookies"] for line in skitter.lines("out.jsonl")} == {
        "x": "b=2; a=1; secure=1",
        "page": "folder=1; b=2; a=1; secure=1",
        "left": "b=2; a=1; secure=1",
    }
