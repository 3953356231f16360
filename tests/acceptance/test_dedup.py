"""``dedup=bloom`` and ``dedup_seconds`` by the real command line: what is fetched, and what people are told."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import redis

from skitter.model.url import canonical
from skitter.testing.web import WebSpec, served

QUICK = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.2")
BLOOM = ("--set", "dedup=bloom", "--set", "dedup_capacity=50", "--set", "dedup_error_rate=1e-9")


@pytest.mark.parametrize("kind", ["redis", pytest.param("redis-cluster", marks=pytest.mark.soak)])
def test_a_crawl_with_a_filter_says_what_it_costs_and_how_full_it_is(skitter, services, kind) -> None:
    place = ("--frontier", services.need(kind)["url"], "--job", f"filtered-{kind}")
    log = ("--set", "log_file=crawl.log", "--workers", 2)
    with served(WebSpec.demo()) as web:
        crawl = skitter.run("crawl", *web.urls, "-o", "out.jsonl", "--fresh", *place, *QUICK, *BLOOM, *log)
        expected = web.expected()
    assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == Counter(expected.done)
    told = crawl.stderr + (skitter.folder / "crawl.log").read_text()
    assert told.count("% of new pages are mistaken for duplicates and never fetched") >= 1
    lines = (skitter.folder / "crawl.log").read_text().splitlines()
    assert sum("job.filter_nearly_full" in line for line in lines) == 1
    status = skitter.json("status", *place)["dedup"]
    assert status["items"] >= len(expected.done) - 1
    assert status["fill"] > 0
    assert 0 < status["implied_error_rate"] < status["error_rate"] == 1e-9
    assert "dedup     Bloom filter with " in skitter.run("status", *place).stdout
    linked = next(url for url in sorted(expected.done) if url not in map(canonical, web.urls))
    why = skitter.json("why", linked, *place)
    assert why["state"] == "maybe-seen"
    assert why["reasons"][0].startswith("possibly a duplicate: the Bloom filter of done pages contains it")
    assert skitter.json("why", web.urls[0], *place)["state"] == "ended", "a seed is known exactly"
    skitter.run("drop", *place)


def test_a_filter_in_memory(skitter) -> None:
    with served(WebSpec.demo()) as web:
        skitter.run("crawl", *web.urls, "-o", "out.jsonl", "--frontier", "memory:", *QUICK, *BLOOM)
        expected = web.expected()
    assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == Counter(expected.done)


@pytest.mark.parametrize("place", ["memory:", "redis"])
def test_pages_are_fetched_again_when_they_are_forgotten_and_not_before(skitter, services, place) -> None:
    url = place if place == "memory:" else services.need("redis")["url"]
    where = ("--frontier", url, "--job", "again", "--fresh", "--max-pages", 100, "--workers", 1)
    forget = ("--set", "dedup_seconds=0.4", "--set", "per_host=1")
    with served(WebSpec(hosts=1, pages_per_host=25, latency_seconds=0.05), skitter.folder / "web.log") as web:
        skitter.run("crawl", *web.urls, "-o", "out.jsonl", *where, *QUICK, *forget)
        log = [hit for hit in web.log() if hit.status == 200 and hit.path != "/robots.txt"]
    times = {path: [hit.at for hit in log if hit.path == path] for path in {hit.path for hit in log}}
    # Also what the worker remembers is forgotten, or it would never ask for the page again.
    again = [after - before for found in times.values() for before, after in pairwise(found)]
    assert len(again) >= 5
    assert min(again) > 0.4
    assert len(skitter.lines("out.jsonl")) == len(log)


def test_the_samples_of_the_page_run_as_they_stand_there(services, tmp_path) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "dedup.md"
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    url = services.need("redis")["url"]
    for block in blocks:
        code = block.replace("redis://127.0.0.1:6379", url)
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        promised = re.findall(r"# ((?:True|False|\[).*)$", block, re.MULTILINE)
        assert promised
        assert [line for line in promised if line not in ended.stdout] == []
    with redis.Redis.from_url(url) as client:
        client.delete(*client.keys("skitter:dedup:{news}:*"), *client.keys("skitter:dedup:{images}:*"))


def test_distinct_urls_of_jobs_are_counted_over_their_runs_and_together(skitter) -> None:
    place = ("--frontier", "sqlite:jobs.db")
    with served(WebSpec(hosts=2, pages_per_host=40)) as web:
        for job, urls in (("first", web.urls[:1]), ("both", web.urls), ("first", web.urls[:1])):
            skitter.run("crawl", *urls, *place, "--job", job, "--workers", 2, *QUICK)
        expected = len(web.expected().done)
    found = {each.get("job"): each for each in skitter.records("jobs", "--distinct", *place)}
    assert found["first"]["distinct"] == pytest.approx(found["first"]["done"], rel=0.05)
    assert found["both"]["distinct"] == pytest.approx(expected, rel=0.05)
    assert found[None] == {"jobs": 2, "distinct": found["both"]["distinct"]}
    shown = skitter.run("jobs", "--distinct", *place).stdout
    assert f"about {found['both']['distinct']} distinct URLs in all" in shown
