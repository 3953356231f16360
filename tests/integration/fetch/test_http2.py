"""HTTP/2 to https servers, when they offer it."""

from __future__ import annotations

import asyncio
from typing import Any

from rig.http2_attacks import DATA, END_HEADERS, END_STREAM, HEADERS, OK, frame, http2_context, literal, requests
from rig.web_connection import Connection, Server
from skitter.settings import Fetch


def answer_streams(connection: Connection) -> None:
    """To every request 200 and the number of its stream."""
    for stream in requests(connection):
        head = frame(HEADERS, END_HEADERS, stream, OK + literal(b"x-name", b"two"))
        connection.send(head + frame(DATA, END_STREAM, stream, b"stream %d" % stream))


async def test_requests_share_one_connection(make_client: Any, certificate: str) -> None:
    client = make_client(ca_file=certificate)
    with Server(answer_streams, tls=http2_context()) as server:
        pages = await asyncio.gather(*(client.get(server.url()) for _ in range(20)))
        assert {page.http_version for page in pages} == {"2"}
        assert {page.status for page in pages} == {200}
        assert pages[0].headers == [("x-name", "two")]
        assert len({page.body for page in pages}) == 20
        assert server.connections == 1
        await client.fetcher.close()


async def test_http2_can_be_turned_off(serve: Any, make_client: Any, certificate: str) -> None:
    site = serve(serve.answer(), tls=True)
    client = make_client(Fetch(http2=False), ca_file=certificate)
    assert (await client.get(site.url())).http_version == "1.1"
