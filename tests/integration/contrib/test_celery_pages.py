"""Single pages as tasks of Celery: scrape, parse and save in chains, groups and chords, politely as a whole."""

from __future__ import annotations

import itertools
import json
import sqlite3

import pytest
from celery import chain, chord, group

from skitter.contrib.celery import parse, save, scrape
from skitter.errors import ScrapeError
from skitter.testing.web import WebSpec, served

PRIVATE = {"allow_private": True, "delay_seconds": 0.0}


def one(url: str):
    """A pipeline for one page."""
    return chain(scrape.s(url, settings=PRIVATE, meta={"shop": 7}), parse.s(spider="titles.py:titles"))


def test_chain_group_and_chord_give_the_expected_records(workers):
    with served(WebSpec.plain(hosts=1, pages_per_host=8)) as web:
        titles = web.expected().titles
        urls = sorted(titles)
        saved = chain(one(urls[0]), save.s("one.jsonl")).apply_async().get(timeout=60)
        assert saved == {"written": 1, "rejected": 0, "outputs": ["one.jsonl"]}
        # Several to one file and one database at a time.
        pipelines = group(chain(one(url), save.s(["each.jsonl", "sqlite:each.db#pages"])) for url in urls[1:5])
        pipelines.apply_async().get(timeout=60)
        result = chord([one(url) for url in urls[5:]], save.s("chord.jsonl")).apply_async().get(timeout=60)
        assert result["written"] == 3
    for name, part in (("one", urls[:1]), ("each", urls[1:5]), ("chord", urls[5:])):
        lines = [json.loads(line) for line in (workers.folder / f"{name}.jsonl").read_text().splitlines()]
        records = sorted((line["url"], line["title"], line["shop"]) for line in lines)
        assert records == [(url, titles[url], 7) for url in part]
    with sqlite3.connect(workers.folder / "each.db") as database:
        assert sorted(database.execute("SELECT url FROM pages")) == [(url,) for url in urls[1:5]]
    database.close()


def test_tasks_of_several_processes_keep_the_delay_of_a_host(workers, tmp_path):
    with served(WebSpec.plain(hosts=1, pages_per_host=8), log_path=tmp_path / "log") as web:
        urls = sorted(web.expected().done)
        settings = {"allow_private": True, "delay_seconds": 0.3}
        sent = group(scrape.s(url, job="slow", settings=settings) for url in urls)
        pages = sent.apply_async().get(timeout=100)
        times = sorted(hit.at for hit in web.log() if hit.path != "/robots.txt")
    assert sorted(page["url"] for page in pages) == urls
    assert len(times) == len(urls)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    # The clock of the server's log; a delay is kept to the millisecond where requests start.
    assert min(gaps) > 0.27


def test_threads_of_one_process_each_get_their_own_page(celery_workers):
    workers = celery_workers()
    workers.start("-P", "threads", processes=4)
    with served(WebSpec.plain(hosts=1, pages_per_host=8)) as web:
        titles = web.expected().titles
        results = group(one(url) for url in sorted(titles)).apply_async().get(timeout=60)
    found = {item["url"]: item["title"] for result in results for item in result["items"]}
    assert found == titles


def test_a_page_that_cannot_be_had_fails_with_its_class(workers):
    with served(WebSpec.plain(hosts=1, pages_per_host=3)) as web:
        sent = scrape.delay(f"{web.urls[0]}no-such-page", settings=PRIVATE)
        with pytest.raises(ScrapeError, match=r"^http_4xx: http://\S+/no-such-page answered HTTP 404$"):
            sent.get(timeout=60)
    assert workers.hooks_of(sent.id) == {"on_failure": 1, "after_return": 1}
