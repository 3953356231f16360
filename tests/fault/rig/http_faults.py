"""A bad network before a master: answers that get lost, calls that come twice, and delays both ways.

It knows where an HTTP call begins and ends, and runs in a thread of its own.
"""

from __future__ import annotations

import asyncio
import random
import threading
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web


class HttpFaults:
    """Between clients and the master at ``target``; ``url`` is what clients are told. A context manager."""

    def __init__(self, target: str, *, seed: int = 0) -> None:
        self.lost_answers = self.doubled_calls = 0.0
        """Of all calls, so many."""
        self.one_way_seconds = 0.0
        self.lost = self.doubled = 0
        self._target = target
        self._chance = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="http-faults", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._call(self._start())}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, step: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(30)

    async def _start(self) -> int:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{path:.*}", self._pass)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return self._runner.addresses[0][1]

    async def _stop(self) -> None:
        await self._runner.cleanup()
        await self._session.close()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        await asyncio.sleep(self.one_way_seconds)
        headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        times = 1
        if self._chance.random() < self.doubled_calls:
            times, self.doubled = 2, self.doubled + 1
        content, status, answered = b"", 502, {}
        for _ in range(times):
            try:
                async with self._session.post(self._target + request.path, data=body, headers=headers) as answer:
                    content, status, answered = await answer.read(), answer.status, answer.headers
            except aiohttp.ClientError:
                content, status, answered = b"", 502, {}
        await asyncio.sleep(self.one_way_seconds)
        if self._chance.random() < self.lost_answers:
            self.lost += 1
            assert request.transport is not None
            request.transport.abort()
        named = {name: value for name, value in answered.items() if name.lower().startswith("skitter")}
        return web.Response(body=content, status=status, headers=named)
