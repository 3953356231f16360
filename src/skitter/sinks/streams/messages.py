"""Items as messages: a key, and the record as JSON. Every stream sends the same two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from skitter.errors import BadItemsError, UsageError
from skitter.model.job import Item
from skitter.sinks.item_keys import keyed
from skitter.sinks.targets import Target

_ENCODER = msgspec.json.Encoder()


class Message(NamedTuple):
    """One item on its way."""

    position: int
    item: str
    """Which item it is: its place on its page."""
    key: str
    """What readers tell repeats by: the same, or made of the fields that were named."""
    body: bytes
    """The record: JSON, UTF-8."""


def messages_of(items: Sequence[Item], fields: Sequence[str], target: str) -> list[Message]:
    """In order. BadItemsError names those that cannot be sent."""
    messages: list[Message] = []
    reasons: dict[int, str] = {}
    for item, (key, record) in zip(items, keyed(items, fields, target), strict=True):
        try:
            messages.append(Message(item.position, item.key, key, _ENCODER.encode(record)))
        except (msgspec.MsgspecError, UnicodeError, TypeError, ValueError, RecursionError) as error:
            reasons[item.position] = f"it has no form in JSON: {error}"
    if reasons:
        raise BadItemsError(target, reasons)
    return messages


def in_pieces(messages: Iterable[Message], limit_bytes: int) -> Iterator[list[Message]]:
    """As they are, in lists whose bodies have at most so many bytes together; a larger one is alone."""
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
    """The options of a target; UsageError for one that is not among these."""
    if unknown := sorted(set(target.options) - set(known)):
        raise UsageError(
            f"no such option of this target: {unknown[0]}: {target.name}", hint=f"it has {', '.join(('key', *known))}"
        )
    return target.options
