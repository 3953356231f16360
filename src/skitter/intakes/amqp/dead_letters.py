"""Properties of dead letters in AMQP: those of the message, the reason, and nothing that would act on the letter."""

from __future__ import annotations

from typing import Any

import pika
from pika import data

from skitter.amqp_driver.publisher import PERSISTENT
from skitter.intakes.contract import DeadLetter

_KEPT = ("content_type", "content_encoding", "correlation_id", "message_id", "type", "app_id", "timestamp", "priority")
# Left out: expiration would delete the letter, a broker refuses a user_id that is not ours, reply_to is nobody's.
_ROUTING_HEADERS = ("CC", "BCC")
"""A broker would send copies to these queues."""
_MAX_HEADER_BYTES = 65_536
"""All properties have to fit into one frame, which has 128 KB by default."""


def dead_letter_properties(letter: DeadLetter, source: str) -> pika.BasicProperties:
    """Return the properties of a dead letter."""
    original = letter.message.ref.properties
    kept = {name: getattr(original, name) for name in _KEPT}
    own = {"x-skitter-reason": letter.reason[:1000], "x-skitter-source": source[:1000]}
    return pika.BasicProperties(**kept, headers=_headers(original.headers or {}) | own, delivery_mode=PERSISTENT)


def _headers(given: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in given.items() if name not in _ROUTING_HEADERS}
    try:
        size: int = data.encode_table([], kept)
    except Exception:  # noqa: BLE001  whatever another client has sent, the letter goes without it
        return {}
    return kept if size <= _MAX_HEADER_BYTES else {}
