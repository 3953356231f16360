"""Conversion of records to MongoDB documents and back: what BSON lacks is converted or refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import bson
import msgspec
from bson.errors import InvalidBSON, InvalidDocument
from bson.raw_bson import RawBSONDocument

from skitter.errors import ItemError
from skitter.sinks.databases.value_kinds import fits_int64

MOST_BYTES = (16 << 20) - (16 << 10)
"""Of a document, less what a statement adds to it."""
_KEY = "_id"


def encoded(key: str, record: dict[str, Any]) -> bytes:
    """The document with this key. ItemError, with the reason, for a record that cannot be one."""
    try:
        document = bson.encode({_KEY: key, **_named(record, top=True)})
    except (InvalidBSON, InvalidDocument, OverflowError, RecursionError, ValueError) as error:
        raise ItemError(f"not a document: {error}") from error
    if len(document) > MOST_BYTES:
        raise ItemError(f"a document of {len(document)} bytes, but MongoDB accepts at most 16 MB")
    return document


def decoded(document: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a document, without its key. Values that other programs have put there become text."""
    return {
        _field(name, top=True): _plain(value) for name, value in bson.decode(_raw(document)).items() if name != _KEY
    }


def _raw(document: Mapping[str, Any]) -> bytes:
    assert isinstance(document, RawBSONDocument)
    return bytes(document.raw)


def _field(name: str, *, top: bool = False) -> str:
    if top and name == f"{_KEY}_":
        return _KEY
    dollar = "$" + name[1:] if name[:1] == "\uff04" else name
    return dollar.replace("\uff0e", ".")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {_field(name): _plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(member) for member in value]
    if isinstance(value, int) and not isinstance(value, bool):
        # A class of its own, for numbers of 64 bits.
        return int(value)
    return value if isinstance(value, (str, bytes, float, bool, datetime, type(None))) else str(value)


def _named(record: dict[str, Any], *, top: bool = False) -> dict[str, Any]:
    named = {_name(field, top): _value(value) for field, value in record.items()}
    if len(named) < len(record):
        raise ItemError("two fields would have the same name")
    return named


def _name(field: str, top: bool) -> str:
    """Dots and dollars mean something to MongoDB: they become the full-width ones, as its manual had it."""
    if "." in field:
        field = field.replace(".", "\uff0e")
    if field[:1] == "$":
        field = "\uff04" + field[1:]
    return "_" if not field else field + "_" if top and field == _KEY else field


def _value(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return value
    if kind is dict:
        return _named(value)
    if kind is list:
        return [_value(member) for member in value]
    if kind is float:
        # As JSON has it: no form for NaN and the infinities.
        return value if math.isfinite(value) else None
    if kind is int:
        return value if fits_int64(value) else str(value)
    if kind is bytes:
        return msgspec.json.encode(value)[1:-1].decode()
    return value
