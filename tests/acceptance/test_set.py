"""``skitter set``: three nodes follow at the server, and an operator sees what was changed."""

from __future__ import annotations

import json
import signal
import time
from itertools import pairwise

import pytest
from tests.acceptance.conftest import place_of

FOLLOW_SECONDS = 2.0
"""So long after the command, at most, the server sees the old delay."""
LATE = 0.8
"""The part of a delay that is left when the first of two requests was held up on its way."""


def changes_told(skitter, log: str) -> list[str]:
    path = skitter.folder / log
    events = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [event["settings"] for event in events if event["event"] == "job.settings_changed"]


@pytest.mark.parametrize("delay", [0.5, pytest.param(2.0, marks=pytest.mark.soak)])
@pytest.mark.parametrize("frontier", ["redis", "sqlite"])
def test_gaps_at_the_server_follow_a_changed_delay_in_three_nodes(
    skitter, site, start, until, services, tmp_path, frontier, delay
) -> None:
    for number in range(400):
        site.page(f"/{number}", "page")
    place = place_of(frontier, services, tmp_path.name)
    logs = ["0.jsonl", "1.jsonl", "2.jsonl"]
    log = ("--log-format", "json", "--log")
    urls = [site.url(f"/{number}") for number in range(400)]
    crawl = start("crawl", *urls, "--ignore-robots", "--delay", 0.05, *place, *log, logs[0])
    until(lambda: len(site.seen) > 3, crawl)
    for name in logs[1:]:
        start("worker", *place, *log, name)
    until(lambda: skitter.json("status", *place)["workers"] == 3, crawl)

    def later(than: float) -> list[float]:
        return sorted(seen.at for seen in site.seen if seen.at > than)

    until(lambda: len(later(0)) > 20, crawl)
    # A delay that its workers keep by themselves becomes one that the frontier keeps.
    change = f"delay_seconds={delay:g}"
    assert skitter.run("set", change, *place).stdout == f"{tmp_path.name}: {change}\n"
    since = time.monotonic() + FOLLOW_SECONDS
    until(lambda: len(later(since)) > 4, crawl)
    gaps = [after - before for before, after in pairwise(later(since))]
    assert min(gaps) > delay * LATE
    until(lambda: all(changes_told(skitter, name) == [change] for name in logs), crawl)

    # A host that waits for a long delay is brought forward: nobody waits for a minute here.
    skitter.run("set", "delay_seconds=60", *place)
    before = len(site.seen)
    until(lambda: time.monotonic() - site.seen[-1].at > FOLLOW_SECONDS, crawl)
    assert len(site.seen) <= before + 2
    skitter.run("set", "delay_seconds=0.05", *place)
    until(lambda: len(site.seen) > before + 20, crawl)


def test_a_change_is_shown_and_kept_by_the_same_command(skitter, site, start, until) -> None:
    for number in range(40):
        site.page(f"/{number}", "page")
    place = ("--frontier", "sqlite:jobs.db", "--job", "j")
    urls = [site.url(f"/{number}") for number in range(40)]
    command = ("crawl", *urls, "--ignore-robots", "--delay", 0.05, *place)
    crawl = start(*command)
    until(lambda: len(site.seen) > 3, crawl)
    told = skitter.json("set", "delay-seconds=30", "max_in_flight=5", *place)
    assert told["settings"] == {"delay_seconds": 30.0, "max_in_flight": 5}
    assert (told["state"], told["workers"]) == ("running", 1)
    assert "changed   delay_seconds=30 (was 0.05), max_in_flight=5 (was none)" in skitter.run("status", *place).stdout
    crawl.send_signal(signal.SIGTERM)
    crawl.communicate(timeout=30)
    assert crawl.returncode == 143
    crawl = start(*command)
    until(lambda: skitter.json("status", *place)["workers"] == 1, crawl)
    changed = {"delay_seconds": {"value": 30.0, "before": 0.05}, "max_in_flight": {"value": 5, "before": None}}
    assert skitter.json("status", *place)["changed_settings"] == changed
    crawl.send_signal(signal.SIGTERM)
    crawl.communicate(timeout=30)
    # An operator who gives the command another value means it.
    crawl = start(*command, "--set", "delay_seconds=0")
    crawl.communicate(timeout=60)
    assert crawl.returncode == 0
    assert sorted(site.paths()) == sorted(f"/{number}" for number in range(40))
    refused = skitter.run("set", "delay_seconds=1", *place, code=2).stderr
    assert "error: the job is finished: j" in refused


def test_what_cannot_be_set_is_refused_with_the_reason(skitter, site) -> None:
    for number in range(3):
        site.page(f"/{number}", "page")
    urls = [site.url(f"/{number}") for number in range(3)]
    skitter.run("crawl", *urls, "--ignore-robots", "--max-pages", 1, "--job", "j")
    told = skitter.run("set", "dedup=bloom", "--job", "j", code=2).stderr
    assert told == (
        "error: cannot be changed while a job runs: dedup, the record of seen pages depends on it\n"
        "hint: a new run can have another value: --fresh --set dedup=VALUE\n"
    )
    assert "hint: did you mean delay_seconds?" in skitter.run("set", "delay_secs=3", "--job", "j", code=2).stderr
    told = skitter.run("set", "max_pages=2", "--job", "j")
    assert (told.stdout, "the job is stopped" in told.stderr) == ("j: max_pages=2\n", True)
