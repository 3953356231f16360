"""Telling people of an alert: each way by itself, and no secret of a webhook's URL in what is said of it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from pathlib import Path
from typing import Any

import pytest

from rig.web import Site
from skitter.alert_rules import AlertRule
from skitter.app.alert_delivery import deliver
from skitter.observe import events

MESSAGE = {"alert": "a", "status": "firing"}


def rule(**fields: Any) -> AlertRule:
    return AlertRule(name="a", figure="run", above=1, **fields)


async def test_a_command_does_not_wait_for_a_webhook_that_fails(tmp_path: Path) -> None:
    seen: list[events.Event] = []
    both = rule(webhook="http://127.0.0.1:1/", command=["touch", str(tmp_path / "told")])
    telling = asyncio.create_task(deliver(both, MESSAGE, seen.append))
    async with asyncio.timeout(60):
        while not (tmp_path / "told").exists():  # noqa: ASYNC110  another process makes it
            await asyncio.sleep(0.01)
    assert not telling.done()
    telling.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await telling
    assert {event.fields["place"] for event in seen} == {"webhook"}


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/a token-of-mine", "http://host token-of-mine/"])
async def test_what_is_wrong_with_a_webhook_is_said_without_its_url(url: str) -> None:
    seen: list[events.Event] = []
    telling = asyncio.create_task(deliver(rule(webhook=url), MESSAGE, seen.append))
    async with asyncio.timeout(60):
        while not seen:  # noqa: ASYNC110  said by an event
            await asyncio.sleep(0.01)
    telling.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await telling
    assert "token-of-mine" not in seen[0].fields["reason"]


async def test_the_user_of_a_webhook_is_sent_as_a_header() -> None:
    with Site({"/x": (204, {}, b"")}) as hook:
        url = hook.url("/x", "anna:s%40cret@127.0.0.1")
        assert await deliver(rule(webhook=url), MESSAGE, print)
    (seen,) = hook.seen
    assert (seen.method, seen.path) == ("POST", "/x")
    assert seen.headers["authorization"] == f"Basic {base64.b64encode(b'anna:s@cret').decode()}"


@pytest.mark.parametrize("fields", [{"above": float("nan")}, {"below": float("inf")}, {"clears_at": float("-inf")}])
def test_a_threshold_is_a_number(fields: dict[str, float]) -> None:
    usual = {} if "below" in fields else {"above": 1.0}
    with pytest.raises(ValueError, match="nan or inf"):
        AlertRule(name="a", figure="run", webhook="http://a.example/", **(usual | fields))
