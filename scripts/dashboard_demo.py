"""A store with jobs in several states, one of them of a hostile site, and ``skitter serve`` for it.

    with Demo(folder) as demo: browse(demo.url)

The pages of the hostile site have titles, URLs and errors that try to run a script or to fetch from another host.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from skitter.testing.web import WebSpec, served

FOREIGN = "http://attacker.invalid/stolen"
HOSTILE = f"""<img src={FOREIGN} onerror="window.attacked=1"><script>window.attacked=1</script>"'>{{{{7*7}}}}\u202e"""
"""Markup that a page of a stranger may have in any text."""
_SPIDER = """
import skitter

HOSTILE = {hostile!r}


class Hostile(skitter.Spider):
    gone = 0

    def start(self):
        for path in ("/", "/raises", "/gone", "/<img src=x onerror=attacked=1>?q=<script>attacked=1</script>", "/busy"):
            yield skitter.Request(self.site + path)
        for number in range(int(self.gone)):
            yield skitter.Request(f"{{self.site}}/gone/{{number}}")

    def parse(self, response):
        if "raises" in response.url:
            raise ValueError("cannot parse " + HOSTILE)
        yield {{"title": response.css("title::text").get(), "html": HOSTILE, HOSTILE: 1}}
"""


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status = 404 if "gone" in self.path else 500 if "busy" in self.path else 200
        body = f"<title>&lt;script&gt;window.attacked=1&lt;/script&gt; {HOSTILE}</title>".encode()
        self.send_response(404 if self.path == "/robots.txt" else status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Set-Cookie", "visit=1; Path=/")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Demo:
    """Jobs catalogue (running), news, hostile, failing (finished), archive (stopped); a schedule. A context manager."""

    def __init__(
        self, folder: Path, *, pages: int = 12_000, delay_seconds: float = 0.04, wait_pages: int = 300
    ) -> None:
        """``pages``: of the site that is being crawled; ``wait_pages``: until so many are done nothing is shown."""
        self.folder = folder
        self.store = "demo"
        self._frontier = f"sqlite:{folder / 'demo.db'}"
        self._pages, self._wait_pages = pages, wait_pages
        self._delay = str(delay_seconds)
        self._stack = contextlib.ExitStack()
        self.url = ""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self) -> None:
        hosts = max(2, self._pages // 500)
        spec = WebSpec(hosts=hosts, pages_per_host=self._pages // hosts, errors=0.05, blocks=0, latency_seconds=0.04)
        web = self._stack.enter_context(served(spec))
        seed, place = web.urls[0], ("--frontier", self._frontier)
        self._seed = seed
        with self._hostile_site() as site:
            attempts = ("--set", "max_attempts=1")
            self.run(
                ("crawl", seed, "--job", "news", "--max-depth", "1", "-o", "news.jsonl", "-o", "news.csv", *place),
                ("crawl", seed, "--job", "archive", "--max-pages", "25", "-o", "archive.jsonl", *place),
                (
                    "crawl",
                    "hostile.py",
                    "-a",
                    f"site={site}",
                    "-o",
                    "hostile.jsonl",
                    *attempts,
                    "--job",
                    "hostile",
                    *place,
                ),
                ("crawl", "hostile.py", "-a", f"site={site}", "-a", "gone=60", *attempts, "--job", "failing", *place),
                self.schedule("nightly"),
            )
        crawl = ("crawl", *web.urls, "--job", "catalogue", "-o", "catalogue.jsonl", "--workers", "2")
        pace = ("--delay", self._delay, "--set", "max_attempts=2")
        self.crawl = self._stack.enter_context(self._process(*crawl, *pace, *place))
        self.start_server()
        self.wait_for(lambda: self.get("/jobs/catalogue")["done"] >= self._wait_pages)

    @contextlib.contextmanager
    def _hostile_site(self) -> Iterator[str]:
        (self.folder / "hostile.py").write_text(_SPIDER.format(hostile=HOSTILE), encoding="utf-8")
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()

    # ---- commands and calls

    def schedule(self, name: str) -> Sequence[str]:
        """The command that adds a schedule."""
        what = ("crawl", "https://news.example/", "--job", "news")
        return ("schedule", "add", name, "--cron", "0 2 * * *", "--frontier", self._frontier, "--", *what)

    def limited_crawl(self, job: str, pages: int) -> Sequence[str]:
        """The command of a crawl that its limit stops."""
        return ("crawl", self._seed, "--job", job, "--max-pages", str(pages), "--frontier", self._frontier)

    def unschedule(self, name: str) -> Sequence[str]:
        """The command that removes a schedule."""
        return ("schedule", "remove", name, "--frontier", self._frontier)

    def crawl_through_proxies(self, job: str, pages: int) -> tuple[str, str]:
        """Crawl pages that an intake names, through two proxies of which one refuses; the URLs of both."""
        lines = [f"http://shop.example/{number}" for number in range(pages)]
        (self.folder / "urls.txt").write_text("\n".join([*lines, "no URL", ""]))
        with self._hostile_site() as proxy, socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))  # it does not listen
            away = f"http://127.0.0.1:{bound.getsockname()[1]}"
            sources = ("--intake", "file:urls.txt", "--until-idle", "0.5", "--proxies", proxy, "--proxies", away)
            pool = ("--set", "session_pool=2", "--set", "retry_delay_seconds=0.1", "--ignore-robots")
            self.run(("crawl", *sources, *pool, "--job", job, "--frontier", self._frontier))
        return proxy, away

    def run(self, *commands: Sequence[str]) -> None:
        """Run commands of skitter beside each other, to their ends."""
        with contextlib.ExitStack() as stack:
            started = [(words, stack.enter_context(self._process(*words))) for words in commands]
            for words, process in started:
                if process.wait(100):
                    raise RuntimeError(f"{' '.join(words)}: {self.log()}")

    @contextlib.contextmanager
    def _process(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        with (self.folder / "log").open("a") as log:
            command = [sys.executable, "-m", "skitter", *words]
            process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def log(self) -> str:
        """The end of what all commands have printed."""
        return (self.folder / "log").read_text()[-2000:]

    def start_server(self) -> None:
        """Start ``skitter serve``; once more at the same address after ``end_server``."""
        self.server, self.url = self._serve(self.url.removeprefix("http://") or "127.0.0.1:0")
        self._stack.callback(self.end_server)

    def end_server(self) -> None:
        """Kill it."""
        self._end(self.server)

    @contextlib.contextmanager
    def another_server(self, *options: str) -> Iterator[str]:
        """A server with other options for the same store; its address."""
        server, url = self._serve("127.0.0.1:0", *options)
        try:
            yield url
        finally:
            self._end(server)

    def _serve(self, bind: str, *options: str) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "skitter", "serve", "--frontier", f"{self.store}={self._frontier}"]
        with (self.folder / "log").open("a") as log:
            server = subprocess.Popen(
                [*command, "--bind", bind, *options], cwd=self.folder, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert server.stdout is not None
        url = server.stdout.readline().strip().rstrip("/")
        if not url:
            self._end(server)
            raise RuntimeError(self.log())
        return server, url

    @staticmethod
    def _end(server: subprocess.Popen[str]) -> None:
        server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()

    def get(self, route: str, query: str = "") -> Any:
        """The answer of a route of ``/api/v1``."""
        url = f"{self.url}/api/v1{route}?store={self.store}{query}"
        with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 - our own server
            return json.load(answer)

    def wait_for(self, question: Callable[[], object], seconds: float = 60.0) -> None:
        """Ask until the answer is true."""
        deadline = time.monotonic() + seconds
        while not question():
            if time.monotonic() > deadline:
                raise TimeoutError(self.log())
            time.sleep(0.1)
