"""Schedules from Python, and what is refused when one is added."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

import skitter.schedules
from skitter.app.scheduled_command import CommandResult, command_words
from skitter.cli.scheduled_command import check_remote_command
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
    with pytest.raises(UsageError, match="the schedule already exists: news"):
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
        (["scheduler"], "this command cannot be scheduled"),
        (["crawl", "https://example.com/", "--no-such-option"], "no such option: --no-such-option"),
        (["crawl", "--help"], "only print the help"),
        (["crawl", "nowhere.py"], "nowhere.py"),
        (["crawl", "https://example.com/", "--set", "per_host=0"], "per_host"),
        (["crawl", "https://example.com/", "-o", "-"], "is not read: -o -"),
        (["crawl", "https://example.com/", "--frontier", "memory:"], "exists inside one process only"),
        (["crawl", "https://example.com/", "--run-key", "x"], "sets its own run key"),
        (["crawl", "--intake", "-", "--job", "x"], "has no input"),
        (["submit", "https://example.com/", "-o", "x.jsonl"], "no node given to write this"),
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
    ("command", "message"),
    [
        (["jobs"], "users of a server cannot schedule this command: jobs"),
        (["shell"], "cannot schedule this command: shell"),
        (["drop", "--job", "x"], "cannot schedule this command: drop"),
        (["export", "--job", "x", "-o", "x.csv"], "cannot schedule this command: export"),
        (["crawl", "/etc/evil.py"], "a spider outside the server's folder"),
        (["crawl", "../evil.py:Spider"], "a spider outside the server's folder"),
        (["crawl", "link/evil.py"], "a spider outside the server's folder"),
        (["crawl", "https://example.com/", "/etc/passwd"], "a spider outside"),
        (["crawl", "https://example.com/", "-o", "/etc/cron.d/x.jsonl"], "an output outside the server's folder"),
        (["crawl", "https://example.com/", "-O", "../x.csv"], "an output outside"),
        (["crawl", "https://example.com/", "-o", "file:///etc/x.jsonl"], "the output file:///etc/x.jsonl"),
        (["crawl", "https://example.com/", "-o", "/etc/x://y.jsonl"], "the output"),
        (["crawl", "https://example.com/", "-o", "sqlite:/etc/x.db"], "an output outside"),
        (["crawl", "https://example.com/", "-o", "sqlite:///etc/x.db"], "an output outside"),
        (["crawl", "https://example.com/", "-o", "python:os:system"], "the output python:os:system"),
        (["crawl", "https://example.com/", "-o", "PYTHON://os:system"], "the output PYTHON"),
        (["crawl", "https://example.com/", "--frontier", "sqlite:/etc/x.db"], "--frontier"),
        (["crawl", "https://example.com/", "--config", "x.py"], "--config"),
        (["crawl", "--intake", "file:/etc/passwd"], "--intakes"),
        (["crawl", "https://example.com/", "--proxies", "command:id"], "the setting proxies"),
        (["crawl", "https://example.com/", "--log", "/etc/x"], "the setting log_file"),
        (["crawl", "https://example.com/", "--cache", "/etc"], "the setting cache_dir"),
        (["crawl", "https://example.com/", "--metrics", "9464"], "the setting metrics"),
        (["crawl", "https://example.com/", "--set", "hooks=os:system"], "the setting hooks"),
        (["crawl", "https://example.com/", "--set", "item-functions=os:system"], "the setting item_functions"),
        (["crawl", "https://example.com/", "--set", "browser_path=/bin/sh"], "the setting browser_path"),
        (["crawl", "https://example.com/", "--set", "LOG_FILE=/etc/x"], "the setting LOG_FILE"),
        (["crawl", "https://example.com/", "--recrawl", "--stay"], "the setting stay"),
        (["submit", "https://example.com/", "--set", "trusted_code=x"], "the setting trusted_code"),
    ],
)
async def test_users_of_a_server_schedule_nothing_but_crawls_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], message: str
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "evil.py").write_text("raise SystemExit('it was run')")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "outside")
    monkeypatch.chdir(tmp_path / "folder")
    with pytest.raises(UsageError, match=message) as error:
        check_remote_command(command, "sqlite:jobs.db")
    assert error.value.hint


def test_users_of_a_server_schedule_crawls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "news.py").write_text(SPIDER)
    outputs = ["-o", "out/items.jsonl", "-o", "sqlite:items.db#news", "-o", "postgresql://h/db#t"]
    limits = ["--max-pages", "9", "--set", "delay_seconds=2", "--workers", "2", "--fresh"]
    checked = check_remote_command(["crawl", "news.py:News", *outputs, *limits], "sqlite:jobs.db")
    assert (checked.job, checked.takes_frontier) == ("news", True)
    assert check_remote_command(["submit", "https://example.com/", "--job", "x"], "sqlite:jobs.db").job == "x"


async def test_a_schedule_of_a_file_is_changed_there(schedules: Schedules) -> None:
    await schedules.apply("news", CRAWL, origin="skitter.toml", every="1h")
    with pytest.raises(UsageError, match=r"the schedule news is defined in skitter\.toml"):
        await schedules.add("news", CRAWL, every="2h", replace=True)
    assert (await schedules.get("news")).every_seconds == 3600


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "no time given"),
        ({"cron": "nonsense"}, "not a cron expression"),
        ({"cron": "0 2 * * *", "timezone": "Mars/Olympus"}, "no such time zone"),
        ({"every": "soon"}, "not a duration: --every soon"),
        ({"every": -5.0}, "not a duration: --every"),
        ({"every": "1h", "overlap": "maybe"}, "unknown: --overlap maybe"),
        ({"every": "1h", "catch_up": "some"}, "unknown: --catch-up some"),
        ({"every": "1h", "max_instances": 0}, "--max-instances 0"),
        ({"every": "1h", "retries": -1}, "--retries -1"),
        ({"every": "1h", "until": "2001-01-01"}, "the schedule never runs"),
        ({"every": "1h", "retry": 3}, "no such schedule setting: retry"),
        ({"every": "1h", "retries": "three"}, "invalid schedule setting"),
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
        with pytest.raises(UsageError, match="invalid schedule name"):
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
