"""Type inference for the columns of a table, after all of its values were seen.

JSON has six kinds of values and a column has one type. The rules, so that nothing is lost:

- whole numbers are int64; with fractions among them double, as long as every one is exact in a double;
- texts are strings; if every one is a date and time with its zone (RFC 3339), they are instants in UTC;
- lists are lists, objects are structs, by the same rules inside;
- anything else in one column is text: texts as they are, the rest as JSON. So are numbers that no
  int64 holds, an object that has no fields or more than ``STRUCT_FIELDS`` (somebody uses it as a map), and
  whatever is nested deeper than ``DEPTH``;
- what was never anything but null is a string.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

STRUCT_FIELDS = 100
DEPTH = 8
_EXACT = 1 << 53
_WIDE = 1 << 63
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)")
_ENCODER = msgspec.json.Encoder()


class Kind(enum.Enum):
    """The types that columns have."""

    BOOL = "bool"
    INT = "int64"
    FLOAT = "double"
    TIME = "timestamp"
    TEXT = "string"
    LIST = "list"
    STRUCT = "struct"


# What was seen, as bits.
_BOOL, _INT, _LARGE, _HUGE, _FLOAT, _INSTANT, _STRING, _LIST, _OBJECT = (1 << n for n in range(9))
_PLAIN = {
    0: Kind.TEXT,
    _BOOL: Kind.BOOL,
    _INT: Kind.INT,
    _LARGE: Kind.INT,
    _INT | _LARGE: Kind.INT,
    _FLOAT: Kind.FLOAT,
    _FLOAT | _INT: Kind.FLOAT,
    _INSTANT: Kind.TIME,
}


class Column:
    """The values seen in one column, or inside a list or an object."""

    __slots__ = ("_depth", "_seen", "element", "fields")

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth
        self._seen = 0
        self.element: Column | None = None
        """The element of a list."""
        self.fields: dict[str, Column] = {}
        """The fields of a struct, in the order they were first seen."""

    def see(self, value: Any) -> None:
        """Take one more value into account."""
        # By exact type: True is an int too.
        kind = type(value)
        if kind is str:
            if not self._seen & _STRING:
                self._seen |= _INSTANT if instant(value) is not None else _STRING
        elif kind is int:
            size = abs(value)
            self._seen |= _INT if size <= _EXACT else _LARGE if -_WIDE <= value < _WIDE else _HUGE
        elif kind is float:
            self._seen |= _FLOAT
        elif kind is bool:
            self._seen |= _BOOL
        elif kind is list:
            self._see_list(value)
        elif kind is dict:
            self._see_object(value)

    def _see_list(self, values: list[Any]) -> None:
        self._seen |= _LIST
        if self._depth < DEPTH:
            if self.element is None:
                self.element = Column(self._depth + 1)
            for value in values:
                self.element.see(value)

    def _see_object(self, values: dict[str, Any]) -> None:
        self._seen |= _OBJECT
        if self._depth < DEPTH and len(self.fields) <= STRUCT_FIELDS:
            for name, value in values.items():
                column = self.fields.get(name)
                if column is None:
                    column = self.fields[name] = Column(self._depth + 1)
                column.see(value)

    @property
    def kind(self) -> Kind:
        if self._seen == _LIST and self.element is not None:
            return Kind.LIST
        if self._seen == _OBJECT and 0 < len(self.fields) <= STRUCT_FIELDS:
            return Kind.STRUCT
        return _PLAIN.get(self._seen, Kind.TEXT)

    def conversion(self) -> Callable[[Any], Any] | None:
        """Return the conversion of a value to the column's type; None if none is needed."""
        kind = self.kind
        if kind is Kind.TIME:
            return _as_instant
        if kind is Kind.TEXT:
            return None if self._seen in (0, _STRING, _STRING | _INSTANT) else _as_text
        if kind is Kind.LIST and self.element is not None and (inside := self.element.conversion()):
            return lambda values: None if values is None else [inside(value) for value in values]
        if kind is Kind.STRUCT:
            return self._struct_conversion()
        return None

    def _struct_conversion(self) -> Callable[[Any], Any] | None:
        inside = {name: each for name, column in self.fields.items() if (each := column.conversion())}
        if not inside:
            return None

        def convert(values: Any) -> Any:
            if values is None:
                return None
            return {name: inside[name](value) if name in inside else value for name, value in values.items()}

        return convert


def instant(text: str) -> datetime | None:
    """Parse an RFC 3339 date and time with its zone; None for another text."""
    # The first look is cheap: most texts are none.
    if len(text) < 20 or text[4] != "-" or not _TIME.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None  # the 30th of February; the year 9999 with a zone beyond it


def _as_instant(value: Any) -> datetime | None:
    return None if value is None else instant(value)


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else _ENCODER.encode(value).decode()
