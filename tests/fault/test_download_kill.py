"""kill -9 of a crawl that downloads and whose requests have options: no file is half, no record lost or doubled."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

SPIDER = """
from skitter import Request, Spider

class Files(Spider):
    name = "files"

    def start(self):
        for number in range(int(self.number)):
            yield Request(f"{self.base}/page/{number}", form={"n": number}, handle_statuses=[404])
            yield Request(f"{self.base}/broken/{number}", max_attempts=2, timeout=20, errback="broken")

    def parse(self, response):
        assert response.status == 404
        number = int(response.url.rpartition("/")[2])
        yield {"page": number}
        yield response.download(f"/file/{number}", item={"of": number})
        yield response.download(f"/file/{number // 2}")

    def broken(self, failure):
        yield {"broken": failure.request.url}
"""
KILLS = 2
LATENCY_SECONDS = 0.05


def content_of(number: int) -> bytes:
    """Two numbers have one content."""
    return random.Random(number // 2).randbytes(200_000)


class Shop(BaseHTTPRequestHandler):
    """Pages with status 404 for a form, files, and pages that are always broken."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        time.sleep(LATENCY_SECONDS)  # so that there is something to kill
        _, kind, number = self.path.split("/")
        length = int(self.headers.get("content-length", 0))
        assert self.rfile.read(length) == (b"n=%d" % int(number) if kind == "page" else b"")
        status = {"page": 404, "file": 200, "broken": 500}[kind]
        body = content_of(int(number)) if kind == "file" else b"page"
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.server.paths.append(self.path)  # type: ignore[attr-defined]

    do_POST = do_GET  # noqa: N815  the name that http.server looks for

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("number", [24, pytest.param(400, marks=[pytest.mark.soak, pytest.mark.timeout(900)])])
def test_files_and_records_are_all_there_once(skitter: Any, number: int) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    server.paths = []  # type: ignore[attr-defined]
    asked: list[str] = server.paths  # type: ignore[attr-defined]
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    skitter.write("files.py", SPIDER)
    command = [
        *("crawl", "files.py", "-a", f"base=http://127.0.0.1:{server.server_port}", "-a", f"number={number}"),
        *("-o", "out.jsonl", "--workers", 2, "--per-host", 4, "--ignore-robots", "-q"),
        *("--set", "retry_delay_seconds=0.05", "--set", "max_attempts=5"),
    ]
    requests = number * 4
    for killed in range(KILLS):
        goal = requests * (killed + 1) / (KILLS + 2)
        with skitter.start(*command, stdout=subprocess.DEVNULL) as crawl:
            while crawl.poll() is None and len(asked) < goal:
                time.sleep(0.01)  # the instant of the fault; nothing else waits for it
            assert crawl.poll() is None, "it was over before it was killed"
            os.killpg(crawl.pid, signal.SIGKILL)
    skitter.run(*command)
    server.shutdown()
    server.server_close()

    lines = skitter.lines("out.jsonl")
    assert Counter(line["page"] for line in lines if "page" in line) == Counter(range(number))
    assert len({line["broken"] for line in lines if "broken" in line}) == number
    assert sum("broken" in line for line in lines) == number
    files = {line["url"].rpartition("/")[2]: line for line in lines if "path" in line}
    assert sum("path" in line for line in lines) == len(files) == number
    folder = skitter.folder / "files"
    for name, line in files.items():
        content = (folder / line["path"]).read_bytes()
        assert content == content_of(int(name))
        assert (line["status"], line["checksum"]) == ("stored", hashlib.sha256(content).hexdigest())
    stored = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert stored == {line["path"] for line in files.values()}, "nothing half is left"
    # Two attempts each, and one more for what was in flight at a kill.
    attempts = Counter(path for path in asked if path.startswith("/broken/"))
    assert min(attempts.values()) >= 2
    assert sum(attempts.values()) <= 2 * number + KILLS * 2 * 64
