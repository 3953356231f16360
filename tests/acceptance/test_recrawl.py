"""Recrawl by the real command line: what has changed is parsed, the rest is not, and nothing is forgotten."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from typing import Any

import pytest

from rig.processes import HANG_SECONDS

PAGES = 200
CHANGED = PAGES // 100
SPIDER = """
    import skitter

    class Parsed(skitter.Spider):
        name = "parsed"

        def __init__(self, base):
            self.start_urls = [base + "/"]

        def parse(self, response):
            yield {"url": response.url, "text": response.css("p::text").get()}
            yield response.links()
"""


class Pages:
    """A site with a list and two hundred pages, each with a version of its own."""

    def __init__(self, site: Any, *, with_etags: bool) -> None:
        self.site = site
        self.versions = dict.fromkeys(["/", *(f"/{n}" for n in range(PAGES - 1))], 1)
        self._with_etags = with_etags
        for path in self.versions:
            site.on(path, self._answer)

    def _answer(self, seen: Any, _: Any) -> tuple[int, dict[str, str], bytes]:
        etag = f'"{seen.path}-{self.versions[seen.path]}"'
        headers = {"Content-Type": "text/html", **({"ETag": etag} if self._with_etags else {})}
        if self._with_etags and seen.headers.get("if-none-match") == etag:
            return 304, headers, b""
        links = "".join(f'<a href="{path}">x</a>' for path in self.versions) if seen.path == "/" else ""
        return 200, headers, f"<p>version {self.versions[seen.path]}</p>{links}".encode()

    def change(self, *paths: str) -> None:
        for path in paths:
            self.versions[path] += 1


def crawl(skitter: Any, pages: Pages, *options: object) -> dict[str, Any]:
    skitter.write("parsed.py", SPIDER)
    pages.site.seen.clear()
    command = ["crawl", "parsed.py", "-a", f"base={pages.site.base}", "-O", "out.jsonl", "--per-host", 16, *options]
    summary: dict[str, Any] = skitter.json(*command)
    assert summary["state"] == "finished"
    return summary


def parsed(skitter: Any, pages: Pages) -> list[str]:
    return sorted(record["url"].removeprefix(pages.site.base) for record in skitter.lines("out.jsonl"))


def time_passes(skitter: Any, days: float) -> None:
    """As if the clock had gone on, for what the job knows of its pages."""
    with closing(sqlite3.connect(skitter.folder / ".skitter" / "parsed.db")) as connection, connection:
        connection.execute("UPDATE pages SET due = due - ?", (days * 86_400,))


@pytest.mark.parametrize("with_etags", [True, False], ids=["ETag", "no validators"])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.soak
def test_where_one_page_in_a_hundred_has_changed_the_second_run_parses_one_in_a_hundred(
    skitter: Any, site: Any, with_etags: bool, workers: int
) -> None:
    pages = Pages(site, with_etags=with_etags)
    first = crawl(skitter, pages, "--recrawl", "--workers", workers)
    assert (first["pages"], first["unchanged"], first["items"]) == (PAGES, 0, PAGES)
    pages.change("/7", "/77")
    second = crawl(skitter, pages, "--recrawl-all", "--workers", workers)
    assert sorted(pages.site.paths()) == sorted(pages.versions), "each is asked for once"
    assert parsed(skitter, pages) == ["/7", "/77"]
    assert (second["pages"], second["unchanged"], second["items"]) == (PAGES, PAGES - CHANGED, CHANGED)
    assert (second["bytes"] < 200) == with_etags, "a 304 has no body"
    status = skitter.json("status", "--job", "parsed")
    assert (status["done"], status["unchanged"]) == (PAGES, PAGES - CHANGED)
    assert f"{PAGES - CHANGED} of them unchanged" in skitter.run("status", "--job", "parsed").stdout


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.soak
def test_it_is_the_same_on_redis_and_in_shards(skitter: Any, site: Any, own_redis: Any, shards: int) -> None:
    pages = Pages(site, with_etags=True)
    place = ["--frontier", f"{own_redis().url}?shards={shards}", "--workers", 2]
    assert crawl(skitter, pages, "--recrawl", *place)["pages"] == PAGES
    pages.change("/7", "/77")
    assert crawl(skitter, pages, "--recrawl", *place)["pages"] == 1, "the seed; nothing else is due"
    second = crawl(skitter, pages, "--recrawl-all", *place)
    assert (second["pages"], second["unchanged"]) == (PAGES, PAGES - CHANGED)
    assert parsed(skitter, pages) == ["/7", "/77"]


def test_a_run_fetches_seeds_and_what_is_due_and_why_tells_when_that_is(skitter: Any, site: Any) -> None:
    pages = Pages(site, with_etags=True)
    crawl(skitter, pages, "--recrawl")
    pages.change("/7")
    crawl(skitter, pages, "--recrawl")
    assert pages.site.paths() == ["/"], "nothing else is due for a week"
    url = pages.site.url("/7")
    known = skitter.json("why", url, "--job", "parsed")
    assert (known["state"], known["visits"]) == ("known", [])
    assert known["next_at"] - known["fetched_at"] == pytest.approx(7 * 86_400)
    assert "recorded by an earlier run" in skitter.run("why", url, "--job", "parsed").stdout
    time_passes(skitter, 8)
    crawl(skitter, pages, "--recrawl")
    assert sorted(pages.site.paths()) == sorted(pages.versions)
    assert parsed(skitter, pages) == ["/7"]
    visited = skitter.json("why", url, "--job", "parsed")
    assert [visit["changed"] for visit in visited["visits"]] == [True]
    assert "changed at its last visits" in skitter.run("why", url, "--job", "parsed").stdout


def test_a_first_run_without_it_leaves_no_records_and_drop_removes_them(skitter: Any, site: Any) -> None:
    pages = Pages(site, with_etags=True)
    crawl(skitter, pages)
    assert crawl(skitter, pages, "--recrawl-all")["unchanged"] == 0
    assert crawl(skitter, pages, "--recrawl-all")["unchanged"] == PAGES
    skitter.run("drop", "--job", "parsed")
    assert crawl(skitter, pages, "--recrawl-all")["unchanged"] == 0


def test_kill_9_in_the_middle_of_a_recrawl_loses_nothing_and_counts_no_visit_twice(
    skitter: Any, site: Any, until: Any
) -> None:
    pages = Pages(site, with_etags=True)
    crawl(skitter, pages, "--recrawl")
    pages.change("/7", "/77")
    pages.site.seen.clear()
    command = ["crawl", "parsed.py", "-a", f"base={site.base}", "-O", "out.jsonl", "--recrawl-all", "--workers", 2]
    for goal in (PAGES // 3, 2 * PAGES // 3):
        with skitter.start(*command, "--delay", 0.005, "-q", stdout=subprocess.DEVNULL) as process:
            until(lambda goal=goal: len(site.paths()) >= goal, process)
            os.killpg(process.pid, signal.SIGKILL)
    summary = skitter.json(*command)
    assert (summary["begun"], summary["pages"], summary["unchanged"]) == ("resumed", PAGES, PAGES - CHANGED)
    assert parsed(skitter, pages) == ["/7", "/77"]
    for path in ("/", "/1", "/7"):
        record = skitter.json("why", site.url(path), "--job", "parsed")
        assert [visit["changed"] for visit in record["visits"]] == [path == "/7"]


def test_a_resident_crawl_fetches_pages_when_they_are_due_and_keeps_no_more_than_them(
    skitter: Any, site: Any, until: Any
) -> None:
    pages = Pages(site, with_etags=True)
    skitter.write("parsed.py", SPIDER)
    command = ["crawl", "parsed.py", "-a", f"base={site.base}", "-O", "out.jsonl", "--recrawl", "--stay", "-q"]
    with skitter.start(*command) as process:
        until(lambda: len(pages.site.paths()) == PAGES, process)
        until(lambda: skitter.json("status", "--job", "parsed")["state"] == "finished", process)
        pages.change("/7")
        # Half of the pages, and the one that has changed.
        with closing(sqlite3.connect(skitter.folder / ".skitter" / "parsed.db")) as connection, connection:
            condition = "id % 2 = 0 OR instr(payload, CAST(? AS BLOB))"
            due = connection.execute(
                f"UPDATE pages SET due = ? WHERE {condition}", (time.time(), site.url("/7"))
            ).rowcount
        until(lambda: len(pages.site.paths()) == PAGES + due, process)
        until(lambda: skitter.json("status", "--job", "parsed")["state"] == "finished", process)
        os.kill(process.pid, signal.SIGINT)
        process.wait(HANG_SECONDS)
    assert process.returncode == 130
    records = skitter.lines("out.jsonl")
    assert len(records) == PAGES + 1, "what was there before stays"
    assert records[-1]["text"] == "version 2"
    status = skitter.json("status", "--job", "parsed")
    assert (status["run"], status["seen"]) == (2, due)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--stay"], "--recrawl --stay"),
        (["--recrawl-all", "--stay"], "--recrawl --stay"),
        (["--recrawl", "--stay", "--frontier", "memory:"], "omit frontier= (--frontier)"),
        (["--recrawl", "--set", "dedup_scope=job"], "dedup_scope"),
    ],
)
def test_what_cannot_come_back_to_its_pages_is_refused(skitter: Any, options: list[str], words: str) -> None:
    ended = skitter.run("crawl", "https://a.example/", *options, code=2)
    assert words in ended.stderr
