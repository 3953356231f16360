"""Rejected items: they go through the outbox to a rejects file instead of an output.

A reject is committed with its page as an item of kind ``REJECT``, so it is neither lost nor duplicated.
"""

from __future__ import annotations

from typing import Any

import msgspec

from skitter.errors import FormatError
from skitter.extract.items import fields_of, to_record

MOST_CHARS = 1_000
"""Maximum length of the repr of a value without a plain form."""
_ENCODER = msgspec.msgpack.Encoder()


class Reject(msgspec.Struct, frozen=True, kw_only=True):
    """Rejected item, with the reason."""

    reason: str
    url: str
    """URL of its page."""
    record: dict[str, Any]
    """Fields of the item; a value without a plain form is stored as its repr."""


def encode_reject(item: object, reason: str, url: str) -> bytes:
    """Encode a rejected item. Never fails, whatever the item is."""
    reject = Reject(reason=_text(reason), url=_text(url), record=_as_far_as_possible(item))
    return _ENCODER.encode(reject)


def decode_reject(stored: bytes) -> Reject:
    """Decode a rejected item; raise FormatError for anything else."""
    try:
        return msgspec.msgpack.decode(stored, type=Reject)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FormatError("a stored item cannot be read", hint="was it written by another program?") from error


def _as_far_as_possible(item: object) -> dict[str, Any]:
    try:
        fields = fields_of(item)
    except Exception:  # noqa: BLE001  an object of the user's own may do anything
        return {"": _repr(item)}
    record: dict[str, Any] = {}
    for name, value in fields.items():
        try:
            plain = to_record({name: value})
            _ENCODER.encode(plain)
        except Exception:  # noqa: BLE001  as above
            plain = {_text(str(name)): _repr(value)}
        record |= plain
    return record


def _repr(value: object) -> str:
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001  as above
        text = f"<{type(value).__name__}, whose repr() raises {type(error).__name__}>"
    return _text(text[:MOST_CHARS])


def _text(text: str) -> str:
    """Return the text with lone surrogates escaped, which cannot be stored."""
    return text.encode("utf-8", "backslashreplace").decode()
