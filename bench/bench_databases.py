"""Items into databases: how many a second each sink writes, beside the bare bulk insert of its driver.

    python bench/bench_databases.py [items] [KIND...]

Prints one JSON object. Items have 500 bytes and ten fields, batches 1,000 items; every batch is one durable
transaction. ``sink`` is the sink's ``write`` with new keys, ``again`` the same batches a second time, as after a crash.
``bare`` is what the driver does with the same rows and no key to look for: ``executemany`` for SQLite and MariaDB,
``copy_records_to_table`` for PostgreSQL, ``insert_many`` for MongoDB (FerretDB on SQLite here). ``cpu_us_per_item`` is
this process; the server has another core. For PostgreSQL, ``copy`` is the other way that was thought of: COPY into a
temporary table, and from there an upsert. The servers are private ones (tests/rig/servers/databases.py).
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import asyncpg
import msgspec
import pymongo
import pymysql

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from rig.servers.databases import KINDS
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.sinks.targets import parse_target, sink_of

BATCH = 1000
FIELDS = ["url", "status", "depth", "title", "content_type", "bytes", "referrer", "fetched_at", "price", "text"]
TYPES = "_key text PRIMARY KEY, url text, status bigint, depth bigint, title text, content_type text, bytes bigint,"
TYPES += " referrer text, fetched_at text, price double precision, text text"


def record(n: int) -> dict[str, Any]:
    return {
        "url": f"https://books.example/catalogue/category/page-{n:09d}.html",
        "status": 200,
        "depth": n % 7,
        "title": f"The {n:09d}th book about crawling, harvesting and other things that spiders do",
        "content_type": "text/html; charset=utf-8",
        "bytes": 30_000 + n,
        "referrer": "https://books.example/catalogue/index.html",
        "fetched_at": "2026-01-01T12:00:00.000000Z",
        "price": n / 7,
        "text": "x" * 167,
    }


@contextmanager
def measured(count: int) -> Iterator[dict[str, Any]]:
    result: dict[str, Any] = {}
    started, cpu = time.perf_counter(), time.process_time()
    yield result
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    result |= {"items_per_second": round(count / seconds), "cpu_us_per_item": round(cpu / count * 1e6, 1)}


def through_sink(url: str, items: list[Item]) -> dict[str, Any]:
    sink = sink_of(parse_target(f"{url}#items", job="bench"))
    sink.take()
    try:
        sink.open(SinkProgress())
        results = {}
        for name in ("sink", "again"):
            # FerretDB looks through the whole collection for each update.
            count = len(items) if name == "sink" or not url.startswith("mongodb") else BATCH
            with measured(count) as results[name]:
                for first in range(0, count, BATCH):
                    sink.write(items[first : first + BATCH])
        return results
    finally:
        sink.close()


def batches(records: list[dict[str, Any]]) -> Iterator[list[tuple[Any, ...]]]:
    for first in range(0, len(records), BATCH):
        batch = enumerate(records[first : first + BATCH], first)
        yield [(f"{n:016x}-0", *(each[field] for field in FIELDS)) for n, each in batch]


def bare_sqlite(url: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    connection = sqlite3.connect(url.removeprefix("sqlite:"), isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"CREATE TABLE bare ({TYPES})")
    with measured(len(records)) as result:
        for rows in batches(records):
            connection.execute("BEGIN")
            connection.executemany(f"INSERT INTO bare VALUES ({', '.join('?' * 11)})", rows)
            connection.execute("COMMIT")
    connection.close()
    return {"bare": result}


def bare_mariadb(url: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    parts = urlsplit(url)
    connection = pymysql.connect(
        host=parts.hostname,
        port=parts.port or 0,
        user=parts.username,
        password=unquote(parts.password or ""),
        database="items",
    )
    with connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE bare ({TYPES.replace('_key text', '_key varchar(700)')})")
        with measured(len(records)) as result:
            for rows in batches(records):
                cursor.executemany(f"INSERT INTO bare VALUES ({', '.join(['%s'] * 11)})", rows)
                connection.commit()
    return {"bare": result}


def bare_mongodb(url: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    with pymongo.MongoClient(url) as client:
        collection = client["items"]["bare"].with_options(write_concern=pymongo.WriteConcern("majority", j=True))
        with measured(len(records)) as result:
            for first in range(0, len(records), BATCH):
                batch = enumerate(records[first : first + BATCH], first)
                collection.insert_many([{"_id": f"{n:016x}-0", **each} for n, each in batch], ordered=False)
    return {"bare": result}


def bare_postgresql(url: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        connection = await asyncpg.connect(url)
        await connection.execute(f"CREATE TABLE bare ({TYPES}); CREATE TABLE copied ({TYPES})")
        await connection.execute("CREATE TEMP TABLE waiting (LIKE copied) ON COMMIT DELETE ROWS")
        with measured(len(records)) as bare:
            for rows in batches(records):
                await connection.copy_records_to_table("bare", records=rows)
        settings = ", ".join(f"{field} = excluded.{field}" for field in FIELDS)
        with measured(len(records)) as copied:
            for rows in batches(records):
                async with connection.transaction():
                    await connection.copy_records_to_table("waiting", records=rows)
                    await connection.execute(
                        f"INSERT INTO copied SELECT * FROM waiting ON CONFLICT (_key) DO UPDATE SET {settings}"
                    )
        await connection.close()
        return {"bare": bare, "copy": copied}

    return asyncio.run(run())


BARE: dict[str, Callable[[str, list[dict[str, Any]]], dict[str, Any]]] = {
    "sqlite": bare_sqlite,
    "postgresql": bare_postgresql,
    "mariadb": bare_mariadb,
    "mongodb": bare_mongodb,
}


def main(count: int, kinds: list[str]) -> None:
    report: dict[str, Any] = {"items": count}
    for kind in kinds:
        records = [record(n) for n in range(count)]
        items = [Item(n + 1, n, 0, msgspec.msgpack.encode(each)) for n, each in enumerate(records)]
        report["stored_bytes_per_item"] = round(sum(len(item.record) for item in items) / count)
        # Not where temporary files are: that may be memory, which syncs for nothing.
        with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as folder:
            server = KINDS[kind]() if kind in KINDS else None
            try:
                url = server.url if server else f"sqlite:{folder}/items.db"
                results = through_sink(url, items) | BARE[kind](url, records)
            finally:
                if server:
                    server.remove()
        results["ratio_to_bare"] = round(results["sink"]["items_per_second"] / results["bare"]["items_per_second"], 2)
        report[kind] = results
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, sys.argv[2:] or list(BARE))
