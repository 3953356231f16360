"""Conversion of stored items to JSON lines: UTF-8, one object a line, keys in the order they were yielded.

What JSON has no form for was made plain before it was stored; bytes become base64 text here, and
NaN and infinities null. About 2 us for an item of 300 bytes (bench/sink_cost.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from skitter.errors import BadItemsError, ItemError
from skitter.model.item import Item

_decode = msgspec.msgpack.Decoder(dict[str, Any]).decode
_ENCODER = msgspec.json.Encoder()
_FAILURES = (msgspec.MsgspecError, UnicodeDecodeError, TypeError, ValueError, RecursionError)

# Half a surrogate pair, as encoders that do not check write it. U+FFFD has three bytes as well, so
# that the lengths around it stay true.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_REPLACEMENT = "\ufffd".encode()


def json_lines(items: Sequence[Item]) -> bytes:
    """Return one line for each item, with its newline. Raises BadItemsError for unreadable items."""
    try:
        return _ENCODER.encode_lines([_decode(item.record) for item in items])
    except _FAILURES:
        return _lines_one_by_one(items)


def record_of(item: Item) -> dict[str, Any]:
    """Return the item's record; raises ItemError for an unreadable one."""
    try:
        try:
            return _decode(item.record)
        except UnicodeDecodeError:
            return _decode(_SURROGATE.sub(_REPLACEMENT, item.record))
    except _FAILURES as error:
        raise _unreadable(item, error) from error


def _lines_one_by_one(items: Sequence[Item]) -> bytes:
    lines: list[bytes] = []
    reasons: dict[int, str] = {}
    for item in items:
        try:
            lines.append(_ENCODER.encode(record_of(item)) + b"\n")
        except (*_FAILURES, ItemError) as error:
            reasons[item.position] = str(error if isinstance(error, ItemError) else _unreadable(item, error))
    if reasons:
        raise BadItemsError("JSON lines", reasons)
    return b"".join(lines)


def _unreadable(item: Item, error: Exception) -> ItemError:
    return ItemError(
        f"an item of the outbox cannot be read: number {item.position}: {error}",
        hint="did another program write to the frontier?",
    )
