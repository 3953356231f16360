"""The kinds of columns: five are enough for every value of a record.

A column of a table that skitter made follows its values: integers and floats meet in a float, everything else meets in
text. So nothing that a spider yields is refused because an earlier item looked otherwise.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Any

import msgspec

_BIGGEST = 2**63
_encode = msgspec.json.Encoder().encode


class Kind(enum.Enum):
    INTEGER = "integer"
    """64 bits with a sign."""
    REAL = "real"
    BOOLEAN = "boolean"
    TEXT = "text"
    """Takes everything: what is not text stands there as JSON."""
    JSON = "json"
    """Lists and records inside a record; takes everything as well."""


_BY_TYPE: Mapping[type, Kind] = {
    int: Kind.INTEGER,
    float: Kind.REAL,
    bool: Kind.BOOLEAN,
    str: Kind.TEXT,
    # Base64, as in every file.
    bytes: Kind.TEXT,
    dict: Kind.JSON,
    list: Kind.JSON,
}


def fits_int64(value: int) -> bool:
    """Return whether an integer fits in 64 bits with a sign."""
    return -_BIGGEST <= value < _BIGGEST


def kind_of(value: Any) -> Kind | None:
    """Return the kind of a value; None for null. An integer of more than 64 bits is kept as text."""
    if type(value) is int and not fits_int64(value):
        return Kind.TEXT
    if type(value) is float and not math.isfinite(value):
        return None
    return _BY_TYPE.get(type(value))


def common_kind(one: Kind, other: Kind) -> Kind:
    """Return the kind that holds both."""
    if one is other:
        return one
    return Kind.REAL if {one, other} == {Kind.INTEGER, Kind.REAL} else Kind.TEXT


def holds(column: Kind, value: Kind) -> bool:
    """Return whether a column of this kind holds such a value unchanged."""
    return column in (value, Kind.TEXT, Kind.JSON) or (column is Kind.REAL and value is Kind.INTEGER)


def driver_value(value: Any) -> Any:
    """Convert a value for a driver: a number, text, a boolean or None."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is int:
        return value if fits_int64(value) else str(value)
    if kind is float:
        # As JSON has it: no form for NaN and the infinities.
        return value if math.isfinite(value) else None
    text = _encode(value).decode()
    return text[1:-1] if kind is bytes else text


def as_text(value: Any) -> Any:
    """Convert a value for a text column."""
    return value if value is None or type(value) is str else as_json(value).removeprefix('"').removesuffix('"')


def as_json(value: Any) -> Any:
    """Convert a value for a JSON column."""
    return None if value is None else _encode(value).decode()
