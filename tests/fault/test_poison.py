"""Pages that kill or block the process of their callback: exactly those die (a page's fault costs the page)."""

from __future__ import annotations

import json

from skitter.testing.web import WebSpec, served

SPIDER = """
    import os
    import time

    from skitter import Request, Spider


    class Poison(Spider):
        name = "poison"

        def start(self):
            for number in range(1, 61):
                yield Request(f"{self.base}p/{number}", priority=number % 3)

        def parse(self, response):
            number = int(response.url.rsplit("/", 1)[1])
            if number in (17, 43):
                os.abort()
            if number == 32:
                while True:
                    time.sleep(60)
            yield {"number": number}
"""


def test_exactly_the_poisoned_pages_are_dead(skitter) -> None:
    skitter.write("poison.py", SPIDER)
    with served(WebSpec.plain(hosts=1, pages_per_host=70)) as web:
        summary = skitter.json(
            *("crawl", "poison.py", "-a", f"base={web.urls[0]}", "-o", "out.jsonl", "--job", "j", "--per-host", 64),
            *("--set", "callback_seconds=2"),
        )
    assert summary["state"] == "finished"
    numbers = [record["number"] for record in skitter.lines("out.jsonl")]
    assert sorted(numbers) == sorted(set(range(1, 61)) - {17, 43, 32})
    failed = [json.loads(line) for line in skitter.run("failed", "--job", "j", "--json").stdout.splitlines()]
    classes = {int(record["url"].rsplit("/", 1)[1]): record["error_class"] for record in failed}
    assert classes == {17: "lost", 43: "lost", 32: "callback"}
