"""Schedules by the real command line: what runs when, what is skipped and why, and what becomes of it after a crash."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import skitter.schedules
from rig.processes import HANG_SECONDS
from skitter.model.schedule import HistoryRow

NEVER = ("--cron", "0 0 1 1 *")
"""Ticks by command only."""


class Scheduling:
    """The schedules of a store beside the test, its schedulers, and a page that can be held back."""

    def __init__(self, skitter: Any, site: Any, until: Callable[..., Any], frontier: str) -> None:
        self.skitter, self.site, self.until, self.frontier = skitter, site, until, frontier
        self.schedulers: list[Any] = []
        site.page("/", "<h1>home</h1>")
        self.held = site.hold("/slow", (200, {"Content-Type": "text/html"}, b"<h1>slow</h1>"))
        self.held.release()

    def add(self, name: str, *words: object, path: str = "/", job: str = "news", output: str = "") -> None:
        crawl = ("crawl", self.site.url(path), "--job", job, "-o", output or f"{job}.jsonl")
        self.skitter.run("schedule", "add", name, "--frontier", self.frontier, *words, "--", *crawl)

    def command(self, *words: object) -> str:
        return self.skitter.run(*words, "--frontier", self.frontier).stdout

    def start(self) -> Any:
        log = (self.skitter.folder / f"scheduler-{len(self.schedulers)}.log").open("w")
        with log:
            scheduler = self.skitter.start("scheduler", "--frontier", self.frontier, stderr=log)
        self.schedulers.append(scheduler)
        return scheduler

    def history(self, name: str) -> list[HistoryRow]:
        async def read() -> list[HistoryRow]:
            async with skitter.schedules.connect(self.frontier) as schedules:
                return list(await schedules.history(name, 1000))

        return asyncio.run(read())

    def wait_for(self, name: str, condition: Callable[[list[HistoryRow]], Any]) -> Any:
        def look() -> Any:
            rows = self.history(name)
            return rows if condition(rows) else None

        return self.until(look, self.schedulers[-1] if self.schedulers else None)

    def run_of(self, job: str) -> int:
        return self.skitter.json("status", "--frontier", self.frontier, "--job", job)["run"]

    def close(self) -> None:
        self.held.release()
        for scheduler in self.schedulers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(scheduler.pid, signal.SIGKILL)
            scheduler.communicate()


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.soak)])
def scheduling(
    request: pytest.FixtureRequest, skitter: Any, site: Any, until: Any, own_redis: Any, tmp_path: Path
) -> Iterator[Scheduling]:
    frontier = f"sqlite:{tmp_path}/jobs.db" if request.param == "sqlite" else own_redis().url
    made = Scheduling(skitter, site, until, frontier)
    yield made
    made.close()


only_sqlite = pytest.mark.parametrize("scheduling", ["sqlite"], indirect=True)


def outcomes(rows: list[HistoryRow]) -> list[str]:
    return [str(row.outcome) for row in rows]


def test_every_tick_is_a_run_of_the_job_and_its_summary_is_kept(scheduling: Scheduling) -> None:
    scheduling.add("news", "--every", "2s", "--overlap", "queue", "--catch-up", "all")
    scheduling.start()
    scheduling.wait_for("news", lambda rows: outcomes(rows).count("done") >= 2)
    paused = scheduling.command("schedule", "pause", "news")
    assert "news, paused" in paused
    # A tick that waits for the one before it has no row yet: until it has one, there is a gap.
    rows = scheduling.wait_for(
        "news",
        lambda rows: (
            "skipped" in outcomes(rows)
            and "running" not in outcomes(rows)
            and all(
                later - earlier == 2.0 for earlier, later in itertools.pairwise(sorted(r.scheduled_at for r in rows))
            )
        ),
    )
    done = [row for row in rows if row.outcome == "done"]
    assert sorted(row.summary["run"] for row in done) == list(range(1, len(done) + 1))
    assert scheduling.run_of("news") == len(done)
    for row in done:
        assert (row.exit_code, row.summary["state"], row.job, row.attempts) == (0, "finished", "news", 1)
        assert row.started_at is not None
        assert row.ended_at is not None
        assert row.scheduled_at <= row.started_at <= row.ended_at
        assert "finished: 1 page in" in row.output
    assert {row.reason for row in rows if row.outcome == "skipped"} == {"the schedule is paused"}
    times = sorted(row.scheduled_at for row in rows)
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [2.0] * (len(times) - 1)
    printed = scheduling.skitter.records("schedule", "history", "news", "--frontier", scheduling.frontier)
    assert {"scheduled_at", "started_at", "outcome", "reason"} <= printed[0].keys()
    scheduling.command("schedule", "remove", "news")
    assert scheduling.skitter.records("schedule", "list", "--frontier", scheduling.frontier) == []


@only_sqlite
@pytest.mark.soak
def test_an_operators_word_on_the_job_holds_and_a_resumed_job_goes_on(scheduling: Scheduling) -> None:
    scheduling.add("news", *NEVER, path="/slow")
    scheduling.start()
    scheduling.held.hold_again()
    scheduling.command("schedule", "run", "news")
    scheduling.until(lambda: "/slow" in scheduling.site.paths(), scheduling.schedulers[-1])
    scheduling.command("schedule", "run", "news")
    rows = scheduling.wait_for("news", lambda rows: outcomes(rows) == ["skipped", "running"])
    assert "is still running" in rows[0].reason
    scheduling.command("stop", "--job", "news")
    scheduling.held.release()
    rows = scheduling.wait_for("news", lambda rows: outcomes(rows) == ["skipped", "done"])
    if rows[1].reason:  # it was stopped before its only page was done
        assert rows[1].reason == "stopped by command"
    scheduling.site.page("/other", "<h1>other</h1>")
    scheduling.command("add", scheduling.site.url("/other"), "--job", "news")
    scheduling.command("pause", "--job", "news")
    scheduling.command("schedule", "run", "news")
    rows = scheduling.wait_for("news", lambda rows: len(rows) == 3)
    assert rows[0].outcome == "skipped"
    assert rows[0].reason in ("the job is paused", "the job was stopped by command")
    scheduling.command("resume", "--job", "news")
    scheduling.command("schedule", "run", "news")
    rows = scheduling.wait_for("news", lambda rows: outcomes(rows)[:1] == ["done"])
    assert (rows[0].summary["begun"], rows[0].summary["run"]) == ("resumed", 1)
    scheduling.command("schedule", "run", "news")
    rows = scheduling.wait_for("news", lambda rows: outcomes(rows)[:2] == ["done", "done"])
    assert (rows[0].summary["begun"], rows[0].summary["run"]) == ("rerun", 2)


@only_sqlite
@pytest.mark.soak
def test_a_tick_that_replaces_stops_the_run_and_begins_a_fresh_one(scheduling: Scheduling) -> None:
    scheduling.add("news", *NEVER, "--overlap", "replace", path="/slow")
    scheduling.start()
    scheduling.held.hold_again()
    scheduling.command("schedule", "run", "news")
    scheduling.until(lambda: "/slow" in scheduling.site.paths(), scheduling.schedulers[-1])
    scheduling.command("schedule", "run", "news")
    # It is asked to stop, and ends what is in flight.
    scheduling.wait_for("news", lambda rows: outcomes(rows) == ["running"])
    deadline = time.monotonic() + 4
    scheduling.until(lambda: time.monotonic() > deadline or len(scheduling.history("news")) > 1)
    scheduling.held.release()
    rows = scheduling.wait_for("news", lambda rows: outcomes(rows) == ["done", "failed"])
    assert rows[1].reason.startswith("replaced by the tick of")
    assert (rows[0].summary["run"], rows[0].summary["pages"]) == (2, 1)


@only_sqlite
@pytest.mark.soak
def test_a_crawl_by_hand_counts_as_a_run(scheduling: Scheduling) -> None:
    scheduling.held.hold_again()
    words = ("--frontier", scheduling.frontier, "--job", "news")
    by_hand = scheduling.skitter.start("crawl", scheduling.site.url("/slow"), *words)
    scheduling.until(lambda: "/slow" in scheduling.site.paths(), by_hand)
    scheduling.add("skips", *NEVER, path="/slow")
    scheduling.add("replaces", *NEVER, "--overlap", "replace", path="/slow")
    scheduling.start()
    scheduling.command("schedule", "run", "skips")
    (row,) = scheduling.wait_for("skips", lambda rows: outcomes(rows) == ["skipped"])
    assert row.reason == "other processes are working on the job: news"
    scheduling.command("schedule", "run", "replaces")
    scheduling.until(lambda: scheduling.skitter.json("status", *words)["state"] == "draining", by_hand)
    scheduling.held.release()
    (row,) = scheduling.wait_for("replaces", lambda rows: outcomes(rows) == ["done"])
    assert (row.summary["run"], row.summary["begun"]) == (2, "rerun")
    by_hand.communicate(timeout=HANG_SECONDS)
    assert by_hand.returncode == 0


@only_sqlite
@pytest.mark.soak
def test_with_allow_each_tick_has_a_job_of_its_own(scheduling: Scheduling) -> None:
    words = (*NEVER, "--overlap", "allow", "--max-instances", 2)
    scheduling.add("news", *words, path="/slow", output="parts/{job}-{part}.jsonl")
    scheduling.start()
    scheduling.held.hold_again()
    for number in (1, 2):
        scheduling.command("schedule", "run", "news")
        count = number
        scheduling.until(lambda: len(scheduling.site.paths()) >= count, scheduling.schedulers[-1])  # noqa: B023
    scheduling.command("schedule", "run", "news")
    rows = scheduling.wait_for("news", lambda rows: outcomes(rows) == ["skipped", "running", "running"])
    assert rows[0].reason == "2 instances are running"
    scheduling.held.release()
    rows = scheduling.wait_for("news", lambda rows: outcomes(rows) == ["skipped", "done", "done"])
    jobs = scheduling.skitter.records("jobs", "--frontier", scheduling.frontier)
    assert sorted(job["job"] for job in jobs) == sorted(row.job for row in rows[1:])
    assert all(row.job.startswith("news@20") and row.summary["run"] == 1 for row in rows[1:])
    assert len(list((scheduling.skitter.folder / "parts").glob("news@*.jsonl"))) == 2


@only_sqlite
def test_failures_are_retried_and_their_reason_is_kept(scheduling: Scheduling) -> None:
    scheduling.site.page("/", "no", status=404)
    scheduling.add("news", *NEVER, "--retries", 1, "--retry-delay", "1s")
    scheduling.start()
    scheduling.command("schedule", "run", "news")
    (row,) = scheduling.wait_for("news", lambda rows: outcomes(rows) == ["failed"])
    assert (row.exit_code, row.attempts, row.manual) == (1, 2, True)
    assert row.reason
    assert scheduling.site.paths().count("/") == 2
    assert scheduling.run_of("news") == 2
    # Any command of skitter's, and what it printed.
    frontier = scheduling.frontier
    scheduling.skitter.run("schedule", "add", "check", *NEVER, "--frontier", frontier, "--", "fsck", "--job", "news")
    scheduling.command("schedule", "run", "check")
    (row,) = scheduling.wait_for("check", lambda rows: outcomes(rows) == ["done"])
    assert (row.exit_code, row.job) == (0, "")
    assert row.output


def test_sigterm_hands_a_run_to_the_next_scheduler(scheduling: Scheduling) -> None:
    scheduling.site.page("/", "".join(f'<a href="/{n}">{n}</a>' for n in range(6)) + '<a href="/slow">slow</a>')
    for number in range(6):
        scheduling.site.page(f"/{number}", f"<h1>{number}</h1>")
    scheduling.add("news", *NEVER)
    first = scheduling.start()
    scheduling.held.hold_again()
    scheduling.command("schedule", "run", "news")
    scheduling.until(lambda: "/slow" in scheduling.site.paths(), first)
    second = scheduling.start()
    first.terminate()
    scheduling.held.release()
    assert first.wait(HANG_SECONDS) == 143
    (row,) = scheduling.wait_for("news", lambda rows: outcomes(rows) == ["done"])
    assert (row.summary["run"], row.attempts) == (1, 1)
    assert str(second.pid) in row.node or str(first.pid) in row.node
    lines = scheduling.skitter.lines("news.jsonl")
    assert len({line["url"] for line in lines}) == len(lines) == 8


@only_sqlite
def test_kill_9_of_the_leader_is_made_good_by_another(scheduling: Scheduling) -> None:
    scheduling.add("news", *NEVER, path="/slow")
    scheduling.add("other", "--every", "1s", "--overlap", "queue", job="other")
    first = scheduling.start()
    scheduling.held.hold_again()
    scheduling.command("schedule", "run", "news")
    scheduling.until(lambda: "/slow" in scheduling.site.paths(), first)
    second = scheduling.start()
    os.kill(first.pid, signal.SIGKILL)
    died_at = time.time()
    scheduling.held.release()

    def other(rows: list[HistoryRow]) -> Any:
        return any((row.started_at or 0) > died_at and str(second.pid) in row.node for row in rows)

    scheduling.wait_for("other", other)
    (row,) = scheduling.wait_for("news", lambda rows: outcomes(rows) == ["done"])
    assert row.summary["run"] == scheduling.run_of("news") == 1
    assert len(scheduling.skitter.lines("news.jsonl")) == 1


@only_sqlite
def test_schedules_of_the_project_file(scheduling: Scheduling) -> None:
    table = f"""
        [[schedule]]
        name = "news"
        every = "1s"
        command = "crawl {scheduling.site.url()} --job news"

        [[schedule]]
        name = "yearly"
        cron = "0 2 1 1 *"
        timezone = "Asia/Shanghai"
        until = 2099-01-31
        command = ["jobs", "--json"]
        """
    scheduling.skitter.write("skitter.toml", table)
    scheduler = scheduling.start()
    scheduling.until((scheduling.skitter.folder / "jobs.db-schedules").exists, scheduler)
    scheduling.wait_for("news", lambda rows: "done" in outcomes(rows))
    yearly = scheduling.skitter.json("schedule", "show", "yearly", "--frontier", scheduling.frontier)
    assert (yearly["origin"], yearly["timezone"], yearly["command"]) == (
        "skitter.toml",
        "Asia/Shanghai",
        ["jobs", "--json"],
    )
    scheduler.terminate()
    scheduler.wait(HANG_SECONDS)
    scheduling.skitter.write("skitter.toml", table.replace('"1s"', '"1h"').replace('"0 2', '"0 3'))
    scheduling.start()

    def changed() -> bool:
        shown = scheduling.skitter.records("schedule", "list", "--frontier", scheduling.frontier)
        return [(view["every_seconds"], view["cron"]) for view in shown] == [(3600.0, ""), (None, "0 3 1 1 *")]

    scheduling.until(changed, scheduling.schedulers[-1])
    scheduling.skitter.write("skitter.toml", table.replace("crawl", "crwal"))
    refused = scheduling.skitter.run("scheduler", "--frontier", scheduling.frontier, code=2)
    assert "error: [[schedule]] news of skitter.toml: no such command: crwal" in refused.stderr
    assert "hint: did you mean crawl ?" in refused.stderr


def test_without_a_frontier_schedules_are_those_of_the_folder(skitter: Any, site: Any, until: Any) -> None:
    site.page("/", "<h1>home</h1>")
    added = skitter.run("schedule", "add", "news", *NEVER, "--", "crawl", site.url(), "--job", "news")
    assert "no scheduler is running" in added.stderr
    assert "warning: no scheduler is running" in skitter.run("schedule", "run", "news").stderr
    scheduler = skitter.start("scheduler")
    until((skitter.folder / ".skitter" / "news.db").exists, scheduler)
    until(lambda: skitter.records("schedule", "history", "news")[0]["outcome"] == "done", scheduler)
    listed = skitter.run("schedule", "list").stdout
    assert "news" in listed
    assert "0 0 1 1 * UTC" in listed
    assert "outcome" in skitter.run("schedule", "history", "news").stdout
    assert len(skitter.records("jobs")) == 1, "the file of schedules is not taken for a job"
    scheduler.terminate()
    assert scheduler.wait(HANG_SECONDS) == 143
    scheduler.communicate()


def test_a_run_key_begins_one_run_and_leaves_its_results_alone(skitter: Any, site: Any) -> None:
    site.page("/", "<h1>home</h1>")
    crawl = ("crawl", site.url(), "--job", "news", "-O", "news.jsonl", "--fresh")
    assert skitter.json(*crawl, "--run-key", "monday")["run"] == 1
    again = skitter.json(*crawl, "--run-key", "monday")
    assert (again["run"], again["begun"], again["pages"], again["state"]) == (1, "resumed", 1, "finished")
    assert len(skitter.lines("news.jsonl")) == 1
    assert skitter.json(*crawl, "--run-key", "tuesday")["run"] == 2
    assert skitter.json(*crawl, "--run-key", "monday")["run"] == 2, "a late command of the first run"
    assert site.paths().count("/") == 2
