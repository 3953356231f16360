"""How fast items reach a target: through a SQLite outbox, a delivery and the sink, against writing the same lines bare.

    python bench/bench_sinks.py [--items 100000] [TARGET...]

TARGETs are what ``-o`` takes (``out.jsonl``, ``out.parquet``, ``postgresql://…#bench`` …); without any, the file
formats that need no extra. Items have 500 bytes as JSON. Prints one JSON object: for each target items a second and
CPU microseconds an item of this process, from the first read of the outbox to the last record of progress;
``finish_seconds`` is what completing the target took. ``bare`` is a loop that encodes the same records and writes them
in pieces of a thousand with a sync after each, and ``ratio`` a target's rate against it. Files are made in a folder
below the current one and removed; a database keeps what was written.

With ``--read`` the outbox alone is read and recorded, which no target can be faster than.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from skitter.delivery.runner import Delivery
from skitter.frontier.sqlite import sqlite_frontier
from skitter.model.item import Item, NewItem
from skitter.model.job import JobSpec, SinkProgress
from skitter.model.outcome import Ending, Outcome
from skitter.model.request import Fingerprinter, Request
from skitter.settings import Settings
from skitter.sinks.rejects_file import rejects_of
from skitter.sinks.targets import parse_target, sink_of

BATCH = 1000
FILES = ("bench.jsonl", "bench.jsonl.gz", "bench.json", "bench.csv")


def record(n: int) -> dict[str, Any]:
    return {
        "url": f"https://books.example/catalogue/category/page-{n:07}.html",
        "status": 200,
        "depth": n % 7,
        "title": f"The {n}th book about crawling, harvesting and other things that spiders do",
        "price": round(9.99 + n % 100, 2),
        "in_stock": n % 3 == 0,
        "tags": ["web", "crawler", f"shelf-{n % 50}"],
        "description": "A long and winding road through pages that link to pages that link to pages. " * 2,
        "content_type": "text/html; charset=utf-8",
        "fetched_at": "2026-01-01T12:00:00.000000Z",
    }


class Nowhere:
    """A sink that does nothing: what is left is the outbox."""

    exact = True
    target = "nowhere"

    def take(self) -> None:
        pass

    def open(self, progress: SinkProgress) -> bytes:
        return progress.mark or b"1"

    def write(self, items: Sequence[Item]) -> bytes:  # noqa: ARG002  it does nothing with them
        return b"1"

    def finish(self) -> None:
        pass

    def close(self, *, complete: bool = False) -> None:
        pass


async def fill(path: Path, count: int, target: str) -> None:
    """An outbox with so many items for the target."""
    frontier = sqlite_frontier(path, "bench")
    settings = {"obey_robots": False, "per_host": 64, "max_outbox_items": count + 1}
    spec = JobSpec(name="bench", spider="", settings=Settings.from_layers([("bench", settings)]).job_wide())
    await frontier.begin(spec, sinks=[target])
    entry = Fingerprinter((await frontier.job()).secret).entry
    (seed,) = (await frontier.lease("w", 1)).leases
    links = [entry(Request(f"https://books.example/{n}")) for n in range(0, count, BATCH)]
    await frontier.commit("w", [Outcome(lease=seed, ending=Ending.DONE, links=links)])
    for first in range(0, count, BATCH):
        (lease,) = (await frontier.lease("w", 1)).leases
        items = [NewItem(msgspec.msgpack.encode(record(n))) for n in range(first, min(first + BATCH, count))]
        await frontier.commit("w", [Outcome(lease=lease, ending=Ending.DONE, items=items)])
    await frontier.close()


async def deliver(path: Path, sink: Any, count: int) -> dict[str, Any]:
    frontier = sqlite_frontier(path, "bench")
    delivery = Delivery(frontier, [sink], "bench", BATCH, rejects=lambda sink: rejects_of(sink, "bench"))
    await delivery.open()
    started, cpu = time.perf_counter(), time.process_time()
    await delivery.deliver_outbox()
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    finishing = time.perf_counter()
    await delivery.finish()
    finish = time.perf_counter() - finishing
    await frontier.close()
    assert delivery.delivered == count, (delivery.delivered, delivery.rejected)
    return {
        "items_per_second": round(count / seconds),
        "cpu_us_per_item": round(cpu / count * 1e6, 2),
        "finish_seconds": round(finish, 3),
    }


def bare(folder: Path, count: int) -> dict[str, Any]:
    stored = [msgspec.msgpack.encode(record(n)) for n in range(count)]
    encoder = msgspec.json.Encoder()
    size = 0
    started, cpu = time.perf_counter(), time.process_time()
    with (folder / "bare.jsonl").open("wb", buffering=0) as file:
        for first in range(0, count, BATCH):
            lines = encoder.encode_lines([msgspec.msgpack.decode(each) for each in stored[first : first + BATCH]])
            size += len(lines)
            file.write(lines)
            os.fsync(file.fileno())
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    return {
        "items_per_second": round(count / seconds),
        "cpu_us_per_item": round(cpu / count * 1e6, 2),
        "bytes_per_item": round(size / count),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", default=list(FILES))
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--read", action="store_true")
    options = parser.parse_args()
    # Not where temporary files are: that may be memory, which syncs for nothing.
    folder = Path(tempfile.mkdtemp(dir=".", prefix=".bench-"))
    report: dict[str, Any] = {"items": options.items, "bare": bare(folder, options.items)}
    try:
        sinks = [Nowhere()] if options.read else []
        for text in options.targets:
            place = text if "://" in text or text.startswith(("sqlite:", "python:")) else str(folder / text)
            sinks.append(sink_of(parse_target(place, overwrite=True, job="bench")))
        for number, sink in enumerate(sinks):
            path = folder / f"{number}.db"
            asyncio.run(fill(path, options.items, sink.target))
            told = asyncio.run(deliver(path, sink, options.items))
            told["ratio"] = round(told["items_per_second"] / report["bare"]["items_per_second"], 3)
            report[sink.target.rpartition("/")[2] or sink.target] = told
            for left in folder.glob(f"{number}.db*"):
                left.unlink()
    finally:
        shutil.rmtree(folder)
    json.dump(report, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
