"""A request that comes too late to its socket is not sent: the server notices nothing."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from rig.web_connection import Server
from skitter.errors import LateError

PAST, SOON = -0.001, 60.0


def by(seconds: float) -> float:
    return time.monotonic() + seconds


async def test_no_connection_is_begun_too_late(serve: Any, client: Any) -> None:
    site = serve(serve.answer())
    with pytest.raises(LateError, match="too late to be sent"):
        await client.get(site.url(), start_by=by(PAST))
    assert (site.connections, client.fetcher.in_flight) == (0, 0)
    assert (await client.get(site.url(), start_by=by(SOON))).status == 200


async def test_nothing_is_sent_too_late_on_a_connection_that_was_kept(serve: Any, client: Any) -> None:
    site = serve(serve.answer())
    await client.get(site.url("/1"))
    with pytest.raises(LateError):
        await client.get(site.url("/2"), start_by=by(PAST))
    await client.get(site.url("/3"), start_by=by(SOON))
    assert [seen.path for seen in site.seen] == ["/1", "/3"]


async def test_a_connection_that_was_begun_in_time_may_take_its_time(
    serve: Any, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a host with a slow handshake could never be asked."""
    site = serve(serve.answer())
    clock = iter([1.0, 99.0])
    told = SimpleNamespace(monotonic=lambda: next(clock), time=time.time)
    monkeypatch.setattr("skitter.fetch.transfer.time", told)
    assert (await client.get(site.url(), start_by=2.0)).status == 200
    with pytest.raises(LateError):
        await client.get(site.url(), start_by=2.0)


async def test_on_send_is_called_once_for_each_request_over_a_new_and_over_a_kept_connection(
    serve: Any, client: Any
) -> None:
    site = serve(serve.answer())
    sent: list[int] = []
    for number in (1, 2):
        await client.get(site.url(f"/{number}"), on_send=lambda: sent.append(len(site.seen)))
    assert sent == [0, 1], "before the server has it"
    assert site.connections == 1


async def test_on_send_is_not_called_while_a_handshake_lasts(client: Any) -> None:
    """The next request of a host with a delay waits for it, and would overtake this one over a kept connection."""
    sent: list[bool] = []
    # Hangs up in the middle of the ClientHello.
    with Server(lambda connection: connection.read(1) and None, scheme="https") as server:
        assert await client.kind(server.url(), on_send=lambda: sent.append(True)) == "tls"
    assert not sent
