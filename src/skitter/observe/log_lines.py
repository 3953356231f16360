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
    job = event.job or job
    who = [f"job={job}"] if job else []
    who.append(f"node={socket.gethostname()}")
    who += [f"worker={event.worker}"] if event.worker else []
    said = event.fields["logger"] if event.kind is events.LOG else event.kind.name
    first, *more = message_lines(event)
    start = f"{utc_time(event.at)} {event.level.name.lower():<7} {clean(said)}: {first} ({clean(' '.join(who))})"
    return "\n".join([start, *more])


def json_line(event: Event, job: str) -> str:
    """Format an event as JSON."""
    return clean_json(msgspec.json.encode(event_record(event, job)).decode())


def message_lines(event: Event) -> list[str]:
    """Return the lines of an event; lines after the first (a traceback) begin with a bar."""
    if event.kind is not events.LOG and "traceback" not in event.fields:
        return [clean(event.text)]
    first, *more = clean_block(event.text).splitlines() or [""]
    return [clean(first), *(f"{BAR}{line}" for line in more)]
