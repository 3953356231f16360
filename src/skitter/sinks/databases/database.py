"""What a table's sink asks of a database. Each kind of server answers in a module of its own, and in its own SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from skitter.sinks.databases.column_names import Rules
from skitter.sinks.databases.column_types import Kind
from skitter.sinks.targets import Target

MADE_BY = "made by skitter"
"""Stands in the comment of a table: its columns may be changed, those of other people's tables not."""


class RefusedError(Exception):
    """The data was not taken: a constraint, a type, a limit. One of the items is bad, or several."""


class OtherTableError(Exception):
    """The table's columns are not what they were: somebody has altered it."""


class Column(msgspec.Struct, frozen=True):
    """A column that is there."""

    type: str
    """As the database calls it."""
    kind: Kind | None
    """None: a type of its own; the database converts, or refuses."""


class Found(msgspec.Struct, frozen=True):
    """A table that is there."""

    columns: Mapping[str, Column]
    ours: bool
    uniques: Sequence[frozenset[str]]
    """Columns of each unique index that an item may run into."""


class Database(Protocol):
    """A server or a file, and one table. Errors: SinkAwayError, SinkError, RefusedError, OtherTableError."""

    target: Target
    rules: Rules
    one_unique: bool
    """An upsert goes by whichever unique index is hit first, so that there must be no other."""

    def connect(self) -> None: ...

    def close(self) -> None:
        """Never raises."""
        ...

    def look(self) -> Found | None:
        """The table; None: there is none."""
        ...

    def create(self) -> None:
        """A table with nothing but its key. No error if somebody else has just made it."""
        ...

    def add(self, columns: Mapping[str, Kind]) -> None:
        """No error for those that somebody else has just added."""
        ...

    def widen(self, columns: Mapping[str, Kind]) -> None:
        """Columns that shall hold this kind now."""
        ...

    def empty(self) -> None:
        """All rows go; columns, indexes and rights stay."""
        ...

    def transaction(self, *, keep: bool) -> AbstractContextManager[None]:
        """Durable at its end, or, without ``keep``, only tried."""
        ...

    def upsert(self, key: Sequence[str], columns: Mapping[str, Column], rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows that all have these columns; no two have the same key."""
        ...
