"""Schedules from Python, and what is refused when one is added."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

import skitter.schedules
from skitter.app.scheduled_command import CommandResult, command_words
from skitter.errors import UsageError
from skitter.model.schedule import Overlap, Schedule, ScheduleRecord, Tick
from skitter.schedules import Schedules

CRAWL = ["crawl", "https://example.com/", "--job", "news"]
SPIDER = """
import skitter

class News(skitter.Spider):
    name = "news"
    start_urls = ["https://example.com/"]

    def parse(self, response):
        yield {}
"""


@pytest.fixture
async def schedules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Schedules]:
    monkeypatch.chdir(tmp_path)
    async with skitter.schedules.connect(f"sqlite:{tmp_path}/jobs.db") as connected:
        yield connected


async def test_a_schedule_through_its_life(schedules: Schedules) -> None:
    view = await schedules.add("news", CRAWL, cron="0 2 * * *", timezone="Asia/Shanghai", until=date(2099, 1, 31))
    assert (view.job, view.cron, view.paused, view.last) == ("news", "0 2 * * *", False, None)
    assert view.until == datetime(2099, 1, 30, 16, tzinfo=UTC).timestamp()
    assert view.next_at is not None
    assert datetime.fromtimestamp(view.next_at, UTC).hour == 18
    assert (await schedules.pause("news")).paused
    assert (await schedules.pause("news")).paused
    assert not (await schedules.resume("news")).paused
    at = await schedules.run("news")
    assert (await schedules.get("news")).waiting == [at]
    assert await schedules.history("news") == []
    assert await schedules.leader() == ""
    await schedules.remove("news")
    assert await schedules.list() == []


async def test_a_schedule_is_changed_only_on_request_and_keeps_its_anchor(schedules: Schedules) -> None:
    await schedules.add("news", CRAWL, every="1h")
    with pytest.raises(UsageError, match="there is such a schedule: news"):
        await schedules.add("news", CRAWL, every="2h")
    first = await schedules.get("news")
    again = await schedules.add("news", CRAWL, every=3600, retries=2, replace=True)
    assert (again.next_at, again.retries) == (first.next_at, 2)
    other = await schedules.add("news", CRAWL, every="2h", replace=True)
    assert other.every_seconds == 7200


async def test_what_the_command_is_about_is_known_from_its_words(schedules: Schedules, tmp_path: Path) -> None:
    (tmp_path / "news.py").write_text(SPIDER)
    assert (await schedules.add("a", ["crawl", "news.py"], every="1h")).job == "news"
    assert (await schedules.add("b", ["skitter", "jobs", "--json"], every="1h")).command == ["jobs", "--json"]
    assert (await schedules.add("c", ["export", "--job", "x", "-o", "x.csv"], every="1h")).job == ""


async def test_a_token_of_the_environment_is_not_stored(
    schedules: Schedules, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKITTER_TOKEN", "a-secret-token")
    await schedules.add("news", ["status", "--frontier", "https://master:8601", "--job", "x"], every="1h")
    assert b"a-secret-token" not in (tmp_path / "jobs.db-schedules").read_bytes()
    assert b"https://master:8601" in (tmp_path / "jobs.db-schedules").read_bytes()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ([], "no command to schedule"),
        (["crwal", "https://example.com/"], "no such command: crwal"),
        (["rm", "-rf", "/"], "no such command: rm"),
        (["scheduler"], "not a command for a schedule"),
        (["crawl", "https://example.com/", "--no-such-option"], "no such option: --no-such-option"),
        (["crawl", "--help"], "only print its help"),
        (["crawl", "nowhere.py"], "nowhere.py"),
        (["crawl", "https://example.com/", "--set", "per_host=none"], "per_host"),
        (["crawl", "https://example.com/", "-o", "-"], "prints to nobody"),
        (["crawl", "https://example.com/", "--frontier", "memory:"], "lives inside one crawl only"),
        (["crawl", "https://example.com/", "--run-key", "x"], "gives its own"),
        (["crawl", "--intake", "-", "--job", "x"], "told nothing"),
        (["submit", "https://example.com/", "-o", "x.jsonl"], "which node writes this"),
        (["export", "--job"], "expected one argument"),
    ],
)
async def test_commands_that_could_not_run_are_refused(
    schedules: Schedules, command: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match=message) as error:
        await schedules.add("news", command, every="1h")
    assert error.value.hint
    assert await schedules.list() == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "when does it run"),
        ({"cron": "nonsense"}, "not a cron expression"),
        ({"cron": "0 2 * * *", "timezone": "Mars/Olympus"}, "no such time zone"),
        ({"every": "soon"}, "not a duration: --every soon"),
        ({"every": -5.0}, "not a duration: --every"),
        ({"every": "1h", "overlap": "maybe"}, "unknown: --overlap maybe"),
        ({"every": "1h", "catch_up": "some"}, "unknown: --catch-up some"),
        ({"every": "1h", "max_instances": 0}, "--max-instances 0"),
        ({"every": "1h", "retries": -1}, "--retries -1"),
        ({"every": "1h", "until": "2001-01-01"}, "no time ever comes"),
        ({"every": "1h", "retry": 3}, "no such setting of a schedule: retry"),
        ({"every": "1h", "retries": "three"}, "a bad setting"),
    ],
)
async def test_settings_that_cannot_work_are_refused(
    schedules: Schedules, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as error:
        await schedules.add("news", CRAWL, **settings)
    assert error.value.hint
    assert await schedules.list() == []


async def test_names(schedules: Schedules) -> None:
    for name in ("", "a b", "../x", "#leader", "-x", "x" * 61):
        with pytest.raises(UsageError, match="not a name for a schedule"):
            await schedules.add(name, CRAWL, every="1h")
    long_job = ["crawl", "https://example.com/", "--job", "j" * 90]
    with pytest.raises(UsageError, match="too long for jobs named JOB@TIME"):
        await schedules.add("news", long_job, every="1h", overlap="allow")
    await schedules.add("nightly", CRAWL, every="1h")
    with pytest.raises(UsageError, match="no such schedule: nihgtly") as error:
        await schedules.pause("nihgtly")
    assert error.value.hint == "did you mean nightly ?"
    for call in (schedules.get, schedules.remove, schedules.run, schedules.history):
        with pytest.raises(UsageError, match="no such schedule"):
            await call("other")


def record(overlap: Overlap, *command: str, job: str = "", takes_frontier: bool = True) -> ScheduleRecord:
    schedule = Schedule(
        name="s", command=list(command), every_seconds=60, overlap=overlap, job=job, takes_frontier=takes_frontier
    )
    return ScheduleRecord(schedule=schedule, added_at=0.0, cursor=0.0)


TICK = Tick(scheduled_at=60.0, start_at=60.0)


def test_words_of_a_command() -> None:
    crawl = record(Overlap.SKIP, "crawl", "news.py", job="news")
    key = ["--run-key", "s@60.000#1", "--json"]
    assert command_words(crawl, TICK, "") == ["crawl", "news.py", "--job", "news", *key]
    assert command_words(crawl, TICK, "redis://h")[2:4] == ["--frontier", "redis://h"]
    named = record(Overlap.ALLOW, "crawl", "news.py", "--job=news", job="news", takes_frontier=False)
    assert command_words(named, TICK, "redis://h") == [
        *("crawl", "news.py", "--job=news", "--job", "news@19700101T000100Z"),
        *key,
    ]
    replaces = Tick(scheduled_at=60.0, start_at=60.0, replaces=True)
    assert command_words(record(Overlap.REPLACE, "crawl", "x", "--job", "x", job="x"), replaces, "")[-1] == "--fresh"
    assert command_words(record(Overlap.SKIP, "fsck", "--", "x"), TICK, "sqlite:x") == [
        *("fsck", "--frontier", "sqlite:x", "--", "x"),
    ]


@pytest.mark.parametrize(
    ("exit_code", "summary", "output", "reason"),
    [
        (0, {}, "", ""),
        (0, {"state": "stopped", "reason": "max_pages"}, "", "stopped by max_pages"),
        (3, {}, "job x\nerror: no connection: redis\nhint: start it", "no connection: redis"),
        (1, {}, "warning: x", "exit code 1"),
        (143, {}, "", "ended by SIGTERM"),
        (-9, {}, "", "ended by SIGKILL"),
    ],
)
def test_reasons_of_an_end(exit_code: int, summary: dict[str, str], output: str, reason: str) -> None:
    assert CommandResult(exit_code=exit_code, summary=summary, output=output).reason == reason
