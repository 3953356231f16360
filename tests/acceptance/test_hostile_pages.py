"""Pages made to take all memory, all time, or the process itself: each costs itself and nothing else."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

NEIGHBOURS = 20
MAX_RSS_KB = 1_500_000
"""Of the largest process. The worst of these took 3 GB and more, or all there was."""

SPIDER = """
    import resource

    from skitter import Request, Spider


    class Reader(Spider):
        name = "reader"

        def start(self):
            for name in self.names.split(","):
                yield Request(self.base + "/" + name)

        def parse(self, response):
            response.css("div p::text"), response.css("body").text, response.css("html").get()
            yield {
                "name": response.url.rsplit("/", 1)[1],
                "links": list(response.links()),
                "title": response.title,
                "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            }
"""


def hostile_bodies() -> dict[str, bytes]:
    """Half a gigabyte: made by the test that serves them."""
    return {
        "million-tags": b"<div>" * 1_000_000,
        "nested-and-hidden": b"<div></x>" * 500_000,
        "quoted": b"<div a='>' b='</div>'>" * 300_000,
        "commented": b"<div><!--</div>-->" * 300_000,
        "templates": b"<template>" * 300_000,
        "tables": b"<table><tr><td>" * 200_000,
        "foreign": b"<svg><foreignObject>" * 200_000,
        "formatting": b"".join(b"<p><font size=%d>x" % number for number in range(200_000)),
        "formatting-behind-walls": b"".join(b"<b x=%d><object></b></object><p>x" % number for number in range(200_000)),
        "adoption": b"".join(b"<b x=%d>" % number for number in range(2000)) + b"<div>" * 200 + b"</b>" * 200_000,
        "million-attributes": b"<p " + b" ".join(b"a%d" % number for number in range(1_000_000)) + b">",
        "attributes-in-disguise": b"<p " + b"".join(b'a%d="<p></p>" ' % number for number in range(500_000)) + b">",
        "attributes-of-body": b"".join(b"<body a%d>" % number for number in range(500_000)),
        "names": b"".join(b"<t%d></t%d>" % (number, number) for number in range(500_000)),
        "giant-attribute": b"<p a='" + b"x" * 30_000_000 + b"'>",
        "giant-name": b"<p" + b"x" * 30_000_000 + b">",
        "nulls": b"\0" * 30_000_000,
        "nulls-in-markup": b"<\0d\0i\0v\0>\0" * 1_000_000,
        "entities": b"&amp&#x10FFFF;&nosuch;" * 1_000_000,
        "comment": b"<!--" * 5_000_000,
        "doctype": b"<!DOCTYPE " + b"x" * 30_000_000,
        "script": b"<script>" + b"<!--<script>" * 1_000_000,
        "plaintext": b"<plaintext>" + b"<p>" * 5_000_000,
        "brackets": b"<" * 20_000_000,
        "utf-16": b"\xff\xfe" + ("<div>" * 500_000).encode("utf-16-le"),
    }


def test_every_hostile_page_is_read_within_bounds(skitter: Any, site: Any) -> None:
    """What stands before the harm is read; the worker lives; its memory is bounded."""
    hostile = hostile_bodies()
    for name, body in hostile.items():
        start = "<title>t</title><a href=/x>x</a>".encode("utf-16-le" if name == "utf-16" else "ascii")
        mark = body[:2] if name == "utf-16" else b""
        site.page(f"/{name}", mark + start + body.removeprefix(mark), content_type="text/html")
    skitter.write("reader.py", SPIDER)
    process = skitter.start(
        *("crawl", "reader.py", "-a", f"base={site.base}", "-a", f"names={','.join(hostile)}", "-o", "out.jsonl"),
        *(
            "--job",
            "j",
            "--json",
            "--log",
            "log.jsonl",
            "--log-format",
            "json",
            "--set",
            "concurrency=2",
            "--set",
            "callback_seconds=30",
        ),
    )
    out, error = process.communicate(timeout=200)
    assert process.returncode == 0, error
    assert json.loads(out)["state"] == "finished"
    records = {record["name"]: record for record in skitter.lines("out.jsonl")}
    failed = skitter.records("failed", "--job", "j")
    assert not failed, failed
    assert records.keys() == hostile.keys()
    for name, record in records.items():
        assert (record["title"], record["links"][:1]) == ("t", [site.url("/x")]), name
    assert max(record["rss"] for record in records.values()) < MAX_RSS_KB
    log = (skitter.folder / "log.jsonl").read_text()
    assert "worker_replaced" not in log


GREEDY = """
    from skitter import Request, Spider
    from skitter.extract import response as reading


    class Greedy(Spider):
        name = "greedy"

        def start(self):
            for number in range(int(self.pages)):
                yield Request(f"{self.base}/{number}")

        def parse(self, response):
            # As if a page had got past the guard.
            reading.cut_pathological = lambda body: body
            yield {"title": response.title}
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits what a process takes")
def test_a_page_that_gets_past_the_guard_takes_no_more_than_a_worker_may(skitter: Any, site: Any) -> None:
    """75 KB that become 2.9 GB: the parser is refused the memory, the page has failed, the worker goes on."""
    bomb = b"".join(b"<p><font size=%d>x" % number for number in range(4000))
    for number in range(NEIGHBOURS):
        site.page(f"/{number}", bomb if number == 7 else "<title>t</title>")
    skitter.write("greedy.py", GREEDY)
    summary = skitter.json(
        *("crawl", "greedy.py", "-a", f"base={site.base}", "-a", f"pages={NEIGHBOURS}", "-o", "out.jsonl"),
        *("--job", "j", "--set", "max_worker_bytes=700000000", "--log", "log.jsonl", "--log-format", "json"),
    )
    assert summary["state"] == "finished"
    assert len(skitter.lines("out.jsonl")) == NEIGHBOURS - 1
    (failed,) = skitter.records("failed", "--job", "j")
    assert failed["url"] == site.url("/7")
    assert failed["error_class"] == "callback"
    assert "max_worker_bytes" in failed["error"]
    assert "worker_replaced" not in (skitter.folder / "log.jsonl").read_text()


CRASHING = """
    import ctypes

    from skitter import Request, Spider
    from skitter.extract import response as reading


    class Crashing(Spider):
        name = "crashing"

        def start(self):
            for number in range(int(self.pages)):
                yield Request(f"{self.base}/{number}")

        def parse(self, response):
            # As if a page had got past the guard.
            reading.cut_pathological = lambda body: body
            if response.url.endswith("/3"):
                ctypes.string_at(0)
            yield {"html": len(response.css("html").get(""))}
"""


def test_a_crash_of_the_parser_costs_one_page(skitter: Any, site: Any) -> None:
    """Page 7 ends the process inside lexbor, by recursion, page 3 in the callback; all others are crawled."""
    for number in range(NEIGHBOURS):
        site.page(f"/{number}", b"<template>" * 300_000 if number == 7 else "<title>t</title>")
    skitter.write("crashing.py", CRASHING)
    summary = skitter.json(
        *("crawl", "crashing.py", "-a", f"base={site.base}", "-a", f"pages={NEIGHBOURS}", "-o", "out.jsonl"),
        *("--job", "j", "--log", "log.jsonl", "--log-format", "json"),
    )
    assert summary["state"] == "finished"
    assert len(skitter.lines("out.jsonl")) == NEIGHBOURS - 2
    failed = {record["url"]: record["error_class"] for record in skitter.records("failed", "--job", "j")}
    assert failed == {site.url("/3"): "lost", site.url("/7"): "lost"}
    assert "SIGSEGV" in (skitter.folder / "log.jsonl").read_text()


def test_a_page_that_takes_for_ever_is_ended_with_its_worker(skitter: Any, site: Any) -> None:
    """A parse of minutes: the parser leaves the interpreter free, so the page is known, and failed at once."""
    for number in range(NEIGHBOURS):
        site.page(f"/{number}", b"<div>" * 500_000 if number == 7 else "<title>t</title>")
    skitter.write("greedy.py", GREEDY)
    summary = skitter.json(
        *("crawl", "greedy.py", "-a", f"base={site.base}", "-a", f"pages={NEIGHBOURS}", "-o", "out.jsonl"),
        *("--job", "j", "--set", "callback_seconds=2"),
    )
    assert summary["state"] == "finished"
    assert len(skitter.lines("out.jsonl")) == NEIGHBOURS - 1
    (failed,) = skitter.records("failed", "--job", "j")
    assert (failed["url"], failed["error_class"]) == (site.url("/7"), "callback")
