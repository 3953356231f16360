"""kill -9 of the writer while some items cannot be written: none is lost, and the target stays exact.

A reject may be a line twice, with the same key; whatever is written is there once.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
import test_sink_kill
from test_sink_kill import committed_items, deliver

from rig.soak import chance_of
from skitter.model.item import ItemKind, NewItem
from skitter.testing.outputs import encode_reject


def read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file, strict=True))
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.decode().split("\n")[:-1]]


def _items(chance: random.Random) -> list[NewItem]:
    """Some good ones, some that a worker could not store, and some that nobody can read."""
    made = []
    for _ in range(chance.randrange(5)):
        name = f"{chance.getrandbits(64):x}"
        kind = chance.random()
        if kind < 0.15:
            reject = encode_reject({"id": name, "handle": object()}, "no plain form", "http://a.example/")
            made.append(NewItem(reject, ItemKind.REJECT))
        elif kind < 0.3:
            made.append(NewItem(b"\xc1" + name.encode()))
        else:
            made.append(NewItem(msgspec.msgpack.encode({"id": name, "text": "ü,\n" * chance.randrange(60)})))
    return made


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.csv"])
@pytest.mark.parametrize("kills", [3, pytest.param(80, marks=pytest.mark.soak)])
async def test_a_killed_writer_loses_no_reject_and_doubles_nothing(tmp_path, monkeypatch, name, kills):
    chance = chance_of(f"rejects {name} {kills}")
    frontier, target = tmp_path / "x.db", tmp_path / name
    monkeypatch.setattr(test_sink_kill, "_items", _items)
    items = await committed_items(frontier, str(target), kills * 30, chance)
    unstored = [msgspec.msgpack.decode(item.record)["record"]["id"] for item in items if item.kind is ItemKind.REJECT]
    records = [item.record for item in items if item.kind is ItemKind.RECORD]
    unreadable = [record for record in records if record[:1] == b"\xc1"]
    good = [msgspec.msgpack.decode(record) for record in records if record[:1] != b"\xc1"]
    assert unstored
    assert unreadable
    for _ in range(kills):
        deliver(frontier, target, "o" + "." * chance.randrange(6), chance.random() * 0.01)
    assert deliver(frontier, target).endswith("d")
    assert read(target) == good
    lines = [json.loads(line) for line in (tmp_path / f"{name}.rejects.jsonl").read_text().splitlines()]
    by_key = {line["key"]: line for line in lines}
    assert len(by_key) == len(unstored) + len(unreadable)
    found = [line["record"]["id"] for line in by_key.values() if line["reason"] == "no plain form"]
    assert sorted(found) == sorted(unstored)
    assert len(lines) <= len(by_key) + kills * test_sink_kill.BATCH, "only what a killed writer had not recorded"
