"""kill -9 of crawls and of workers while hooks decide: nothing is lost or doubled, and every counter is exact.

Pages of number N are decided on by N % 8: what a hook does with each is known, and so are the sums.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

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


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Any

    def do_GET(self) -> None:
        self.server.seen.append(self.path)
        time.sleep(0.03)  # latency of the site; nothing waits for it
        kind = int(self.path.rpartition("/")[2]) % 8 if "/p/" in self.path else -1
        body = b"captcha" if kind == 1 else b"a page"
        status = 404 if kind == 4 or self.path == "/robots.txt" else 200
        film = "X-Kind: film\r\n" if kind == 2 else ""
        self.wfile.write(f"HTTP/1.1 {status} X\r\n{film}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """A site on loopback, for 127.0.0.1 and localhost."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[str] = []

    def handle_error(self, *_: object) -> None:
        """A crawler that is killed hangs up."""


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


SHORT = (160, 2)
LONG = pytest.param((1600, 16), marks=[pytest.mark.soak, pytest.mark.timeout(900)])


@pytest.mark.parametrize(
    "frontier",
    ["sqlite", pytest.param("redis", marks=pytest.mark.soak), pytest.param("shards", marks=pytest.mark.soak)],
)
@pytest.mark.parametrize("size", [SHORT, LONG])
def test_every_decision_is_made_true_once(skitter, server, services, tmp_path, frontier, size) -> None:
    pages, kills = size
    chance = random.Random(f"{frontier} {kills}")
    values = {"port": server.server_port, "pages": pages, "attempts": ATTEMPTS}
    skitter.write("site_spider.py", SPIDER % values)
    skitter.write("site_hooks.py", HOOKS)
    place = "sqlite:jobs.db"
    if frontier != "sqlite":
        place = services.need("redis")["url"] + ("?shards=3" if frontier == "shards" else "")
    where = ("--frontier", place, "--job", tmp_path.name)
    command = ("crawl", "site_spider.py", "-o", "out.jsonl", "--workers", 2, "--per-host", 4, *where, "-q")
    # Of 160 pages: the start, 20 x 3 captchas, and 20 each of films, of 404, on the other host, and as they are.
    requests = pages // 8 * (ATTEMPTS + 4)
    for killed in range(kills):
        goal = requests * (killed + 0.2 + 0.6 * chance.random()) / (kills + 1)
        with skitter.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as crawl:
            while crawl.poll() is None and len(server.seen) < goal:
                time.sleep(0.005)  # the instant of the fault; nothing else waits for it
            assert crawl.poll() is None, "it was over before it was killed often enough"
            if killed % 2:
                # One worker: its supervisor returns its leases, and starts another one.
                os.kill(chance.choice(children(crawl.pid)), signal.SIGKILL)
                time.sleep(0.3)
            os.killpg(crawl.pid, signal.SIGKILL)
    skitter.run(*command)
    each = pages // 8
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
    base, other = f"http://127.0.0.1:{server.server_port}", f"http://localhost:{server.server_port}"
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
def test_on_close_is_called_again_after_a_crash_in_it(skitter, server, services, tmp_path, frontier) -> None:
    skitter.write("closing.py", CLOSING % f"http://127.0.0.1:{server.server_port}/start")
    place = "sqlite:jobs.db" if frontier == "sqlite" else services.need("redis")["url"]
    where = ("--frontier", place, "--job", tmp_path.name)
    command = ("crawl", "closing.py", "-o", "out.jsonl", "--workers", 2, *where, "-q")
    called = skitter.folder / "closed.txt"

    def pids(count: int, crawl: subprocess.Popen[str]) -> list[int]:
        deadline = time.monotonic() + 60
        while len(found := called.read_text().split() if called.exists() else []) < count:
            assert crawl.poll() is None, crawl.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return [int(word) for word in found]

    with skitter.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as crawl:
        # A worker dies in it: another one calls it, at once.
        os.kill(pids(1, crawl)[0], signal.SIGKILL)
        pids(2, crawl)
        # The whole crawl dies in it: the next command calls it, and begins no new run.
        os.killpg(crawl.pid, signal.SIGKILL)
    assert json.loads(skitter.run("status", *where, "--json").stdout)["awaits_close"] is True
    skitter.run(*command)
    status = json.loads(skitter.run("status", *where, "--json").stdout)
    assert (status["state"], status["run"], status["awaits_close"]) == ("finished", 1, False)
    assert len(called.read_text().split()) == 3
    assert len((skitter.folder / "out.jsonl").read_text().splitlines()) == 1
    skitter.run(*command)
    assert json.loads(skitter.run("status", *where, "--json").stdout)["run"] == 2
    assert len(called.read_text().split()) == 4
