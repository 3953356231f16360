"""A worker that is sent large bodies on all its slots takes no more memory than it says."""

from __future__ import annotations

import gzip
import random
import sys
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from skitter.settings import Fetch

MEGABYTE = 1_048_576
COUNT = 64
SPIDER = """
    from pathlib import Path

    from skitter import Request, Spider


    def memory_kb(name):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name))


    class Reader(Spider):
        name = "reader"

        def start(self):
            yield Request(f"{self.base}/small")

        def parse(self, response):
            yield {"bytes": len(response.body), "idle_kb": memory_kb("VmRSS")}
            for number in range(int(self.count)):
                yield Request(f"{self.base}/large/{number}", callback=self.parse_large)

        def parse_large(self, response):
            yield {"bytes": len(response.body), "peak_kb": memory_kb("VmHWM")}
"""


def rows(size: int) -> bytes:
    """A table, as large: it packs as pages do."""
    chance = random.Random(3)
    line = b"<tr><td>%012d</td><td>%s</td></tr>\n"
    lines = (line % (number, chance.randbytes(10).hex().encode()) for number in range(size // 56))
    return b"".join(lines)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells how large a process was")
@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("identity", bytes),
        ("gzip", lambda body: gzip.compress(body, 1)),
        ("deflate", lambda body: zlib.compress(body, 1)),
    ],
)
def test_large_bodies_on_all_slots_are_read_within_the_cap_and_64_megabytes(
    encoding: str, pack: Callable[[bytes], bytes], skitter: Any, site: Any
) -> None:
    body = rows(8_000_000)
    site.page("/small", "small")
    answer = (200, {"Content-Type": "text/plain", "Content-Encoding": encoding}, pack(body))
    for number in range(COUNT):
        site.answers[f"/large/{number}"] = answer
    skitter.write("reader.py", SPIDER)
    summary = skitter.json(
        *("crawl", "reader.py", "-a", f"base={site.base}", "-a", f"count={COUNT}", "-o", "out.jsonl"),
        *("--concurrency", COUNT, "--per-host", COUNT, "--set", "timeout_seconds=120"),
    )
    assert summary["pages"] == 1 + COUNT
    records = skitter.lines("out.jsonl")
    assert sorted(record["bytes"] for record in records) == [5] + [len(body)] * COUNT
    idle = next(record["idle_kb"] for record in records if "idle_kb" in record)
    peak = max(record.get("peak_kb", 0) for record in records)
    assert (peak - idle) * 1024 <= Fetch().max_body_bytes + 64 * MEGABYTE
