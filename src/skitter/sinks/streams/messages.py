"""Messages of items for all streams: a key, and the record as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from skitter.errors import BadItemsError, UsageError
from skitter.model.item import Item
from skitter.sinks.item_keys import items_with_keys
from skitter.sinks.targets import Target

_ENCODER = msgspec.json.Encoder()


class Message(NamedTuple):
    """The message of one item."""

    position: int
    item: str
    """The item's own key: its page and its position there."""
    key: str
    """The key by which readers recognise repeats: the item's own, or made of the key fields."""
    body: bytes
    """The record: JSON, UTF-8."""


def messages_of(items: Sequence[Item], fields: Sequence[str], target: str) -> list[Message]:
    """Make the messages of items, in order. Raises BadItemsError for items that cannot be sent."""
    messages: list[Message] = []
    reasons: dict[int, str] = {}
    for item, (key, record) in zip(items, items_with_keys(items, fields, target), strict=True):
        try:
            messages.append(Message(item.position, item.key, key, _ENCODER.encode(record)))
        except (msgspec.MsgspecError, UnicodeError, TypeError, ValueError, RecursionError) as error:
            reasons[item.position] = f"it cannot be represented in JSON: {error}"
    if reasons:
        raise BadItemsError(target, reasons)
    return messages


def in_pieces(messages: Iterable[Message], limit_bytes: int) -> Iterator[list[Message]]:
    """Split messages into lists of at most ``limit_bytes`` of bodies; a larger message is alone."""
    piece: list[Message] = []
    size = 0
    for message in messages:
        if piece and size + len(message.body) > limit_bytes:
            yield piece
            piece, size = [], 0
        piece.append(message)
        size += len(message.body)
    if piece:
        yield piece


def known_options(target: Target, *known: str) -> dict[str, str]:
    """Return the options of a target; UsageError for an unknown one."""
    if unknown := sorted(set(target.options) - set(known)):
        raise UsageError(
            f"no such option of this output: {unknown[0]}: {target.name}",
            hint=f"known options: {', '.join(('key', *known))}",
        )
    return target.options
