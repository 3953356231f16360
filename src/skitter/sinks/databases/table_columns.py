"""The columns of a table, which are added and widened to fit the items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from skitter.sinks.databases.column_names import KEY, column_of
from skitter.sinks.databases.database import Column, Database, RefusedError, TableInfo
from skitter.sinks.databases.value_kinds import Kind, common_kind, fits_int64, holds, kind_of

MOST_COLUMNS = 1000
"""What every database here can have: fields that a page invents end in the rejects, not in a server that is stuck."""
_MOST_PLANS = 1000

Record = Mapping[str, Any]
Row = dict[str, Any]


class Table:
    """A table as it was last read, and the columns of the fields seen so far."""

    def __init__(self, database: Database, found: TableInfo, key: tuple[str, ...]) -> None:
        self.columns: dict[str, Column] = dict(found.columns)
        self.key = key
        """The key columns."""
        self._database = database
        self._ours = found.ours
        self._rules = msgspec.structs.replace(database.rules, reserved=database.rules.reserved | {KEY} & {*key})
        self._names: dict[str, str] = {}
        self._plans: dict[tuple[str, ...], list[tuple[str, str]]] = {}

    def adapt_to(self, records: Iterable[Record]) -> None:
        """Add and widen columns for the records. OtherTableError: read the table again. RefusedError: impossible."""
        new: dict[str, Kind] = {}
        wider: dict[str, Kind] = {}
        for field, kind in _kinds(records):
            name = self._name(field, new)
            there = self.columns.get(name)
            if there is None:
                new[name] = common_kind(new.get(name, kind), kind)
            elif there.kind is None or holds(there.kind, kind):
                continue
            elif self._ours:
                wider[name] = common_kind(wider.get(name, there.kind), kind)
            elif there.kind is Kind.INTEGER and kind is Kind.REAL:
                # Some servers would round, and say nothing.
                raise RefusedError(f"the column takes integers only: {name}")
        if new and len(self.columns) + len(new) > MOST_COLUMNS:
            raise RefusedError(f"more than {MOST_COLUMNS} columns: {next(iter(new))}")
        if new:
            self._database.add(new)
        if wider:
            self._database.widen(wider)
        if new or wider:
            found = self._database.read_table()
            self.columns = dict(found.columns) if found else {}
            self._plans.clear()

    def row(self, record: Record) -> Row:
        """Return the record's values by column. Fields that were null in every item have no column."""
        fields = tuple(record)
        plan = self._plans.get(fields)
        if plan is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            plan = self._plans[fields] = self._plan(fields)
        return {name: record[field] for field, name in plan}

    def _plan(self, fields: tuple[str, ...]) -> list[tuple[str, str]]:
        """Return the columns of these fields, cached, because most items have the same fields."""
        plan = [(field, self._name(field, ())) for field in fields]
        plan = [(field, name) for field, name in plan if name in self.columns]
        if len({name for _, name in plan}) < len(plan):
            raise RefusedError("two fields would share a column")
        return plan

    def _name(self, field: str, coming: Iterable[str]) -> str:
        name = self._names.get(field)
        if name is None:
            taken = {*self.columns, *self._names.values(), *coming}
            name = self._names[field] = column_of(field, taken, self._rules)
        return name


def _kinds(records: Iterable[Record]) -> list[tuple[str, Kind]]:
    """Each field with each kind of its values."""
    seen: set[tuple[str, type]] = set()
    kinds: dict[tuple[str, Kind], None] = {}
    for record in records:
        for field, value in record.items():
            pair = (field, type(value))
            # Only integers of one type may be of two kinds.
            if pair in seen and (type(value) is not int or fits_int64(value)):
                continue
            kind = kind_of(value)
            if kind is not None:
                seen.add(pair)
                kinds[field, kind] = None
    return list(kinds)
