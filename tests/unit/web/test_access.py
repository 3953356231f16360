"""Requests that pages of other sites have a browser send."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest
from tests.unit.web.conftest import TOKENS, Service

from skitter.web.access import COOKIE
from skitter.web.server import MasterServer, ServerConfig
from skitter.web.users import UserFile

EVIL = {"Origin": "https://evil.example", "Content-Type": "application/json"}


async def paused(url: str, **headers: str) -> int:
    async with aiohttp.ClientSession() as session:
        answer = await session.post(f"{url}/api/v1/jobs/shop/pause", data=b"{}", headers=EVIL | headers)
        return answer.status


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer anything"}], ids=str
)
async def test_a_master_without_credentials_believes_no_header_of_one(tmp_path: Path, headers: dict[str, str]) -> None:
    config = ServerConfig(frontiers=(f"sqlite:{tmp_path / 'jobs.db'}",), port=0)
    async with MasterServer(config).listening() as master:
        assert await paused(master.url, **headers) == 403


async def test_a_token_needs_no_page_of_ours(service: Service) -> None:
    assert await paused(service.master.url, Authorization=f"Bearer {TOKENS['operator']}") == 404
    assert await paused(service.master.url, Authorization="Basic YTpi") == 403


async def test_a_password_of_a_proxy_before_it_neither_ends_a_session_nor_proves_anything(tmp_path: Path) -> None:
    """A browser sends the password of HTTP authentication with every request, whichever page made it."""
    users = UserFile(tmp_path / "users", create=True)
    users.put("anna", "correct horse battery", "operator", [])
    anna = users.check_password("anna", "correct horse battery")
    assert anna is not None
    headers = {"Authorization": "Basic YTpi", "Cookie": f"{COOKIE}={users.begin_session(anna)}"}
    config = ServerConfig(frontiers=(f"sqlite:{tmp_path / 'jobs.db'}",), port=0, users=str(tmp_path / "users"))
    async with MasterServer(config).listening() as master, aiohttp.ClientSession() as session:
        answer = await session.get(f"{master.url}/api/v1/jobs", headers=headers)
        assert answer.status == 200
        assert await paused(master.url, **headers) == 403
        assert await paused(master.url, **headers | {"Origin": master.url}) == 404
