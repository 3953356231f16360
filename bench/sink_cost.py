"""What delivering items costs: each sink alone, and the whole way from a SQLite outbox to JSON lines.

    python bench/sink_cost.py [items]

Prints one JSON object. For each format: items a second and CPU microseconds an item through
``write`` in batches of 1,000, with everything synced, and the seconds of ``finish``. ``delivery``
is the outbox of a SQLite frontier, read, written and recorded. ``floor`` is the same number of
bytes written and synced in as many pieces, which is what the disk allows. Items have 300 bytes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from skitter.frontier.sqlite import sqlite_frontier
from skitter.model.job import Item, JobSpec, SinkProgress
from skitter.model.outcome import Ending, Outcome
from skitter.model.request import Fingerprinter, Request
from skitter.settings import Settings
from skitter.sinks.files import file_sink
from skitter.worker.delivery import Delivery

BATCH = 1000


def record(n: int) -> bytes:
    return msgspec.msgpack.encode(
        {
            "url": f"https://books.example/catalogue/category/page-{n}.html",
            "status": 200,
            "depth": n % 7,
            "title": f"The {n}th book about crawling, harvesting and other things that spiders do",
            "content_type": "text/html; charset=utf-8",
            "bytes": 30_000 + n,
            "referrer": "https://books.example/catalogue/index.html",
            "fetched_at": "2026-01-01T12:00:00.000000Z",
        }
    )


def write(folder: Path, suffix: str, items: list[Item]) -> dict[str, Any]:
    sink = file_sink(str(folder / f"out{suffix}"), overwrite=True)
    sink.take()
    sink.open(SinkProgress())
    started, cpu = time.perf_counter(), time.process_time()
    for first in range(0, len(items), BATCH):
        sink.write(items[first : first + BATCH])
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    started = time.perf_counter()
    sink.finish()
    finish = time.perf_counter() - started
    sink.close(complete=True)
    return {
        "items_per_second": round(len(items) / seconds),
        "cpu_us_per_item": round(cpu / len(items) * 1e6, 2),
        "finish_seconds": round(finish, 3),
        "bytes": (folder / f"out{suffix}").stat().st_size,
    }


def floor(folder: Path, size: int, pieces: int) -> float:
    data = os.urandom(size // pieces)
    with (folder / "floor").open("wb", buffering=0) as file:
        started = time.perf_counter()
        for _ in range(pieces):
            file.write(data)
            os.fsync(file.fileno())
    return time.perf_counter() - started


async def deliver(folder: Path, records: list[bytes]) -> dict[str, Any]:
    frontier = sqlite_frontier(folder / "x.db", "books")
    settings = {"obey_robots": False, "per_host": 64, "max_outbox_items": len(records) + 1}
    await frontier.begin(
        JobSpec(name="books", spider="", settings=Settings.from_layers([("bench", settings)]).job_wide())
    )
    sink = file_sink(str(folder / "delivered.jsonl"), overwrite=True)
    delivery = Delivery(frontier, [sink], "bench", BATCH)
    await delivery.open()
    entry = Fingerprinter((await frontier.job()).secret).entry
    (seed,) = (await frontier.lease("w", 1)).leases
    links = [entry(Request(f"https://books.example/{n}")) for n in range(0, len(records), BATCH)]
    await frontier.commit("w", [Outcome(lease=seed, ending=Ending.DONE, links=links)])
    for first in range(0, len(records), BATCH):
        (lease,) = (await frontier.lease("w", 1)).leases
        await frontier.commit("w", [Outcome(lease=lease, ending=Ending.DONE, items=records[first : first + BATCH])])
    started, cpu = time.perf_counter(), time.process_time()
    await delivery.drain()
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    await delivery.finish()
    await frontier.close()
    return {
        "items_per_second": round(len(records) / seconds),
        "cpu_us_per_item": round(cpu / len(records) * 1e6, 2),
    }


def main(count: int) -> None:
    records = [record(n) for n in range(count)]
    items = [Item(n + 1, n, 0, stored) for n, stored in enumerate(records)]
    report: dict[str, Any] = {"items": count, "stored_bytes_per_item": round(sum(map(len, records)) / count)}
    # Not where temporary files are: that may be memory, which syncs for nothing.
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as made:
        folder = Path(made)
        for suffix in (".jsonl", ".jsonl.gz", ".json", ".csv"):
            report[suffix] = write(folder, suffix, items)
        report["delivery"] = asyncio.run(deliver(folder, records))
        seconds = floor(folder, report[".jsonl"]["bytes"], max(1, count // BATCH))
        report["floor"] = {"items_per_second": round(count / seconds)}
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
