"""Items: the accepted types, and their plain and stored forms.

A spider may yield dicts and other mappings, dataclasses, msgspec structs, attrs and pydantic
objects. Each becomes a plain record: a dict with text keys whose values are JSON types or bytes.
Dates, times, UUIDs and decimals become text and sets become lists, so all sinks write the same values.
Neither attrs nor pydantic is imported here; their objects are recognised by their attributes. ``sinks``
writes the records.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
from collections import deque
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import date, time
from typing import Any

import msgspec

from skitter.errors import FormatError, ItemError
from skitter.model.request import Request

KEEPS_OBJECTS: ContextVar[bool] = ContextVar("KEEPS_OBJECTS", default=False)
"""Whether a program in this process takes the items (``skitter.stream``), from a frontier in its memory."""
_BYTES = (bytes, bytearray, memoryview)
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(dict[str, Any])
_FAILURES = (TypeError, ValueError, OverflowError, RecursionError)


def is_item(value: object) -> bool:
    """Return whether a value is an item; a Request is not."""
    if isinstance(value, dict):
        return True
    if isinstance(value, (type, Request)):
        return False
    return (
        isinstance(value, (Mapping, msgspec.Struct))
        or dataclasses.is_dataclass(value)
        or hasattr(value, "__attrs_attrs__")
        or callable(getattr(value, "model_dump", None))
    )


def to_record(item: object) -> dict[str, Any]:
    """Return the plain record of an item. Raises ItemError, which names the field, if a value cannot be stored."""
    if not is_item(item):
        raise ItemError(
            f"not an item: {type(item).__name__}",
            hint="yield a dict, a dataclass, a msgspec struct, an attrs or a pydantic object, or a Request",
        )
    fields: dict[Any, Any] = {}
    try:
        fields = fields_of(item)
        return _plain(fields)
    except _FAILURES as error:
        raise _item_error(fields, error) from error


class YieldedRecord(bytes):
    """The stored form of an item with a copy of the object that was yielded, where both stay in this process."""

    item: Any = None


def encode_item(item: object) -> bytes:
    """Return the stored form of an item: its plain record in msgpack."""
    record = to_record(item)
    try:
        stored = _ENCODER.encode(record)
    except _FAILURES as error:
        raise _item_error(record, error) from error
    if KEEPS_OBJECTS.get():
        # An object that cannot be compared or copied is returned as its record.
        with contextlib.suppress(Exception):
            if _DECODER.decode(stored) != item:
                kept = YieldedRecord(stored)
                # A copy: a callback may yield one object again and again, with other values.
                kept.item = copy.deepcopy(item)
                return kept
    return stored


def decode_item(stored: bytes) -> dict[str, Any]:
    """Return the plain record of a stored item."""
    try:
        return _DECODER.decode(stored)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FormatError("a stored item cannot be read", hint="was it written by another program?") from error


def fields_of(item: Any) -> dict[Any, Any]:
    """Return the fields of an item with their values unchanged."""
    if isinstance(item, dict):
        return item
    if isinstance(item, Mapping):
        return dict(item)
    if isinstance(item, msgspec.Struct):
        return msgspec.structs.asdict(item)
    if dataclasses.is_dataclass(item):
        return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
    if hasattr(item, "__attrs_attrs__"):
        return {field.name: getattr(item, field.name) for field in item.__attrs_attrs__}
    dumped: dict[Any, Any] = item.model_dump(mode="python")
    return dumped


def _plain(fields: dict[Any, Any]) -> dict[str, Any]:
    try:
        plain = msgspec.to_builtins(fields, str_keys=True, builtin_types=_BYTES, enc_hook=_plainer)
    except TypeError as error:
        if "keys" not in str(error):
            raise
        # None, booleans and tuples as keys: rare enough for the slow way.
        plain = msgspec.to_builtins(_text_keys(fields), str_keys=True, builtin_types=_BYTES, enc_hook=_plainer)
    record: dict[str, Any] = plain
    return record


def _plainer(value: Any) -> Any:
    """Convert a value that msgspec cannot encode to a plainer type."""
    # Subclasses, such as the text that lxml returns or the times of pandas, as what they are.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, deque):
        return list(value)
    if is_item(value):
        return fields_of(value)
    raise TypeError(f"no plain form for {type(value).__name__}")


def _text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): _text_keys(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_text_keys(member) for member in value]
    return value


def _item_error(fields: dict[Any, Any], error: Exception) -> ItemError:
    """Return an error that names the field, which is found by encoding each field alone."""
    for name, value in fields.items():
        try:
            _ENCODER.encode(_plain({name: value}))
        except _FAILURES as reason:
            return ItemError(f"an item's field cannot be stored: {name}: {reason}", hint=_hint(value))
    return ItemError(f"an item cannot be stored: {error}", hint=_hint(None))


def _hint(value: object) -> str:
    if callable(getattr(value, "getall", None)):
        return "call .get() or .getall() on a selector to get its text"
    if isinstance(value, str):
        return "the text has half a surrogate pair; value.encode('utf-8', 'replace').decode() repairs it"
    if isinstance(value, int):
        return "store numbers beyond 64 bits as text"
    return "items take text, numbers, bytes, dates, lists, sets and dicts of those, and nested items"
