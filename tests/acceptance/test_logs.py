"""``skitter logs``: the events of all nodes of a job, from streams of events and from the frontier alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
import redis

from rig.processes import HANG_SECONDS

FOLLOWED = ["kafka", "rabbitmq"]


@pytest.fixture
def follow(skitter: Any) -> Iterator[Callable[..., list[str]]]:
    """Start ``skitter logs --follow``; the lines that it has printed so far."""
    started: list[tuple[subprocess.Popen[str], threading.Thread]] = []

    def run(*arguments: object) -> list[str]:
        process = skitter.start("logs", "--follow", *arguments)
        lines: list[str] = []
        reading = threading.Thread(target=lambda: lines.extend(map(str.rstrip, process.stdout)), daemon=True)
        reading.start()
        started.append((process, reading))
        return lines

    yield run
    for process, reading in started:
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(HANG_SECONDS) == 130
        reading.join(HANG_SECONDS)
        process.stderr.close()
        process.stdout.close()


def test_a_stream_has_the_events_of_all_nodes_which_are_filtered_and_followed(
    skitter: Any, site: Any, services: Any, until: Any, follow: Any
) -> None:
    stream = f"{services.need('redis')['url']}#events-{uuid4().hex[:12]}"
    site.page("/", "<a href='/gone'>")
    skitter.write("skitter.toml", f'events = "{stream}"\n')
    crawl = ("crawl", site.url(), "--frontier", "sqlite:jobs.db", "--job")
    skitter.run(*crawl, "j")
    # Another job of the stream, and another node of this one.
    skitter.run(*crawl, "other")
    skitter.run(*crawl, "j")
    with redis.Redis.from_url(stream.partition("#")[0]) as client:
        # Anybody may write there.
        for body in (b'{"job": "j", "event": "evil\\u001b[2J", "message": "\\u001b]0;x"}', b"not JSON"):
            client.xadd(stream.partition("#")[2], {"data": body})
    found = skitter.records("logs", "--job", "j")
    assert {record["job"] for record in found} == {"j"}
    assert len({record["publisher"] for record in found if "publisher" in record}) == 2
    assert [record["event"] for record in found].count("worker.joined") == 2
    told = skitter.run("logs", "--job", "j", "--events", stream, "--kind", "job.begun", "--kind", "evil*")
    assert told.stderr.startswith("from the stream of events: redis://")
    first, second, evil = told.stdout.splitlines()
    assert " info    job.begun: run 1 is new (node=" in first
    assert " job.begun: run 2 is rerun " in second
    assert "evil" in evil
    assert "\x1b" not in evil
    last = skitter.records("logs", "--job", "j", "--since", found[-3]["time"])
    assert last == [record for record in found if record.get("time", "9") >= found[-3]["time"]]

    lines = follow("--job", "other", "--json", "--kind", "job.begun")
    until(lambda: len(lines) == 1)
    skitter.run(*crawl, "other")
    until(lambda: len(lines) == 2)
    assert [json.loads(line)["run"] for line in lines] == [1, 2]


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.soak) for kind in FOLLOWED])
def test_topics_and_exchanges_are_followed(
    skitter: Any, site: Any, services: Any, until: Any, follow: Any, kind: str
) -> None:
    site.page("/", "")
    name, url = f"events-{uuid4().hex[:12]}", services.need(kind)["url"]
    places = {
        "kafka": [f"{url}?partitions=2#{name}"],
        "rabbitmq": [f"{url}?exchange_type={one}#{name}-{one}" for one in ("topic", "direct", "fanout", "headers")],
    }
    for stream in places[kind]:
        job = f"j-{uuid4().hex[:6]}"
        crawl = ("crawl", site.url(), "--job", job, "--events", stream)
        if kind == "kafka":
            skitter.run(*crawl)
            found = skitter.records("logs", "--job", job, "--events", stream)
            assert found[0]["event"] == "job.begun"
            later = skitter.records("logs", "--job", job, "--events", stream, "--since", found[-1]["time"])
            assert found[-1] in later
            assert len(later) < len(found)
        else:
            refused = skitter.run("logs", "--job", job, "--events", stream, code=2)
            assert "an exchange keeps no events" in refused.stderr
        lines = follow("--job", job, "--events", stream, "--json")
        # When a subscriber is there, nobody can see from outside.
        until(lambda lines=lines, crawl=crawl: lines or (skitter.run(*crawl, "--fresh") and lines))
        until(lambda lines=lines: any('"worker.left"' in line for line in lines))
        assert {json.loads(line)["job"] for line in lines} == {job}


def test_without_a_stream_the_frontier_tells_what_it_knows_and_what_changes(
    skitter: Any, site: Any, until: Any, follow: Any
) -> None:
    site.page("/", "<a href='/gone'>\x1b[2J</a><a href='/slow'>")
    site.on("/slow", lambda _seen, _handler: (503, {"Retry-After": "600"}, b""))
    crawl = skitter.start("crawl", site.url(), "--job", "j", "-q")
    try:
        until(lambda: "/slow" in site.paths(), crawl)
        until(lambda: skitter.json("status", "--job", "j")["failed"] == 1, crawl)
        told = skitter.run("logs", "--job", "j", "--json")
        assert told.stderr.startswith("from the frontier, which has states, workers and the newest failures")
        found = [json.loads(line) for line in told.stdout.splitlines()]
        assert [record["event"] for record in found] == ["job.begun", "worker.joined", "request.failed"]
        assert found[1]["node"] == os.uname().nodename
        assert (found[2]["url"], found[2]["error_class"]) == (site.url("/gone"), "http_4xx")
        assert not skitter.run("logs", "--job", "j", "--since", "0s").stdout
        lines = follow("--job", "j")
        until(lambda: len(lines) == 3, crawl)
        skitter.run("pause", "--job", "j")
        until(lambda: any("job.state: the job is paused" in line for line in lines), crawl)
        skitter.run("set", "per_host=3", "--job", "j")
        until(lambda: any("job.settings_changed" in line for line in lines), crawl)
        os.killpg(crawl.pid, signal.SIGKILL)
        until(lambda: any("worker.silent" in line for line in lines))
    finally:
        if crawl.poll() is None:
            os.killpg(crawl.pid, signal.SIGKILL)
        crawl.communicate()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ("--job none", 2, "no such job here: none"),
        ("--events redis://127.0.0.1:1#x", 2, "which job?"),
        ("--job j --events redis://me:hush-hush@127.0.0.1:1#x", 3, "Redis cannot be reached"),
        ("--job j --events ftp://x#y", 2, "not a stream of events"),
        ("--job j --since yesterday", 2, "not a duration: --since yesterday"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(skitter: Any, arguments: str, code: int, says: str) -> None:
    told = skitter.run("logs", *arguments.split(), code=code).stderr
    assert says in told
    assert "hush-hush" not in told
