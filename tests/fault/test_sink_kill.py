"""kill -9 of the writer at any instant: the target holds each committed item once, in the order of commits.

A second target that nobody writes makes the frontier keep every item, so that the outbox itself
says at the end what was committed.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from read_back import records

from rig.processes import ForkedProcess
from rig.soak import chance_of
from skitter.model.item import Item, NewItem
from skitter.model.job import JobSpec
from skitter.model.outcome import Ending, Outcome
from skitter.model.request import Fingerprinter, Request
from skitter.settings import Settings
from skitter.testing.frontiers import open_frontier

WRITER = Path(__file__).with_name("sink_writer.py")
BATCH = 5
PARTS = ["{part}.jsonl.gz?part_bytes=3000", "{part}.parquet?part_bytes=3000"]
FORMATS = ["out.jsonl", "out.jsonl.gz", "out.jsonl.zst", "out.json", "out.csv", "out.csv.gz", "out.parquet"]


async def committed(path: Path, target: str, pages: int, chance: random.Random) -> list[dict[str, Any]]:
    """Make a finished job with items for the target, and return them as they were committed."""
    return [msgspec.msgpack.decode(item.record) for item in await committed_items(path, target, pages, chance)]


async def committed_items(path: Path, target: str, pages: int, chance: random.Random) -> list[Item]:
    """Make a finished job with items for the target, and return what its outbox holds."""
    settings = Settings.from_layers([("test", {"obey_robots": False, "per_host": 64})]).job_wide()
    frontier = open_frontier(f"sqlite:{path}", "books")
    try:
        await frontier.begin(JobSpec(name="books", spider="", settings=settings))
        for each in (target, "all"):
            await frontier.open_sink(each, "filling")
            await frontier.close_sink(each, "filling")
        entry = Fingerprinter((await frontier.job()).secret).entry
        links = [entry(Request(f"http://host{n % 7}.example/{n}")) for n in range(pages)]
        (seed,) = (await frontier.lease("w", 1)).leases
        await frontier.commit("w", [Outcome(lease=seed, ending=Ending.DONE, links=links)])
        while leases := (await frontier.lease("w", 50)).leases:
            await frontier.commit(
                "w", [Outcome(lease=each, ending=Ending.DONE, items=_items(chance)) for each in leases]
            )
        await frontier.open_sink("all", "reading")
        items = await frontier.items("all", "reading", 1_000_000)
        assert items
        await frontier.close_sink("all", "reading")
        return items
    finally:
        await frontier.close()


def _items(chance: random.Random) -> list[NewItem]:
    # Lengths differ, so that a cut in the wrong place cannot go unseen.
    return [
        NewItem(msgspec.msgpack.encode({"id": f"{chance.getrandbits(64):x}", "text": "ü,\n" * chance.randrange(60)}))
        for _ in range(chance.randrange(4))
    ]


def deliver(frontier: Path, target: Path | str, kill_after: str = "", delay_seconds: float = 0.0) -> str:
    """Run the writer, and kill it that long after it has said those letters. What it had said until then.

    It stops by itself some batches after the one at which it is killed, so that it never is at the end before.
    """
    words = [str(frontier), str(target), str(BATCH)]
    is_paced = kill_after.startswith("o")
    # What it complains of goes to a file: a pipe that nobody reads meanwhile would hold it up when it is full.
    with (
        tempfile.TemporaryFile() as errors,
        ForkedProcess(
            str(WRITER),
            words,
            stdin=subprocess.PIPE if is_paced else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
        ) as writer,
    ):
        assert writer.stdout
        if is_paced:
            assert writer.stdin
            writer.stdin.write(b"x" * (len(kill_after) + 1))
        said = ""
        while kill_after and said[-1:] != "f" and not said.startswith(kill_after) and (data := writer.stdout.read(1)):
            said += data.decode()
        if kill_after:
            time.sleep(delay_seconds)  # the instant of the fault; nothing waits for anything here
            writer.kill()
        said += writer.stdout.read().decode()
        code = writer.wait()
        errors.seek(0)
        assert code in (0, -9), errors.read().decode()
        return said


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.soak)])
async def test_a_killed_writer_doubles_and_loses_nothing(tmp_path, name, kills):
    chance = chance_of(f"{name} {kills}")
    frontier, target = tmp_path / "x.db", tmp_path / name
    expected = await committed(frontier, str(target), kills * 40, chance)
    assert len(expected) > kills * 40
    for _ in range(kills):
        # A few batches further each time; the end is for the next test.
        said = deliver(frontier, target, "o" + "." * chance.randrange(6), chance.random() * 0.006)
        assert "f" not in said
    assert deliver(frontier, target).endswith("d")
    assert records(target) == expected
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("x.db")] == [name]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.soak)])
async def test_a_writer_killed_while_it_completes_the_target_leaves_it_whole(tmp_path, name, kills):
    chance = chance_of(name)
    frontier, target = tmp_path / "x.db", tmp_path / name
    expected = await committed(frontier, str(target), 40, chance)
    for _ in range(kills):
        said = deliver(frontier, target, "f", chance.random() * 0.004)
        if target.exists() and not name.startswith("out.jsonl"):
            assert records(target) == expected
        if said.endswith("d"):
            break
    else:
        assert deliver(frontier, target).endswith("d")
    assert records(target) == expected


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.soak)])
async def test_a_killed_writer_of_parts_doubles_and_loses_nothing(tmp_path, name, kills):
    chance = chance_of(f"{name} {kills}")
    frontier, folder = tmp_path / "x.db", tmp_path / "parts"
    folder.mkdir()
    target = f"{folder}/{name}"
    expected = await committed(frontier, target, kills * 40, chance)
    for _ in range(kills):
        deliver(frontier, target, "o" + "." * chance.randrange(6), chance.random() * 0.01)
        # Whoever reads meanwhile finds whole parts, from the first item on.
        there = [record for path in visible(folder) for record in records(path)]
        assert there == expected[: len(there)]
    assert deliver(frontier, target).endswith("d")
    parts = visible(folder)
    assert [record for path in parts for record in records(path)] == expected
    assert len(parts) > kills // 10
    assert len(list(folder.iterdir())) == len(parts), "no spool and no lock is left"


def visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".")) if folder.exists() else []
