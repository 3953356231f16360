"""The built-in spider on the synthetic web, by the real command line: exactly what is there, once."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any

import pytest

from skitter.model.url import canonical
from skitter.testing.web import WebSpec, served

QUICK = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.2")


def urls_of(records: list[dict[str, Any]]) -> list[str]:
    return [canonical(record["url"]) for record in records]


@pytest.mark.parametrize("workers", [1, 2])
def test_every_page_is_found_once(skitter, workers) -> None:
    spec = WebSpec.demo()
    with served(spec) as web:
        summary = skitter.json("crawl", *web.urls, "-o", "out.jsonl", "--workers", workers, "--job", "demo", *QUICK)
        expected = web.expected()
    found = urls_of(skitter.lines("out.jsonl"))
    assert Counter(found) == Counter(expected.done)
    assert summary["state"] == "finished"
    assert summary["pages"] == summary["items"] == len(expected.done)
    assert summary["failed"] == len(expected.failed)
    assert summary["redirected"] == expected.hops
    assert summary["excluded"] == len(expected.excluded)
    status = skitter.json("status", "--job", "demo")
    assert status["seen"] == status["done"] + status["redirected"] + status["failed"] + status["excluded"]
    assert status["queued"] == status["delayed"] == status["leased"] == status["undelivered"] == 0
    failed = {canonical(record["url"]): record["error_class"] for record in failed_records(skitter)}
    assert failed == expected.failed
    assert {record["title"] for record in skitter.lines("out.jsonl")} >= set(expected.titles.values())


def failed_records(skitter) -> list[dict[str, Any]]:
    return [json.loads(line) for line in skitter.run("failed", "--job", "demo", "--json").stdout.splitlines()]


def test_the_end_waits_for_no_worker_that_has_not_joined(skitter) -> None:
    # The first worker process that starts goes on, and the others never come to their first line.
    skitter.write(
        "site/sitecustomize.py",
        """
        import os, sys, time

        if "skitter.app" in sys.orig_argv:
            try:
                os.close(os.open("first", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                time.sleep(3600)
        """,
    )
    environment = os.environ | {"PYTHONPATH": str(skitter.folder / "site")}
    with served(WebSpec.plain(hosts=1, pages_per_host=10)) as web:
        crawl = ("crawl", web.urls[0], "-o", "out.jsonl", "--workers", 4, "--log", "log", *QUICK)
        done = skitter.run(*crawl, env=environment)
    assert len(skitter.lines("out.jsonl")) == 10, done.stderr
    joined = [line for line in (skitter.folder / "log").read_text().splitlines() if "worker.joined" in line]
    assert len(joined) == 1


def test_memory_frontier_crawls_the_same(skitter) -> None:
    with served(WebSpec.demo()) as web:
        summary = skitter.json("crawl", *web.urls, "-o", "out.jsonl", "--frontier", "memory:", *QUICK)
        expected = web.expected()
    assert Counter(urls_of(skitter.lines("out.jsonl"))) == Counter(expected.done)
    assert summary["failed"] == len(expected.failed)


def test_each_page_is_fetched_once(skitter, tmp_path) -> None:
    spec = WebSpec.plain(hosts=2, pages_per_host=150)
    with served(spec, log_path=tmp_path / "hits.jsonl") as web:
        skitter.run("crawl", *web.urls, "--workers", 2)
        hits = Counter((hit.host, hit.path) for hit in web.log())
    assert set(hits.values()) == {1}


def test_per_host_limit_and_delay_hold_for_all_workers(skitter, tmp_path) -> None:
    spec = WebSpec.plain(hosts=3, pages_per_host=12)
    delay = 0.15
    with served(spec, log_path=tmp_path / "hits.jsonl") as web:
        skitter.run("crawl", *web.urls, "--workers", 2, "--delay", delay, "--ignore-robots")
        log = web.log()
    for host in range(3):
        times = sorted(hit.at for hit in log if hit.host == host)
        assert len(times) == 12
        # Single gaps are judged at the client's socket (tests/fault/test_cluster_politeness.py): here a request that
        # waited for a processor comes close to the next one. The sum of all gaps loses only what the first one waited.
        assert times[-1] - times[0] >= 11 * delay - 0.1


def test_in_flight_per_host_is_bounded(skitter, tmp_path) -> None:
    spec = WebSpec.plain(hosts=2, pages_per_host=60, latency_seconds=0.05)
    with served(spec, log_path=tmp_path / "hits.jsonl") as web:
        skitter.run("crawl", *web.urls, "--workers", 2, "--per-host", 3)
        assert max(hit.in_flight for hit in web.log()) == 3


def test_max_pages_holds_for_the_cluster_and_a_larger_number_continues(skitter) -> None:
    with served(WebSpec.plain(hosts=1, pages_per_host=100)) as web:
        first = skitter.json("crawl", web.urls[0], "-o", "out.jsonl", "--workers", 2, "--max-pages", 30, "--job", "j")
        assert (first["state"], first["pages"], first["reason"]) == ("stopped", 30, "max_pages")
        assert len(skitter.lines("out.jsonl")) == 30
        second = skitter.json("crawl", web.urls[0], "-o", "out.jsonl", "--max-pages", 50, "--job", "j")
        assert (second["state"], second["pages"]) == ("stopped", 50)
        third = skitter.json("crawl", web.urls[0], "-o", "out.jsonl", "--max-pages", 500, "--job", "j")
        assert (third["state"], third["pages"]) == ("finished", 100)
    assert Counter(urls_of(skitter.lines("out.jsonl"))).most_common(1)[0][1] == 1


def test_max_depth_counts_links_from_a_seed(skitter) -> None:
    with served(WebSpec.plain(hosts=1, pages_per_host=100)) as web:
        skitter.run("crawl", web.urls[0], "-o", "out.jsonl", "--max-depth", 1)
    assert {record["depth"] for record in skitter.lines("out.jsonl")} == {0, 1}


def test_a_finished_job_starts_a_new_run_and_results_are_appended(skitter) -> None:
    with served(WebSpec.plain(hosts=1, pages_per_host=20)) as web:
        assert skitter.json("crawl", web.urls[0], "-o", "out.jsonl", "--job", "j")["run"] == 1
        assert skitter.json("crawl", web.urls[0], "-o", "out.jsonl", "--job", "j")["run"] == 2
        assert len(skitter.lines("out.jsonl")) == 40
        assert skitter.json("crawl", web.urls[0], "-O", "out.jsonl", "--job", "j")["run"] == 3
    assert len(skitter.lines("out.jsonl")) == 20


def test_a_dead_host_costs_a_few_connections_and_its_queue_can_be_revived(skitter) -> None:
    with served(WebSpec.plain(hosts=1, pages_per_host=5).replace(dead_host=True)) as web:
        pages = [f"{web.dead_url}{number}" for number in range(40)]
        summary = skitter.json("crawl", web.urls[0], *pages, "--job", "j", *QUICK)
        expected = web.expected([web.urls[0], *pages])
        failed = len(expected.failed)
        assert failed >= 40
        assert summary["pages"] == len(expected.done)
        assert summary["errors"] == {"connect": failed}
        skitter.run("retry", "--job", "j", "--class", "connect")
        assert skitter.json("status", "--job", "j")["queued"] == failed


def test_no_seed_done_is_exit_code_1(skitter) -> None:
    with served(WebSpec.plain(hosts=1, pages_per_host=5)) as web:
        summary = skitter.json("crawl", f"{web.urls[0]}nowhere", code=1)
    assert (summary["pages"], summary["failed"]) == (0, 1)
