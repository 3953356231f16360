"""A large page, committed in parts over a bad line: a part whose answer is lost is sent again, and counts once."""

from __future__ import annotations

from collections import Counter

import pytest

from rig.processes import HANG_SECONDS, wait_until
from rig.relay import Relay
from skitter.testing.web import WebSpec, served

ITEMS = 30_000
SPIDER = f"""
    import asyncio

    from skitter import Request, Spider


    class Large(Spider):
        name = "large"

        def start(self):
            yield Request(self.base)

        async def parse(self, response):
            for number in range({ITEMS}):
                yield {{"number": number}}
                if number % 1000 == 0:
                    await asyncio.sleep(0.05)
"""


@pytest.mark.timeout(110)
def test_parts_whose_answers_are_torn_are_stored_once(skitter, services) -> None:
    skitter.write("large.py", SPIDER)
    log = skitter.folder / "web.log"
    with (
        served(WebSpec.plain(hosts=1, pages_per_host=2), log) as web,
        Relay("127.0.0.1", services.need("redis")["port"]) as line,
    ):
        place = ("--frontier", f"redis://{line.address}", "--job", "torn-parts", "--fresh", "--ignore-robots")
        crawl = skitter.start("crawl", "large.py", "-a", f"base={web.urls[0]}", "-o", "out.jsonl", *place)
        # At the start a Redis that cannot be reached is an error; from the first page on it is waited for.
        wait_until(web.log, crawl, "a first page")
        line.cut_answers = 0.5
        wait_until(lambda: crawl.poll() is not None or line.cuts >= 20)
        line.cut_answers = 0.0
        out, error = crawl.communicate(timeout=HANG_SECONDS)
    assert crawl.returncode == 0, out + error
    assert line.cuts
    assert Counter(record["number"] for record in skitter.lines("out.jsonl")) == Counter(range(ITEMS))
