"""Watching the alerts of a job: several watchers tell once, and the next one goes on where the last has stopped."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skitter.alert_rules import AlertRule
from skitter.app import alert_delivery, alerts
from skitter.app.alerts import alerts_watched, store_alerts_watched
from skitter.app.frontiers import drop_job, open_frontier
from skitter.model.audit import Actor
from skitter.model.job import Command, State
from skitter.observe import events
from skitter.settings import Run
from skitter.testing.contract.client import Client

APPEND = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(alerts, "END_SECONDS", 0.2)
    monkeypatch.setattr(alert_delivery, "FIRST_PAUSE_SECONDS", 0.01)


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  what is waited for is a file that another process writes
            await asyncio.sleep(0.01)


def rule(file: Path, **fields: Any) -> AlertRule:
    usual = {"name": "queue", "figure": "requests:queued", "above": 2}
    return AlertRule(**(usual | {"command": [sys.executable, "-c", APPEND, str(file)]} | fields))


async def test_two_watchers_tell_once_and_the_next_tells_nothing_again(tmp_path: Path) -> None:
    url, file, other = f"sqlite:{tmp_path / 'jobs.db'}", tmp_path / "told", tmp_path / "other"
    run, seen = Run(alerts=(rule(file),)), []
    frontier = open_frontier(url, "j", create=True)
    client = Client(frontier, "j", set())
    await client.seeded("a/1", "a/2")

    def told() -> list[str]:
        lines = file.read_text().splitlines() if file.exists() else []
        return ["firing" if '"firing"' in line else "resolved" for line in lines]

    async with (
        alerts_watched(frontier, url, "j", run, seen.append),
        alerts_watched(frontier, url, "j", run, seen.append),
    ):
        await client.add("a/3", "a/4")
        await until(told)
    # The work has ended, and the alert has not: the next watcher goes on with it.
    assert told() == ["firing"]
    async with alerts_watched(frontier, url, "j", run, seen.append):
        await frontier.command(Command.STOP)
        await until(lambda: len(told()) == 2)
    assert told() == ["firing", "resolved"]
    assert [event.kind for event in seen] == [events.ALERT_FIRING, events.ALERT_RESOLVED], [
        event.fields for event in seen
    ]
    # Another alert shows that somebody watches again.
    always = rule(other, name="always", figure="run", above=0, only_running=False)
    async with alerts_watched(frontier, url, "j", Run(alerts=(rule(file), always)), seen.append):
        await until(other.exists)
    assert told() == ["firing", "resolved"]
    await frontier.close()


async def test_a_command_that_fails_is_tried_again_and_the_job_is_paused_nevertheless(tmp_path: Path) -> None:
    url, seen = "memory:", []
    fails = rule(tmp_path, command=[sys.executable, "-c", "import sys; sys.exit('no room')"], pause=True)
    frontier = open_frontier(url, "j", create=True)
    client = Client(frontier, "j", set())
    await client.seeded("a/1", "a/2", "a/3")

    def of(kind: events.Kind) -> list[dict[str, Any]]:
        return [event.fields for event in seen if event.kind is kind]

    more = rule(tmp_path / "told", name="more", above=3)
    async with alerts_watched(frontier, url, "j", Run(alerts=(fails, more)), seen.append):
        await until(lambda: of(events.ALERT_NOT_TOLD))
        assert (await frontier.state()).state is State.PAUSED
        # Resumed by hand, it is not paused again while the alert goes on, as the next look shows.
        await frontier.command(Command.RESUME)
        await client.add("a/4")
        await until(lambda: len(of(events.ALERT_FIRING)) == 2)
        assert (await frontier.state()).state is State.RUNNING
    assert of(events.ALERT_NOT_TOLD)[0]["reason"] == "exit code 1: no room"
    assert [fields["alert"] for fields in of(events.ALERT_FIRING)] == ["queue", "more"]


async def test_a_job_that_no_rule_is_for_is_not_watched(tmp_path: Path) -> None:
    url, file = f"sqlite:{tmp_path / 'jobs.db'}", tmp_path / "told"
    frontier = open_frontier(url, "j", create=True)
    await Client(frontier, "j", set()).seeded("a/1", "a/2", "a/3")
    seen: list[events.Event] = []
    async with alerts_watched(frontier, url, "j", Run(alerts=(rule(file, job="shop-*"),)), seen.append):
        pass
    assert not seen
    assert not (tmp_path / "jobs.db-locks").exists()
    await frontier.close()


class Files:
    """A store with a file for each job."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self._folder = folder
        self.names = names

    async def jobs(self) -> list[str]:
        return self.names

    def url_of(self, job: str) -> str:
        return f"sqlite:{self._folder / job}.db"

    async def fill(self, job: str, *, command: Command | None = None) -> None:
        frontier = open_frontier(self.url_of(job), job, create=True)
        await Client(frontier, job, set()).seeded("a/1", "a/2", "a/3")
        if command is not None:
            await frontier.command(command)
        await frontier.close()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setattr(alerts, "JOBS_SECONDS", 0.05)
    return Files(tmp_path, ["a", "b"])


async def test_a_job_that_cannot_be_read_hides_no_other(files: Files, tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"no database" * 1000)
    await files.fill("b")
    async with store_alerts_watched(files, Run(alerts=(rule(tmp_path / "told"),))):
        await until((tmp_path / "told").exists)


async def test_jobs_that_have_ended_make_room_for_others(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "MAX_JOBS", 1)
    await files.fill("a", command=Command.STOP)
    await files.fill("b")
    async with store_alerts_watched(files, Run(alerts=(rule(tmp_path / "told"),))):
        await until((tmp_path / "told").exists)


async def test_a_job_that_is_dropped_and_begun_again_is_watched(files: Files, tmp_path: Path) -> None:
    await files.fill("b")
    file = tmp_path / "told"
    async with store_alerts_watched(files, Run(alerts=(rule(file),))):
        await until(lambda: file.exists() and '"firing"' in file.read_text())
        file.unlink()
        assert await drop_job(files.url_of("b"), "b", Actor("somebody"))
        await files.fill("b", command=Command.STOP)
        await until(lambda: file.exists() and '"resolved"' in file.read_text())


async def test_the_end_waits_for_all_jobs_at_once(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "END_SECONDS", 1.0)
    files.names = [f"job-{number}" for number in range(5)]
    for name in files.names:
        await files.fill(name)
    waits = rule(tmp_path, command=["sleep", "60"])
    fired: list[str] = []
    monkeypatch.setattr(alerts, "_emit_of", lambda job: lambda _: fired.append(job))
    async with store_alerts_watched(files, Run(alerts=(waits,))):
        await until(lambda: len(fired) == 5)
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 4
