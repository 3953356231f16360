"""What delivering items costs: each kind of file alone, and the whole way from a SQLite outbox to JSON lines.

    python bench/sink_cost.py [items]

Prints one JSON object. For each format: items a second through ``write`` in batches of 1,000, with
everything synced, and ``finish``, both together; CPU microseconds an item; and ``times_bare``, how
many times longer that takes than writing and syncing the same bytes bare, in as many pieces.
``delivery`` is the outbox of a SQLite frontier, read, written and recorded. Items have 500 bytes as
JSON lines. ``.warc.gz`` is pages of 30 KB, written ahead, synced every 64, and copied to the archive.

The bars: 20,000 items a second for ``.jsonl`` and ``.parquet``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from skitter.delivery.runner import Delivery
from skitter.frontier.sqlite import sqlite_frontier
from skitter.model.item import Item
from skitter.model.job import JobSpec, SinkProgress
from skitter.model.outcome import Ending, Outcome
from skitter.model.page import Page
from skitter.model.request import Fingerprinter, Request
from skitter.settings import Settings
from skitter.sinks.file_targets import file_sink, machine_name
from skitter.sinks.page_spool import PageSpool
from skitter.sinks.warc_sink import WarcSink

BATCH = 1000
NAMES = (
    "out.jsonl",
    "out.jsonl.gz",
    "out.jsonl.zst",
    "out.json",
    "out.csv",
    "out.csv.gz",
    "out.parquet",
    "{part}.parquet?part_bytes=10000000",
)


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
            "price": n / 7,
            "in_stock": n % 3 == 0,
            "text": hashlib.sha512(b"%d" % n).hexdigest()[:110],
        }
    )


def write(folder: Path, name: str, items: list[Item]) -> dict[str, Any]:
    folder.mkdir()
    sink = file_sink(f"{folder}/{name}", overwrite=True)
    sink.take()
    sink.open(SinkProgress())
    started, cpu = time.perf_counter(), time.process_time()
    for first in range(0, len(items), BATCH):
        sink.write(items[first : first + BATCH])
    sink.finish()
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    sink.close(complete=True)
    size = sum(path.stat().st_size for path in folder.iterdir())
    return {
        "items_per_second": round(len(items) / seconds),
        "cpu_us_per_item": round(cpu / len(items) * 1e6, 2),
        "times_bare": round(seconds / floor(folder, size, len(items) // BATCH), 1),
        "bytes": size,
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
    await delivery.deliver_outbox()
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    await delivery.finish()
    await frontier.close()
    return {
        "items_per_second": round(len(records) / seconds),
        "cpu_us_per_item": round(cpu / len(records) * 1e6, 2),
    }


async def archive(folder: Path, pages: int) -> dict[str, Any]:
    """Of pages: what the worker does, and what the sink does."""
    sink = file_sink(f"{folder}/pages.warc.gz", overwrite=True)
    assert isinstance(sink, WarcSink)
    ahead = PageSpool(sink.ahead, "bench", node=machine_name(), sent={})
    text = Path(__file__).with_name("sink_cost.py").read_bytes() * 6
    items: list[Item] = []
    started, cpu = time.perf_counter(), time.process_time()
    for n in range(pages):
        url = f"https://books.example/{n}"
        page = Page(url=url, status=200, headers=[("content-type", "text/html")], body=text[:30_000] + b"%d" % n)
        items.append(Item(n + 1, n, 0, await ahead.add(n, Request(url), page)))
        if n % 64 == 63:
            await ahead.sync(())
    await ahead.sync(())
    worker, worker_cpu = time.perf_counter() - started, time.process_time() - cpu
    sink.take()
    sink.open(SinkProgress())
    started = time.perf_counter()
    for first in range(0, pages, BATCH):
        sink.write(items[first : first + BATCH])
    copied = time.perf_counter() - started
    sink.close()
    ahead.close()
    return {
        "worker_pages_per_second": round(pages / worker),
        "worker_cpu_us_per_page": round(worker_cpu / pages * 1e6),
        "sink_pages_per_second": round(pages / copied),
    }


def main(count: int) -> None:
    records = [record(n) for n in range(count)]
    items = [Item(n + 1, n, 0, stored) for n, stored in enumerate(records)]
    report: dict[str, Any] = {"items": count, "stored_bytes_per_item": round(sum(map(len, records)) / count)}
    # Not where temporary files are: that may be memory, which syncs for nothing.
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as made:
        folder = Path(made)
        for number, name in enumerate(NAMES):
            report[name.partition("?")[0]] = write(folder / str(number), name, items)
        report["delivery"] = asyncio.run(deliver(folder, records))
        report["pages.warc.gz"] = asyncio.run(archive(folder / "archive", count // 20))
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
