"""``skitter hosts``: a host is paused while another is crawled, across a kill -9, and resumed; one is given up."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest
from tests.acceptance.conftest import place_of

from rig.processes import HANG_SECONDS
from rig.web import Held

PAGES = 60


def listed(skitter, *arguments) -> dict[str, dict]:
    return {host["key"]: host for host in skitter.records("hosts", *arguments)}


@pytest.mark.parametrize("frontier", ["sqlite", pytest.param("redis", marks=pytest.mark.soak)])
def test_a_paused_host_gets_no_request_until_it_is_resumed(
    skitter, make_site, start, until, services, tmp_path, frontier
) -> None:
    sites = paused, other = make_site(), make_site()
    for site in sites:
        for number in range(PAGES):
            site.page(f"/{number}", "page")
    held = Held(other, (200, {"Content-Type": "text/html"}, b"page"))
    for number in range(10, PAGES):
        other.on(f"/{number}", held)
    place = place_of(frontier, services, tmp_path.name)
    urls = [site.url(f"/{number}") for number in range(PAGES) for site in sites]
    command = ("crawl", *urls, "--delay", 0.05, "--workers", 2, "-o", "pages.jsonl", "--set", "per_ip=none", *place)
    crawl = start(*command)
    until(lambda: len(paused.paths()) > 5 and len(other.paths()) > 5, crawl)
    done = skitter.run("hosts", "pause", paused.base, *place)
    assert done.stdout.startswith(f"{paused.base}: paused")
    # What is in flight ends.
    until(lambda: listed(skitter, *place)[paused.base]["in_flight"] == 0, crawl)
    assert set(listed(skitter, "--state", "paused", *place)) == {paused.base}
    before, others = len(paused.seen), len(other.seen)
    held.release()
    until(lambda: len(other.seen) > others + 10, crawl)
    assert len(paused.seen) == before

    os.killpg(crawl.pid, signal.SIGKILL)
    crawl.communicate()
    crawl = start(*command)
    until(lambda: skitter.json("status", *place)["blocked_by"] == "paused hosts", crawl)
    status = skitter.json("status", *place)
    assert (status["state"], status["paused_hosts"], status["queued"]) == ("running", 1, PAGES - before + 1)
    assert len(paused.seen) == before
    assert any(worker["memory_bytes"] > 1_000_000 for worker in status["worker_list"] if worker["alive"])
    assert "an operator has paused its host" in skitter.run("why", paused.url(f"/{PAGES - 1}"), *place).stdout

    skitter.run("hosts", "resume", paused.url("/0"), *place)
    assert crawl.wait(HANG_SECONDS) == 0
    assert skitter.json("status", *place)["done"] == 2 * PAGES
    assert Counter(paused.paths()) == {f"/{number}": 1 for number in range(PAGES)}, "each once"
    assert sorted(item["url"] for item in skitter.lines("pages.jsonl")) == sorted(urls)
    entries = skitter.records("audit", *place)
    assert {"host.pause", "host.resume"} <= {entry["action"] for entry in entries}


def test_a_host_that_is_given_up_lets_the_job_finish_and_retry_brings_it_back(skitter, make_site, start, until) -> None:
    lost, other = make_site(), make_site()
    for site in (lost, other):
        for number in range(PAGES):
            site.page(f"/{number}", "page")
    place = ("--frontier", "sqlite:jobs.db", "--job", "j")
    urls = [site.url(f"/{number}") for number in range(PAGES) for site in (lost, other)]
    command = ("crawl", *urls, "--delay", 0.1, "--ignore-robots", *place)
    crawl = start(*command)
    until(lambda: len(lost.paths()) > 3, crawl)
    skitter.run("hosts", "give-up", lost.base, *place)
    crawl.wait(HANG_SECONDS)
    status = skitter.json("status", *place)
    assert status["state"] == "finished"
    assert status["errors"] == {"given_up": PAGES - len(lost.paths())}
    assert status["done"] == PAGES + len(lost.paths())
    assert set(listed(skitter, "--state", "given-up", *place)) == {lost.base}
    assert "an operator has given the host up" in skitter.run("failed", *place).stdout
    skitter.run("retry", *place)
    assert listed(skitter, "--state", "given-up", *place) == {}
    assert skitter.json("worker", *place)["failed"] == 0
    assert Counter(lost.paths()) == {f"/{number}": 1 for number in range(PAGES)}
