"""A job in Redis, by the real command line: what workers of several machines would do, and what an operator does."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from rig.processes import HANG_SECONDS
from skitter.model.url import canonical
from skitter.testing.redis_jobs import JOBS_KEY, RawRedis, prefixes_of
from skitter.testing.web import WebSpec, served

QUICK = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.2")


@pytest.mark.parametrize(
    ("kind", "options"), [("redis", ""), ("redis-cluster", ""), ("redis-cluster", "?shards=6"), ("redis-sentinel", "")]
)
def test_every_page_is_found_once_by_the_crawl_and_a_worker_that_joins(skitter, services, kind, options) -> None:
    place = ("--frontier", services.need(kind)["url"] + options, "--job", f"accepted-{kind}")
    with served(WebSpec.demo()) as web:
        crawl = skitter.start("crawl", *web.urls, "-o", "out.jsonl", "--fresh", "--json", *place, *QUICK)
        joined = skitter.start("worker", "--stay", *place)
        crawl.communicate(timeout=HANG_SECONDS)
        joined.terminate()
        joined.communicate(timeout=HANG_SECONDS)
        expected = web.expected()
    assert crawl.returncode == 0
    assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == Counter(expected.done)
    status = skitter.json("status", *place)
    assert (status["state"], status["failed"]) == ("finished", len(expected.failed))
    assert skitter.json("why", web.urls[0], *place)["state"] in ("ended", "done")
    assert place[3] in [record["job"] for record in skitter.records("jobs", *place[:2])]
    assert skitter.json("drop", *place)["dropped"]
    assert place[3] not in [record["job"] for record in skitter.records("jobs", *place[:2])]
    assert "no such job" in skitter.run("drop", *place, code=2).stderr


def test_a_job_on_a_cluster_has_session_pools_unless_it_is_asked_for_shards(skitter, services) -> None:
    url = services.need("redis-cluster")["url"]
    with served(WebSpec.plain(hosts=3, pages_per_host=10)) as web:
        crawl = ("crawl", *web.urls, "-o", "out.jsonl", "--workers", 2, "--set", "session_pool=3", *QUICK)
        place = ("--frontier", url, "--job", "pooled")
        told = skitter.run(*crawl, *place).stderr
        refused = skitter.run(*crawl, "--frontier", f"{url}?shards=2", "--job", "not-pooled", code=2).stderr
        expected = web.expected()
    assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == Counter(expected.done)
    assert {one["name"] for one in skitter.json("sessions", *place)["sessions"]} == {"pool-1", "pool-2", "pool-3"}
    assert "shards" not in told
    assert "a job with shards cannot manage sessions" in refused
    assert "start the job without ?shards=N" in refused
    skitter.run("drop", *place)


def test_a_job_in_shards_says_once_at_its_start_what_it_lacks_and_risks(skitter, services) -> None:
    place = ("--frontier", services.need("redis")["url"] + "?shards=3", "--job", "lacking")
    with served(WebSpec.plain(hosts=3, pages_per_host=10)) as web:
        crawl = ("crawl", *web.urls, "-o", "out.jsonl", "--workers", 2, *place, *QUICK)
        skitter.run(*crawl, "--set", "log_file=crawl.log", "--max-pages", 5)
        # The record of the job has its number of shards; the command need not repeat it.
        again = skitter.run(*(str(word).removesuffix("?shards=3") for word in crawl), "--max-pages", 30).stderr
        worker = skitter.run("worker", *place).stderr
    for told in ((skitter.folder / "crawl.log").read_text(), again):
        (line,) = [line for line in told.splitlines() if "the job has 3 shards" in line]
        assert "no session pools, login or exclusive sessions" in line
        assert "may lose links between shards if a server fails over without wait_replicas" in line
        assert "docs/guarantees.md#a-job-in-shards" in line
    assert "the job has 3 shards" not in worker
    skitter.run("drop", *place)


def prefix_of(job: str) -> str:
    return prefixes_of(job, 1)[0]


async def test_a_job_of_another_format_does_not_hide_the_others(skitter, services) -> None:
    url = services.need("redis")["url"]
    server, record = RawRedis(url), msgspec.msgpack.encode({"format": 99})
    try:
        await server.command("SET", prefix_of("of-tomorrow") + "job", record)
        await server.command("SET", prefix_of("not-ours") + "job", b"\xc1 no msgpack")
        await server.command("SET", prefix_of("half") + "job", msgspec.msgpack.encode({"format": 2}))
        await server.command("SADD", JOBS_KEY, "of-tomorrow", "begun-by-nobody", "not-ours", "half")
        told = {one["job"]: one for one in await asyncio.to_thread(skitter.records, "jobs", "--frontier", url)}
        assert told["of-tomorrow"]["state"] == "unreadable"
        assert "a newer skitter (format 99" in told["of-tomorrow"]["problem"]
        assert "use the skitter that wrote it" in told["of-tomorrow"]["hint"]
        assert told["begun-by-nobody"]["state"] == "unknown"
        assert [told[job]["state"] for job in ("not-ours", "half")] == ["unreadable", "unreadable"]
        drop = ("drop", "--frontier", url, "--job", "not-ours")
        await server.command("SET", prefix_of("not-ours") + "3:items", b"of a run")
        await asyncio.to_thread(skitter.run, *drop)
        assert await server.command("KEYS", prefix_of("not-ours") + "*") == []
        assert await server.command("SISMEMBER", JOBS_KEY, "not-ours") == 0
    finally:
        for job in ("of-tomorrow", "not-ours", "half"):
            await server.command("DEL", prefix_of(job) + "job")
        await server.command("SREM", JOBS_KEY, "of-tomorrow", "begun-by-nobody", "not-ours", "half")
        await server.close()


@pytest.mark.soak
def test_a_job_on_every_master_of_a_cluster_is_crawled_stopped_and_resumed(skitter, services) -> None:
    place = ("--frontier", services.need("redis-cluster")["url"] + "?shards=6", "--job", "spread")
    with served(WebSpec.demo().replace(pages_per_host=150)) as web:
        crawl = ("crawl", *web.urls, "-o", "out.jsonl", "--workers", 2, *place, *QUICK)
        # So slowly that the command comes in the middle.
        stopped = skitter.start(*crawl, "--fresh", "--delay", 0.05)
        for _ in range(200):
            told = skitter.run("status", *place, "--json", code=None)
            if told.returncode == 0 and json.loads(told.stdout)["done"] >= 30:
                break
        assert skitter.json("stop", *place)["state"] in ("draining", "stopped")
        out, error = stopped.communicate(timeout=HANG_SECONDS)
        assert stopped.returncode == 0, out + error
        halted = skitter.json("status", *place)
        assert (halted["state"], halted["exact"], halted["leased"]) == ("stopped", True, 0)
        assert halted["queued"] > 0
        skitter.run(*crawl, "--delay", 0)
        expected = web.expected()
        seed = web.urls[0]
    assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == Counter(expected.done)
    status = skitter.json("status", *place)
    assert (status["state"], status["exact"], status["undelivered"]) == ("finished", True, 0)
    assert (status["done"], status["failed"]) == (len(expected.done), len(expected.failed))
    failed = skitter.records("failed", *place)
    assert {canonical(record["url"]) for record in failed} == set(expected.failed)
    assert skitter.json("why", seed, *place)["state"] == "ended"
    assert skitter.json("why", failed[0]["url"], *place)["state"] == "failed"
    assert skitter.json("drop", *place)["dropped"]


def test_jobs_and_drop_know_files_too(skitter, site) -> None:
    site.page("/", "<a href='/one'>")
    site.page("/one", "")
    for job in ("first", "second"):
        skitter.json("crawl", site.url(), "--job", job)
    assert [(record["job"], record["done"]) for record in skitter.records("jobs")] == [("first", 2), ("second", 2)]
    skitter.run("drop", "--job", "first")
    assert [record["job"] for record in skitter.records("jobs")] == ["second"]
    assert not (skitter.folder / ".skitter" / "first.db").exists()


def test_a_password_is_seen_by_nobody(skitter, own_redis, site) -> None:
    """Not by whoever lists processes, reads the output, or looks into the store."""
    secret = "hunter2"
    server = own_redis("--save", "", "--requirepass", secret)
    for number in range(20):
        site.page(f"/{number}", "".join(f"<a href='/{link}'>" for link in range(20)))
    (skitter.folder / "password").write_text(secret + "\n")
    place = ("--frontier", f"{server.url}?password_file=password", "--job", "secret")
    # A fork is listed under the name of its server.
    crawl = skitter.start("crawl", site.url("/0"), "-o", "out.jsonl", "-v", *place, forked=False)
    lines = set()
    while crawl.poll() is None:
        lines |= command_lines()
    told = "".join(crawl.communicate())
    assert crawl.returncode == 0, told
    workers = [line for line in lines if "skitter.app" in line]
    assert workers, "the workers were seen"
    assert not [line for line in lines if secret in line and str(server.port) in line and "--requirepass" not in line]
    told += skitter.run("status", *place).stdout + skitter.run("jobs", *place[:2], "--json").stdout
    told += skitter.run("worker", "--frontier", server.url.replace("//", f"//:{secret}@"), *place[2:]).stderr
    assert secret not in told
    with server.session() as say:
        say("AUTH", secret)
        stored = "".join(say("DUMP", key) for key in say("KEYS", "*"))
    assert secret not in stored


def command_lines() -> set[str]:
    lines = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            lines.add((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return lines


@pytest.mark.parametrize("options", ["", "?shards=2"])
def test_a_redis_that_is_nearly_full_is_told_once(skitter, own_redis, options) -> None:
    redis = own_redis("--maxmemory", "400mb", "--maxmemory-policy", "noeviction")
    command(redis.url, "SETRANGE", "ballast", 365_000_000, "x")
    with served(WebSpec.plain(hosts=1, pages_per_host=5)) as web:
        told = skitter.run(
            "crawl", *web.urls, "--frontier", redis.url + options, "--job", "tight", "--workers", 2
        ).stderr
    assert told.count("is nearly full: ") == 1
    assert f"the memory of the Redis at {redis.url}" in told


def test_a_redis_without_a_limit_is_never_nearly_full(skitter, own_redis) -> None:
    redis = own_redis()
    with served(WebSpec.plain(hosts=1, pages_per_host=5)) as web:
        told = skitter.run("crawl", *web.urls, "--frontier", redis.url, "--job", "wide").stderr
    assert "nearly full" not in told


def command(url: str, *words: object) -> None:
    async def send() -> None:
        server = RawRedis(url)
        try:
            await server.command(*words)
        finally:
            await server.close()

    asyncio.run(send())
