"""The way out: Ctrl-C, SIGTERM, and what a later crawl finds."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from rig.processes import HANG_SECONDS, wait_until
from skitter.testing.web import WebSpec, served

SLOW = WebSpec.plain(hosts=2, pages_per_host=150, latency_seconds=0.02)


def wait_for_lines(path, count: int, process) -> None:
    wait_until(lambda: path.exists() and path.read_text().count("\n") >= count, process, f"{count} lines")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_finishes_what_is_in_flight_and_resume_completes(skitter, tmp_path, number, code) -> None:
    with served(SLOW, log_path=tmp_path / "hits.jsonl") as web:
        command = ("crawl", *web.urls, "-o", "out.jsonl", "--workers", 2, "--per-host", 4, "--job", "j")
        process = skitter.start(*command)
        wait_for_lines(tmp_path / "out.jsonl", 20, process)
        process.send_signal(number)
        _, error = process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == code, error
        status = skitter.json("status", "--job", "j")
        # Everything in flight was finished or released, and its items are written.
        assert status["leased"] == status["undelivered"] == status["workers"] == 0
        assert len(skitter.lines("out.jsonl")) == status["done"] < 300
        skitter.run(*command)
        urls = Counter(record["url"] for record in skitter.lines("out.jsonl"))
        assert len(urls) == 300
        assert set(urls.values()) == {1}
        # Nothing was lost with a lease, so nothing was fetched twice.
        assert set(Counter((hit.host, hit.path) for hit in web.log()).values()) == {1}


def test_a_second_ctrl_c_leaves_at_once_and_nothing_is_lost(skitter, site) -> None:
    held = site.hold("/", (200, {"Content-Type": "text/html"}, b"home"))
    endless = ("--set", "timeout_seconds=3600", "--set", "shutdown_seconds=3600")
    process = skitter.start("crawl", site.url(), "-o", "out.jsonl", "--job", "j", "--ignore-robots", *endless)
    site.wait_for("/")
    process.send_signal(signal.SIGINT)
    while "stopping" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 130
    assert held.waiting == 1, "it does not wait for the page, which is held to the end of this test"
    status = skitter.json("status", "--job", "j")
    assert status["seen"] == 1
    assert status["queued"] + status["leased"] == 1


def test_workers_do_not_outlive_a_killed_supervisor(skitter, tmp_path) -> None:
    with served(SLOW.replace(pages_per_host=5000)) as web:
        process = skitter.start("crawl", web.urls[0], "-o", "out.jsonl", "--workers", 2, "--job", "j")
        wait_for_lines(tmp_path / "out.jsonl", 20, process)
        process.kill()
        process.communicate()
        wait_until(
            lambda: not skitter.json("status", "--job", "j")["workers"], what="no worker goes on without its supervisor"
        )
