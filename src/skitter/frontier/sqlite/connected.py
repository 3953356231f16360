"""What all tables of a job share: the connection, and which job it is."""

from __future__ import annotations

import sqlite3
from typing import Any


def typed(rows: list[tuple[Any, ...]], *kinds: type) -> list[tuple[Any, ...]]:
    """The rows; TypeError if a value has not the type of its column. For values that leave the store as they are."""
    for row in rows:
        if tuple(map(type, row)) != kinds:
            raise TypeError(f"not {', '.join(kind.__name__ for kind in kinds)}: {row[0]!r}")
    return rows


class Connected:
    """The rows of one job in an open connection. The caller begins and ends the transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany
        self._job = 0
        """Its number in the file; 0: not known yet."""

    def _one(self, query: str, *values: object) -> Any:
        found = self._execute(query, (self._job, *values)).fetchone()
        return None if found is None else found[0]
