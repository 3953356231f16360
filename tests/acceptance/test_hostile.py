"""The real command line among servers that are out to hurt it."""

from __future__ import annotations

import contextlib
import gzip
import json
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from rig.processes import HANG_SECONDS, children, wait_until
from rig.web_faults import silent, stalled

MEGABYTE = 1_048_576
CAP = 33_554_432
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"


def links(paths: list[str]) -> bytes:
    return "".join(f'<a href="{path}">x</a>' for path in paths).encode()


def peak_bytes(process: Any) -> int:
    """The most memory that a child of this process, a worker, ever had; asked until it ends."""
    most = 0
    while process.poll() is None:
        with contextlib.suppress(OSError):
            for child in children(process.pid):
                for line in Path(f"/proc/{child}/status").read_text().splitlines():
                    if line.startswith("VmHWM"):
                        most = max(most, int(line.split()[1]) * 1024)
        time.sleep(0.02)
    return most


def crawled(skitter: Any, *arguments: Any) -> tuple[dict[str, Any], int]:
    process = skitter.start("crawl", *arguments, "--json", "-q")
    most = peak_bytes(process)
    out, error = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0, error
    return json.loads(out), most


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not tell how large a process was")
def test_a_site_of_bombs_does_not_blow_up_a_worker(skitter: Any, make_site: Any) -> None:
    plain = make_site()
    plain.page("/", b"fine")
    _, before = crawled(skitter, plain.url(), "--job", "before")
    bombs = [make_site() for _ in range(3)]
    zeros = bytes(48 * MEGABYTE)
    packed, deflated = gzip.compress(zeros, 1, mtime=0), zlib.compress(zeros, 1)
    kinds = {
        "gzip": packed,
        "deflate": deflated,
        "gzip, gzip": gzip.compress(packed, mtime=0),
        "deflate, gzip, gzip": gzip.compress(gzip.compress(deflated, mtime=0), mtime=0),
    }
    for server in bombs:
        paths = [f"/{number}" for number in range(24)]
        server.page("/", links([*paths, "/good"]))
        server.page("/good", b"<title>good</title>")
        for number, path in enumerate(paths):
            encoding = list(kinds)[number % len(kinds)]
            server.page(path, kinds[encoding], content_encoding=encoding)
    summary, most = crawled(skitter, *(server.url() for server in bombs), "-o", "out.jsonl", "--job", "bombs")
    assert (summary["pages"], summary["errors"]) == (6, {"too_large": 72})
    assert most - before <= CAP + 64 * MEGABYTE


def test_every_kind_of_misbehaviour_ends_with_its_class(skitter: Any, make_site: Any) -> None:
    server = make_site(keep=False)
    cases = {
        "/short": (OK + b"Content-Length: 100\r\n\r\nhalf", "truncated"),
        "/chunk": (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "protocol"),
        "/lengths": (OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", "protocol"),
        "/old": (b"<html>without a head</html>", "protocol"),
        "/headers": (OK + b"".join(b"X-%d: y\r\n" % number for number in range(6_000)) + b"\r\n", "too_large"),
        "/hints": (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20_000, "too_large"),
        "/large": (OK + b"Content-Length: 99999999999\r\n\r\n", "too_large"),
        "/nested": (OK + b"Content-Encoding: " + b"gzip, " * 20 + b"gzip\r\nContent-Length: 2\r\n\r\nab", "too_large"),
        "/silent": (silent, "timeout"),
        "/stops": (stalled(OK + b"Content-Length: 100\r\n\r\nhalf"), "timeout"),
        "/unavailable": (b"HTTP/1.1 302 Found\r\nLocation: ftp://x/\r\nContent-Length: 0\r\n\r\n", "redirect"),
    }
    server.answers |= {path: said for path, (said, _) in cases.items()}
    server.page("/", links([*cases, "/good"]))
    server.page("/good", b"<title>good</title>")
    limits = ("--set", "max_attempts=1", "--set", "timeout_seconds=1", "--set", "min_bytes_per_second=0")
    summary = skitter.json("crawl", server.url(), "-o", "out.jsonl", "--job", "j", *limits)
    assert summary["pages"] == 2
    failed = {record["url"]: record["error_class"] for record in skitter.records("failed", "--job", "j")}
    assert failed == {server.url(path): kind for path, (_, kind) in cases.items()}


def test_servers_that_say_nothing_do_not_hold_up_the_others(skitter: Any, make_site: Any) -> None:
    never, good = [make_site() for _ in range(4)], make_site()
    for server in never:
        paths = [f"/{number}" for number in range(8)]
        server.page("/", links(paths))
        server.answers |= dict.fromkeys(paths, silent)
    good.page("/", links([f"/{number}" for number in range(100)]).decode())
    for number in range(100):
        good.page(f"/{number}", "good")
    # Eight slots, and 32 requests that would have each of them for an hour.
    seeds = [*(server.url() for server in never), good.url()]
    limits = ("--concurrency", 8, "--set", "timeout_seconds=3600", "--set", "shutdown_seconds=0")
    process = skitter.start("crawl", *seeds, *limits, "-q", "--job", "j")
    wait_until(lambda: len(good.paths()) >= 101, process, "all pages of the good server")
    process.terminate()
    process.communicate(timeout=HANG_SECONDS)


def test_a_seed_does_not_redirect_to_another_machine_inside(skitter: Any, make_site: Any) -> None:
    seed, canary = make_site(), make_site()
    seed.page("/", status=302, location=canary.url("/secret").replace("127.0.0.1", "localhost"))
    canary.page("/secret", "secret")
    summary = skitter.json("crawl", seed.url(), "--job", "j", code=None)
    assert (summary["pages"], summary["redirected"], summary["excluded"]) == (0, 1, 1)
    assert canary.seen == []
    # What the user allows is another matter.
    assert skitter.json("crawl", seed.url(), "--job", "k", "--allow-private")["pages"] == 1
