"""``skitter bench`` by the real command line: what it tells, that it adds up, and that it leaves nothing behind.

No speed is checked: figures are for people.
"""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from rig.processes import HANG_SECONDS, children
from skitter.testing.frontiers import list_jobs

PARTS = "fetch decode parse join fingerprint dedup callback commit sink overhead".split()
"""Of the life of a page, in its order."""


def in_order(figure: dict[str, float]) -> bool:
    return 0 < figure["low"] <= figure["median"] <= figure["high"]


def test_crawls_next_to_the_bare_parts(skitter) -> None:
    # The memory of a fork is that of its server.
    told = json.loads(skitter.run("bench", "--pages", 50, "--rounds", 1, "--json", forked=False).stdout)
    assert (told["rounds"], told["machine"]["cores"] > 0) == (1, True)
    assert [(row["name"], row["pages"]) for row in told["rows"]] == [("bare parts", 50), ("memory", 50), ("sqlite", 50)]
    bare = told["rows"][0]
    for row in told["rows"]:
        assert in_order(row["pages_per_second"])
        assert in_order(row["cpu_ms_per_page"])
        assert row["peak_bytes"]["median"] > 10e6
        ratio = row["cpu_ms_per_page"]["median"] / bare["cpu_ms_per_page"]["median"]
        assert row["cpu_to_bare_parts"] == pytest.approx(ratio, rel=0.01)
    assert list(skitter.folder.iterdir()) == []


def test_frontiers_alone(skitter) -> None:
    told = skitter.json("bench", "frontier", "--requests", 200, "--duplicates", 0, 50, "--rounds", 2)
    # A thousand hosts, as the default has it, there cannot be.
    assert [(row["frontier"], row["requests"], row["hosts"], row["duplicates"]) for row in told["rows"]] == [
        (frontier, 200, 1, duplicates) for frontier in ("memory", "sqlite") for duplicates in (0, 50)
    ]
    assert [row["queued"] for row in told["rows"]] == [200, 100, 200, 100]
    for row in told["rows"]:
        for figure in ("adds_per_second", "leases_per_second", "commits_per_second", "urls_per_second"):
            assert in_order(row[figure])
    assert list(skitter.folder.iterdir()) == []


def test_where_a_pages_time_goes(skitter) -> None:
    told = skitter.json("bench", "--profile", "--pages", 100, "--rounds", 1)
    assert (told["frontier"], told["pages"]) == ("sqlite", 100)
    assert [row["part"] for row in told["rows"]] == PARTS
    assert sum(row["us_per_page"] for row in told["rows"]) == pytest.approx(told["cpu_us_per_page"], abs=0.1)
    assert sum(row["percent"] for row in told["rows"]) == pytest.approx(100, abs=0.1)
    # Threads are read off their clocks, however few samples there are.
    assert all(row["us_per_page"] > 0 for row in told["rows"] if row["part"] in ("commit", "sink"))


def test_a_crawl_that_brings_too_few_pages_is_no_figure(skitter, site) -> None:
    # The bare parts do not know what is forbidden.
    site.page("/", "<title>a</title><a href='/one'>1</a><a href='/two'>2</a>")
    site.page("/one", "<a href='/'>back</a>")
    site.page("/two", "")
    site.page("/robots.txt", "User-agent: *\nDisallow: /two", content_type="text/plain")
    told = skitter.run("bench", "--url", site.url(), "--rounds", 1, "--json", code=1)
    assert told.stdout == ""
    assert "error: a crawl did not fetch every page: memory: 2 of 3\n" in told.stderr
    assert "hint: no result is shown for it" in told.stderr


def test_a_site_of_ones_own_where_links_may_lead_nowhere(skitter, site) -> None:
    site.page("/", "<a href='/one'>1</a><a href='/gone'>2</a>")
    site.page("/one", "")
    told = skitter.json("bench", "--url", site.url(), "--rounds", 1)
    assert {row["pages"] for row in told["rows"]} == {2}
    assert told["site"] == f"at most 3,000 pages of {site.url()}"


def jobs_at(url: str) -> set[str]:
    return set(asyncio.run(list_jobs(url)))


def test_a_redis_is_as_it_was_when_a_bench_is_over(skitter, services) -> None:
    url = services.need("redis")["url"]
    before = jobs_at(url)
    told = skitter.json("bench", "frontier", "--frontier", url, "--requests", 1000, "--duplicates", 0, "--rounds", 1)
    assert [(row["frontier"], row["hosts"], row["queued"], row["holds"]) for row in told["rows"]] == [
        ("redis", hosts, 1000, "memory") for hosts in (1, 1000)
    ]
    assert all(in_order(row["urls_per_second"]) for row in told["rows"])
    assert jobs_at(url) == before


@pytest.mark.parametrize(
    ("words", "number", "code"),
    [
        (("frontier", "--requests", "1e6"), signal.SIGTERM, 143),
        (("--profile", "--pages", "1e5"), signal.SIGINT, 130),
    ],
    ids=["frontier", "profile"],
)
def test_an_interrupted_bench_leaves_no_job_and_no_process(skitter, services, until, words, number, code) -> None:
    url = services.need("redis")["url"]
    before = jobs_at(url)
    process = skitter.start("bench", *words, "--frontier", url)
    until(lambda: jobs_at(url) > before, process)
    begun = children(process.pid)
    assert begun
    process.send_signal(number)
    out, error = process.communicate(timeout=HANG_SECONDS)
    assert (process.returncode, out, error) == (code, "", "")
    assert jobs_at(url) == before
    assert not any(Path(f"/proc/{child}").exists() for child in begun)
