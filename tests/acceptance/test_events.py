"""``--events``: other programs read what a crawl does, and the crawl does not wait for them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any
from uuid import uuid4

import pytest
import redis

from rig.processes import HANG_SECONDS


@pytest.fixture
def stream(services: Any) -> str:
    return f"{services.need('redis')['url']}#events-{uuid4().hex[:12]}"


def published(stream: str) -> list[dict[str, Any]]:
    url, _, name = stream.partition("#")
    with redis.Redis.from_url(url, decode_responses=True) as client:
        return [json.loads(fields["data"]) for _, fields in client.xrange(name)]


def test_every_event_of_the_log_is_published_also_of_workers_and_when_quiet(skitter, site, stream) -> None:
    site.page("/", "<a href='/one'>")
    site.page("/one", "")
    log = ("-q", "--log", "events.jsonl", "--log-format", "json")
    skitter.run("crawl", site.url(), "--job", "j", "-o", "out.jsonl", "--events", stream, *log)
    found = published(stream)
    kinds = [event["event"] for event in found]
    # Which of the last two is told first, the worker or the store that is polled, is chance.
    assert [*kinds[:2], *sorted(kinds[2:])] == ["job.begun", "worker.joined", "job.state", "worker.left"]
    assert [event["sequence"] for event in found] == [1, 2, 3, 4]
    both = [{name: event[name] for name in event if name not in ("publisher", "sequence")} for event in found]
    assert both == skitter.lines("events.jsonl")


def test_two_nodes_of_a_job_publish_to_one_stream(skitter, site, stream) -> None:
    site.page("/", "")
    place = ("--frontier", stream.partition("#")[0], "--job", f"j-{uuid4().hex[:8]}")
    skitter.run("crawl", site.url(), *place, "--events", stream)
    skitter.run("worker", *place, "--events", stream)
    found = published(stream)
    assert {event["job"] for event in found} == {place[3]}
    assert len({event["publisher"] for event in found}) == 2
    skitter.run("drop", *place)


def test_a_crawl_does_not_wait_for_a_server_that_is_away_and_tells_it(skitter, site) -> None:
    site.page("/", "")
    told = skitter.run("crawl", site.url(), "--job", "j", "--events", "redis://me:hush-hush@127.0.0.1:1#events")
    assert told.stderr.count("events.unavailable: ") == 1
    assert told.stderr.count("events.dropped: ") == 1
    assert "hush-hush" not in told.stderr
    assert skitter.json("status", "--job", "j")["state"] == "finished"


@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        ("ftp://x#y", 2, "not a stream of events"),
        ("redis://127.0.0.1", 2, "not a stream of events"),
        ("STREAM-text", 3, "not a stream, but a string"),
    ],
)
def test_a_stream_that_cannot_be_is_refused_before_anything_begins(skitter, site, stream, url, code, words) -> None:
    server, _, name = stream.partition("#")
    with redis.Redis.from_url(server) as client:
        client.set(f"{name}-text", "x")
    told = skitter.run("crawl", site.url(), "--job", "j", "--events", url.replace("STREAM", stream), code=code)
    assert words in told.stderr
    assert "hint: " in told.stderr
    assert not site.seen


def test_a_script_publishes_too(skitter, site, stream) -> None:
    site.page("/", "")
    skitter.write(
        "script.py",
        f"""
        import skitter

        if __name__ == "__main__":
            skitter.crawl("{site.url()}", job="j", settings={{"events": "{stream}"}})
        """,
    )
    subprocess.run([sys.executable, "script.py"], cwd=skitter.folder, check=True, timeout=HANG_SECONDS)
    kinds = [event["event"] for event in published(stream)]
    assert kinds[:3] == ["job.begun", "job.no_output", "worker.joined"]
    # Which of the two is told first, the worker or the store that is polled, is chance.
    assert sorted(kinds[3:]) == ["job.state", "worker.left"]
