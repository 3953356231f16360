"""Events of a history: one line each, written at once, so that a killed process leaves its whole history.

Times are of the machine's monotonic clock, which all its processes share.
"""

from __future__ import annotations

import enum
import os
import time
from pathlib import Path

import msgspec


class What(enum.StrEnum):
    """Kind of an event."""

    ASKED = "asked"
    """The frontier is asked for leases. Without an answer it may have granted leases that the worker does not know."""
    LEASED = "leased"
    OPENED = "opened"
    """A connection was begun for a request."""
    SENT = "sent"
    """The request is about to be written to the socket."""
    ANSWERED = "answered"
    """The fetch is over, with a page or with an error."""
    PART = "part"
    """A part of a large page was accepted; another follows."""
    ACCEPTED = "accepted"
    REFUSED = "refused"
    RELEASED = "released"
    LOST = "lost"
    """A renewal came too late."""


class Event(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """One event as its process saw it."""

    what: What
    at: float
    """When it was known: for what the frontier said, when its answer was there."""
    since: float = 0.0
    """For what the frontier said: when it was asked."""
    work: int = 0
    id: int = 0
    epoch: int = 0
    url: str = ""
    """Of a grant, or of a fetch."""
    ending: str = ""
    """Of a commit."""
    items: int = 0


class Fault(msgspec.Struct, kw_only=True, frozen=True):
    """A fault that was injected into the cluster."""

    what: str
    at: float
    until: float
    """When it was over; of a kill, ``at``."""
    processes: tuple[str, ...] = ()
    """The histories of its victims."""
    ends: bool = False
    """Its victims are dead."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Event).decode


class Recorder:
    """Appends to the history of this process. Threads may share it.

    A line is one write, and nothing is buffered: what happened before a kill -9 is in the file.
    """

    def __init__(self, folder: Path) -> None:
        """The file is called after the process group and the process, so that either can be found."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{os.getpgid(0)}-{os.getpid()}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def add(
        self,
        what: What,
        *,
        since: float = 0.0,
        work: int = 0,
        id: int = 0,  # noqa: A002  as the event has it
        epoch: int = 0,
        url: str = "",
        ending: str = "",
        items: int = 0,
    ) -> None:
        """Write one event down, now."""
        at = time.monotonic()
        event = Event(what=what, at=at, since=since, work=work, id=id, epoch=epoch, url=url, ending=ending, items=items)
        os.write(self._file, _encode(event) + b"\n")

    def close(self) -> None:
        os.close(self._file)


def read_histories(folder: Path) -> dict[str, list[Event]]:
    """By process, in the order of events. The last line of a killed process may be torn: it is left out."""
    return {path.stem: _read(path) for path in sorted(folder.glob("*.jsonl"))}


def _read(path: Path) -> list[Event]:
    return [_decode(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
