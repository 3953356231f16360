"""A process that delivers a SQLite frontier's outbox into a table, and may stand still for longer than its ownership.

    python sink_owner.py FRONTIER TABLE OWNER

Ownerships last four seconds here, far longer than a busy machine holds a process up. Prints a letter as it goes: ``w``
waiting for the ownership, ``o`` opened, ``.`` one batch delivered, ``l`` lost to another process, ``d`` done. The table
keeps one row for each key, as databases do, and a log of every write.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import time
from collections.abc import Sequence

import msgspec

from skitter.errors import SinkError
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.testing.frontiers import open_frontier
from skitter.testing.outputs import Delivery, shorten_ownership

shorten_ownership(owner_seconds=4.0, keep_seconds=0.5, stale_seconds=2.0)
BATCH = 5
WRITE_SECONDS = 0.01
"""Of a batch: long enough to be met in the middle."""


def say(letter: str) -> None:
    os.write(1, letter.encode())


class Table:
    """A database that upserts by key."""

    exact = True
    target = "table://"

    def __init__(self, path: str, owner: str) -> None:
        self._path = path
        self._owner = owner

    def take(self) -> None:
        self._db = sqlite3.connect(self._path, timeout=30, check_same_thread=False, isolation_level=None)
        self._db.execute("CREATE TABLE IF NOT EXISTS rows (key TEXT PRIMARY KEY, id TEXT)")
        self._db.execute("CREATE TABLE IF NOT EXISTS log (key TEXT, owner TEXT)")

    def open(self, progress: SinkProgress) -> bytes:
        return progress.mark or b"1"

    def write(self, items: Sequence[Item]) -> bytes:
        time.sleep(WRITE_SECONDS)
        self._db.execute("BEGIN IMMEDIATE")
        for item in items:
            record = msgspec.msgpack.decode(item.record)
            self._db.execute("INSERT OR REPLACE INTO rows VALUES (?, ?)", (item.key, record["id"]))
            self._db.execute("INSERT INTO log VALUES (?, ?)", (item.key, self._owner))
        self._db.execute("COMMIT")
        return b"1"

    def finish(self) -> None:
        pass

    def close(self, *, complete: bool = False) -> None:
        self._db.close()


async def main(frontier_path: str, table: str, owner: str) -> None:
    frontier = open_frontier(f"sqlite:{frontier_path}", "books")
    delivery = Delivery(frontier, [Table(table, owner)], owner, BATCH)
    try:
        while True:
            try:
                await delivery.open()
                break
            except SinkError:
                say("w")
                await asyncio.sleep(0.1)
        say("o")
        while await delivery.step():
            say(".")
        await delivery.finish()
        say("d")
    except SinkError as error:
        if "taken over" not in str(error):
            raise
        say("l")
    finally:
        await frontier.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
