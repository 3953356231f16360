"""Alerts without Prometheus: one of several nodes tells of a figure once, pauses the job, and tells when it is over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.master import Master
from rig.processes import HANG_SECONDS

HOOK = "/hook/secret-token"


@pytest.fixture
def start(skitter: Any) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a node that writes its events to a file; what a test has left running ends with it."""
    started: list[subprocess.Popen[str]] = []

    def node(name: str, *arguments: object) -> subprocess.Popen[str]:
        started.append(skitter.start(*arguments, "--log-format", "json", "--log", f"{name}.jsonl"))
        return started[-1]

    yield node
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def events(folder: Path, kind: str, *names: str) -> list[dict[str, Any]]:
    lines = [line for name in names for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    return [event for event in map(json.loads, lines) if event["event"] == kind]


class Hook:
    """A webhook that refuses the first messages, as many as it is told to."""

    def __init__(self, site: Any, refuses: int = 0) -> None:
        self._site = site
        self._refuses = refuses
        site.on(HOOK, self._answer)
        self.url = site.url(HOOK)
        self.told: list[dict[str, Any]] = []

    def _answer(self, seen: Any, _: Any) -> tuple[int, dict[str, str], bytes]:
        if self._refuses:
            self._refuses -= 1
            return 503, {}, b""
        self.told.append(json.loads(seen.body))
        return 200, {}, b""

    @property
    def statuses(self) -> list[str]:
        return [message["status"] for message in self.told]


def many_pages(skitter: Any, site: Any, hook: Hook, extra: str = "") -> tuple[list[str], tuple[str, ...]]:
    """A job whose every page fails for now, slowly, and an alert for that."""
    site.page("/ok", "ok")
    skitter.write(
        "skitter.toml",
        f"""
        [[alert]]
        name = "failures"
        figure = "requests:failed"
        above = 2
        clears_at = 1
        webhook = "{hook.url}"
        command = "tee -a told.jsonl"
        pause = true
        {extra}
        """,
    )
    urls = [site.url("/ok"), *(site.url(f"/{number}") for number in range(300))]
    return urls, ("--frontier", "sqlite:jobs.db", "--job", "j")


def mend(site: Any) -> None:
    for number in range(300):
        site.page(f"/{number}", "ok")


def test_an_alert_pauses_the_job_is_told_once_in_spite_of_failures_and_resolves(
    skitter: Any, start: Any, until: Any, make_site: Any
) -> None:
    site, hook = make_site(), Hook(make_site(), refuses=1)
    urls, place = many_pages(skitter, site, hook)
    crawl = start("crawl", "crawl", *urls, *place, "--ignore-robots", "--delay", 0.1)
    until(lambda: len(site.seen) > 2, crawl)
    start("worker", "worker", *place)
    until(lambda: hook.told, crawl)
    status = skitter.json("status", *place)
    assert status["state"] == "paused"
    assert status["queued"] > 100
    [message] = hook.told
    assert (message["alert"], message["status"], message["job"], message["figure"]) == (
        *("failures", "firing", "j"),
        "requests:failed",
    )
    assert message["value"] > message["above"] == 2
    assert "j: failures is firing" in message["text"]
    mend(site)
    skitter.run("retry", *place)
    skitter.run("resume", *place)
    until(lambda: len(hook.told) > 1, crawl)
    skitter.run("stop", *place)
    crawl.wait(HANG_SECONDS)
    assert hook.statuses == ["firing", "resolved"]
    assert [message["status"] for message in skitter.lines("told.jsonl")] == ["firing", "resolved"]
    nodes = ("crawl", "worker")
    assert len(events(skitter.folder, "alert.firing", *nodes)) == 1
    assert len(events(skitter.folder, "alert.resolved", *nodes)) == 1
    [failure] = events(skitter.folder, "alert.not_told", *nodes)
    assert (failure["place"], failure["reason"], failure["tries"]) == ("webhook", "HTTP 503", 1)
    written = "".join((skitter.folder / f"{name}.jsonl").read_text() for name in nodes)
    assert "secret-token" not in written
    assert "secret-token" not in skitter.run("settings").stdout


@pytest.mark.soak
def test_the_next_leader_goes_on_with_an_alert_that_fires(skitter: Any, start: Any, until: Any, make_site: Any) -> None:
    site, hook = make_site(), Hook(make_site())
    urls, place = many_pages(skitter, site, hook)
    crawl = start("crawl", "crawl", *urls, *place, "--ignore-robots", "--delay", 0.1)
    until(lambda: hook.told, crawl)
    worker = start("worker", "worker", *place)
    until(lambda: skitter.json("status", *place)["workers"] == 2, worker)
    os.killpg(crawl.pid, signal.SIGKILL)
    mend(site)
    skitter.run("retry", *place)
    skitter.run("resume", *place)
    until(lambda: len(hook.told) > 1, worker)
    assert hook.statuses == ["firing", "resolved"]
    assert not events(skitter.folder, "alert.firing", "worker")


def test_a_master_watches_jobs_that_nobody_works_for(
    skitter: Any, until: Any, make_site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, hook = make_site(), Hook(make_site())
    skitter.run("crawl", site.url("/"), "--frontier", "sqlite:jobs.db", "--job", "j", code=1)
    skitter.run("add", site.url("/more"), "--frontier", "sqlite:jobs.db", "--job", "j")
    monkeypatch.setenv("HOOK", hook.url)
    skitter.write(
        "skitter.toml",
        """
        [[alert]]
        name = "nobody-works"
        figure = "slots"
        below = 1
        for_seconds = 0.5
        webhook_env = "HOOK"
        """,
    )
    with Master(tmp_path, "sqlite:jobs.db") as master:
        until(lambda: hook.told, master.process)
        assert hook.told[0]["alert"] == "nobody-works"
        assert "alert.firing" in master.log()
        assert "secret-token" not in master.log()


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('figure = "pages"\nabove = 1\npause = true', "no such figure: pages of the alert a"),
        ('figure = "run"\nabove = 1', "bad value in skitter.toml: alerts"),
        ('figure = "run"\nabove = 1\nwebhook_env = "NOT_SET"', "webhook_env: NOT_SET"),
        ('figure = "run"\nabove = 1\ncommand = "echo \'"', "cannot be split into words"),
    ],
)
def test_wrong_alerts_are_refused_when_they_are_read(
    skitter: Any,
    site: Any,
    table: str,
    says: str,
) -> None:
    skitter.write("skitter.toml", f'[[alert]]\nname = "a"\n{table}\n')
    assert says in skitter.run("crawl", site.url("/"), code=2).stderr
    assert not site.seen
