"""A process that delivers a SQLite frontier's outbox to one file and may be killed at any instant.

    python sink_writer.py FRONTIER TARGET BATCH

Prints a letter as it goes: ``o`` opened, ``.`` one batch delivered, ``f`` about to finish, ``d`` done. It takes a byte
of its standard input for each batch, as long as that is open.
"""

from __future__ import annotations

import asyncio
import os
import sys

from skitter.errors import SkitterError
from skitter.testing.frontiers import open_frontier
from skitter.testing.outputs import Delivery, RejectsFile, file_sink


def say(letter: str) -> None:
    os.write(1, letter.encode())


async def main(frontier_path: str, target: str, batch: str) -> None:
    frontier = open_frontier(f"sqlite:{frontier_path}", "books")
    sink = file_sink(target, overwrite=True, job="books")
    rejects = RejectsFile(f"{target}.rejects.jsonl")
    delivery = Delivery(frontier, [sink], "this machine", int(batch), rejects=lambda _: rejects)
    try:
        await delivery.open()
        say("o")
        while await delivery.step():
            say(".")
            os.read(0, 1)
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
