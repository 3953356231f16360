"""Several nodes on one job, as an operator sees them: who works, what happens, and what to do when a node is gone."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from rig.processes import HANG_SECONDS
from skitter import __version__
from skitter.model.job import JobSpec
from skitter.model.url import canonical
from skitter.settings import Settings
from skitter.testing.frontiers import open_frontier
from skitter.testing.redis_jobs import RawRedis
from skitter.testing.web import WebSpec, served

ENDLESS = WebSpec.plain(hosts=4, pages_per_host=5000, latency_seconds=0.05)
FEW = ("--concurrency", 2)
"""So that no worker has all there is."""
AS_JSON = ("--log-format", "json")
JOB = ("--frontier", "sqlite:.skitter/j.db", "--job", "j")
SPIDER = """
    from skitter import Request, Spider

    class Pages(Spider):
        name = "pages"
        def start(self):
            return [Request(f"{self.base}/{number}") for number in range(3)]
        def parse(self, response):
            yield {"url": response.url}
"""


@pytest.fixture
def place(services, tmp_path) -> tuple[str, ...]:
    """A job of its own."""
    return ("--frontier", services.need("redis")["url"], "--job", tmp_path.name)


def listed(skitter, place) -> dict[int, dict[str, Any]]:
    """The workers that status lists, by their process."""
    told = skitter.run("status", *place, "--json", code=None)
    return {worker["pid"]: worker for worker in json.loads(told.stdout)["worker_list"]} if told.stdout else {}


def events_in(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def events_of(skitter, name: str, file: str = "events.jsonl") -> list[dict[str, Any]]:
    """Events of one kind in a log that may be written at this moment."""
    path = skitter.folder / file
    return [event for event in events_in(path.read_text()) if event["event"] == name] if path.exists() else []


def stop(*processes) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.communicate(timeout=HANG_SECONDS)


# ---- who works


def test_workers_are_listed_with_what_they_are_at_and_vanish_when_they_leave(skitter, start, place, until) -> None:
    with served(ENDLESS) as web:
        crawl = start("crawl", *web.urls, *FEW, "--fresh", *place)
        until(lambda: len(listed(skitter, place)) == 1, crawl)
        joined = start("worker", *FEW, *place)
        until(lambda: len(listed(skitter, place)) == 2, joined)

        def all_at_work() -> dict[int, dict[str, Any]]:
            """Between two batches a worker has nothing in flight, and its heartbeat may say so."""
            found = listed(skitter, place)
            return found if all(worker["in_flight"] for worker in found.values()) else {}

        for pid, worker in until(all_at_work, joined).items():
            assert (worker["host_name"], worker["version"]) == (socket.gethostname(), __version__)
            assert worker["id"].startswith(f"{worker['host_name']}:{pid}:")
            assert Path(f"/proc/{pid}").exists()
            assert worker["alive"]
            assert worker["doing"] == "fetching"
            assert worker["in_flight"] <= 2
        stop(joined)
        assert len(listed(skitter, place)) == 1, "it left properly"
        stop(crawl)
        assert listed(skitter, place) == {}


def test_status_tells_the_rate_and_the_reaper_and_the_longest_queues(skitter, start, place, until) -> None:
    with served(ENDLESS) as web:
        crawl = start("crawl", *web.urls, "--fresh", *place)
        until(lambda: listed(skitter, place), crawl)

        def under_way() -> dict[str, Any] | None:
            """Whoever leases reaps: what is overdue on a busy machine does not stay so."""
            told = skitter.json("status", *place)
            return told if told["done"] > 20 and told["overdue_seconds"] < 5 else None

        status = until(under_way, crawl)
        stop(crawl)
    assert status["pages_per_second"] > 0
    queues = [host["queued"] for host in status["crowded"]]
    assert len(queues) == 4
    assert queues == sorted(queues, reverse=True)
    assert status["version"] == __version__


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "enough"), [("redis", 6000), ("sqlite", 6000)])
def test_workers_get_pages_by_their_slots_while_fewer_requests_are_ready(
    skitter, start, services, until, kind, enough
) -> None:
    """Of 60 hosts each answers one request at a time: too few for 148 slots."""
    frontier = services.need("redis")["url"] if kind == "redis" else "sqlite:frontier.db"
    slots = (64, 64, 16, 4)
    job = ("--frontier", frontier, "--job", skitter.folder.name, "--set", "log_level=debug", "--log-format", "json")

    def commits() -> list[list[dict[str, Any]]]:
        """Of each worker, until now."""
        return [events_of(skitter, "links.committed", f"{place}.jsonl") for place in range(len(slots))]

    def pages() -> list[int]:
        return [sum(event["pages"] for event in of_worker) for of_worker in commits()]

    with served(WebSpec.plain(hosts=60, pages_per_host=5000, latency_seconds=0.5)) as web:
        options = ("--fresh", "--per-host", 1, "--ignore-robots")
        nodes = [start("crawl", *web.urls, *options, *job, "--concurrency", slots[0], "--log", "0.jsonl")]
        until(lambda: pages()[0] > 60, nodes[0])
        nodes += [
            start("worker", *job, "--concurrency", count, "--log", f"{place}.jsonl")
            for place, count in enumerate(slots[1:], 1)
        ]
        until(lambda: min(pages()) > 10, nodes[0])
        before, began = pages(), list(map(len, commits()))
        until(lambda: sum(pages()) > sum(before) + enough, nodes[0])
        ended = [of_worker[first:] for of_worker, first in zip(commits(), began, strict=True)]
        stop(*nodes)
    done = [sum(event["pages"] for event in of_worker) for of_worker in ended]
    for count, share in zip(slots, done, strict=True):
        assert share == pytest.approx(sum(done) * count / sum(slots), rel=0.15, abs=10), done
    for of_worker in ended:
        times = [datetime.fromisoformat(event["time"]).timestamp() for event in of_worker]
        idle = max(later - earlier for earlier, later in itertools.pairwise(times))
        assert idle < 2.0, "a page takes half a second, and some are always ready"


# ---- who may join


def test_a_worker_with_another_spider_is_told_so_and_leases_nothing(skitter, site, place) -> None:
    for number in range(3):
        site.page(f"/{number}", "page")
    skitter.write("pages.py", SPIDER)
    skitter.write("other.py", SPIDER.replace("Pages", "Others"))
    skitter.run("crawl", "pages.py", "-a", f"base={site.base}", "--max-pages", 1, "--fresh", *place)
    skitter.run("resume", *place)
    before, asked = skitter.json("status", *place), len(site.seen)
    wrong = skitter.run("worker", "other.py", *place, code=2)
    lines = [line for line in wrong.stderr.splitlines() if not line.startswith("job ")]
    assert lines == [
        f"error: job {place[3]} has another spider: pages.py:Pages",
        "hint: omit the spider, or name the spider of the job",
    ]
    after = skitter.json("status", *place)
    assert [after[name] for name in ("queued", "leased", "done", "workers")] == [
        before[name] for name in ("queued", "leased", "done", "workers")
    ]
    assert len(site.seen) == asked


def test_a_spider_file_of_another_age_is_warned_about(skitter, site) -> None:
    for number in range(3):
        site.page(f"/{number}", "page")
    skitter.write("pages.py", SPIDER)
    skitter.write("elsewhere/pages.py", SPIDER + "\n    # a line that only this node has\n")
    skitter.run("crawl", "pages.py", "-a", f"base={site.base}", "--max-pages", 1, *JOB)
    skitter.run("add", site.url("/9"), *JOB)
    skitter.run("resume", *JOB)
    told = skitter.run("worker", "elsewhere/pages.py", *JOB, *AS_JSON)
    (event,) = [event for event in events_in(told.stderr) if event["event"] == "job.other_code"]
    assert (event["level"], event["spider"]) == ("warning", "elsewhere/pages.py:Pages")
    same = skitter.run("worker", "pages.py", *JOB, *AS_JSON)
    assert not [event for event in events_in(same.stderr) if event["event"] == "job.other_code"]


async def begun_by(version: str, folder: Path, seed: str) -> None:
    frontier = open_frontier(f"sqlite:{folder / '.skitter' / 'j.db'}", "j")
    settings = Settings().job_wide()
    await frontier.begin(JobSpec(name="j", spider="", seeds=[seed], settings=settings, version=version))
    await frontier.close()


@pytest.mark.parametrize("command", ["worker", "crawl"])
def test_a_node_of_another_version_is_warned_with_both_and_may_join(skitter, site, command) -> None:
    site.page("/", "home")
    asyncio.run(begun_by("0.0.9", skitter.folder, site.url()))
    told = skitter.run(command, *([site.url()] if command == "crawl" else []), *JOB, *AS_JSON)
    (event,) = [event for event in events_in(told.stderr) if event["event"] == "job.other_version"]
    assert (event["level"], event["version"], event["begun_by"]) == ("warning", __version__, "0.0.9")
    assert skitter.json("status", *JOB)["state"] == "finished"


# ---- what happens, line by line


def test_json_lines_have_job_node_and_worker(skitter, site) -> None:
    site.page("/", "<a href='/one'>")
    site.page("/one", "")
    told = skitter.run("crawl", site.url(), "--job", "j", "-o", "out.jsonl", *AS_JSON)
    said = events_in(told.stderr)
    assert [said[0]["event"], said[-1]["event"]] == ["command.note", "job.summary"]
    events = said[1:-1]
    # Which of the last two is told first, the worker or the store that is polled, is chance.
    kinds = [event["event"] for event in events]
    assert [*kinds[:2], *sorted(kinds[2:])] == ["job.begun", "worker.joined", "job.state", "worker.left"]
    for event in events:
        assert (event["job"], event["node"]) == ("j", socket.gethostname())
    (worker,) = {event["worker"] for event in events if event["event"].startswith("worker.")}
    assert worker
    verbose = skitter.run("crawl", site.url(), "--job", "v", "-v", *AS_JSON)
    kinds = Counter(event["event"] for event in events_in(verbose.stderr))
    assert {"leases.granted", "links.committed", "robots.read"} <= set(kinds)
    links = [event for event in events_in(verbose.stderr) if event["event"] == "links.committed"]
    assert sum(event["new"] for event in links) == 2


def test_a_log_file_takes_the_lines_and_quiet_does_not_silence_it(skitter, site) -> None:
    site.page("/", "")
    told = skitter.run("crawl", site.url(), "--job", "j", "-q", "--log", "events.jsonl", "--log-format", "json")
    assert told.stderr == ""
    assert events_of(skitter, "worker.joined")
    skitter.run("crawl", site.url(), "--job", "j", "-q", "--log", "events.txt", "--log-format", "text")
    assert "notice" not in (skitter.folder / "events.txt").read_text().splitlines()[0]
    assert "job.begun: run 2 is rerun (job=j node=" in (skitter.folder / "events.txt").read_text()
    wrong = skitter.run("crawl", site.url(), "--log", "no/such/folder.log", code=2)
    assert "error: cannot be written: no/such/folder.log" in wrong.stderr


def test_hosts_that_ask_for_a_pause_and_hosts_that_are_away_are_told(skitter, site) -> None:
    answers = iter([(429, {"Retry-After": "1"}, b"")])
    site.on("/", lambda seen, handler: next(answers, (200, {"Content-Type": "text/html"}, b"home")))
    unavailable = socket.create_server(("127.0.0.1", 0))
    nobody = f"http://127.0.0.1:{unavailable.getsockname()[1]}"
    unavailable.close()
    options = ("--log", "events.jsonl", "--log-format", "json", "--ignore-robots", "--set", "max_attempts=1")
    skitter.run("crawl", site.url(), f"{nobody}/", "--job", "j", *options)
    (pause,) = events_of(skitter, "host.backoff")
    assert (pause["host"], pause["error_class"], pause["strikes"]) == (site.base, "http_4xx", 1)
    assert 0 < pause["seconds"] <= 1
    assert pause["until"] > pause["time"][:19]
    assert pause["worker"]
    (end,) = events_of(skitter, "host.given_up")
    assert (end["host"], end["error_class"], end["level"]) == (nobody, "connect", "warning")


def test_commands_and_signals_are_told_by_the_node(skitter, start, place, until) -> None:
    with served(ENDLESS) as web:
        crawl = start("crawl", *web.urls, "--fresh", "--log", "events.jsonl", "--log-format", "json", *place)
        until(lambda: events_of(skitter, "worker.joined"), crawl)
        skitter.run("pause", *place)
        until(lambda: events_of(skitter, "job.state"), crawl)
        skitter.run("resume", *place)
        until(lambda: len(events_of(skitter, "job.state")) == 2, crawl)
        stop(crawl)
    assert [(event["before"], event["state"]) for event in events_of(skitter, "job.state")] == [
        ("running", "paused"),
        ("paused", "running"),
    ]
    assert [event["signal"] for event in events_of(skitter, "node.stopping")] == [signal.SIGTERM]
    assert [event["reason"] for event in events_of(skitter, "worker.left")] == ["it was asked to stop"]


def test_a_worker_that_dies_is_told_and_replaced(skitter, start, place, until) -> None:
    with served(ENDLESS) as web:
        crawl = start("crawl", *web.urls, "--fresh", "--log", "events.jsonl", "--log-format", "json", *place)
        (joined,) = until(lambda: events_of(skitter, "worker.joined"), crawl)
        os.kill(joined["pid"], signal.SIGKILL)
        (replaced,) = until(lambda: events_of(skitter, "worker.replaced"), crawl)
        until(lambda: len(events_of(skitter, "worker.joined")) == 2, crawl)
        stop(crawl)
    assert (replaced["worker"], replaced["how"], replaced["level"]) == (joined["worker"], "SIGKILL", "warning")


def test_the_requests_of_a_node_that_is_killed_are_recovered_and_the_log_says_whose(
    skitter, start, place, until
) -> None:
    with served(ENDLESS) as web:
        quick = ("--set", "lease_seconds=1")
        crawl = start(
            "crawl", *web.urls, *FEW, *quick, "--fresh", "--log", "events.jsonl", "--log-format", "json", *place
        )
        (mine,) = until(lambda: events_of(skitter, "worker.joined"), crawl)
        node = start("worker", *FEW, *place)
        until(lambda: any(w["leased"] for pid, w in listed(skitter, place).items() if pid != mine["pid"]), node)
        (lost,) = [worker["id"] for pid, worker in listed(skitter, place).items() if pid != mine["pid"]]
        os.killpg(node.pid, signal.SIGKILL)
        node.communicate()
        recovered = until(lambda: events_of(skitter, "leases.recovered"), crawl)
        until(lambda: lost not in [worker["id"] for worker in listed(skitter, place).values()], crawl)
        stop(crawl)
    # Its two leases may have ended at different moments.
    assert {(event["lost"], event["worker"]) for event in recovered} == {(lost, mine["worker"])}
    assert 0 < sum(event["leases"] for event in recovered) <= 2


@contextlib.asynccontextmanager
async def shut_out(url: str) -> AsyncIterator[None]:
    """The server lets nobody in, and those who were in are sent away."""
    server = RawRedis(url)
    (_, most) = await server.command("CONFIG", "GET", "maxclients")
    await server.command("CONFIG", "SET", "maxclients", "1")
    try:
        await server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        yield
    finally:
        await server.command("CONFIG", "SET", "maxclients", most)
        await server.close()


def test_a_lost_connection_and_its_return_are_told_once(skitter, start, place, until) -> None:
    """By whichever process of the node notices first."""

    def told(kind: str) -> list[dict[str, Any]]:
        return events_of(skitter, kind)

    async def lose() -> None:
        async with shut_out(place[1]):
            until(lambda: told("frontier.unavailable"), crawl)

    with served(ENDLESS) as web:
        crawl = start("crawl", *web.urls, "--fresh", "--log", "events.jsonl", "--log-format", "json", *place)
        until(lambda: events_of(skitter, "worker.joined"), crawl)
        asyncio.run(lose())
        until(lambda: told("frontier.back"), crawl)
        stop(crawl)
    assert (len(told("frontier.unavailable")), len(told("frontier.back"))) == (1, 1)


# ---- the node that started it is nothing special


@pytest.mark.parametrize("rest", ["drain", "crawl", "elsewhere"])
def test_the_node_that_started_the_job_may_be_killed(skitter, start, place, until, rest) -> None:
    """Others finish the job. Its file is delivered by whoever is told to, on the machine that has it, or anew."""
    with served(WebSpec.plain(hosts=4, pages_per_host=300, latency_seconds=0.02)) as web:
        command = ("crawl", *web.urls, "-o", "out.jsonl", *FEW, "--set", "lease_seconds=2", *place)
        crawl = start(*command, "--fresh")
        out = skitter.folder / "out.jsonl"
        until(lambda: out.exists() and out.read_bytes().count(b"\n") > 20, crawl)
        worker = start("worker", "--concurrency", 8, *place)
        until(lambda: len(listed(skitter, place)) == 2, worker)
        os.killpg(crawl.pid, signal.SIGKILL)
        crawl.communicate()
        _, told = worker.communicate(timeout=HANG_SECONDS)
        expected = web.expected()
        assert worker.returncode == 0, told
        assert "undelivered" in told
        assert f"skitter deliver {place[3]} -o FILE --frontier {place[1]}" in told
        status = skitter.json("status", *place)
        assert (status["state"], status["failed"], status["done"]) == ("finished", 0, len(expected.done))
        left = status["undelivered"]
        assert left > 0
        if rest == "crawl":
            assert skitter.json(*command)["undelivered"] == 0
        elif rest == "drain":
            assert skitter.json("drain", "-o", "out.jsonl", *place)["delivered"] == left
        else:
            written = out.rename(skitter.folder / "saved.jsonl")
            gone = skitter.run("drain", "-o", "out.jsonl", *place, code=3)
            assert "the results of the unfinished run are missing" in gone.stderr
            assert "--rest" in gone.stderr
            assert skitter.json("drain", "-o", "out.jsonl", "--rest", *place)["delivered"] == left
            assert len(skitter.lines("out.jsonl")) == left
            # What the dead node had written and not yet recorded is in both.
            with out.open("a") as file:
                file.write(written.read_text())
    found = Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl"))
    assert set(found) == set(expected.done)
    if rest != "elsewhere":
        assert set(found.values()) == {1}
    assert skitter.json("status", *place)["undelivered"] == 0


@pytest.mark.soak
def test_an_outbox_that_nobody_empties_is_told_until_somebody_does(skitter, start, place, until) -> None:
    with served(WebSpec.plain(hosts=4, pages_per_host=300, latency_seconds=0.02)) as web:
        small = ("--set", "max_outbox_items=40", "--set", "lease_seconds=2")
        command = ("crawl", *web.urls, "-o", "out.jsonl", *FEW, *small, *place)
        crawl = start(*command, "--fresh")
        until(lambda: listed(skitter, place), crawl)
        worker = start("worker", *FEW, "--log", "events.jsonl", "--log-format", "json", *place)
        until(lambda: len(listed(skitter, place)) == 2, worker)
        os.killpg(crawl.pid, signal.SIGKILL)
        crawl.communicate()
        blocking = until(lambda: events_of(skitter, "sink.blocking"), worker)
        until(lambda: [w["doing"] for w in listed(skitter, place).values()] == ["blocked by sink"], worker)
        assert {event["target"] for event in blocking} == {"out.jsonl"}
        assert "by nobody" in skitter.run("status", *place).stdout
        assert skitter.json(*command)["state"] == "finished"
        worker.communicate(timeout=HANG_SECONDS)
        expected = web.expected()
    assert events_of(skitter, "sink.caught_up")
    found = Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl"))
    assert found == Counter(expected.done)
