"""Keys of items, for targets that keep one record for each key.

By default that is the item's place on its page, which stays the same however often the page is fetched. Where fields
are named instead, two pages that describe the same thing make one record, and the later one stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from skitter.errors import BadItemsError, ItemError
from skitter.model.item import Item
from skitter.sinks.json_records import record_of

_ENCODER = msgspec.json.Encoder(order="deterministic")


def key_of(item: Item, record: Mapping[str, Any], fields: Sequence[str]) -> str:
    """Return the item's key: its own, or made of these fields. Raises ItemError if a field is missing.

    One field that is text is the key as it is. Anything else is JSON, so that ("a,b", "c") and ("a", "b,c") differ.
    """
    if not fields:
        return item.key
    values = []
    for field in fields:
        value = record.get(field)
        if value is None:
            raise ItemError(
                f"the key field is missing: {field}", hint="the spider must set it in every item, or use another key"
            )
        values.append(value)
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return _ENCODER.encode(values[0] if len(values) == 1 else values).decode()


def items_with_keys(items: Sequence[Item], fields: Sequence[str], target: str) -> list[tuple[str, dict[str, Any]]]:
    """Return each item's key and record, in order. Raises BadItemsError for items without a key."""
    pairs: list[tuple[str, dict[str, Any]]] = []
    reasons: dict[int, str] = {}
    for item in items:
        try:
            record = record_of(item)
            pairs.append((key_of(item, record, fields), record))
        except ItemError as error:
            reasons[item.position] = str(error)
    if reasons:
        raise BadItemsError(target, reasons)
    return pairs
