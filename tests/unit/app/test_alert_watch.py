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
from skitter.app.alerts import alerts_watched
from skitter.app.frontiers import open_frontier
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
    async with asyncio.timeout(30):
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
    assert [event.kind for event in seen] == [events.ALERT_FIRING, events.ALERT_RESOLVED]
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
