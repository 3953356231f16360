"""``self.lock`` in spiders: all workers of a job exclude each other, and a page that is cut off lets go."""

from __future__ import annotations

import uuid

import pytest

from skitter.testing.web import WebSpec, served

SPIDER = """
    import asyncio
    from pathlib import Path

    from skitter import Request, Spider


    class Counter(Spider):
        name = "counter"

        def start(self):
            yield Request(f"{self.base}p/1", callback=self.hangs)
            yield Request(f"{self.base}p/2", callback=self.waits)
            for number in range(3, 15):
                yield Request(f"{self.base}p/{number}")

        async def hangs(self, response):
            async with self.lock("hung"):
                Path("is-hung").touch()
                await asyncio.sleep(3600)

        async def waits(self, response):
            while not Path("is-hung").exists():
                await asyncio.sleep(0.05)
            await asyncio.sleep(3)
            # So that its time ends three seconds after that of the other.
            yield Request(f"{self.base}p/20", callback=self.follows)

        async def follows(self, response):
            async with self.lock("hung") as held:
                yield {"follows": held.token}

        async def parse(self, response):
            async with self.lock("counter") as held:
                count = int(Path("count").read_text())
                await asyncio.sleep(0.005)
                Path("count").write_text(str(count + 1))
            yield {"token": held.token}
"""


@pytest.mark.parametrize(
    "kind", ["sqlite", "memory", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("redis", "coordinator"))]
)
def test_all_workers_of_a_job_take_turns_and_a_page_that_is_cut_off_lets_go(skitter, services, kind) -> None:
    skitter.write("counter.py", SPIDER)
    skitter.write("count", "0")
    match kind:
        case "sqlite":
            place = ("--workers", 2)
        case "memory":
            place = ("--frontier", "memory:")
        case "redis":
            place = ("--workers", 2, "--frontier", services.need("redis")["url"])
        case _:
            place = ("--workers", 2, "--coordinator", "sqlite:coordinator.db")
    job = f"counter-{uuid.uuid4().hex[:8]}"
    with served(WebSpec.plain(hosts=1, pages_per_host=40)) as web:
        summary = skitter.json(
            *("crawl", "counter.py", "-a", f"base={web.urls[0]}", "-o", "out.jsonl", "--job", job, *place),
            *("--per-host", 64, "--set", "callback_seconds=6"),
        )
    assert summary["state"] == "finished"
    items = skitter.lines("out.jsonl")
    tokens = [item["token"] for item in items if "token" in item]
    assert (skitter.folder / "count").read_text() == "12"
    assert len(set(tokens)) == 12
    assert [item for item in items if "follows" in item], "who waited has got it"
    assert summary["failed"] == 1, "the page that held it for ever"
