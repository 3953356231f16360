"""The profile of a crawl: the time of a page goes to the part that spends it."""

from __future__ import annotations

import msgspec
import pytest

from skitter.bench.bench_frontiers import Store
from skitter.bench.measured_process import measured
from skitter.bench.profile import Answer, Question
from skitter.testing.web import WebSpec, served

BURNS = """
    import time

    from skitter import Spider


    class Burns(Spider):
        name = "burns"
        start_urls = [{url!r}]

        def parse(self, response):
            until = time.thread_time() + 0.005
            while time.thread_time() < until:
                pass
            yield response.links()
"""


def test_a_callback_that_burns_cpu_is_found(skitter) -> None:
    with served(WebSpec.plain(hosts=1, pages_per_host=60)) as web:
        skitter.write("burns.py", BURNS.format(url=web.urls[0]))
        question = Question(url=web.urls[0], store=Store("memory:", "burns"), spider="burns.py")
        told = measured(["skitter.bench.profile"], folder=skitter.folder, stdin=msgspec.json.encode(question))
    answer = msgspec.convert(told.answer, Answer)
    parts = answer.sampled.parts
    assert answer.pages == 60
    assert parts["callback"] == pytest.approx(60 * 0.005, rel=0.2)
    assert max(parts, key=lambda part: parts[part]) == "callback"
    assert sum(parts.values()) == pytest.approx(answer.sampled.cpu_seconds)
