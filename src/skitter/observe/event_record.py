"""Events as JSON objects, for logs and for streams."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from typing import Any

from skitter.model.secrets import without_secrets_inside
from skitter.observe.events import Event

OWN_FIELDS = ("time", "level", "event", "job", "node", "worker", "message")


def event_record(event: Event, job: str) -> dict[str, Any]:
    """Return an event as a JSON object, without secrets. ``job``: unless the event names its own."""
    fields: dict[str, Any] = {
        "time": utc_time(event.at),
        "level": event.level.name.lower(),
        "event": event.kind.name,
        "job": event.job or job,
        "node": socket.gethostname(),
        "worker": event.worker,
        "message": event.first_line,
    }
    for name, value in event.fields.items():
        if name not in OWN_FIELDS:
            fields[name] = without_secrets_inside(value)
    return fields


def utc_time(at: float) -> str:
    """Return a time in ISO 8601, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
