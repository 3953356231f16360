"""``skitter set``: three nodes follow at the server, and an operator sees what was changed."""

from __future__ import annotations

import json
import signal
import time

import pytest
from tests.acceptance.conftest import place_of

from rig.processes import HANG_SECONDS

ON_THEIR_WAY = 3
"""So many requests, one of each node, may be on their way when the last node has told that it follows."""


def changes_told(skitter, log: str) -> list[str]:
    path = skitter.folder / log
    events = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [event["settings"] for event in events if event["event"] == "job.settings_changed"]


@pytest.mark.parametrize("delay", [0.5, pytest.param(2.0, marks=pytest.mark.soak)])
@pytest.mark.parametrize("frontier", ["redis", pytest.param("sqlite", marks=pytest.mark.soak)])
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
    until(lambda: all(changes_told(skitter, name) == [change] for name in logs), crawl)
    since = time.monotonic()
    until(lambda: len(later(since)) > ON_THEIR_WAY + 4, crawl)
    # With the old delay there would be twenty a second.
    assert len(later(since)) <= (time.monotonic() - since) / delay + 1 + ON_THEIR_WAY

    # A host that waits for a long delay is brought forward: nobody waits for a minute here.
    skitter.run("set", "delay_seconds=60", *place)
    until(lambda: all(changes_told(skitter, name) == [change, "delay_seconds=60"] for name in logs), crawl)
    until(lambda: [host for host in skitter.json("status", *place)["hosts"] if host["due_seconds"] > 10], crawl)
    before = len(site.seen)
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
    crawl.communicate(timeout=HANG_SECONDS)
    assert crawl.returncode == 143
    crawl = start(*command)
    until(lambda: skitter.json("status", *place)["workers"] == 1, crawl)
    changed = {"delay_seconds": {"value": 30.0, "before": 0.05}, "max_in_flight": {"value": 5, "before": None}}
    assert skitter.json("status", *place)["changed_settings"] == changed
    crawl.send_signal(signal.SIGTERM)
    crawl.communicate(timeout=HANG_SECONDS)
    # An operator who gives the command another value means it.
    crawl = start(*command, "--set", "delay_seconds=0")
    crawl.communicate(timeout=HANG_SECONDS)
    assert crawl.returncode == 0
    assert sorted(site.paths()) == sorted(f"/{number}" for number in range(40))
    refused = skitter.run("set", "delay_seconds=1", *place, code=2).stderr
    assert "error: the job is finished: j" in refused
