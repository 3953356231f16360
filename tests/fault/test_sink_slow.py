"""A sink ten times slower than the crawl: leasing waits for it, nothing is dropped, and no process grows."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from rig.processes import children

ITEMS_A_PAGE = 50
ITEM_BYTES = 500
ROOM_BYTES = 8_000_000
"""For what a process takes that has just begun: modules, and the cache of SQLite, which has 24 MB at most."""
SINK = """
    import json, time
    class Slow:
        def write(self, batch):
            with open("slow.jsonl", "a") as file:
                file.writelines(json.dumps([key, record["n"]]) + "\\n" for key, record in batch)
            time.sleep(len(batch) / RATE)
"""
SPIDER = """
    import skitter
    class Many(skitter.Spider):
        name = "many"
        def __init__(self, base, pages):
            self.start_urls = [f"{base}/{page}" for page in range(int(pages))]
        def parse(self, response):
            page = int(response.url.rsplit("/", 1)[1])
            for n in range(50):
                yield {"n": page * 50 + n, "text": "x" * 500}
"""


def family(pid: int) -> list[int]:
    """The process and its children."""
    return [pid, *(each for child in children(pid) for each in family(child))]


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    return 0


@pytest.mark.parametrize(
    ("pages", "bound", "per_host"), [(60, 300, 16), pytest.param(2000, 1000, 64, marks=pytest.mark.soak)]
)
def test_a_slow_sink_slows_the_crawl_and_costs_nothing(skitter, make_site, pages, bound, per_host):
    base = make_site({"*": (200, {}, b""), "/robots.txt": (404, {}, b"")}).base
    skitter.write("slow.py", SINK.replace("RATE", "1000"))
    skitter.write("many.py", SPIDER)
    arguments = ("-a", f"base={base}", "-a", f"pages={pages}", "--set", f"max_outbox_items={bound}")
    options = ("--set", f"per_host={per_host}", "--log", "log.jsonl", "--log-format", "json", "--json")
    process = skitter.start("crawl", "many.py", *arguments, *options, "-o", "python:slow:Slow")
    grown: dict[int, list[int]] = {}
    most = 0
    with process:
        while process.poll() is None:
            status = skitter.run("status", "--job", "many", "--json", code=None)
            if status.returncode == 0 and (report := json.loads(status.stdout))["sinks"]:
                most = max(most, report["undelivered"])
                if report["done"] > pages // 5 and report["state"] == "running":
                    for pid in family(process.pid):
                        try:
                            grown.setdefault(pid, []).append(resident_bytes(pid))
                        except (FileNotFoundError, ProcessLookupError):
                            continue
            time.sleep(0.3)  # between two looks
        out, error = process.communicate()
    assert process.returncode == 0, error
    summary = json.loads(out)
    assert summary["items"] == pages * ITEMS_A_PAGE
    written = [json.loads(line) for line in (skitter.folder / "slow.jsonl").read_text().splitlines()]
    assert sorted(n for _, n in written) == list(range(pages * ITEMS_A_PAGE))
    assert len({key for key, _ in written}) == len(written)
    # What was in flight when the bound was met comes on top.
    assert most <= bound + per_host * ITEMS_A_PAGE
    if pages * ITEMS_A_PAGE * ITEM_BYTES > 2 * ROOM_BYTES:  # else nobody could tell, were all of them in memory
        assert grown
        for sizes in grown.values():
            assert max(sizes) <= min(sizes[: max(1, len(sizes) // 4)]) * 1.10 + ROOM_BYTES, sizes
    events = [json.loads(line)["event"] for line in (skitter.folder / "log.jsonl").read_text().splitlines()]
    assert events.count("sink.blocking") >= 1, "the leasing had to wait"
