"""Spiders as people write them, run by the real command line: every form of callback, item and request."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from rig.processes import HANG_SECONDS
from rig.web_faults import silent

QUICK = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.1")
HOME = '<title>home</title><a class="first" href="/a">A</a> <a href="/b?x=1#top">B</a> <a href="mailto:x@y.z">mail</a>'


@pytest.fixture
def shop(site):
    """Three pages that link to each other."""
    site.page("/", HOME)
    site.page("/a", "<h1>A</h1><a href='/'>home</a>")
    site.page("/b", "<h1>B</h1><a href='/'>home</a>")
    return site


def spider(skitter, body: str, name: str = "shop.py", imports: str = "") -> None:
    """A file with one spider whose body this is; ``self.base`` is an argument."""
    lines = ["from skitter import Request, Spider", imports, "class Shop(Spider):", "    name = 'shop'"]
    skitter.write(name, "\n".join(lines) + "\n")
    from textwrap import dedent, indent

    with (skitter.folder / name).open("a") as file:
        file.write(indent(dedent(body), "    "))


def crawl(skitter, site, *options: object, code: int = 0) -> dict[str, Any]:
    """Run the spider of ``shop.py``; the summary."""
    return skitter.json("crawl", "shop.py", "-a", f"base={site.base}", "-O", "out.jsonl", *QUICK, *options, code=code)


def failed(skitter) -> dict[str, dict[str, Any]]:
    return {record["url"]: record for record in skitter.records("failed", "--job", "shop")}


# ---- where it starts


@pytest.mark.parametrize(
    "start",
    [
        "def start(self):\n    yield Request(self.base + '/a')\n    yield Request(self.base + '/b')",
        "async def start(self):\n    yield Request(self.base + '/a')\n    yield Request(self.base + '/b')",
        "def start(self):\n    return [Request(self.base + '/a'), Request(self.base + '/b')]",
        "async def start(self):\n    return [Request(self.base + '/a'), Request(self.base + '/b')]",
        "def __init__(self, base):\n    self.start_urls = [base + '/a', base + '/b']",
    ],
    ids=["generator", "async generator", "list", "coroutine", "start_urls"],
)
def test_a_spider_may_start_in_many_ways(skitter, shop, start) -> None:
    spider(skitter, f"{start}\ndef parse(self, response):\n    return {{'h1': response.css('h1::text').get()}}\n")
    assert crawl(skitter, shop)["pages"] == 2
    assert {record["h1"] for record in skitter.lines("out.jsonl")} == {"A", "B"}


def test_a_start_that_fails_is_said_and_what_it_gave_before_stays(skitter, shop) -> None:
    spider(
        skitter,
        """
        def start(self):
            yield Request(self.base + "/a")
            raise RuntimeError("the feed is unavailable")

        def parse(self, response):
            yield {"url": response.url}
        """,
    )
    done = skitter.run("crawl", "shop.py", "-a", f"base={shop.base}", "-o", "out.jsonl", code=1)
    assert "error: start() failed: RuntimeError: the feed is unavailable" in done.stderr
    assert "hint: " in done.stderr
    assert len(skitter.lines("out.jsonl")) == 1
    assert "the feed is unavailable" in skitter.run("status", "--job", "shop").stdout


def test_a_start_url_that_is_none_is_named(skitter, shop) -> None:
    spider(
        skitter,
        """
        def start(self):
            yield Request(self.base + "/a")
            yield Request("example.com/without-scheme")

        def parse(self, response):
            yield {"url": response.url}
        """,
    )
    done = skitter.run("crawl", "shop.py", "-a", f"base={shop.base}", "-o", "out.jsonl")
    assert "example.com/without-scheme" in done.stderr
    assert len(skitter.lines("out.jsonl")) == 1


# ---- what a callback may be, and what an item may be


def test_every_form_of_callback(skitter, shop) -> None:
    forms = {
        "generator": "def {}(self, response):\n    yield {{'form': '{}'}}\n    yield None",
        "async_generator": "async def {}(self, response):\n    yield {{'form': '{}'}}",
        "coroutine": "async def {}(self, response):\n    return [{{'form': '{}'}}]",
        "coroutine_of_one": "async def {}(self, response):\n    return {{'form': '{}'}}",
        "function": "def {}(self, response):\n    return {{'form': '{}'}}",
        "function_of_many": "def {}(self, response):\n    return iter([{{'form': '{}'}}])",
        "nothing": "def {}(self, response):\n    self.logger.info('nothing %s', '{}')",
        "async_nothing": "async def {}(self, response):\n    self.logger.info('nothing %s', '{}')",
    }
    methods = "\n".join(text.format(name, name) for name, text in forms.items())
    spider(
        skitter,
        f"""
        def start(self):
            for form in {list(forms)}:
                yield Request(self.base + "/a?" + form, callback=form)
        """,
    )
    with (skitter.folder / "shop.py").open("a") as file:
        file.write("\n".join("    " + line for line in methods.splitlines()) + "\n")
    assert crawl(skitter, shop)["pages"] == len(forms)
    forms_seen = Counter(record["form"] for record in skitter.lines("out.jsonl"))
    assert forms_seen == {name: 1 for name in forms if "nothing" not in name}


def test_every_form_of_item(skitter, shop) -> None:
    spider(
        skitter,
        """
        start_urls = ["http://replaced/"]

        def __init__(self, base):
            self.start_urls = [base]

        def parse(self, response):
            when = datetime(2024, 5, 6, 7, 8, tzinfo=UTC)
            yield {"kind": "dict", "n": 1, "when": when, "tags": {"x"}, "nested": {"raw": b"\\xff"}}
            yield Data("dataclass", 2)
            yield Struct("msgspec", 3)
            yield Attrs("attrs", 4)
            yield Model(kind="pydantic", n=5)
            yield UserDict(kind="mapping", n=6, inner=Data("inner", 0))
        """,
        imports="""
from collections import UserDict
from dataclasses import dataclass
from datetime import UTC, datetime
import attrs, msgspec, pydantic

@dataclass
class Data:
    kind: str
    n: int

class Struct(msgspec.Struct):
    kind: str
    n: int

@attrs.define
class Attrs:
    kind: str
    n: int

class Model(pydantic.BaseModel):
    kind: str
    n: int
""",
    )
    crawl(skitter, shop)
    records = skitter.lines("out.jsonl")
    assert [(record["kind"], record["n"]) for record in records] == [
        ("dict", 1),
        ("dataclass", 2),
        ("msgspec", 3),
        ("attrs", 4),
        ("pydantic", 5),
        ("mapping", 6),
    ]
    assert records[0]["when"].startswith("2024-05-06T07:08:00")
    assert records[0]["tags"] == ["x"]
    assert records[5]["inner"] == {"kind": "inner", "n": 0}


# ---- requests


def test_meta_and_cb_kwargs_come_back_as_they_were(skitter, shop) -> None:
    spider(
        skitter,
        """
        def start(self):
            yield Request(self.base + "/", meta=META, cb_kwargs={"day": date(2024, 2, 29), "raw": b"\\x00\\xff"})

        def parse(self, response, day, raw):
            assert (day, raw) == (date(2024, 2, 29), b"\\x00\\xff")
            yield response.follow("/a", self.second, meta=response.meta | {"more": [1, None, 2.5]})
            yield Request("/b", self.parse_b, meta={"from": response.url})

        async def second(self, response):
            assert response.meta == META | {"more": [1, None, 2.5]}, response.meta
            assert [type(value) for value in response.meta.values()][:9] == [type(value) for value in META.values()]
            yield {"round": "trip"}

        def parse_b(self, response):
            yield {"from": response.meta["from"]}
        """,
        imports="""
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
META = {
    "aware": datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC), "naive": datetime(2024, 5, 6), "day": date(2024, 5, 6),
    "time": time(1, 2), "span": timedelta(days=-1, seconds=5), "price": Decimal("1.10"), "raw": b"\\xff",
    "pair": (1, (2, {"x": {1, 2}})), "deep": {"list": [{"a": [True, None, 1.5, "\\u00e9"]}], 5: "five"},
}
""",
    )
    assert crawl(skitter, shop)["failed"] == 0, failed(skitter)
    assert {"round": "trip"} in skitter.lines("out.jsonl")
    assert {"from": shop.url("/")} in skitter.lines("out.jsonl")


def test_a_higher_priority_is_served_first_and_equals_in_the_order_found(skitter, shop) -> None:
    priorities = [0, 5, -3, 9, 5, 0, 9, -3]
    for place in range(len(priorities)):
        shop.page(f"/p{place}", "p")
    spider(
        skitter,
        f"""
        def start(self):
            yield Request(self.base + "/")

        def parse(self, response):
            for place, priority in enumerate({priorities}):
                yield Request(f"/p{{place}}", "page", priority=priority)

        def page(self, response):
            pass
        """,
    )
    crawl(skitter, shop, "--concurrency", 1, "--per-host", 1)
    best_first = sorted(range(len(priorities)), key=lambda place: -priorities[place])
    assert shop.paths() == ["/", *(f"/p{place}" for place in best_first)]


def test_dont_filter_fetches_again_and_the_rest_is_deduped(skitter, shop) -> None:
    spider(
        skitter,
        """
        def start(self):
            yield Request(self.base + "/a")

        def parse(self, response):
            yield Request("/b", "again", meta={"turn": 1})
            yield Request("/b#fragment", "again")
            yield Request("/a", "again")

        def again(self, response):
            turn = response.meta.get("turn", 0)
            yield {"turn": turn}
            if 0 < turn < 3:
                yield Request("/b", "again", meta={"turn": turn + 1}, dont_filter=True)
        """,
    )
    summary = crawl(skitter, shop)
    assert sorted(record["turn"] for record in skitter.lines("out.jsonl")) == [1, 2, 3]
    assert Counter(shop.paths()) == {"/a": 1, "/b": 3}
    assert (summary["pages"], summary["duplicates"]) == (4, 2)


def test_method_headers_body_and_cookies_reach_the_server(skitter, shop) -> None:
    def echo(seen, _handler):
        told = {"method": seen.method, "body": seen.body.decode(), "headers": seen.headers}
        return 200, {"Content-Type": "application/json", "X-Answer": "42"}, json.dumps(told).encode()

    shop.on("/echo", echo)
    spider(
        skitter,
        """
        def start(self):
            fields = {"method": "POST", "headers": {"X-Mine": "yes", "Content-Type": "application/json"}}
            yield Request(self.base + "/echo", body=json.dumps({"q": 1}), cookies={"session": "s3"}, **fields)
            yield Request(self.base + "/echo", body=json.dumps({"q": 2}), **fields)
            yield Request(self.base + "/echo", body=json.dumps({"q": 2}), **fields)

        def parse(self, response):
            assert response.headers.get("x-answer") == response.headers["X-Answer"] == "42"
            yield response.json()
        """,
        imports="import json",
    )
    summary = crawl(skitter, shop, "--set", "user_agent=mybot/2.0 (+https://me.example/)")
    told = {record["body"]: record for record in skitter.lines("out.jsonl")}
    # Two POSTs of different bodies are two requests, and the same one twice is one.
    assert (summary["pages"], sorted(told)) == (2, ['{"q": 1}', '{"q": 2}'])
    first = told['{"q": 1}']
    assert first["method"] == "POST"
    assert first["headers"]["x-mine"] == "yes"
    assert first["headers"]["content-type"] == "application/json"
    assert first["headers"]["cookie"] == "session=s3"
    assert first["headers"]["user-agent"] == "mybot/2.0 (+https://me.example/)"


ERRBACK = """
    def start(self):
        for url in self.urls.split():
            yield Request(url, errback=self.bad, meta={"url": url})

    def parse(self, response):
        yield {"good": response.meta["url"]}

    async def bad(self, failure):
        status = failure.response.status if failure.response else None
        yield {"bad": failure.request.meta["url"], "class": failure.error_class, "status": status}
        yield Request(self.base + "/b", "rescued")

    def rescued(self, response):
        yield {"rescued": response.url}
    """


def test_errback_hears_of_what_failed_and_its_items_count(skitter, shop) -> None:
    shop.page("/500", status=500)
    shop.on("/slow", silent)
    spider(skitter, ERRBACK)
    urls = [shop.url(path) for path in ("/404", "/500", "/slow", "/a")]
    limits = ("--set", "max_attempts=2", "--set", "timeout_seconds=0.5")
    summary = crawl(skitter, shop, "-a", f"urls={' '.join(urls)}", *limits)
    bad = {record["bad"]: record for record in skitter.lines("out.jsonl") if "bad" in record}
    assert {url: (record["class"], record["status"]) for url, record in bad.items()} == {
        shop.url("/404"): ("http_4xx", 404),
        shop.url("/500"): ("http_5xx", 500),
        shop.url("/slow"): ("timeout", None),
    }
    assert {"rescued": shop.url("/b")} in skitter.lines("out.jsonl")
    assert {"good": shop.url("/a")} in skitter.lines("out.jsonl")
    assert (summary["pages"], summary["failed"], summary["items"]) == (2, 3, 5)
    assert shop.paths().count("/500") == 2


@pytest.mark.parametrize("obey_robots", [False, True])
def test_errback_hears_of_a_request_that_failed_itself(skitter, shop, make_site, obey_robots) -> None:
    unavailable = make_site()
    unavailable.close()
    spider(skitter, ERRBACK)
    options = [] if obey_robots else ["--ignore-robots"]
    crawl(skitter, shop, "-a", f"urls={unavailable.url('/x')} {shop.url('/a')}", "--set", "max_attempts=2", *options)
    heard = {"bad": unavailable.url("/x"), "class": "connect", "status": None} in skitter.lines("out.jsonl")
    # With robots.txt it is that file which cannot be had: the host is given up before the request was ever tried.
    assert heard is not obey_robots
    assert failed(skitter)[unavailable.url("/x")]["error_class"] == "connect"


def test_handle_statuses_brings_error_pages_to_the_callback(skitter, shop) -> None:
    shop.page("/404", "<h1>lost</h1>", status=404)
    shop.page("/500", "<h1>broken</h1>", status=500)
    shop.page("/302", "<h1>moved</h1>", status=302, location="/a")
    spider(
        skitter,
        """
        handle_statuses = [404, 500, 302]

        def start(self):
            return [Request(self.base + path) for path in ("/404", "/500", "/302")]

        def parse(self, response):
            return {"status": response.status, "h1": response.css("h1::text").get()}
        """,
    )
    summary = crawl(skitter, shop)
    assert {record["status"]: record["h1"] for record in skitter.lines("out.jsonl")} == {
        404: "lost",
        500: "broken",
        302: "moved",
    }
    assert (summary["pages"], summary["failed"], summary["redirected"]) == (3, 0, 0)


def test_allowed_domains_bound_the_links_and_custom_settings_count(skitter, shop) -> None:
    shop.page("/", '<a href="/a">a</a><a href="/b">b</a><a href="http://elsewhere.example/">e</a>')
    spider(
        skitter,
        """
        allowed_domains = ["127.0.0.1"]
        custom_settings = {"user_agent": "shopbot/1", "max_pages": 2, "per_host": 1}

        def start(self):
            yield Request(self.base)

        def parse(self, response):
            yield {"url": response.url}
            yield from response.follow_all(css="a")
        """,
    )
    summary = crawl(skitter, shop, "--concurrency", 1)
    assert (summary["pages"], summary["state"], summary["reason"]) == (2, "stopped", "max_pages")
    assert {seen.headers["user-agent"] for seen in shop.seen} == {"shopbot/1"}
    # The command line outranks the spider.
    assert crawl(skitter, shop, "--max-pages", 50)["pages"] == 3
    assert skitter.json("status", "--job", "shop")["tally"]["outside:offsite"] == 1


def test_arguments_become_attributes(skitter, shop) -> None:
    spider(
        skitter,
        """
        size = "none"

        def start(self):
            yield Request(self.base + "/a")

        def parse(self, response):
            yield {"size": self.size, "text": self.text}
        """,
    )
    crawl(skitter, shop, "-a", "size=large", "-a", "text=a=b c")
    assert skitter.lines("out.jsonl") == [{"size": "large", "text": "a=b c"}]


# ---- pages


def test_what_a_response_offers(skitter, shop) -> None:
    shop.page("/data", '{"n": [1, 2]}', content_type="application/json")
    shop.page("/base", '<base href="/deep/"><p class="x">one</p><p class="x">two</p><a href="leaf">leaf</a>')
    shop.page("/deep/leaf", "leaf")
    spider(
        skitter,
        """
        def start(self):
            yield Request(self.base + "/base", meta={"k": 1})
            yield Request(self.base + "/data", "data")

        def parse(self, response):
            assert response.status == 200 and response.meta == {"k": 1} and response.request.depth == 0
            assert response.urljoin("x?y") == self.base + "/deep/x?y"
            assert response.css("p.x::text").getall() == ["one", "two"]
            assert response.css("a")[0].attrib["href"] == "leaf"
            assert response.xpath("//p[@class='x']/text()").getall() == ["one", "two"]
            assert response.xpath("//a/@href").get() == "leaf"
            assert "<base" in response.text and response.body.startswith(b"<base")
            yield response.follow(response.css("a")[0], self.leaf)
            yield from response.follow_all(xpath="//a", callback=self.leaf)
            yield from response.follow_all(["/deep/leaf", "javascript:void(0)", "http://["], callback=self.leaf)

        def leaf(self, response):
            yield {"leaf": response.text, "depth": response.request.depth, "found_on": response.request.referrer}

        def data(self, response):
            assert response.css("a") == [] and response.headers["content-type"] == "application/json"
            yield {"data": response.json()["n"]}
        """,
    )
    summary = crawl(skitter, shop)
    assert summary["failed"] == 0, failed(skitter)
    records = skitter.lines("out.jsonl")
    assert {"data": [1, 2]} in records
    assert {"leaf": "leaf", "depth": 1, "found_on": shop.url("/base")} in records
    assert len(records) == 2
    tally = skitter.json("status", "--job", "shop")["tally"]
    assert (tally["skipped:scheme"], tally["skipped:unparsable"]) == (1, 1)


def test_what_a_spider_prints_is_not_data(skitter, shop) -> None:
    spider(
        skitter,
        """
        def start(self):
            print("started")
            yield Request(self.base + "/a")

        def parse(self, response):
            print("parsed")
            yield {"url": response.url}
        """,
        imports="print('imported')",
    )
    for frontier in ("sqlite:shop.db", "memory:"):
        done = skitter.run("crawl", "shop.py", "-a", f"base={shop.base}", "-o", "-", "--frontier", frontier)
        assert json.loads(done.stdout) == {"url": shop.url("/a")}
        assert {"imported", "started", "parsed"} <= set(done.stderr.splitlines())


# ---- what goes wrong


def test_a_callback_that_raises_costs_its_page_and_retry_after_the_fix_is_clean(skitter, shop) -> None:
    broken = """
        def start(self):
            yield Request(self.base + "/a", priority=1)
            yield Request(self.base + "/b")

        def parse(self, response):
            yield {"page": response.url[-1]}
            yield Request("/?from=" + response.url[-1], "home")
            if response.url.endswith("/a"):
                raise KeyError("no price on " + response.url)

        def home(self, response):
            yield {"page": response.url[-1], "home": True}
        """
    spider(skitter, broken)
    summary = crawl(skitter, shop)
    assert (summary["state"], summary["pages"], summary["failed"]) == ("finished", 2, 1)
    assert skitter.lines("out.jsonl") == [{"page": "b"}, {"page": "b", "home": True}]
    assert failed(skitter)[shop.url("/a")]["error_class"] == "callback"
    brief = skitter.run("failed", "--job", "shop").stdout
    assert "KeyError" in brief
    assert "Traceback" not in brief
    told = skitter.run("failed", "--job", "shop", "-v").stdout
    assert "Traceback (most recent call last)" in told
    assert 'raise KeyError("no price on " + response.url)' in told
    spider(skitter, broken.replace("raise KeyError", "print"))
    skitter.run("retry", "--job", "shop", "--class", "callback")
    again = skitter.json("crawl", "shop.py", "-a", f"base={shop.base}", "-o", "out.jsonl", *QUICK)
    assert (again["pages"], again["failed"], again["run"]) == (4, 0, 1)
    pages = Counter((record["page"], record.get("home", False)) for record in skitter.lines("out.jsonl"))
    assert pages == {("a", False): 1, ("b", False): 1, ("a", True): 1, ("b", True): 1}


UNSTORABLE = {
    "{'price': response.css('h1')}": ["price", "Selector", ".get()"],
    "{'price': object()}": ["price", "object"],
    "{'n': 1 << 70}": ["n", "64 bits"],
}
"""Items that cannot be stored -> what the reason says."""
WRONG = {
    "Request('/c', meta={'deep': [{'bad': object()}]})": ["meta['deep'][0]['bad']", "object", "dates"],
    "Request('/c', headers={'X-Count': 3})": ["headers", "of text to text, not int ('X-Count')"],
    "Request('/c', cookies=[{'name': 'x'}])": ["cookies must be a dict of text to text, not list"],
    "Request('/c', priority=1.5)": ["priority must be a whole number", "not float"],
    "Request('/c', callback='no_such')": ["callback", "no_such"],
    "Request('/c', callback=lambda response: None)": ["callback", "method of the spider"],
    "Request(response.css('a.none::attr(href)').get())": ["url must be text, not NoneType"],
    "Request('/c', body={'a': 1})": ["body must be bytes or text, not dict", "json="],
    "'https://example.com/'": ["must yield items and Requests, not str", "https://example.com/"],
    "[{'nested': 'list'}]": ["not list"],
    "Shop": ["not type"],
}
"""What a callback may yield by mistake -> what the error says."""


@pytest.mark.parametrize("output", UNSTORABLE)
def test_an_item_that_cannot_be_stored_is_kept_with_the_reason(skitter, shop, output) -> None:
    spider(
        skitter,
        f"""
        def start(self):
            yield Request(self.base + "/a")

        def parse(self, response):
            yield {output}
            yield {{"fine": True}}
        """,
    )
    summary = crawl(skitter, shop)
    assert (summary["pages"], summary["items"], summary["rejected"], summary["errors"]) == (1, 1, 1, {})
    assert skitter.lines("out.jsonl") == [{"fine": True}]
    (rejected,) = skitter.lines("out.jsonl.rejects.jsonl")
    assert [word for word in UNSTORABLE[output] if word not in rejected["reason"]] == [], rejected
    assert rejected["url"] == shop.url("/a")


def test_a_wrong_yield_is_named_and_costs_the_page(skitter, shop) -> None:
    spider(
        skitter,
        f"""
        def start(self):
            for number in range({len(WRONG)}):
                yield Request(f"{{self.base}}/a?{{number}}", f"wrong{{number}}")
            yield Request(self.base + "/a?text", "text")
            yield Request(self.base + "/b", "fine")

        def fine(self, response):
            return {{"fine": True}}

        def text(self, response):
            return "https://example.com/"
        """,
    )
    with (skitter.folder / "shop.py").open("a") as file:
        for number, output in enumerate(WRONG):
            file.write(f"    def wrong{number}(self, response):\n")
            file.write(f"        yield {{'dropped': True}}\n        yield {output}\n")
    summary = crawl(skitter, shop)
    assert (summary["pages"], summary["errors"]) == (1, {"callback": len(WRONG) + 1})
    assert skitter.lines("out.jsonl") == [{"fine": True}]
    failures = failed(skitter)
    for number, (output, words) in enumerate(WRONG.items()):
        error = failures[shop.url(f"/a?{number}")]["error"]
        assert [word for word in words if word not in error] == [], f"{output}: {error}"
    assert "not str: 'https://example.com/'" in failures[shop.url("/a?text")]["error"], (
        "one wrong thing, not its letters"
    )


# ---- large pages


def test_large_pages_are_committed_once_in_parts_and_memory_is_bounded(skitter, site) -> None:
    site.page("/items", "x")
    site.page("/links", "x")
    for number in range(10):
        site.page(f"/l{number}", "leaf")
    spider(
        skitter,
        """
        allowed_domains = ["127.0.0.1"]

        def start(self):
            yield Request(self.base + "/items")
            yield Request(self.base + "/links", "many")

        def parse(self, response):
            for number in range(30_000):
                yield {"n": number, "text": "x" * 1000}
            yield {"peak_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}

        def many(self, response):
            for number in range(20_000):
                yield Request(f"/l{number}", "leaf", priority=-1)

        def leaf(self, response):
            pass
        """,
        imports="import resource",
    )
    first = crawl(skitter, site, "--max-pages", 2, "--concurrency", 2)
    status = skitter.json("status", "--job", "shop")
    assert (first["pages"], first["items"], status["queued"], status["seen"]) == (2, 30_001, 20_000, 20_002)
    records = skitter.lines("out.jsonl")
    assert [record["n"] for record in records[:-1]] == list(range(30_000))
    assert records[-1]["peak_kb"] < 150_000


def test_a_large_page_that_fails_at_its_end_shows_none_of_its_items(skitter, shop) -> None:
    spider(
        skitter,
        """
        def start(self):
            yield Request(self.base + "/a")
            yield Request(self.base + "/b", "fine")

        def parse(self, response):
            for number in range(5_000):
                yield {"n": number}
            raise ValueError("at the very end")

        def fine(self, response):
            yield {"fine": True}
        """,
    )
    summary = crawl(skitter, shop)
    assert (summary["pages"], summary["failed"], summary["items"]) == (1, 1, 1)
    assert skitter.lines("out.jsonl") == [{"fine": True}]


# ---- where spiders are found

TWO = """
    from skitter import Spider
    from words import GREETING

    class Base(Spider):
        def __init__(self, base):
            self.start_urls = [base]

        def parse(self, response):
            yield {"spider": self.name, "greeting": GREETING}

    class One(Base):
        name = "one"

    class Two(Base):
        name = "two"
    """


def test_one_of_two_classes_in_a_file_that_imports_its_neighbour(skitter, shop) -> None:
    skitter.write("lib/both.py", TWO)
    skitter.write("lib/words.py", "GREETING = 'hello'\n")
    done = skitter.run("crawl", "lib/both.py:Two", "-a", f"base={shop.base}", "-o", "-", "--workers", 2)
    assert json.loads(done.stdout) == {"spider": "two", "greeting": "hello"}
    wrong = skitter.run("crawl", "lib/both.py", "-a", f"base={shop.base}", code=2)
    assert "hint: choose one: lib/both.py:One, lib/both.py:Two" in wrong.stderr


def test_a_spider_by_its_name_in_a_project(skitter, shop) -> None:
    skitter.write("spiders/both.py", TWO)
    skitter.write("words.py", "GREETING = 'from the project'\n")
    done = skitter.run("crawl", "one", "-a", f"base={shop.base}", "-o", "-")
    assert json.loads(done.stdout) == {"spider": "one", "greeting": "from the project"}
    assert "hint: did you mean two ?" in skitter.run("crawl", "twoo", code=2).stderr
    skitter.write("skitter.toml", 'spiders = ["elsewhere.py"]\n')
    skitter.write("elsewhere.py", TWO)
    assert skitter.json("crawl", "two", "-a", f"base={shop.base}")["pages"] == 1


# ---- from a script


def run_script(skitter, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    skitter.write("script.py", text)
    return subprocess.run(
        [sys.executable, "script.py", *arguments],
        cwd=skitter.folder,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )


def test_crawl_from_a_script(skitter, shop) -> None:
    done = run_script(
        skitter,
        """
        import json, sys
        from pathlib import Path
        import skitter

        class Titles(skitter.Spider):
            name = "titles"
            custom_settings = {"USER_AGENT": "scripted/1", "DEPTH_LIMIT": 0}
            def __init__(self, base, suffix):
                self.start_urls, self.suffix = [base], suffix
            def parse(self, response):
                yield {"h1": response.css("h1::text").get(), "suffix": self.suffix}
                yield from response.follow_all(css="a")

        def local(base):
            class Local(Titles):
                name = "local"
            return skitter.crawl(Local, arguments={"base": base, "suffix": "?"}, output="local.csv")

        if __name__ == "__main__":
            base = sys.argv[1]
            arguments = {"base": base, "suffix": "!"}
            settings = {"concurrency": 2, "workers": 2}
            by_class = skitter.crawl(Titles, arguments=arguments, settings=settings, output=Path("titles.jsonl"))
            by_url = skitter.crawl(base, output="pages.json", overwrite=True)
            by_urls = skitter.crawl([base + "a", base + "b"], job="two", frontier="memory:", settings={"max_depth": 0})
            summaries = [by_class, by_url, by_urls, local(base)]
            print(json.dumps([[s.job, s.state, s.pages, s.items] for s in summaries]))
        """,
        shop.url(),
    )
    assert done.returncode == 0, done.stderr
    port = shop.base.rpartition(":")[2]
    assert json.loads(done.stdout) == [
        ["titles", "finished", 3, 3],
        [f"127.0.0.1-{port}", "finished", 3, 3],
        ["two", "finished", 2, 2],
        ["local", "finished", 3, 3],
    ]
    assert {record["suffix"] for record in skitter.lines("titles.jsonl")} == {"!"}
    assert len(json.loads((skitter.folder / "pages.json").read_text())) == 3
    assert (skitter.folder / "local.csv").read_text().splitlines()[0] == "h1,suffix"
    assert "scripted/1" in {seen.headers["user-agent"] for seen in shop.seen}
    # The command line knows the script's job as its own.
    assert skitter.json("status", "--job", "titles")["spider"] == "script.py:Titles"


def test_a_script_without_a_main_guard_is_told_so(skitter, shop) -> None:
    done = run_script(
        skitter,
        f"""
        import skitter

        class Titles(skitter.Spider):
            name = "titles"
            start_urls = ["{shop.url()}"]
            def parse(self, response):
                yield {{"url": response.url}}

        skitter.crawl(Titles, settings={{"workers": 2}})
        """,
    )
    assert done.returncode == 1
    assert 'hint: call it under if __name__ == "__main__":' in done.stderr
    assert shop.seen == []


def test_a_mistake_in_a_script_is_an_error_with_a_hint(skitter) -> None:
    done = run_script(
        skitter,
        """
        import skitter

        for target, options in [
            ("example.com", {}), ([], {}), ("http://a.example/", {"settings": {"time_out": 1}}),
            (type("Empty", (skitter.Spider,), {}), {}), ("http://a.example/", {"output": "out.xlsx"}),
        ]:
            try:
                skitter.crawl(target, **options)
            except skitter.SkitterError as error:
                print(type(error).__name__, "|", error, "|", error.hint)
        """,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition(" ")[0] for line in lines] == [
        "UsageError",
        "UsageError",
        "SettingsError",
        "SpiderError",
        "UsageError",
    ]
    assert all(line.rpartition("| ")[2] for line in lines)


def test_settings_of_a_script_have_effect_and_win_over_the_spiders_own(skitter, shop) -> None:
    done = run_script(
        skitter,
        """
        import logging, sys
        import skitter

        class Titles(skitter.Spider):
            name = "titles"
            custom_settings = {"USER_AGENT": "spider/1", "max_pages": 1, "LOG_LEVEL": "ERROR"}
            def __init__(self, base):
                self.start_urls = [base]
            def parse(self, response):
                yield {"url": response.url}
                yield from response.follow_all(css="a")

        if __name__ == "__main__":
            settings = {
                "USER_AGENT": "script/1", "max_pages": None, "log_level": "debug", "log_file": "crawl.log",
                "FEEDS": {"titles.jsonl": {"format": "jsonlines"}}, "EXTENSIONS": {},
            }
            print(skitter.crawl(Titles, arguments={"base": sys.argv[1]}, settings=settings).pages)
            print(logging.getLogger("skitter").handlers, logging.getLogger("skitter").level)
        """,
        shop.url(),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["3", "[] 0"], "and logging is as it was"
    assert {seen.headers["user-agent"] for seen in shop.seen} == {"script/1"}
    assert len(skitter.lines("titles.jsonl")) == 3
    log = (skitter.folder / "crawl.log").read_text()
    assert " debug   leases.granted: " in log
    assert " info    job.state: the job is finished" in log
    assert all(" (job=titles" in line for line in log.splitlines()), log
    assert "EXTENSIONS" in done.stderr, "what has no counterpart is named"


# ---- what Scrapy would do and skitter does not


def test_a_request_with_a_proxy_of_its_own_is_never_sent_without_it(skitter, shop) -> None:
    spider(
        skitter,
        """
        def __init__(self, base):
            self.start_urls = [base + "/"]
        def parse(self, response):
            yield {"url": response.url}
            yield response.follow("/a", meta={"proxy": "http://127.0.0.1:9"})
        """,
    )
    crawl(skitter, shop)
    assert [seen.path for seen in shop.seen if seen.path != "/robots.txt"] == ["/"]
    assert skitter.json("status", "--job", "shop")["excluded"] == 1
    assert "guard" in skitter.run("why", shop.url("/a"), "--job", "shop").stdout, "a proxy must have a public address"


def test_leftovers_of_scrapy_are_named(skitter, shop) -> None:
    spider(skitter, f"start_urls = ['{shop.base}']\ndef parse(self, response): pass\ndef closed(self, reason): pass\n")
    assert "warning: Shop.closed has no effect: it is not called" in skitter.run("crawl", "shop.py").stderr


def test_a_spider_whose_requests_all_have_callbacks_needs_no_parse(skitter, shop) -> None:
    spider(
        skitter,
        """
        def start(self):
            yield Request(self.base + "/", self.parse_home)
        def parse_home(self, response):
            yield from response.follow_all(css="a.first", callback=self.parse_page)
        def parse_page(self, response):
            yield {"h1": response.css("h1::text").get()}
        """,
    )
    assert crawl(skitter, shop)["failed"] == 0
    assert skitter.lines("out.jsonl") == [{"h1": "A"}]


def test_a_worker_may_open_as_many_files_as_the_system_allows(skitter, shop) -> None:
    spider(
        skitter,
        f"""
        start_urls = ["{shop.base}/"]
        def parse(self, response):
            import resource
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            yield {{"all": soft == hard}}
        """,
    )
    command = [sys.executable, "-m", "skitter", "crawl", "shop.py", "-O", "out.jsonl", "-q"]
    lower = ["sh", "-c", 'ulimit -Sn 256 && exec "$@"', "sh"]
    subprocess.run([*lower, *command], cwd=skitter.folder, check=True)
    assert skitter.lines("out.jsonl") == [{"all": True}]


def test_a_request_that_needs_what_no_worker_has_waits_and_is_named(skitter, shop, until) -> None:
    spider(
        skitter,
        """
        def start(self):
            yield Request(self.base + '/b', need='gpu', priority=9)
            yield Request(self.base + '/a')

        def parse(self, response):
            return {'url': response.url}
        """,
    )
    process = skitter.start("crawl", "shop.py", "-a", f"base={shop.base}", "-O", "out.jsonl", *QUICK)
    until(lambda: "/a" in shop.paths(), process)
    until(lambda: skitter.json("status", "--job", "shop")["done"] == 1, process)
    assert skitter.json("status", "--job", "shop")["state"] == "running"
    told = skitter.run("status", "--job", "shop").stdout
    assert "blocked   need gpu: 1 request, no worker serves it" in told.splitlines()
    why = skitter.run("why", shop.url("/b"), "--job", "shop").stdout
    assert "no worker can serve its need gpu" in why
    skitter.run("stop", "--job", "shop")
    process.communicate(timeout=HANG_SECONDS)
    assert shop.paths() == ["/a"]
