"""A master in this process, on an SQLite file, and what its clients may do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest_asyncio

from skitter.frontier.contract import Frontier
from skitter.frontier.http import http_frontier, wire
from skitter.model.capability import MEANINGS
from skitter.web.server import MasterServer, ServerConfig

TOKENS = {role: f"{role}-token-0123456789" for role in ("viewer", "worker", "operator", "admin")}
OTHER_WORKER = "another-worker-0123456789"
HEADERS = {wire.VERSION_HEADER: wire.VERSION, "Content-Type": wire.CONTENT_TYPE}


class Service:
    """A running master, its clients by role, and raw requests to it."""

    def __init__(self, master: MasterServer, stack: AsyncExitStack, token_file: Path) -> None:
        self.master = master
        self.token_file = token_file
        self._stack = stack

    def client(self, token: str, job: str = "job") -> Frontier:
        """A client with the token of a role, or another token."""
        scheme, _, place = self.master.url.partition("://")
        frontier = http_frontier(f"{scheme}://:{TOKENS.get(token, token)}@{place}", job)
        self._stack.push_async_callback(frontier.close)
        return frontier

    async def post(self, path: str, body: bytes = b"", token: str = "", **headers: str) -> tuple[int, bytes]:
        """The status of one request, and what came."""
        named = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            named["Authorization"] = f"Bearer {TOKENS.get(token, token)}"
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.master.url + path, data=body, headers=named) as answer,
        ):
            return answer.status, await answer.read()


@pytest_asyncio.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    lines = [f"{role} {token}" for role, token in TOKENS.items()]
    token_file = tmp_path / "tokens"
    token_file.touch(0o600)
    token_file.write_text("\n".join(["# who may do what", *lines, f"worker {OTHER_WORKER} job shop-*"]))
    config = ServerConfig(
        frontiers=(f"sqlite:{tmp_path / 'master.db'}",), port=0, token_file=str(token_file), allow=frozenset(MEANINGS)
    )
    async with AsyncExitStack() as stack:
        master = await stack.enter_async_context(MasterServer(config).listening())
        yield Service(master, stack, token_file)


Ask = Callable[..., Awaitable[Any]]
