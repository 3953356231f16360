"""Payloads as they lie in Redis: without the host key, which the name of their queue has already.

A stored request (``model.request.encode``) is a version byte and a msgpack map that begins with its URL. The URL begins
with the host key, and so does the referrer most of the time. Both are left out, and the names of the two fields
with them. What does not look like that is stored as it is.
"""

from __future__ import annotations

STRIPPED = b"\x02"
"""The first byte of a payload without its host key. No encoded request begins with it."""
_URL = b"\xa3url"
_REFERRER = b"\xa8referrer"
_NEVER = b"\xc1"
"""A byte that begins no msgpack value: it stands for the referrer."""
_MAX = 255


def strip_prefix(payload: bytes, host_key: bytes) -> bytes:
    """The payload without its host key, if it has the usual form; else as it is."""
    start, end = _text_at(payload, 6) if payload[2:6] == _URL else (0, 0)
    path = start + len(host_key)
    if not start or not payload.startswith(host_key, start) or end - path > _MAX or payload[:1] != b"\x01":
        return payload
    rest = payload[end:]
    at = rest.find(_REFERRER)
    if at != -1 and _NEVER not in rest:
        first, last = _text_at(rest, at + len(_REFERRER))
        own = first + len(host_key)
        if first and rest.startswith(host_key, first) and last - own <= _MAX:
            rest = rest[:at] + _NEVER + bytes((last - own,)) + rest[own:last] + rest[last:]
    elif _NEVER in rest:
        return payload
    return STRIPPED + payload[1:2] + bytes((end - path,)) + payload[path:end] + rest


def restore_prefix(stored: bytes, host_key: bytes) -> bytes:
    """The payload that a stored one was made of."""
    if stored[:1] != STRIPPED:
        return stored
    end = 3 + stored[2]
    rest = stored[end:]
    at = rest.find(_NEVER)
    if at != -1:
        last = at + 2 + rest[at + 1]
        rest = rest[:at] + _REFERRER + _text(host_key + rest[at + 2 : last]) + rest[last:]
    return b"\x01" + stored[1:2] + _URL + _text(host_key + stored[3:end]) + rest


def _text_at(data: bytes, place: int) -> tuple[int, int]:
    """The beginning and end of the text that is packed there; (0, 0) when it is no text, or a very long one."""
    kind = data[place] if place < len(data) else 0
    if 0xA0 <= kind <= 0xBF:
        return place + 1, place + 1 + (kind & 31)
    if kind == 0xD9:
        return place + 2, place + 2 + data[place + 1]
    if kind == 0xDA:
        return place + 3, place + 3 + (data[place + 1] << 8) + data[place + 2]
    return 0, 0


def _text(text: bytes) -> bytes:
    size = len(text)
    if size < 32:
        return bytes((0xA0 | size,)) + text
    if size < 256:
        return bytes((0xD9, size)) + text
    return b"\xda" + size.to_bytes(2, "big") + text
