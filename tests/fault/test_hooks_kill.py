"""kill -9 of crawls and of workers while hooks decide: nothing is lost or doubled, and every counter is exact.

Pages of number N are decided on by N % 8: what a hook does with each is known, and so are the sums.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable

import pytest

from rig.gate import Gate
from rig.killed_crawl import kills_at, spread, under_kills
from rig.processes import kill_group, wait_until
from rig.restarted_command import RestartedCommand
from rig.soak import chance_of
from rig.web import Seen, Site, Whole
from rig.web_connection import Connection

ATTEMPTS = 3
SPIDER = """
from skitter import Request, Spider

PORT, PAGES = %(port)d, %(pages)d

def kind(url):
    return int(url.rpartition("/")[2]) %% 8

class Site(Spider):
    name = "site"
    custom_settings = {"hooks": "site_hooks:SiteHooks", "max_attempts": %(attempts)d, "allow_private": True}

    def start(self):
        yield Request(f"http://127.0.0.1:{PORT}/start", callback=self.listed)

    def listed(self, response):
        for number in range(PAGES):
            yield Request(f"http://127.0.0.1:{PORT}/p/{number}")

    def parse(self, response):
        self.stats.add("parsed")
        yield {"url": response.url}

    def on_close(self, summary):
        with open("closed.txt", "a") as file:
            print(summary.stats["parsed"], file=file)
"""
HOOKS = """
from site_spider import kind
from skitter import Answer, Drop, Hooks, Retry

class SiteHooks(Hooks):
    async def on_request(self, request):
        if "/p/" not in request.url:
            return None
        match kind(request.url):
            case 0:
                return Drop("zero")
            case 3:
                return Answer("from a cache")
            case 5 if "127.0.0.1" in request.url:
                return request.replace(url=request.url.replace("127.0.0.1", "localhost"))
            case 6:
                raise RuntimeError("six")

    def on_headers(self, response):
        if response.headers.get("X-Kind") == "film":
            self.stats.add("films")
            return Drop("a film")

    def on_response(self, request, response):
        if b"captcha" in response.body:
            self.stats.add("captchas", 2)
            return Retry("captcha", delay=0.05)

    def on_error(self, request, failure):
        return Drop("missing") if failure.error_class == "http_4xx" else None

    def on_item(self, item):
        self.stats.add("items seen")
"""


def gated_site(make_site: Callable[..., Site]) -> tuple[Site, Gate]:
    """A site for 127.0.0.1 and localhost, whose answers are the hooks' reasons; and the gate before it."""
    gate = Gate()

    def answer(seen: Seen, _: Connection) -> Whole:
        gate.arrive(seen.path)
        kind = int(seen.path.rpartition("/")[2]) % 8 if "/p/" in seen.path else -1
        status = 404 if kind == 4 or seen.path == "/robots.txt" else 200
        return status, {"X-Kind": "film"} if kind == 2 else {}, b"captcha" if kind == 1 else b"a page"

    return make_site({"*": answer}), gate


SHORT = (32, 1)
LONG = pytest.param((1600, 16), marks=[pytest.mark.soak, pytest.mark.timeout(900)])


@pytest.mark.parametrize(
    "frontier",
    ["sqlite", pytest.param("redis", marks=pytest.mark.soak), pytest.param("shards", marks=pytest.mark.soak)],
)
@pytest.mark.parametrize("size", [SHORT, LONG])
def test_every_decision_is_made_true_once(skitter, make_site, services, tmp_path, frontier, size) -> None:
    site, gate = gated_site(make_site)
    pages, kills = size
    chance = chance_of(f"{frontier} {kills}")
    values = {"port": site.port, "pages": pages, "attempts": ATTEMPTS}
    skitter.write("site_spider.py", SPIDER % values)
    skitter.write("site_hooks.py", HOOKS)
    place = "sqlite:jobs.db"
    if frontier != "sqlite":
        place = services.need("redis")["url"] + ("?shards=3" if frontier == "shards" else "")
    where = ("--frontier", place, "--job", tmp_path.name)
    command = ("crawl", "site_spider.py", "-o", "out.jsonl", "--workers", 2, "--per-host", 4, *where, "-q")
    crawl = RestartedCommand(skitter, *command)
    each = pages // 8
    # One worker, whose supervisor returns its leases and starts another one; then all. The site is asked for captchas,
    # films, what is missing, what is on the other host, and what is crawled as it is.
    moments = spread(2 * kills, 5 * each)
    one_worker = kills_at(moments[::2], lambda: crawl.kill_worker(chance))
    under_kills(crawl, gate, [*one_worker, *kills_at(moments[1::2], crawl.kill)])
    status = json.loads(skitter.run("status", *where, "--json").stdout)
    assert status["state"] == "finished"
    counted = {"parsed": 3 * each, "items seen": 3 * each, "captchas": 2 * ATTEMPTS * each, "films": each}
    assert status["stats"] == counted
    assert status["decisions"] == {
        "answer:SiteHooks.on_request": each,
        "drop:a film": each,
        "drop:missing": each,
        "drop:zero": each,
        "failed:SiteHooks.on_request": each,
        "replace:another host": each,
        "retry:captcha": ATTEMPTS * each,
    }
    assert (status["done"], status["redirected"], status["failed"]) == (1 + 3 * each, each, 5 * each)
    assert status["errors"] == {"dropped": 3 * each, "hook": 2 * each}
    base, other = site.url(""), site.url("", "localhost")
    expected = Counter(
        f"{other if number % 8 == 5 else base}/p/{number}" for number in range(pages) if number % 8 in (3, 5, 7)
    )
    found = Counter(json.loads(line)["url"] for line in (skitter.folder / "out.jsonl").read_text().splitlines())
    assert found == expected
    assert (skitter.folder / "closed.txt").read_text() == f"{3 * each}\n"


CLOSING = """
import asyncio, os
from skitter import Spider

class Closing(Spider):
    name = "closing"
    start_urls = [%r]

    def parse(self, response):
        yield {"url": response.url}

    async def on_close(self, summary):
        with open("closed.txt", "a") as file:
            print(os.getpid(), file=file)
        if sum(1 for _ in open("closed.txt")) < 3:
            await asyncio.sleep(3600)
"""


@pytest.mark.parametrize("frontier", ["sqlite", pytest.param("redis", marks=pytest.mark.soak)])
@pytest.mark.soak
def test_on_close_is_called_again_after_a_crash_in_it(skitter, make_site, services, tmp_path, frontier) -> None:
    skitter.write("closing.py", CLOSING % gated_site(make_site)[0].url("/start"))
    place = "sqlite:jobs.db" if frontier == "sqlite" else services.need("redis")["url"]
    where = ("--frontier", place, "--job", tmp_path.name)
    command = ("crawl", "closing.py", "-o", "out.jsonl", "--workers", 2, *where, "-q")
    called = skitter.folder / "closed.txt"

    def callers(count: int) -> list[int]:
        found = called.read_text().split() if called.exists() else []
        return [int(word) for word in found] if len(found) >= count else []

    crawl = skitter.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # A worker dies in it: another one calls it, at once.
    os.kill(wait_until(lambda: callers(1), crawl, "the first call")[0], signal.SIGKILL)
    wait_until(lambda: callers(2), crawl, "the second call")
    # The whole crawl dies in it: the next command calls it, and begins no new run.
    kill_group(crawl)
    assert json.loads(skitter.run("status", *where, "--json").stdout)["awaits_close"] is True
    skitter.run(*command)
    status = json.loads(skitter.run("status", *where, "--json").stdout)
    assert (status["state"], status["run"], status["awaits_close"]) == ("finished", 1, False)
    assert len(called.read_text().split()) == 3
    assert len((skitter.folder / "out.jsonl").read_text().splitlines()) == 1
    skitter.run(*command)
    assert json.loads(skitter.run("status", *where, "--json").stdout)["run"] == 2
    assert len(called.read_text().split()) == 4
