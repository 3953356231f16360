"""Hosts without an end beside good ones: the good ones are crawled to the end, the others stopped, and why says how."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections import Counter
from typing import Any

import pytest

from rig.soak import chance_of
from skitter.testing.web import ServedWeb, WebSpec, served
from skitter.testing.web_traps import KINDS, SESSION_PAGES

GOOD = WebSpec.plain(hosts=3, pages_per_host=40)
TRAP_PAGES, MOST_PAGES = 300, 800
"""Far apart: until each worker has met with every month and weekday, a calendar may be a site."""
STRICT = ("traps=strict", f"trap_pages={TRAP_PAGES}", f"max_pages_per_host={MOST_PAGES}")


def command(web: ServedWeb, *settings: str) -> list[object]:
    options = [part for setting in settings for part in ("--set", setting)]
    return ["crawl", *web.urls, *web.trap_urls, "-o", "out.jsonl", "--workers", 2, "--job", "j", *options]


def pages_of(skitter: Any, web: ServedWeb) -> tuple[dict[str, int], list[int]]:
    """How many results there are: of each kind of trap, and of each good host. None is there twice."""
    urls = [record["url"] for record in skitter.lines("out.jsonl")]
    assert len(urls) == len(set(urls))
    count = Counter(url[: url.index("/", 8) + 1] for url in urls)
    return {kind: count[url] for kind, url in zip(web.spec.traps, web.trap_urls, strict=True)}, [
        count[url] for url in web.urls
    ]


def check_strict(skitter: Any, web: ServedWeb) -> None:
    traps, good = pages_of(skitter, web)
    assert good == [GOOD.pages_per_host] * GOOD.hosts
    assert TRAP_PAGES <= traps.pop("calendar") < MOST_PAGES
    assert traps == {
        "path": 6,
        "session": 1 + SESSION_PAGES,
        "parameters": TRAP_PAGES,
        "same": TRAP_PAGES,
        "maze": MOST_PAGES,
    }
    status = skitter.json("status", "--job", "j")
    assert (status["state"], status["failed"], status["queued"]) == ("finished", 0, 0)
    assert status["excluded"] > 0
    stopped = {host["key"] + "/": host["stopped_by"] for host in status["hosts"] if host["stopped_by"]}
    by_kind = dict(zip(web.spec.traps, web.trap_urls, strict=True))
    assert {kind: stopped.get(url) for kind, url in by_kind.items()} == {
        "path": None,
        "calendar": "trap_pages",
        "session": None,
        "parameters": "trap_pages",
        "same": "trap_pages",
        "maze": "max_pages_per_host",
    }
    assert status["tally"]["outside:trap_repeats"] == 1


@pytest.mark.timeout(120)
def test_each_trap_is_stopped_by_its_rule_and_good_hosts_are_crawled_to_the_end(skitter: Any) -> None:
    with served(GOOD.replace(traps=KINDS)) as web:
        ended = skitter.run(*command(web, *STRICT))
        check_strict(skitter, web)
        assert ended.stderr.count("host.stopped") == 4, "each is told once, whichever workers met with it"
        traps = dict(zip(KINDS, web.trap_urls, strict=True))

        def why(url: str) -> str:
            return "\n".join(skitter.json("why", url, "--job", "j")["reasons"])

        assert "trap_repeats" in why(traps["path"] + "more/" * 6)
        assert "trap_calendar" in why(traps["calendar"] + "calendar/2040-01-01")
        assert "trap_parameters" in why(traps["parameters"] + "list?" + "&".join("red=1" for _ in range(20)))
        # Both are the same page, whichever of the two was fetched.
        page = skitter.json("why", traps["session"] + "item/7?sid=" + "0a1b" * 8, "--job", "j")
        assert page["state"] in ("done", "ended")
        numbers = {record["url"] for record in skitter.lines("out.jsonl")}
        left = next(url for n in range(1, 10_000) if (url := f"{traps['same']}page/{n}") not in numbers)
        assert "by rule host_budget: the budget of its host is spent: 300 pages (trap_pages" in why(left)
        text = skitter.run("status", "--job", "j").stdout
        assert f"stopped after {MOST_PAGES} pages (max_pages_per_host)" in text


@pytest.mark.timeout(120)
def test_a_folder_in_itself_ends_by_default(skitter: Any) -> None:
    with served(GOOD.replace(traps=("path",))) as web:
        skitter.run(*command(web))
        assert pages_of(skitter, web) == ({"path": 11}, [40, 40, 40])
        deeper = web.trap_urls[0] + "more/" * 11
        assert "trap_repeats" in str(skitter.json("why", deeper, "--job", "j")["reasons"])


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", [1])
def test_budgets_hold_under_kill_9(skitter: Any, seed: int) -> None:
    under_kills(skitter, seed, kills=5)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 12))
def test_budgets_hold_under_many_kills(skitter: Any, seed: int) -> None:
    under_kills(skitter, seed, kills=12)


def is_over(skitter: Any) -> bool:
    """The same command would begin a new run."""
    told = skitter.run("status", "--job", "j", "--json", code=None)
    if told.returncode:
        return False  # killed before there was a job
    status = json.loads(told.stdout)
    return status["state"] == "finished" and not status["undelivered"]


def under_kills(skitter: Any, seed: int, kills: int) -> None:
    """All processes at once, at random moments; the signs of a worker that dies are lost, what was counted is not."""
    chance = chance_of(seed)
    kinds = ("session", "same", "maze")
    with served(GOOD.replace(traps=kinds, latency_seconds=0.005)) as web:
        arguments = command(web, *STRICT)
        for _ in range(kills):
            process = skitter.start(*arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0.8, 1.8))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if is_over(skitter):
                break
        else:
            skitter.run(*arguments)
        traps, good = pages_of(skitter, web)
        assert good == [GOOD.pages_per_host] * GOOD.hosts
        status = skitter.json("status", "--job", "j")
        assert (status["state"], status["done"]) == ("finished", sum(traps.values()) + sum(good))
        # Each kill makes every worker's next page one of its own, which takes back half of the signs.
        assert TRAP_PAGES <= traps.pop("same") <= MOST_PAGES
        assert traps == {"session": 1 + SESSION_PAGES, "maze": MOST_PAGES}
