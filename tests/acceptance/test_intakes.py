"""``--intake``: requests from files, pipes and Redis, and what people are told of it."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis

from rig.processes import HANG_SECONDS

PRIVATE = ("--allow-private", "--ignore-robots")
SPIDER = """
import skitter

class Shop(skitter.Spider):
    name = "shop"

    def parse(self, response):
        yield {"path": response.url.rpartition("/")[2], "by": "parse"}

    def parse_product(self, response, shelf):
        path = response.url.rpartition("/")[2]
        yield {"path": path, "by": "parse_product", "id": response.meta["id"], "shelf": shelf}
"""


@pytest.fixture
def key(services: Any) -> Any:
    url = services.need("redis")["url"]
    client = redis.Redis.from_url(url)
    name = f"urls-{uuid4().hex[:8]}"
    yield f"{url}#{name}", name, client
    client.close()


def paths(records: list[dict[str, Any]]) -> list[str]:
    return sorted(record["url"].rpartition("/")[2] for record in records)


def test_a_crawl_of_a_file_needs_no_seeds(skitter: Any, site: Any) -> None:
    for path in ("/a", "/b"):
        site.page(path, f"<title>{path}</title>")
    skitter.write("urls.txt", f"# a list\n{site.url('/a')}\nnonsense\n\n{site.url('/b')}\n{site.url('/a')}")
    done = skitter.run("crawl", "--intake", "file:urls.txt", *PRIVATE, "-o", "out.jsonl")
    assert paths(skitter.lines("out.jsonl")) == ["a", "b"]
    assert "job urls, frontier sqlite:.skitter/urls.db" in done.stderr
    (letter,) = skitter.lines("urls.txt.dead-letters.jsonl")
    assert (letter["body"], letter["reason"]) == ("nonsense", "not an absolute URL: nonsense")
    (intake,) = skitter.json("status")["intakes"]
    assert (intake["read"], intake["added"], intake["dead_letters"], intake["closed"]) == (4, 2, 1, True)
    assert "4 messages, 2 new, 1 dead letter" in skitter.run("status").stdout


def test_a_crawl_reads_standard_input(skitter: Any, site: Any) -> None:
    site.page("/a", "<title>a</title>")
    process = skitter.start("crawl", "--intake", "-", *PRIVATE, "-o", "out.jsonl", stdin=-1)
    _, told = process.communicate(f"{site.url('/a')}\n{{\n", timeout=HANG_SECONDS)
    assert process.returncode == 0, told
    assert paths(skitter.lines("out.jsonl")) == ["a"]
    (letter,) = skitter.lines(".skitter/stdin.dead-letters.jsonl")
    assert letter["reason"].startswith("not a JSON object")


def test_a_message_names_callback_meta_and_arguments(skitter: Any, site: Any, key: Any) -> None:
    source, name, client = key
    skitter.write("shop.py", SPIDER)
    for path in ("/p", "/q"):
        site.page(path, "<p>x</p>")
    product = {"url": site.url("/p"), "callback": "parse_product", "meta": {"id": 7}, "cb_kwargs": {"shelf": "b"}}
    client.rpush(name, json.dumps(product), site.url("/q"))
    skitter.run("crawl", "shop.py", "--intake", source, "--until-idle", "0.5", *PRIVATE, "-o", "out.jsonl")
    records = sorted(skitter.lines("out.jsonl"), key=lambda record: record["path"])
    assert records == [
        {"path": "p", "by": "parse_product", "id": 7, "shelf": "b"},
        {"path": "q", "by": "parse"},
    ]
    assert client.keys(f"*{name}*") == []


def test_a_message_does_not_open_private_addresses(skitter: Any, site: Any) -> None:
    site.page("/a", "<title>secret</title>")
    skitter.write("urls.txt", site.url("/a"))
    skitter.run("crawl", "--intake", "file:urls.txt", "--ignore-robots", code=1)
    assert site.paths() == []
    assert "guard" in skitter.run("why", site.url("/a")).stdout


def test_an_empty_queue_is_no_failure(skitter: Any, key: Any) -> None:
    done = skitter.run("crawl", "--intake", key[0], "--until-idle", "0.2", "--job", "j")
    assert "0 pages" in done.stderr


def test_an_interrupted_intake_stays_open_until_it_is_read_again_or_closed(
    skitter: Any, site: Any, key: Any, until: Callable[..., Any]
) -> None:
    source, name, client = key
    site.page("/a", "<title>a</title>")
    client.rpush(name, site.url("/a"))
    words = ["crawl", "--job", "j", *PRIVATE, "-o", "out.jsonl"]
    process = skitter.start(*words, "--intake", source)
    until(lambda: (skitter.folder / "out.jsonl").exists() and skitter.lines("out.jsonl"), process)
    # What waits is told every two seconds.
    shown = f"intake    {source}, open: 1 message, 1 new, 0 waiting, read by "
    until(lambda: shown in skitter.run("status").stdout, process)
    assert "waits     for messages: the job finishes when its intakes are closed" in skitter.run("status").stdout
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=HANG_SECONDS)
    assert "no reader" in skitter.run("status").stdout
    # Another command that neither reads nor closes it says so, and waits.
    other = skitter.start("worker", "--job", "j", "--log", "log")
    until(lambda: "intake.unread" in _text(skitter.folder / "log"), other)
    other.send_signal(signal.SIGINT)
    other.communicate(timeout=HANG_SECONDS)
    closed = skitter.run(*words, "--no-intake")
    assert "intake.closed" in closed.stderr
    assert "finished: 1 page" in closed.stderr
    assert paths(skitter.lines("out.jsonl")) == ["a"]


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_a_worker_reads_an_intake_as_well(skitter: Any, site: Any, key: Any) -> None:
    source, name, client = key
    site.page("/", "<title>seed</title>")
    site.page("/a", "<title>a</title>")
    client.zadd(name, {site.url("/a"): 5})
    at = ["--frontier", "sqlite:jobs.db", "--job", "j"]
    skitter.run("crawl", site.url("/"), *at, *PRIVATE, "-o", "out.jsonl")
    worked = skitter.run("worker", *at, "--intake", source, "--until-idle", "0.5")
    assert "intake.closed" in worked.stderr
    # The process that delivers is gone: what the worker has done waits in the outbox.
    skitter.run("crawl", site.url("/"), *at, *PRIVATE, "-o", "out.jsonl")
    assert paths(skitter.lines("out.jsonl")) == ["", "a"]


def test_an_intake_that_never_was_keeps_no_job_from_finishing(skitter: Any) -> None:
    missing = skitter.run("crawl", "--intake", "file:nothing.txt", code=3)
    assert "error: cannot be read: file:" in missing.stderr
    assert skitter.json("status")["state"] in ("running", "finished")
    (intake,) = skitter.json("status")["intakes"]
    assert intake["closed"]
