"""``/metrics`` of a master: of a store without schedules, and for a credential with jobs of its own."""

from __future__ import annotations

from pathlib import Path

import aiohttp
from tests.unit.web.conftest import TOKENS, Service

from skitter.app.schedules import CommandTarget, Schedules
from skitter.web.server import MasterServer, ServerConfig

LIMITED = "limited-token-0123456789"


async def scraped(url: str, token: str = "") -> tuple[int, list[str]]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics", headers=headers) as answer:
        return answer.status, (await answer.text()).splitlines()


async def test_a_master_before_another_master_has_metrics(service: Service) -> None:
    store = service.master.url.replace("://", f"://:{TOKENS['viewer']}@")
    async with MasterServer(ServerConfig(frontiers=(store,), port=0)).listening() as second:
        status, lines = await scraped(second.url)
    assert status == 200, lines
    assert 'skitter_schedules{state="active"} 0' in lines


async def test_schedules_of_other_jobs_are_not_counted(service: Service, tmp_path: Path) -> None:
    with service.token_file.open("a") as file:
        file.write(f"\nviewer {LIMITED} shop-*\n")
    service.master.access._tokens._read()  # type: ignore[union-attr]
    async with Schedules(
        f"sqlite:{tmp_path / 'master.db'}", check_command=lambda words, _: CommandTarget(list(words), job=words[-1])
    ) as schedules:
        for job in ("shop-1", "news"):
            await schedules.add(job, ["crawl", "--job", job], every="1h")
    active = 'skitter_schedules{state="active"}'
    assert f"{active} 2" in (await scraped(service.master.url, TOKENS["viewer"]))[1]
    assert f"{active} 1" in (await scraped(service.master.url, LIMITED))[1]
