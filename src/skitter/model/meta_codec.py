"""Stored form of ``meta`` and ``cb_kwargs`` that keeps the types of their values.

msgpack knows text, numbers, bytes, lists and dicts. The other values that people put there (dates, tuples,
sets, decimals, UUIDs) are stored as extensions, so that none comes back as something else. What has no
stored form is refused at once, by its name and place, and not when a worker elsewhere misses it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
from msgspec.msgpack import Ext

_ENCODER = msgspec.msgpack.Encoder()
_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})
_FORMS: dict[type, tuple[int, Callable[[Any], Any]]] = {
    datetime: (1, datetime.isoformat),
    date: (2, date.isoformat),
    time: (3, time.isoformat),
    timedelta: (4, lambda value: [value.days, value.seconds, value.microseconds]),
    Decimal: (5, str),
    UUID: (6, str),
    tuple: (7, list),
    set: (8, list),
    frozenset: (9, list),
}
_READERS: dict[int, Callable[[Any], Any]] = {
    1: datetime.fromisoformat,
    2: date.fromisoformat,
    3: time.fromisoformat,
    4: lambda parts: timedelta(*parts),
    5: Decimal,
    6: UUID,
    7: tuple,
    8: set,
    9: frozenset,
}
_CONTAINERS = (tuple, set, frozenset)


def encode_meta(values: dict[str, Any], place: str) -> dict[str, Any]:
    """The same values in a form that msgpack has. Raises TypeError for one that has none, and names it."""
    form: dict[str, Any] = _form(values, place)
    return form


def has_stored_form(kind: type) -> bool:
    """Return whether values of exactly this type are stored, and come back as what they are."""
    return kind in _PLAIN or kind in _FORMS


def read_extension(code: int, data: memoryview) -> Any:
    """Decode a msgpack extension, as a decoder's ``ext_hook``."""
    return _READERS[code](_DECODER.decode(data))


def _form(value: Any, place: str) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:
        return {_key(key, place): _form(member, f"{place}[{key!r}]") for key, member in value.items()}
    if kind is list:
        return [_form(member, f"{place}[{index}]") for index, member in enumerate(value)]
    if kind in _FORMS:
        code, form = _FORMS[kind]
        plain = form(value)
        if kind in _CONTAINERS:
            plain = [_form(member, place) for member in plain]
        return Ext(code, _ENCODER.encode(plain))
    # Subclasses (the text that lxml returns, an IntEnum) are carried as what they are.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise TypeError(f"{place} has a type that cannot be stored: {kind.__name__}")


def _key(key: Any, place: str) -> Any:
    if type(key) not in _PLAIN:
        raise TypeError(f"{place} has a key of a type that cannot be stored: {type(key).__name__}")
    return key


_DECODER = msgspec.msgpack.Decoder(ext_hook=read_extension)
