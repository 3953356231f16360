"""``skitter demo``: the site that the documentation crawls."""

from __future__ import annotations

import contextlib
import signal
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest

from rig.processes import HANG_SECONDS

if TYPE_CHECKING:
    from conftest import CommandLine

Demo = Callable[..., contextlib.AbstractContextManager[str]]

PAGES = 1 + 10 + 200 + 5 + 40
"""The catalogue, books, categories and authors: what the sitemap lists, and ``/`` twice."""
OTHERS = 3 + 12
"""Search, login and the list of files; and the files."""


@pytest.fixture
def demo(skitter: CommandLine) -> Demo:
    @contextlib.contextmanager
    def start(*options: object, end: int = signal.SIGTERM, code: int = 0) -> Iterator[str]:
        process = skitter.start("demo", "--bind", "127.0.0.1:0", *options)
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:"), process.communicate()
            yield url
            process.send_signal(end)
            _, said = process.communicate(timeout=HANG_SECONDS)
            assert (process.returncode, said) == (code, "")
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()

    return start


def test_a_whole_crawl_has_every_page_once(demo: Demo, skitter: CommandLine) -> None:
    with demo() as url:
        skitter.run("crawl", url, "--job", "shop", "-o", "pages.jsonl")
        status = skitter.json("status", "--job", "shop")
        skitter.run(
            "crawl", "--sitemap", f"{url}sitemap.xml", "--max-depth", 0, "--job", "listed", "-o", "listed.jsonl"
        )
    urls = [record["url"] for record in skitter.lines("pages.jsonl")]
    assert len(urls) == len(set(urls)) == PAGES + OTHERS
    assert status["state"] == "finished"
    assert f"{url}private/" not in urls
    assert {record["status"] for record in skitter.lines("pages.jsonl")} == {200}
    assert len(skitter.lines("listed.jsonl")) == PAGES - 1


def test_ctrl_c_ends_it_as_it_ends_serve(demo: Demo) -> None:
    with demo(end=signal.SIGINT, code=130) as url, urllib.request.urlopen(url) as answer:
        assert answer.status == 200


def test_latency_delays_each_response(demo: Demo) -> None:
    with demo("--latency", 0.2) as url:
        begun = time.monotonic()
        for _ in range(2):
            urllib.request.urlopen(url).close()
        assert time.monotonic() - begun >= 0.4


def test_a_connection_is_kept_and_a_head_has_no_body(demo: Demo) -> None:
    with demo() as url:
        connection = HTTPConnection(url.removeprefix("http://").rstrip("/"))
        for method in ("HEAD", "GET", "HEAD", "POST"):
            connection.request(method, "/login", body=b"user=x" if method == "POST" else None)
            answer = connection.getresponse()
            body = answer.read()
            assert int(answer.headers["Content-Length"]) > 1000
            assert bool(body) == (method != "HEAD")
        connection.close()


@pytest.mark.parametrize("sent", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n"])
def test_what_is_not_http_is_refused(demo: Demo, sent: bytes) -> None:
    with demo() as url:
        host, port = url.removeprefix("http://").rstrip("/").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(sent)
            assert client.recv(1000).startswith(b"HTTP/1.1 400 ")


def test_a_port_that_is_taken_is_an_error(demo: Demo, skitter: CommandLine) -> None:
    with demo() as url:
        taken = url.removeprefix("http://").rstrip("/")
        ended = skitter.run("demo", "--bind", taken, code=2)
    assert ended.stderr.startswith(f"error: cannot listen: {taken}: ")
    assert "hint: name another address with --bind HOST:PORT" in ended.stderr
