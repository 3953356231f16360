"""Sinks of each kind keep the contract: files, tables, and classes that only write."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from skitter.sinks.contract import Sink
from skitter.sinks.custom_sink import CustomSink
from skitter.sinks.targets import parse_target, sink_of
from skitter.testing import SinkContract, SinkPlace


class JsonLinesPlace(SinkPlace):
    def __init__(self, folder: Path) -> None:
        self._path = folder / "out.jsonl"

    def sink(self) -> Sink:
        return sink_of(parse_target(str(self._path)))

    def records(self) -> Sequence[Any]:
        return [json.loads(line) for line in self._path.read_text().splitlines()]


class SqlitePlace(SinkPlace):
    def __init__(self, folder: Path) -> None:
        self._path = folder / "out.db"

    def sink(self) -> Sink:
        return sink_of(parse_target(f"sqlite:{self._path}#items"))

    def records(self) -> Sequence[Any]:
        connection = sqlite3.connect(self._path)
        connection.row_factory = sqlite3.Row
        try:
            return connection.execute("SELECT n FROM items").fetchall()
        finally:
            connection.close()


class WriterPlace(SinkPlace):
    """A class that only writes: at least once."""

    def __init__(self) -> None:
        self._written: list[Any] = []

    def sink(self) -> Sink:
        written = self._written

        class Writer:
            def write(self, batch: list[tuple[str, Any]]) -> None:
                written.extend(record for _, record in batch)

        return CustomSink(parse_target("python:mysinks:Writer"), Writer)

    def records(self) -> Sequence[Any]:
        return self._written


class TestJsonLines(SinkContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> SinkPlace:
        return JsonLinesPlace(tmp_path)


class TestSqliteTable(SinkContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> SinkPlace:
        return SqlitePlace(tmp_path)


class TestCustomSink(SinkContract):
    @pytest.fixture
    def place(self) -> SinkPlace:
        return WriterPlace()
