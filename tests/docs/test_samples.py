"""Every code block of the documentation runs, or says why it does not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sample_blocks import SERVERS, Block, blocks_of, violations
from sample_runner import BlockFailedError, PageRun

if TYPE_CHECKING:
    from rig.services import Services

ROOT = Path(__file__).resolve().parents[2]
SERVER_PORT = ":8601"
"""Where ``skitter serve`` listens if nothing else is said: pages that show it run one at a time."""


def pages() -> list[str]:
    """README and everything below docs/ except the decisions. tests/meta compares the blocks of the Chinese README."""
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    names = [str(path.relative_to(ROOT)) for path in found]
    return sorted(name for name in names if not name.startswith("docs/adr/"))


@pytest.mark.parametrize("name", pages())
def test_every_block_of_the_page_runs(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    problems = [f"{name}:{found}" for found in violations(text)] or _problems_of_run(name, text, tmp_path, request)
    assert not problems, "\n".join(["", *problems])


def _problems_of_run(name: str, text: str, folder: Path, request: pytest.FixtureRequest) -> list[str]:
    blocks = blocks_of(text)
    if not any(block.is_run for block in blocks):
        return []
    if any(SERVER_PORT in block.code for block in blocks):
        request.getfixturevalue("port_of_serve")
    demo = request.getfixturevalue("demo_address")
    run = PageRun(folder, demo=demo, servers=_servers(blocks, request))
    try:
        for block in blocks:
            run.run(block)
        run.check_files()
    except BlockFailedError as error:
        return [f"{name}:{error}"]
    return []


def _servers(blocks: list[Block], request: pytest.FixtureRequest) -> dict[str, str]:
    """The private servers that blocks of the page need; an empty Redis."""
    needed = {word.strip() for block in blocks if "needs" in block.marks for word in block.marks["needs"].split(",")}
    if not needed:
        return {}
    services: Services = request.getfixturevalue("services")
    urls = {name: f"{name}://127.0.0.1:{services.need(name)['port']}" for name in needed & SERVERS.keys()}
    if "redis" in urls:
        import redis

        with redis.Redis.from_url(urls["redis"]) as client:
            client.flushall()
    return urls
