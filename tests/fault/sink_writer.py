"""A process that delivers a SQLite frontier's outbox to one file and may be killed at any instant.

    python sink_writer.py FRONTIER TARGET BATCH

Prints a letter as it goes: ``o`` opened, ``.`` one batch delivered, ``f`` about to finish, ``d`` done.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from skitter.delivery.runner import Delivery
from skitter.errors import SkitterError
from skitter.frontier.sqlite import sqlite_frontier
from skitter.sinks.file_targets import file_sink
from skitter.sinks.rejects_file import RejectsFile


def say(letter: str) -> None:
    os.write(1, letter.encode())


async def main(frontier_path: str, target: str, batch: str) -> None:
    frontier = sqlite_frontier(Path(frontier_path), "books")
    sink = file_sink(target, overwrite=True, job="books")
    rejects = RejectsFile(f"{target}.rejects.jsonl")
    delivery = Delivery(frontier, [sink], "this machine", int(batch), rejects=lambda _: rejects)
    try:
        await delivery.open()
        say("o")
        while await delivery.step():
            say(".")
        say("f")
        await delivery.finish()
        say("d")
    finally:
        await frontier.close()


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except SkitterError as error:
        sys.exit(f"error: {error}\nhint: {error.hint}")
