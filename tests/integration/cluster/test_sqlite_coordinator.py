"""A file keeps the coordinator contract for the processes of one machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from skitter.cluster.contract import Coordinator
from skitter.cluster.sqlite_coordinator import SqliteCoordinator
from skitter.testing import CoordinatorContract, CoordinatorPlace


class SqlitePlace(CoordinatorPlace):
    """A file of its own."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:{folder / 'cluster.db'}"

    def coordinator(self, session_seconds: float) -> Coordinator:
        return SqliteCoordinator(self.url, session_seconds=session_seconds)


@pytest.fixture
def place(tmp_path: Path) -> SqlitePlace:
    return SqlitePlace(tmp_path)


class TestSqlite(CoordinatorContract): ...
