"""Lines of a log: an event as text or as JSON, with its job, its node and its worker.

Whatever a page, a host or a spider has put into an event, it cannot forge another one: further lines of a text (a
traceback) begin with a bar.
"""

from __future__ import annotations

import socket

import msgspec

from skitter.observe import events
from skitter.observe.clean_text import clean, clean_block, clean_json
from skitter.observe.event_record import event_record, utc_time
from skitter.observe.events import Event

BAR = "  | "


def text_line(event: Event, job: str = "") -> str:
    """Format an event as text. ``job``: unless the event names its own."""
    said = event.fields["logger"] if event.kind is events.LOG else event.kind.name
    first, *more = message_lines(event)
    start = f"{utc_time(event.at)} {event.level.name.lower():<7} {clean(said)}: "
    return "\n".join([start + with_origin(first, event.job or job, socket.gethostname(), clean(event.worker)), *more])


def with_origin(message: str, job: str, node: str, worker: str) -> str:
    """Return a message and its origin, each fact once: a worker's id may be in the message, and has its node in it."""
    facts = [("job", clean(job)), ("node", "" if worker.startswith(f"{node}:") else node)]
    facts.append(("worker", "" if worker in message else worker))
    told = " ".join(f"{name}={value}" for name, value in facts if value)
    return f"{message} ({told})" if told else message


def json_line(event: Event, job: str) -> str:
    """Format an event as JSON."""
    return clean_json(msgspec.json.encode(event_record(event, job)).decode())


def message_lines(event: Event) -> list[str]:
    """Return the lines of an event; lines after the first (a traceback) begin with a bar."""
    if event.kind is not events.LOG and "traceback" not in event.fields:
        return [clean(event.text)]
    first, *more = clean_block(event.text).splitlines() or [""]
    return [clean(first), *(f"{BAR}{line}" for line in more)]
