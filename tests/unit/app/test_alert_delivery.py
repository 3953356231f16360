"""Telling people of an alert: each way by itself, and no secret of a webhook's URL in what is said of it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from skitter.alert_rules import AlertRule
from skitter.app.alert_delivery import deliver
from skitter.observe import events

MESSAGE = {"alert": "a", "status": "firing"}


def rule(**fields: Any) -> AlertRule:
    return AlertRule(name="a", figure="run", above=1, **fields)


@asynccontextmanager
async def hook(seen: list[bytes]) -> AsyncIterator[int]:
    """A webhook that takes everything."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def test_a_command_does_not_wait_for_a_webhook_that_fails(tmp_path: Path) -> None:
    seen: list[events.Event] = []
    both = rule(webhook="http://127.0.0.1:1/", command=["touch", str(tmp_path / "told")])
    telling = asyncio.create_task(deliver(both, MESSAGE, seen.append))
    async with asyncio.timeout(10):
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
    async with asyncio.timeout(10):
        while not seen:  # noqa: ASYNC110  said by an event
            await asyncio.sleep(0.01)
    telling.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await telling
    assert "token-of-mine" not in seen[0].fields["reason"]


async def test_the_user_of_a_webhook_is_sent_as_a_header() -> None:
    requests: list[bytes] = []
    async with hook(requests) as port:
        assert await deliver(rule(webhook=f"http://anna:s%40cret@127.0.0.1:{port}/x"), MESSAGE, print)
    assert b"Authorization: Basic " + base64.b64encode(b"anna:s@cret") in requests[0]
    assert requests[0].startswith(b"POST /x HTTP")


@pytest.mark.parametrize("fields", [{"above": float("nan")}, {"below": float("inf")}, {"clears_at": float("-inf")}])
def test_a_threshold_is_a_number(fields: dict[str, float]) -> None:
    usual = {} if "below" in fields else {"above": 1.0}
    with pytest.raises(ValueError, match="nan or inf"):
        AlertRule(name="a", figure="run", webhook="http://a.example/", **(usual | fields))
