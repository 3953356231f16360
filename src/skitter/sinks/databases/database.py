"""The interface that a table sink needs of a database; each database implements it in a module of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from skitter.sinks.databases.column_names import NameRules
from skitter.sinks.databases.value_kinds import Kind
from skitter.sinks.targets import Target

MADE_BY = "made by skitter"
"""Stands in the comment of a table: its columns may be changed, those of other people's tables not."""


class RefusedError(Exception):
    """The database refused data (a constraint, a type, a limit): one or more items are bad."""


class OtherTableError(Exception):
    """The columns of the table have changed since they were read."""


class Column(msgspec.Struct, frozen=True):
    """An existing column."""

    type: str
    """The database's name of the type."""
    kind: Kind | None
    """None: a type of its own; the database converts, or refuses."""


class TableInfo(msgspec.Struct, frozen=True):
    """An existing table."""

    columns: Mapping[str, Column]
    ours: bool
    uniques: Sequence[frozenset[str]]
    """Columns of each unique index that an item may run into."""


class Database(Protocol):
    """One table of a server or a file. Errors: SinkUnavailableError, SinkError, RefusedError, OtherTableError."""

    target: Target
    rules: NameRules
    one_unique: bool
    """Whether an upsert goes by whichever unique index is hit first, so that there must be no other."""

    def connect(self) -> None: ...

    def close(self) -> None:
        """Never raises."""
        ...

    def read_table(self) -> TableInfo | None:
        """Read the table's columns and indexes; None if there is no table."""
        ...

    def create(self) -> None:
        """Create the table with its key column. No error if it was created meanwhile."""
        ...

    def add(self, columns: Mapping[str, Kind]) -> None:
        """Add columns. No error for those that were added meanwhile."""
        ...

    def widen(self, columns: Mapping[str, Kind]) -> None:
        """Change the types of columns to hold these kinds."""
        ...

    def empty(self) -> None:
        """Delete all rows; columns, indexes and rights stay."""
        ...

    def transaction(self, *, commit: bool) -> AbstractContextManager[None]:
        """Open a transaction that is committed at its end, or rolled back without ``commit``."""
        ...

    def upsert(self, key: Sequence[str], columns: Mapping[str, Column], rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert or update rows that all have these columns; no two have the same key."""
        ...
