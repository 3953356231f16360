"""``skitter fsck``, by the real command line: on jobs at work, on jobs with faults, and on what is no job."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
from collections import Counter
from typing import Any

import msgspec
import pytest

from rig.processes import HANG_SECONDS
from skitter.model.url import canonical
from skitter.testing.redis_jobs import RawRedis, prefixes_of
from skitter.testing.web import WebSpec, served

QUICK = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.2", "--per-host", 2)
KINDS = ("sqlite", "redis", "shards")


def place_of(kind: str, services: Any, job: str) -> tuple[str, ...]:
    if kind == "sqlite":
        return ("--frontier", "sqlite:jobs.db", "--job", job)
    url = services.need("redis")["url"]
    return ("--frontier", url if kind == "redis" else f"{url}?shards=3", "--job", f"{job}-{kind}")


def status_of(skitter: Any, place: tuple[str, ...]) -> dict[str, Any]:
    told = skitter.run("status", *place, "--json", code=None)
    return json.loads(told.stdout) if told.returncode == 0 else {"state": "", "done": 0}


def run_until(skitter: Any, place: tuple[str, ...], process: subprocess.Popen[str], pages: int) -> None:
    while status_of(skitter, place)["done"] < pages:
        assert process.poll() is None, process.communicate()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", [*KINDS[:-1], pytest.param(KINDS[-1], marks=pytest.mark.soak)])
@pytest.mark.soak
def test_a_job_that_two_workers_are_at_has_no_faults(skitter, services, kind) -> None:
    place = place_of(kind, services, "busy")
    spec = WebSpec.demo().replace(pages_per_host=400, latency_seconds=0.02)
    with served(spec) as web:
        crawl = skitter.start(
            "crawl", *web.urls, "-o", "out.jsonl", "-o", "out.csv", "--workers", 2, "--fresh", *place, *QUICK
        )
        run_until(skitter, place, crawl, 20)
        checks = 0
        while True:
            told = skitter.run("fsck", *place, "--json", code=None)
            assert (told.returncode, json.loads(told.stdout)["found"]) == (0, 0), told
            if crawl.poll() is not None:
                break
            checks += 1
        assert crawl.wait(HANG_SECONDS) == 0, crawl.communicate()
        crawl.communicate()
        expected = web.expected()
    assert checks >= 3, "it was over before it was looked at often enough"
    assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == Counter(expected.done)


def plant_in_file(skitter: Any) -> None:
    with contextlib.closing(sqlite3.connect(skitter.folder / "jobs.db")) as connection, connection:
        record = msgspec.msgpack.decode(connection.execute("SELECT record FROM jobs").fetchone()[0])
        record["queued"] += 5
        record["next_seq"] = 1
        connection.execute("UPDATE jobs SET record = ?", (msgspec.msgpack.encode(record),))
        connection.execute("UPDATE hosts SET phase = 0, top = 77")
        connection.execute("INSERT INTO addresses VALUES (1, '10.0.0.1', 3)")


async def plant_in_redis(url: str, job: str) -> None:
    server = RawRedis(url)
    try:
        for prefix in prefixes_of(job, int(url.partition("shards=")[2] or 1)):
            record = await server.command("GET", prefix + "job")
            stored = msgspec.msgpack.decode(record)
            run, changed = stored["run"], stored | {"queued": 99, "next_seq": 1}
            await server.command("SET", prefix + "job", msgspec.msgpack.encode(changed))
            await server.command("HSET", f"{prefix}{run}:addresses", "10.0.0.1", 3)
            for name in ("tops", "waiting", "ready:0", "deadlines"):
                await server.command("DEL", f"{prefix}{run}:{name}")
    finally:
        await server.close()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", [*KINDS[:-1], pytest.param(KINDS[-1], marks=pytest.mark.soak)])
def test_a_killed_crawl_with_faults_is_repaired_and_ends_with_every_page_once(skitter, services, kind) -> None:
    place = place_of(kind, services, "faulty")
    spec = WebSpec.demo().replace(pages_per_host=200, latency_seconds=0.03)
    with served(spec) as web:
        command = ("crawl", *web.urls, "-o", "out.jsonl", "--workers", 2, *place, *QUICK)
        crawl = skitter.start(*command, "--fresh", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        run_until(skitter, place, crawl, 60)
        os.killpg(crawl.pid, signal.SIGKILL)
        crawl.wait()
        assert skitter.json("fsck", *place)["consistent"], "after kill -9"
        refused = skitter.run("fsck", "--repair", *place, code=2)
        assert "a running job cannot be repaired" in refused.stderr
        skitter.run("pause", *place)
        if kind == "sqlite":
            plant_in_file(skitter)
        else:
            asyncio.run(plant_in_redis(place[1], place[3]))
        found = skitter.run("fsck", *place, code=1)
        assert "can be repaired" in found.stdout
        assert re.search("to repair what can be repaired: skitter fsck faulty.* --repair", found.stderr)
        mended = skitter.json("fsck", "--repair", *place)
        assert mended["found"] == mended["report"]["mended"] >= 3
        assert skitter.json("fsck", *place)["report"]["findings"] == []
        skitter.run("resume", *place)
        skitter.run(*command)
        expected = web.expected()
    assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == Counter(expected.done)
    assert skitter.json("fsck", *place)["consistent"]


def test_a_repair_is_refused_while_workers_are_at_the_job(skitter) -> None:
    place = place_of("sqlite", None, "busy")
    with served(WebSpec.plain(hosts=1, pages_per_host=500, latency_seconds=0.05)) as web:
        crawl = skitter.start("crawl", *web.urls, *place, *QUICK)
        try:
            run_until(skitter, place, crawl, 5)
            skitter.run("pause", *place)
            told = skitter.run("fsck", "--repair", *place, code=2)
        finally:
            crawl.terminate()
            crawl.communicate()
    assert "workers are running: busy" in told.stderr
    assert "hint: stop each" in told.stderr


def test_a_damaged_job_is_a_finding(skitter) -> None:
    place = place_of("sqlite", None, "small")
    with served(WebSpec.plain(hosts=1, pages_per_host=3)) as web:
        skitter.run("crawl", *web.urls, *place)
    assert skitter.run("fsck", *place).stdout == "small: consistent\n"
    with contextlib.closing(sqlite3.connect(skitter.folder / "jobs.db")) as connection, connection:
        connection.execute("UPDATE hosts SET record = x'c1'")
    for words in ((), ("--repair",)):
        told = skitter.run("fsck", *words, *place, code=1)
        assert "unreadable  hosts.record of key" in told.stdout
        assert "cannot be repaired" in told.stdout
        assert "Traceback" not in told.stderr
    (finding,) = skitter.json("fsck", *place, code=1)["report"]["findings"]
    assert (finding["code"], finding["mendable"]) == ("unreadable", False)


def test_what_is_no_job_or_no_store_is_an_error(skitter, services) -> None:
    with served(WebSpec.plain(hosts=1, pages_per_host=2)) as web:
        skitter.run("crawl", *web.urls, *place_of("sqlite", None, "small"))
    assert "no such job" in skitter.run("fsck", *place_of("sqlite", None, "other"), code=2).stderr
    for kind in ("redis", "shards"):
        assert "no such job" in skitter.run("fsck", *place_of(kind, services, "other"), code=2).stderr
    unavailable = ("--frontier", "redis://127.0.0.1:1", "--job", "other")
    assert "error: " in skitter.run("fsck", *unavailable, code=3).stderr
