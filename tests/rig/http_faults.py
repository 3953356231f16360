"""A bad network before a master: answers that get lost, calls that come twice, and delays both ways.

It is a relay that knows where a call of HTTP begins and ends.
"""

from __future__ import annotations

import asyncio
import re
from urllib.parse import urlsplit

from rig.relay import Relay

AWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"
_CLOSES = re.compile(rb"(?i)\r\nconnection: *close")
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")


class HttpFaults(Relay):
    """Between clients and the master at ``target``; ``url`` is what clients are told. A context manager."""

    def __init__(self, target: str, *, seed: int = 0) -> None:
        place = urlsplit(target)
        super().__init__(place.hostname or "", place.port or 0, seed=seed)
        self.lost_answers = self.doubled_calls = 0.0
        """Of all calls, so many."""
        self.one_way_seconds = 0.0
        self.doubled = 0

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            call = _CLOSES.sub(b"", head).removesuffix(b"\r\n") + b"Connection: close\r\n\r\n"
            call += await reader.readexactly(_length(head))
            await asyncio.sleep(self.one_way_seconds)
            if self._chance.random() < self.doubled_calls:
                self._count(doubled=1)
                await self._answer(call)
            answer = await self._answer(call)
            await asyncio.sleep(self.one_way_seconds)
            if self._chance.random() < self.lost_answers:
                self._count(lost=1)
                return
            writer.write(answer)
            await writer.drain()

    async def _answer(self, call: bytes) -> bytes:
        """The whole answer of the master, which may be away."""
        try:
            reader, writer = await asyncio.open_connection(*self._target)
        except OSError:
            return AWAY
        try:
            writer.write(call)
            head, end, body = (await reader.read()).partition(b"\r\n\r\n")
        except OSError:
            return AWAY
        finally:
            writer.close()
        return _CLOSES.sub(b"", head) + end + body if end and len(body) == _length(head) else AWAY


def _length(head: bytes) -> int:
    found = _LENGTH.search(head)
    return int(found[1]) if found else 0
