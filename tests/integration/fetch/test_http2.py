"""HTTP/2 to https servers, when they offer it."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from skitter.settings import Fetch

_SETTINGS, _HEADERS, _DATA, _ACK, _END_STREAM, _END_HEADERS = 4, 1, 0, 1, 1, 4
# HPACK without compression: ":status: 200" from the static table, then one literal header.
_RESPONSE = b"\x88" + b"\x00\x06x-name\x03two"


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


class Http2Server:
    """Just enough of the protocol: answers every HEADERS frame with 200 and the stream's number."""

    def __init__(self) -> None:
        self.connections = 0
        self.tasks: set[asyncio.Task[None]] = set()

    async def start(self, certificate: str) -> asyncio.Server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        context.set_alpn_protocols(["h2"])
        return await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=context)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await reader.readexactly(len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
            writer.write(_frame(_SETTINGS, 0, 0))
            while True:
                head = await reader.readexactly(9)
                await reader.readexactly(int.from_bytes(head[:3], "big"))
                kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
                if kind == _SETTINGS and not flags & _ACK:
                    writer.write(_frame(_SETTINGS, _ACK, 0))
                elif kind == _HEADERS:
                    writer.write(_frame(_HEADERS, _END_HEADERS, stream, _RESPONSE))
                    writer.write(_frame(_DATA, _END_STREAM, stream, b"stream %d" % stream))
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            writer.close()


async def test_requests_share_one_connection(make_client: Any, certificate: str) -> None:
    http2 = Http2Server()
    server = await http2.start(certificate)
    client = make_client(ca_file=certificate)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    pages = await asyncio.gather(*(client.get(url) for _ in range(20)))
    assert {page.http_version for page in pages} == {"2"}
    assert {page.status for page in pages} == {200}
    assert pages[0].headers == [("x-name", "two")]
    assert len({page.body for page in pages}) == 20
    assert http2.connections == 1
    await client.fetcher.close()
    server.close()


async def test_http2_can_be_turned_off(serve: Any, make_client: Any, certificate: str) -> None:
    site = await serve(serve.answer(), tls=True)
    client = make_client(Fetch(http2=False), ca_file=certificate)
    assert (await client.get(site.url())).http_version == "1.1"
